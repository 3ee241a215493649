"""`warehouse.layouts.batches`: what is written is read back unchanged, and whatever is changed in it is noticed."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from era5_pipeline.flat.flat_month import FLAT_FORM
from era5_pipeline.flat.statistics import RowWeights, digest_text
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.warehouse.binary_copy import CopyData
from era5_pipeline.warehouse.layouts import batches
from era5_pipeline.warehouse.layouts.batch_codec import BATCH_ROWS
from era5_pipeline.warehouse.layouts.batches import BatchError, BatchReader, MonthEncoder
from era5_pipeline_tests.warehouse.layouts import golden_batches
from era5_pipeline_tests.warehouse.layouts.golden_batches import COLUMNS, HOURS, MONTH, month_rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    import numpy.typing as npt
    import pyarrow as pa


def encoded(batches: Iterable[pa.RecordBatch]) -> bytes:
    """A binary COPY of all locations: those held back too."""
    encoder = MonthEncoder(batches)
    tuples = b"".join(bytes(tuples) for tuples, _ in encoder.tuples())
    apart = [*([] if encoder.first is None else [encoder.first]), *encoder.held]
    return CopyData.HEADER + tuples + b"".join(rows.tuple() for rows in apart) + CopyData.TRAILER


def read(data: bytes) -> BatchReader:
    reader = BatchReader(MONTH, COLUMNS, ERA5_GRID)
    reader.add(data)
    reader.finish()
    return reader


def digest(location_ids: npt.NDArray[np.integer], values: npt.NDArray[np.float32]) -> str:
    return digest_text(FLAT_FORM + RowWeights(location_ids, HOURS).digest(values))


BITS = hnp.arrays(np.uint32, (2, 3, HOURS.size), elements=st.integers(0, 2**32 - 1), fill=st.just(0x41200000))


@given(BITS)
def test_any_values_are_read_back_unchanged(bits: npt.NDArray[np.uint32]) -> None:
    values = bits.view(np.float32)
    ids = np.array([1, 720, 1_038_240])
    reader = read(encoded([month_rows(ids, values)]))
    assert reader.rows == values[0].size
    assert reader.has_exactly(LocationSet.of_ids(ids))
    for held, column in zip(reader.columns, values, strict=True):
        assert held.digest == digest(ids, column)
        assert held.values == np.count_nonzero(~np.isnan(column))


@given(st.data())
def test_as_many_rows_as_a_batch_holds_are_read_back_unchanged(data: st.DataObject) -> None:
    """A month has no more than 744 hours, so this one is longer."""
    count = data.draw(st.integers(1, BATCH_ROWS) | st.just(BATCH_ROWS))
    elements = st.integers(0, 2**32 - 1)
    bits = data.draw(hnp.arrays(np.uint32, (2, 1, count), elements=elements, fill=st.just(0x41200000) | elements))
    hours = np.arange(count) + HOURS[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batches, "hours_of_month", lambda _: hours)
        reader = read(encoded([month_rows(np.array([9]), bits.view(np.float32), hours)]))
    assert reader.rows == count
    weights = RowWeights(np.array([9]), hours)
    for held, column in zip(reader.columns, bits.view(np.float32), strict=True):
        assert held.digest == digest_text(FLAT_FORM + weights.digest(column))


def test_more_rows_than_a_batch_holds_are_refused() -> None:
    hours = np.arange(BATCH_ROWS + 1) + HOURS[0]
    with pytest.raises(BatchError, match="a location has more than 1000 rows"):
        encoded([month_rows(np.array([9]), np.zeros((2, 1, hours.size), dtype=np.float32), hours)])


@pytest.mark.parametrize("cuts", [(1,), (671, 672, 673), (100, 700, 1300, 1400)])
def test_locations_that_are_cut_by_arrow_batches_stay_whole(cuts: tuple[int, ...]) -> None:
    values = sample(np.arange(1, 4))
    whole = month_rows(np.arange(1, 4), values)
    ends = [*cuts, whole.num_rows]
    batches = [whole.slice(start, end - start) for start, end in zip([0, *cuts], ends, strict=True)]
    assert encoded(batches) == encoded([whole])


def sample(location_ids: npt.NDArray[np.integer]) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(7)
    return rng.normal(15, 8, (2, location_ids.size, HOURS.size)).astype(np.float32)


def test_extremes_nulls_and_ends_are_held_back() -> None:
    ids = np.arange(1, 1001)
    values = sample(ids)
    values[0, 700, 5], values[0, 900, 6] = -90, 99
    values[1, 300, 7], values[1, 950, 8] = -1, 9999
    values[1, 400, 9] = values[1, 800, 9] = np.nan
    values[1, 350, 3] = -0.5  # an extreme until the next one
    whole = month_rows(ids, values)
    encoder = MonthEncoder([whole.slice(start, 40_000) for start in range(0, whole.num_rows, 40_000)])
    sent = sum(rows for _, rows in encoder.tuples())
    assert encoder.first is not None
    assert encoder.first.location_id == 1
    assert {rows.location_id for rows in encoder.held} >= {701, 901, 951, 401, 1000}
    assert sent + len(encoder.first) + sum(map(len, encoder.held)) == whole.num_rows


def test_a_column_without_values_and_hours_that_lack() -> None:
    values = sample(np.array([5]))
    values[1] = np.nan
    some = np.delete(HOURS, [3, 4, 300])
    reader = read(encoded([month_rows(np.array([5]), np.delete(values, [3, 4, 300], axis=2), some)]))
    assert reader.rows == some.size
    assert reader.columns[1].values == 0
    weights = RowWeights(np.array([5]), some)
    assert reader.columns[0].digest == digest_text(
        FLAT_FORM + weights.digest(np.delete(values[0], [3, 4, 300], axis=1))
    )


def test_golden_batches_of_a_server_are_made_and_read() -> None:
    for name, batch in golden_batches.golden().items():
        rows = golden_batches.rows_by_name()[name]
        assert rows.tuple() == batch, name
        assert read(CopyData.HEADER + batch + CopyData.TRAILER).rows == len(rows)


# --- Nothing that is changed goes unnoticed ---


def held(data: bytes) -> object:
    """What is read, or why it cannot be."""
    try:
        reader = read(data)
    except BatchError as error:
        return str(error)
    return reader.rows, reader.columns, reader.has_exactly(LocationSet.of_ids([1, 2]))


def test_every_flipped_bit_is_noticed() -> None:
    values = sample(np.array([1, 2]))
    values[1, 1, 3] = np.nan
    data = encoded([month_rows(np.array([1, 2]), values)])
    right = held(data)
    unnoticed = []
    rng = np.random.default_rng(3)
    for position in {*range(len(CopyData.HEADER), 400), *rng.integers(400, len(data), 2000).tolist()}:
        for bit in range(8):
            changed = bytearray(data)
            changed[position] ^= 1 << bit
            if held(bytes(changed)) == right:
                unnoticed.append((position, bit))
    assert unnoticed == []


@given(st.data())
def test_damaged_bytes_never_crash(data: st.DataObject) -> None:
    whole = encoded([month_rows(np.array([1, 2]), sample(np.array([1, 2])))])
    changed = bytearray(whole)
    for _ in range(data.draw(st.integers(1, 4))):
        start = data.draw(st.integers(len(CopyData.HEADER), len(whole) - 1))
        changed[start : start + data.draw(st.integers(0, 20))] = data.draw(st.binary(max_size=20))
    if bytes(changed) != whole:
        assert held(bytes(changed)) != held(whole)


def test_a_width_of_more_than_64_bits_is_refused() -> None:
    """Added to the leading zeros, 33, it overflows to a number that could be right."""
    values = np.full((2, 1, HOURS.size), 10, dtype=np.float32)
    values[:, :, 1::2] = 12
    data = encoded([month_rows(np.array([9]), values)])
    one_number = struct.pack(">II", 1, 1)
    own, damaged = (one_number + struct.pack(">QQ", selector, width) for selector, width in ((4, 10), (14, 2**64 - 3)))
    assert data.count(own) == 2
    with pytest.raises(BatchError, match=r"its values of .* cannot be read"):
        read(data.replace(own, damaged, 1))


@pytest.mark.parametrize("size", [0, 5, 19, 20, 200, -3, -1])
def test_a_copy_that_is_cut_off_is_refused(size: int) -> None:
    data = encoded([month_rows(np.array([1, 2]), sample(np.array([1, 2])))])
    with pytest.raises(BatchError):
        read(data[:size])


def test_a_location_that_is_there_twice_is_named() -> None:
    data = encoded([month_rows(np.array([9]), sample(np.array([9])))])
    tuples = data[len(CopyData.HEADER) : -2]
    with pytest.raises(BatchError, match="the batch of location 9 is there twice"):
        read(CopyData.HEADER + tuples + tuples + CopyData.TRAILER)
