"""Copying flat files into a table: rows, shares, progress, and damaged files."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg import sql

from era5_pipeline.flat.formats import schema_of
from era5_pipeline.model.errors import BadFileError
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse import copy as copying
from era5_pipeline.warehouse.copy import FlatCopy, location_spans, spans_of
from era5_pipeline.warehouse.layouts.layout import EVERYWHERE, LocationSpan, create_weather
from era5_pipeline_tests.flat_months import assert_holds

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.settings import FlatFormat
    from era5_pipeline_tests.flat_months import FlatMonths

WEATHER = sql.Identifier("weather")
FORMATS: tuple[FlatFormat, ...] = ("parquet", "csv")


@pytest.fixture
def connection(shared_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database whose table weather is plain and empty."""
    with Warehouse(shared_database_url).connect() as connection:
        connection.execute("DROP TABLE IF EXISTS weather")
        create_weather(connection, sql.SQL(""))
        yield connection


def copy_flat(
    flat: FlatMonth,
    connection: psycopg.Connection[Any],
    *,
    freeze: bool = False,
    span: LocationSpan = EVERYWHERE,
    on_rows: Callable[[int], None] = lambda _: None,
) -> int:
    with closing(FlatCopy(flat, (span,), on_rows)) as copy:
        return copy(connection, WEATHER, freeze=freeze, span=span)


def count(connection: psycopg.Connection[Any]) -> int:
    row = connection.execute("SELECT count(*) FROM weather").fetchone()
    assert row is not None
    return int(row[0])


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize("flat_format", FORMATS)
def test_rows_are_stored_in_the_order_of_the_file(
    connection: psycopg.Connection[Any], shared_database_url: str, flat_months: FlatMonths, flat_format: FlatFormat
) -> None:
    flat = flat_months(names=("t2m", "u10", "v10", "tcc", "tp", "sf"), missing=0.05, flat_format=flat_format)
    assert copy_flat(flat, connection) == flat.rows
    assert_holds(Warehouse(shared_database_url), flat)
    # The order on disk is all hours of a location, then those of the next: the BRIN index depends on it.
    lying = connection.execute("SELECT location_id, time FROM weather ORDER BY ctid").fetchall()
    assert lying == sorted(lying)


@pytest.mark.parametrize("flat_format", FORMATS)
def test_rows_copied_with_freeze_are_frozen(
    connection: psycopg.Connection[Any], flat_months: FlatMonths, flat_format: FlatFormat
) -> None:
    flat = flat_months(flat_format=flat_format)
    with connection.transaction():
        connection.execute("TRUNCATE weather")
        copy_flat(flat, connection, freeze=True)
    connection.execute("ANALYZE weather")
    # The file may have more pages than those that hold rows.
    row = connection.execute(
        "SELECT relallfrozen, (SELECT count(DISTINCT (ctid::text::point)[0]) FROM weather) "
        "FROM pg_class WHERE oid = 'weather'::regclass"
    ).fetchone()
    assert row is not None
    assert row[0] == row[1] > 0


@pytest.mark.parametrize("flat_format", FORMATS)
def test_every_row_that_is_sent_is_reported(
    connection: psycopg.Connection[Any], flat_months: FlatMonths, flat_format: FlatFormat
) -> None:
    flat = flat_months(points=(10, 20), names=("t2m",), flat_format=flat_format)
    reported: list[int] = []
    copy_flat(flat, connection, on_rows=reported.append)
    assert len(reported) > 2
    assert min(reported) >= 0
    assert sum(reported) == flat.rows


@pytest.mark.usefixtures("encoder")
@pytest.mark.parametrize("shares", [1, 2, 3, 7])
def test_shares_together_are_the_whole_month_without_duplicates(
    connection: psycopg.Connection[Any], large: FlatMonth, shares: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(copying, "_SHARE_ROWS", 10_000)  # a test's month is too small otherwise
    spans = location_spans(large, shares)
    assert len(spans) == shares
    assert (spans[0].first, spans[-1].end) == (None, None)
    assert [span.end for span in spans[:-1]] == [span.first for span in spans[1:]]
    connection.execute("TRUNCATE weather")
    rows = [copy_flat(large, connection, span=span) for span in spans]
    assert sum(rows) == large.rows
    assert max(rows) < 2 * large.rows / shares
    assert connection.execute("SELECT count(DISTINCT (location_id, time)), count(*) FROM weather").fetchone() == (
        large.rows,
        large.rows,
    )


def test_small_months_and_csv_files_are_not_divided_into_shares(flat_months: FlatMonths, large: FlatMonth) -> None:
    assert location_spans(flat_months(), 8) == (EVERYWHERE,)
    assert len(location_spans(large, 8)) == 2  # of 148,800 rows
    assert location_spans(flat_months(points=(10, 20), names=("t2m",), flat_format="csv"), 8) == (EVERYWHERE,)


TILES = st.lists(st.tuples(st.integers(1, 2000), st.integers(0, 300), st.integers(1, 50_000)), min_size=1, max_size=20)


@given(tiles=TILES, shares=st.integers(2, 16))
def test_overlapping_row_groups_are_divided_without_gap_or_overlap(
    tiles: list[tuple[int, int, int]], shares: int
) -> None:
    """Every location is in exactly one share, for row groups in any order."""
    groups = np.array([(first, first + width, rows) for first, width, rows in tiles])
    spans = spans_of(groups, shares)
    assert 1 <= len(spans) <= shares
    assert (spans[0].first, spans[-1].end) == (None, None)
    borders = [span.end for span in spans[:-1]]
    assert borders == [span.first for span in spans[1:]]
    inside = range(int(groups[:, 0].min()) + 1, int(groups[:, 1].max()) + 1)
    assert all(border in inside for border in borders)
    assert all(before < after for before, after in pairwise(border for border in borders if border is not None))


@pytest.mark.usefixtures("encoder")
def test_a_file_of_several_row_groups_is_copied_whole(
    connection: psycopg.Connection[Any], shared_database_url: str, flat_months: FlatMonths, tmp_path: Path
) -> None:
    import pyarrow.parquet

    flat = flat_months()
    regrouped = replace(flat, path=tmp_path / "regrouped.parquet")
    pyarrow.parquet.write_table(pyarrow.parquet.read_table(flat.path), regrouped.path, row_group_size=1000)
    assert copy_flat(regrouped, connection) == flat.rows
    assert_holds(Warehouse(shared_database_url), flat)


@pytest.mark.parametrize(
    ("flat_format", "content"),
    [
        *((flat_format, None) for flat_format in FORMATS),
        *(("parquet", content) for content in (b"", b"PAR1", b"PAR1" + bytes(100) + b"PAR1", b"<html>no</html>")),
    ],
    ids=["gone", "gone CSV", "empty", "cut", "0", "html"],
)
def test_a_file_that_is_gone_or_not_parquet_is_reported_as_damaged(
    connection: psycopg.Connection[Any],
    flat_months: FlatMonths,
    tmp_path: Path,
    flat_format: FlatFormat,
    content: bytes | None,
) -> None:
    harmed = replace(flat_months(flat_format=flat_format), path=tmp_path / "harmed")
    if content is not None:
        harmed.path.write_bytes(content)
    said = ".*" if content is not None else ".*No such file.*"
    with pytest.raises(BadFileError, match=rf"(?s)harmed: is damaged \({said}\)\nRun the month again with --force"):
        copy_flat(harmed, connection)
    assert count(connection) == 0


def test_parquet_with_other_columns_is_reported_as_damaged(
    connection: psycopg.Connection[Any], flat_months: FlatMonths, tmp_path: Path
) -> None:
    import pyarrow as pa
    import pyarrow.parquet

    other = replace(flat_months(), path=tmp_path / "other.parquet")
    pyarrow.parquet.write_table(pa.table({"a": [1]}), other.path)
    with pytest.raises(BadFileError, match=r"other\.parquet: is damaged"):
        copy_flat(other, connection)


@pytest.mark.parametrize("line", ["nonsense", "2023-07-01T00:00:00Z,1,x,2,3,4,5,6,7,8", '"', "\x00"])
def test_nothing_is_kept_of_a_csv_file_that_the_server_refuses(
    connection: psycopg.Connection[Any], flat_months: FlatMonths, tmp_path: Path, line: str
) -> None:
    flat: FlatMonth = flat_months(flat_format="csv")
    harmed = replace(flat, path=tmp_path / "harmed.csv")
    harmed.path.write_text(flat.path.read_text() + line + "\n")
    with pytest.raises(psycopg.DataError):
        copy_flat(harmed, connection)
    assert count(connection) == 0


def test_row_groups_are_released_after_reading(flat_months: FlatMonths, tmp_path: Path) -> None:
    """No more than a few row groups are in memory at a time: the file of a global month has 700."""
    import pyarrow as pa
    import pyarrow.parquet

    groups, rows = 40, 20_000
    noise = np.random.default_rng(1)
    keys = {"time": np.zeros(rows, dtype="datetime64[us]"), "location_id": np.zeros(rows, dtype=np.int32)}
    schema = schema_of(flat_months().column_names)
    columns = {name: keys.get(name, noise.random(rows, dtype=np.float32)) for name in schema.names}
    other = replace(flat_months(), path=tmp_path / "many.parquet", rows=groups * rows)
    with pyarrow.parquet.ParquetWriter(other.path, schema) as writer:
        for _ in range(groups):
            writer.write_table(pa.table(columns, schema=schema))
    before, most, count = pa.total_allocated_bytes(), 0, 0
    for batch in copying._batches(other, EVERYWHERE):
        count += batch.num_rows
        most = max(most, pa.total_allocated_bytes() - before)
    assert count == other.rows
    assert most < other.path.stat().st_size / 4
