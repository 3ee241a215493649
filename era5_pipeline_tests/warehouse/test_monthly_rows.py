"""Monthly summaries of loads, on every layout: equal to SQL over the hours, however these came there."""

from __future__ import annotations

from dataclasses import replace
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.errors import BadFileError, TransientError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.layouts.layout import index_new_pages
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.monthly import assert_monthly, view_of
from era5_pipeline_tests.samples import unpacked
from era5_pipeline_tests.warehouse.loads import ask

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg
    from psycopg import sql

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

ALL = ("t2m", "u10", "v10", "tcc", "tp", "sf")
JULY = Month(2023, 7)


def have_summaries(warehouse: Warehouse) -> list[bool]:
    """Whether the ledger says that a part has summaries, for each part in order."""
    with warehouse.connect() as connection:
        return [part.has_summaries for contents in read_ledger(connection) for part in contents.parts]


def without_summaries(flat: FlatMonth) -> FlatMonth:
    """The flat month without its file of summaries."""
    return replace(flat, summaries=None)


@pytest.mark.usefixtures("encoder")
def test_summaries_are_those_of_the_hours(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    for flat in (
        flat_months("2023-06", names=ALL),
        flat_months("2023-07", names=ALL, missing=0.1),
        flat_months("2023-12", names=ALL, hours=100),
        flat_months("2024-01", names=("tp", "u10"), flat_format="csv"),
    ):
        load_month(warehouse, flat)
        assert verify_month(warehouse, flat) == ()
        assert_monthly(warehouse)
    rows = view_of(warehouse)
    assert len(rows) == 4 * 6
    location = min(location for location, _ in rows)
    june, july, december, january = (
        rows[location, date(y, m, 1)] for y, m in ((2023, 6), (2023, 7), (2023, 12), (2024, 1))
    )
    # The last hour of June came with July. That of December is there, though not the days before.
    assert (june["total_precipitation_sum_hours"], june["month_hours"]) == (720, 720)
    assert july["total_precipitation_sum_hours"] < july["month_hours"] == 744
    assert december["total_precipitation_sum_hours"] == 100
    assert december["temperature_2m_hours"] == 100
    # Columns that the load did not have are NULL.
    assert [january[name] for name in ("temperature_2m_mean", "temperature_2m_hours", "wind_speed_10m_mean")] == [
        None
    ] * 3
    assert [january[name] for name in ("snowfall_sum", "snowfall_sum_hours")] == [None] * 2


@pytest.mark.parametrize(
    ("file", "month"),
    [
        pytest.param("gulf-2023/era5_t2m_2023.zip", "2023-07", id="gulf"),
        pytest.param("norway-2018-10-packed/SURF_201810.nc", "2018-10", id="norway"),
        pytest.param("germany-tp-expver-mix/data_stream-oper_stepType-accum.nc", "2025-10", id="six-hourly"),
        pytest.param("telangana-2023-09", "2023-09", id="telangana"),
    ],
)
def test_summaries_of_real_files(
    warehouse: Warehouse, era5_samples: Path, tmp_path: Path, file: str, month: str
) -> None:
    path = era5_samples / file
    paths = sorted(path.glob("*.nc")) + sorted(path.glob("*.zip")) if path.is_dir() else unpacked(path, tmp_path)
    flat = era5_files.flatten(paths, month, tmp_path)
    load_month(warehouse, flat)
    assert verify_month(warehouse, flat) == ()
    assert_monthly(warehouse, months=1)


def test_a_load_again_replaces_the_summaries(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    for flat in (
        flat_months(names=ALL),
        flat_months(names=ALL, seed=2),
        flat_months(names=ALL, points=(4, 5), missing=0.2),
        flat_months(names=("t2m",), points=(4, 5)),
    ):
        load_month(warehouse, flat, replace_more=True)
        assert_monthly(warehouse, months=1)
        assert len(view_of(warehouse)) == flat.locations
        assert verify_month(warehouse, flat) == ()
    assert have_summaries(warehouse) == [True]


def test_parts_of_a_month_keep_their_summaries(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    west, east = flat_months(names=ALL, points=(4, 5)), flat_months(names=ALL, points=(4, 5), west=25.0, seed=2)
    for flat in (west, east):
        load_month(warehouse, flat)
    assert len(view_of(warehouse)) == 40
    # Some locations of the first part are loaded again, with other values: it is cut.
    inner = flat_months(names=ALL, points=(2, 3), seed=3)
    load_month(warehouse, inner)
    assert len(view_of(warehouse)) == 40
    assert_monthly(warehouse, months=1)
    for flat in (east, inner):
        assert verify_month(warehouse, flat) == ()
    assert have_summaries(warehouse) == [True] * 3


def test_dropping_removes_the_summaries_too(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months(names=ALL, points=(4, 5))
    for one in (flat, flat_months("2023-08", names=ALL)):
        load_month(warehouse, one)
    drop_month(warehouse, JULY, LocationSet.of_ids(flat.location_ids.ids()[:7]))
    assert len(view_of(warehouse)) == 13 + 6
    assert_monthly(warehouse)
    drop_month(warehouse, JULY)
    assert {month for _, month in view_of(warehouse)} == {date(2023, 8, 1)}
    assert_monthly(warehouse)
    load_month(warehouse, flat)
    assert_monthly(warehouse, months=2)


def test_workers_share_a_month_with_its_summaries(warehouse: Warehouse, large: FlatMonth) -> None:
    load_month(warehouse, large, workers=2)
    assert len(view_of(warehouse)) == large.locations
    assert_monthly(warehouse)


def test_totals_of_a_calendar_month_need_no_refresh(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """A month's last hour comes with the next month, goes with it, and changes with it."""
    june, july = flat_months("2023-06", names=("tp",)), flat_months("2023-07", names=("tp",))
    location = july.location_ids.first_id

    def hours_of_june() -> int:
        assert_monthly(warehouse)
        return int(view_of(warehouse)[location, date(2023, 6, 1)]["total_precipitation_sum_hours"])

    load_month(warehouse, june)
    assert hours_of_june() == 719
    load_month(warehouse, july)
    assert hours_of_june() == 720
    load_month(warehouse, flat_months("2023-07", names=("tp",), seed=2))
    assert hours_of_june() == 720
    drop_month(warehouse, JULY)
    assert hours_of_june() == 719


def test_another_variable_adds_its_columns(warehouse: Warehouse, era5_samples: Path, tmp_path: Path) -> None:
    folder = era5_samples / "telangana-2023-jja"
    paths = sorted(folder.glob("*.nc")) + sorted(folder.glob("*.zip"))
    load_month(warehouse, era5_files.flatten(paths[:1], "2023-06", tmp_path / "one"))
    before = view_of(warehouse)
    both = era5_files.flatten(paths, "2023-07", tmp_path / "all")
    load_month(warehouse, both)
    assert_monthly(warehouse, months=2)
    after = view_of(warehouse)
    names = list(next(iter(after.values())))
    # The existing ones keep their places.
    assert names[: len(next(iter(before.values())))] == list(next(iter(before.values())))
    assert f"{both.column_names[-1]}_mean" in names


# Interrupted loads


@pytest.mark.parametrize("points", [(4, 5), (3, 4)], ids=["the whole month", "some of its places"])
def test_a_connection_that_is_cut_after_the_summaries_takes_them_back(
    warehouse: Warehouse, flat_months: FlatMonths, monkeypatch: pytest.MonkeyPatch, points: tuple[int, int]
) -> None:
    """The summaries are copied, and the load ends before its commit."""
    old, new = flat_months(names=ALL, points=(4, 5)), flat_months(names=ALL, points=points, seed=2)
    load_month(warehouse, old)
    before = view_of(warehouse)
    location = new.location_ids.first_id

    def cut(connection: psycopg.Connection[Any], table: sql.Identifier) -> None:
        index_new_pages(connection, table)
        value = "SELECT temperature_2m_mean FROM weather_monthly WHERE location_id = %s"
        row = connection.execute(value, (location,)).fetchone()
        assert row != (before[location, date(2023, 7, 1)]["temperature_2m_mean"],)
        assert ask(warehouse.url, "SELECT pg_terminate_backend(%s, 5000)", connection.info.backend_pid)

    monkeypatch.setattr("era5_pipeline.warehouse.monthly_rows.index_new_pages", cut)
    with pytest.raises(TransientError, match="No month is left half replaced"):
        load_month(warehouse, new)
    assert view_of(warehouse) == before
    assert_monthly(warehouse)
    monkeypatch.undo()
    load_month(warehouse, new)
    assert_monthly(warehouse)
    assert view_of(warehouse) != before


def test_a_damaged_file_of_summaries_leaves_the_month_unchanged(
    warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    load_month(warehouse, flat_months())
    before = view_of(warehouse)
    new = flat_months(seed=2)
    assert new.summaries is not None
    harmed = replace(new.summaries, path=tmp_path / "harmed.parquet")
    harmed.path.write_bytes(new.summaries.path.read_bytes()[:-100])
    with pytest.raises(BadFileError, match=r"harmed\.parquet: is damaged"):
        load_month(warehouse, replace(new, summaries=harmed))
    assert view_of(warehouse) == before
    assert_monthly(warehouse)
    # A file of other columns than those of the rows.
    other = replace(new.summaries, path=flat_months(names=("tcc",)).summaries.path)  # type: ignore[union-attr]
    with pytest.raises(BadFileError, match="its columns are location_id, month, total_cloud_cover_mean"):
        load_month(warehouse, replace(new, summaries=other))
    assert view_of(warehouse) == before


def test_readers_of_summaries_do_not_keep_a_load_waiting(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months("2023-07"))
    with warehouse.connect() as reader, reader.transaction():
        reader.execute("SELECT count(*) FROM weather_monthly").fetchone()
        for flat in (flat_months("2023-07", seed=2), flat_months("2024-02")):
            said: list[str] = []
            assert load_month(warehouse, flat, on_wait=said.append).changed
            assert said == []
    assert_monthly(warehouse, months=2)


# Flat months and tables without summaries


def test_a_flat_month_without_summaries_is_loaded_without_them(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    first, second = flat_months(points=(4, 5)), flat_months(points=(2, 3), seed=2)
    load_month(warehouse, first)
    loaded = load_month(warehouse, without_summaries(second))
    assert any("loaded without monthly summaries" in note for note in loaded.notes)
    assert verify_month(warehouse, second) == ()
    # Summaries of the replaced hours are gone, the others stay.
    assert len(view_of(warehouse)) == 20 - 6
    assert have_summaries(warehouse) == [True, False]
    # The same flat month, with its summaries: only these are added.
    assert not load_month(warehouse, second).changed
    assert have_summaries(warehouse) == [True, True]
    assert_monthly(warehouse, months=1)


def test_the_same_values_from_other_files_add_the_summaries(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    parquet, csv = flat_months(), flat_months(flat_format="csv")
    load_month(warehouse, without_summaries(parquet))
    assert view_of(warehouse) == {}
    other = replace(csv, raw=replace(csv.raw, variables=("temperature_2m", "total_precipitation")))
    assert load_month(warehouse, other).confirmed
    assert have_summaries(warehouse) == [True]
    assert_monthly(warehouse, months=1)
    # Once more, from a machine that made none: the rows stay, and so do the summaries.
    assert load_month(warehouse, without_summaries(parquet)).confirmed
    assert have_summaries(warehouse) == [True]
    assert_monthly(warehouse, months=1)


def test_verification_misses_a_summary(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months()
    load_month(warehouse, flat)
    ask_nothing = (
        "DELETE FROM era5.monthly_summary WHERE location_id = (SELECT min(location_id) FROM weather) RETURNING 1"
    )
    assert ask(warehouse.url, ask_nothing) == 1
    (difference,) = verify_month(warehouse, flat)
    assert str(difference) == "summaries: 5 in the table, 6 in the file"
