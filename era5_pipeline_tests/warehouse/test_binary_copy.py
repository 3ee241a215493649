"""Rows as binary COPY: numpy encodes what pgpq encodes, byte for byte."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from era5_pipeline.flat.formats import schema_of
from era5_pipeline.flat.monthly import summaries_schema
from era5_pipeline.warehouse import binary_copy as encoding
from era5_pipeline.warehouse.binary_copy import binary_copy

if TYPE_CHECKING:
    from collections.abc import Sequence

HOURS = schema_of(["temperature_2m", "total_precipitation", "snowfall"])
SUMMARIES = summaries_schema(["temperature_2m", "total_precipitation"])
EXTREMES = (-(2**15), -1, 0, 1, 2**15 - 1)


def column(of: pa.Field, rows: int, share_null: float, rng: np.random.Generator) -> pa.Array:
    values = np.resize(EXTREMES, rows) * rng.random(rows)
    is_null = rng.random(rows) < share_null if of.nullable else np.zeros(rows, bool)
    if pa.types.is_floating(of.type):
        values[:4] = [np.nan, np.inf, -0.0, 1e-40][: values[:4].size]
        own = of.type
    else:
        own = {2: pa.int16(), 4: pa.int32(), 8: pa.int64()}[of.type.bit_width // 8]
    return pa.array(values.astype(own.to_pandas_dtype()), own, mask=is_null).view(of.type)


def batches(schema: pa.Schema, rows: Sequence[int], share_null: float) -> list[pa.RecordBatch]:
    rng = np.random.default_rng(1)
    return [pa.record_batch([column(of, n, share_null, rng) for of in schema], schema=schema) for n in rows]


def both(schema: pa.Schema, given: list[pa.RecordBatch], monkeypatch: pytest.MonkeyPatch) -> tuple[bytes, bytes]:
    pytest.importorskip("pgpq")
    by_pgpq = b"".join(binary_copy(schema, given))
    monkeypatch.setattr(encoding, "HAS_PGPQ", False)
    return by_pgpq, b"".join(binary_copy(schema, given))


@pytest.mark.parametrize("schema", [HOURS, SUMMARIES], ids=["hours", "summaries"])
@pytest.mark.parametrize("share_null", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("rows", [(), (1,), (744, 1, 0, 500)], ids=["none", "one", "several batches"])
def test_numpy_encodes_as_pgpq(
    monkeypatch: pytest.MonkeyPatch, schema: pa.Schema, share_null: float, rows: tuple[int, ...]
) -> None:
    by_pgpq, by_numpy = both(schema, batches(schema, rows, share_null), monkeypatch)
    assert by_numpy == by_pgpq


def test_a_part_of_a_batch_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    (whole,) = batches(HOURS, (100,), 0.3)
    by_pgpq, by_numpy = both(HOURS, [whole.slice(7, 50), whole.slice(99), whole.slice(100)], monkeypatch)
    assert by_numpy == by_pgpq
