"""A month that consists of parts: what a load leaves alone, replaces, cuts and refuses, on every layout."""

from __future__ import annotations

import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import netCDF4
import numpy as np
import pytest

from era5_pipeline.model.errors import RefusedError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import SOURCE_OF_POINTS
from era5_pipeline.warehouse.drop_month import drop_month, what_would_go
from era5_pipeline.warehouse.layouts.layout import delete_rows
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.cutting import cut
from era5_pipeline_tests.era5_files import flatten
from era5_pipeline_tests.flat_months import assert_holds, rows_of_file, rows_of_table
from era5_pipeline_tests.samples import unpacked
from era5_pipeline_tests.warehouse.loads import ask, loading, loading_process, wait_until
from era5_pipeline_tests.warehouse.versioned_months import FINAL, PRELIMINARY, VersionedMonths

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry, MonthContents
    from era5_pipeline_tests.flat_months import FlatMonths, Row
    from era5_pipeline_tests.servers import Host

JULY = Month(2023, 7)


def contents(warehouse: Warehouse, month: Month = JULY) -> MonthContents:
    with warehouse.connect() as connection:
        return next(held for held in read_ledger(connection) if held.month == month)


def parts(warehouse: Warehouse, month: Month = JULY) -> tuple[LedgerEntry, ...]:
    return contents(warehouse, month).parts


def without(flat: FlatMonth, locations: LocationSet) -> list[Row]:
    """The rows of the flat month's file at other locations."""
    return [row for row in rows_of_file(flat) if row[1] not in locations]


def assert_rows(warehouse: Warehouse, *groups: list[Row]) -> None:
    """The table holds exactly these rows, and the ledger counts them and their locations by part."""
    expected = sorted((row for rows in groups for row in rows), key=lambda row: row[:2][::-1])
    assert sorted(rows_of_table(warehouse), key=lambda row: row[:2][::-1]) == expected
    for month in {Month.of(row[0]) for row in expected}:
        for part in parts(warehouse, month):
            own = [row for row in expected if Month.of(row[0]) == month and row[1] in part.location_ids]
            assert (part.rows, part.locations) == (len(own), len({row[1] for row in own}))


def test_another_area_of_the_month_is_added(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    gulf, india = flat_months(), flat_months(north=20.0, west=78.0, names=("u10",), seed=2)
    load_month(warehouse, gulf)
    loaded = load_month(warehouse, india)
    assert (loaded.changed, loaded.replaced, loaded.kept_locations) == (True, (), gulf.locations)
    assert_holds(warehouse, gulf, india)
    assert verify_month(warehouse, gulf) == verify_month(warehouse, india) == ()
    first, second = parts(warehouse)
    assert (first.part, first.location_ids, first.source) == (1, gulf.location_ids, "files")
    assert (second.part, second.location_ids, second.column_names) == (2, india.location_ids, ("zonal_wind_10m",))
    assert not first.is_cut
    held = "SELECT array[parts, rows, locations]::text FROM era5.month"
    assert ask(warehouse.url, held) == f"{{2,{gulf.rows + india.rows},{gulf.locations + india.locations}}}"
    # Each is found unchanged by itself.
    assert not load_month(warehouse, gulf).changed
    assert not load_month(warehouse, india).changed


def test_overlapping_parts_are_cut_at_the_border_of_the_new_one(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    old = flat_months(points=(4, 4))
    new = flat_months(points=(3, 3), north=10.25, west=20.5, names=("t2m", "tp", "sf"), seed=2)
    load_month(warehouse, old)
    loaded = load_month(warehouse, new)
    common = old.location_ids & new.location_ids
    (replaced,) = loaded.replaced
    assert (replaced.locations, replaced.rows, replaced.is_whole) == (len(common), 744 * len(common), False)
    assert loaded.kept_locations == old.locations - len(common)
    assert_rows(warehouse, without(old, new.location_ids), rows_of_file(new))
    cut, added = parts(warehouse)
    assert (cut.location_ids, cut.is_cut) == (old.location_ids - new.location_ids, True)
    assert added.location_ids == new.location_ids
    assert verify_month(warehouse, new) == ()


def test_a_part_that_was_cut_is_loaded_again(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    old, new = flat_months(points=(3, 3)), flat_months(points=(1, 1), seed=2)
    load_month(warehouse, old)
    load_month(warehouse, new)
    again = load_month(warehouse, old)
    assert again.changed
    assert [part.locations for part in again.replaced] == [8, 1]
    assert_holds(warehouse, old)
    (part,) = parts(warehouse)
    assert (part.location_ids, part.is_cut) == (old.location_ids, False)


def test_a_larger_area_takes_the_place_of_all_parts(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    for corner in (10.5, 10.0):
        load_month(warehouse, flat_months(points=(1, 2), north=corner, seed=2))
    whole = flat_months(points=(4, 4))
    loaded = load_month(warehouse, whole)
    assert ([part.is_whole for part in loaded.replaced], loaded.kept_locations) == ([True, True], 0)
    assert_holds(warehouse, whole)
    assert len(parts(warehouse)) == 1


def test_scattered_points_are_removed_and_replaced(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """More rectangles than are deleted one by one: the points of a checkerboard."""
    board = flat_months(points=(14, 14), hours=24, seed=2)
    odd = LocationSet.of_ids([i for i in board.location_ids.ids().tolist() if sum(divmod(i - 1, 1440)) % 2])
    assert len(odd.rectangles) > 64
    load_month(warehouse, board)
    dropped = drop_month(warehouse, JULY, odd)
    assert (dropped.rows, dropped.kept_locations) == (24 * len(odd), board.locations - len(odd))
    assert_rows(warehouse, without(board, odd))
    load_month(warehouse, flat_months(points=(14, 14), hours=24, seed=3))
    assert_holds(warehouse, flat_months(points=(14, 14), hours=24, seed=3))


def test_compressed_batches_are_deleted_without_decompressing_them(
    warehouse: Warehouse, host: Host, flat_months: FlatMonths
) -> None:
    if host.layout != "columnstore":
        pytest.skip("only the columnstore has batches")
    flat = flat_months(points=(14, 14), hours=24, seed=2)
    load_month(warehouse, flat)
    ids = flat.location_ids.ids().tolist()
    rectangles = LocationSet.of_area(Area.parse("10.25/20.25/9.75/21"))
    scattered = LocationSet.of_ids([i for i in ids if sum(divmod(i - 1, 1440)) % 2])
    for locations in (rectangles, scattered, flat.location_ids):
        with warehouse.connect() as connection, connection.transaction(force_rollback=True):
            delete_rows(connection, JULY, locations, by_ids=True)
            # Decompressed rows would be in the chunk itself.
            assert connection.execute("SELECT sum(pg_relation_size(c)) FROM show_chunks('weather') c").fetchone() == (
                0,
            )
            left = connection.execute("SELECT count(*) FROM weather").fetchone()
            assert left == (24 * (flat.locations - len(locations)),)


def test_adjacent_months_of_other_areas_stay(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """Months that share 31-day chunks."""
    flats = [flat_months(month, north=north) for month in ("2023-12", "2024-01") for north in (10.5, 30.0)]
    for flat in flats:
        load_month(warehouse, flat)
    new = flat_months("2024-01", seed=2)
    load_month(warehouse, new)
    assert_holds(warehouse, flats[0], flats[1], new, flats[3])


# Less in place of more


@pytest.mark.parametrize(
    ("less", "lost"),
    [
        ({"hours": 168}, r"would lose 576 hours \(2023-07-08T00 to 2023-07-31T23\)"),
        ({"names": ("t2m",)}, "would lose the variable total_precipitation"),
        ({"points": (1, 1), "names": ("tp", "sf")}, "1 place .* would lose the variable temperature_2m"),
        ({"missing": 0.1}, "would lose "),
    ],
    ids=str,
)
def test_less_in_place_of_more_is_refused(
    warehouse: Warehouse, flat_months: FlatMonths, less: dict[str, object], lost: str
) -> None:
    old, new = flat_months(), flat_months(seed=2, **less)  # type: ignore[arg-type]
    load_month(warehouse, old)
    for force in (False, True):
        with pytest.raises(
            RefusedError, match=f"2023-07: the table holds more than the new files: .*{lost}"
        ) as refused:
            load_month(warehouse, new, force=force)
    assert "--replace" in refused.value.remedy
    assert_holds(warehouse, old)
    assert len(parts(warehouse)) == 1
    loaded = load_month(warehouse, new, replace_more=True)
    assert loaded.changed
    assert_rows(warehouse, without(old, new.location_ids), rows_of_file(new))


def test_less_beside_more_is_not_refused(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    old, new = flat_months(), flat_months(north=30.0, hours=24, names=("t2m",))
    load_month(warehouse, old)
    load_month(warehouse, new)
    assert_holds(warehouse, old, new)
    month = contents(warehouse)
    assert ([part.state for part in month.parts], month.state) == (["loaded", "incomplete"], "incomplete")
    assert month.missing_hours == {"temperature_2m": ("2023-07-02T00 to 2023-07-31T23",)}


@pytest.mark.parametrize(
    ("old", "new", "lost"),
    [
        (FINAL, PRELIMINARY, "would lose final data: preliminary ones for 744 hours"),
        (FINAL, None, r"would lose the version \(final\) of temperature_2m, total_precipitation"),
        (PRELIMINARY, None, r"would lose the version \(preliminary\)"),
    ],
)
def test_a_better_version_is_not_replaced(
    warehouse: Warehouse, month_of: VersionedMonths, old: str, new: str | None, lost: str
) -> None:
    first, second = month_of(old), month_of(new or FINAL, change={"t2m": 1.0})
    if new is None:
        unknown = {"unknown": second.hours}
        second = replace(
            second, columns=tuple(replace(f, expver=unknown, preliminary_hours=()) for f in second.columns)
        )
    load_month(warehouse, first)
    with pytest.raises(RefusedError, match=lost):
        load_month(warehouse, second)
    assert_holds(warehouse, first)
    load_month(warehouse, second, replace_more=True)
    assert_holds(warehouse, second)


def as_series(flat: FlatMonth) -> FlatMonth:
    """The same rows as a month of the source of point series."""
    return replace(flat, raw=replace(flat.raw, source=SOURCE_OF_POINTS, area=None, points="10.5/20"))


@pytest.mark.parametrize("version", [PRELIMINARY, FINAL])
def test_a_series_never_takes_the_place_of_a_stated_version(
    warehouse: Warehouse, month_of: VersionedMonths, version: str
) -> None:
    stated, inferred = month_of(version), as_series(month_of(PRELIMINARY, change={"t2m": 1.0}))
    load_month(warehouse, stated)
    with pytest.raises(RefusedError, match=r"would lose the version \((preliminary|final)\) of temperature_2m"):
        load_month(warehouse, inferred)
    assert_holds(warehouse, stated)
    load_month(warehouse, inferred, replace_more=True)
    assert_holds(warehouse, inferred)
    load_month(warehouse, stated)
    assert_holds(warehouse, stated)


def test_a_series_never_takes_the_place_of_more_variables(warehouse: Warehouse, month_of: VersionedMonths) -> None:
    more = month_of(names=("t2m", "tp", "sf"), source="files")
    more = replace(more, columns=tuple(replace(f, expver={"unknown": more.hours}) for f in more.columns))
    load_month(warehouse, more)
    with pytest.raises(RefusedError, match="would lose the variable snowfall"):
        load_month(warehouse, as_series(month_of(PRELIMINARY)))
    assert_holds(warehouse, more)


def test_a_series_lives_beside_an_area_and_is_revised_alone(warehouse: Warehouse, month_of: VersionedMonths) -> None:
    area, young = month_of(FINAL, north=40.5), as_series(month_of(PRELIMINARY))
    load_month(warehouse, area)
    load_month(warehouse, young)
    assert_holds(warehouse, area, young)
    old = as_series(month_of(FINAL, change={"t2m": 1.0}))
    old = replace(old, columns=tuple(replace(f, expver={"unknown": old.hours}) for f in old.columns))
    load_month(warehouse, old)
    assert_holds(warehouse, area, old)
    of_area, of_series = parts(warehouse, Month(2024, 12))
    assert (of_area.version, of_series.version, of_series.is_preliminary) == ("final", "unknown", False)
    assert of_series.revision is not None
    assert of_series.revision.columns_changed == ("temperature_2m",)


def test_deliveries_of_a_month_grow(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    elsewhere = flat_months(north=30.0)
    load_month(warehouse, elsewhere)
    for hours in (168, 336, None):
        delivery = flat_months(hours=hours)
        load_month(warehouse, delivery)
        assert_holds(warehouse, elsewhere, delivery)
    assert contents(warehouse).state == "loaded"


def test_a_preliminary_part_is_revised_beside_others(
    warehouse: Warehouse, flat_months: FlatMonths, month_of: VersionedMonths
) -> None:
    elsewhere = flat_months("2024-12", north=30.0)
    load_month(warehouse, elsewhere)
    load_month(warehouse, month_of(PRELIMINARY))
    final = month_of(FINAL, change={"t2m": 1.0})
    loaded = load_month(warehouse, final)
    assert (loaded.columns_changed, loaded.kept_locations) == (("temperature_2m",), elsewhere.locations)
    assert_holds(warehouse, elsewhere, final)
    revised = [part for part in parts(warehouse, Month(2024, 12)) if part.revised_at is not None]
    assert [(part.location_ids, part.version) for part in revised] == [(final.location_ids, "final")]


# Gaps


def test_a_month_is_incomplete_until_no_part_lacks_a_value(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    for flat in (flat_months(hours=100), flat_months(north=30.0, missing=0.01)):
        load_month(warehouse, flat)
    assert [part.state for part in parts(warehouse)] == ["incomplete", "incomplete"]
    load_month(warehouse, flat_months(seed=2))
    assert contents(warehouse).state == "incomplete"
    load_month(warehouse, flat_months(north=30.0, seed=2))
    assert contents(warehouse).state == "loaded"


# Removing


def test_a_month_is_dropped_and_its_history_kept(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flats = [flat_months(month) for month in ("2023-06", "2023-07", "2023-08")]
    for flat in flats:
        load_month(warehouse, flat)
    with warehouse.connect() as connection:
        (going,) = what_would_go(connection, (JULY, Month(2022, 1)), None)
    assert (going.rows, going.kept_locations) == (flats[1].rows, 0)
    dropped = drop_month(warehouse, JULY)
    assert dropped == going
    assert_holds(warehouse, flats[0], flats[2])
    assert (contents(warehouse).state, contents(warehouse).rows) == ("dropped", 0)
    history = (
        "SELECT array[state, rows::text, (dropped_at IS NOT NULL)::text] FROM era5.ledger WHERE month = '2023-07-01'"
    )
    assert ask(warehouse.url, history) == ["dropped", str(flats[1].rows), "true"]
    assert drop_month(warehouse, JULY).rows == 0
    load_month(warehouse, flats[1])
    assert_holds(warehouse, *flats)
    assert [part.part for part in parts(warehouse)] == [2]


def test_an_area_of_a_month_is_dropped(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat, elsewhere = flat_months(points=(4, 4)), flat_months(north=30.0)
    for each in (flat, elsewhere):
        load_month(warehouse, each)
    area = LocationSet.of_area(Area.parse("10.25/20.25/9.75/21"))
    dropped = drop_month(warehouse, JULY, area)
    assert [part.is_whole for part in dropped.parts] == [False]
    assert_rows(warehouse, without(flat, area), rows_of_file(elsewhere))
    history = "SELECT array[rows, locations] FROM era5.ledger WHERE dropped_at IS NOT NULL"
    assert ask(warehouse.url, history) == [744 * 9, 9]
    load_month(warehouse, flat)
    assert_holds(warehouse, flat, elsewhere)


def test_dropping_from_an_empty_database_creates_nothing(empty_warehouse: Warehouse) -> None:
    assert drop_month(empty_warehouse, JULY).parts == ()
    assert ask(empty_warehouse.url, "SELECT to_regclass('era5.ledger') IS NULL")


# Faults


@pytest.fixture
def two_areas(flat_months: FlatMonths) -> tuple[FlatMonth, FlatMonth]:
    """A small part to be kept, and a large one to be loaded."""
    return flat_months(north=40.0, names=("t2m",)), flat_months(points=(10, 20), names=("t2m",))


def test_readers_see_a_part_before_or_after(
    warehouse: Warehouse, two_areas: tuple[FlatMonth, FlatMonth], flat_months: FlatMonths
) -> None:
    kept, large = two_areas
    old = flat_months(points=(10, 20), names=("t2m",), seed=2)
    load_month(warehouse, kept)
    load_month(warehouse, old)
    with loading(warehouse, large, pause=True) as load:
        assert_holds(warehouse, kept, old)
        load.resume()
    assert_holds(warehouse, kept, large)


def test_a_killed_load_of_a_part_leaves_the_month_as_it_was(
    warehouse: Warehouse, two_areas: tuple[FlatMonth, FlatMonth], flat_months: FlatMonths
) -> None:
    kept, large = two_areas
    old = flat_months(points=(5, 20), names=("t2m",), seed=2)
    for flat in (kept, old):
        load_month(warehouse, flat)
    before = parts(warehouse)
    with loading_process(warehouse, large) as process:
        process.kill()
        process.wait()
    wait_until(lambda: (attempt := contents(warehouse).last_attempt) is not None and attempt.outcome == "interrupted")
    assert_holds(warehouse, kept, old)
    assert parts(warehouse) == before
    load_month(warehouse, large)
    assert_holds(warehouse, kept, large)


def test_an_addition_is_found_by_the_index(warehouse: Warehouse, host: Host, flat_months: FlatMonths) -> None:
    """One location's month is read without reading the others, also where its part was added later."""
    first, second = (
        flat_months(points=(10, 20), names=("t2m",)),
        flat_months(points=(10, 20), north=40.0, names=("t2m",)),
    )
    for flat in (first, second):
        load_month(warehouse, flat)
    for flat in (first, second):
        wanted = int(flat.location_ids.ids()[50])
        plan = ask(
            warehouse.url,
            "EXPLAIN (ANALYZE, FORMAT json) SELECT count(temperature_2m) FROM weather WHERE location_id = %s",
            wanted,
        )
        assert "Seq Scan" not in str(plan) or host.layout == "columnstore"
        assert ask(warehouse.url, "SELECT count(temperature_2m) FROM weather WHERE location_id = %s", wanted) == 744


# All of it together, with real files


@pytest.fixture(scope="module")
def gulf(era5_samples: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    (archive,) = (era5_samples / "gulf-2023").glob("*.zip")
    (path,) = unpacked(archive, tmp_path_factory.mktemp("gulf"))
    return path


def marked_preliminary(path: Path, folder: Path) -> Path:
    """A copy of the file as ERA5T had it: preliminary, with one value that differs."""
    copy = folder / "preliminary.nc"
    shutil.copyfile(path, copy)
    with netCDF4.Dataset(copy, "a") as dataset:
        dataset["expver"][:] = np.full(dataset["expver"].shape, "0005", dtype=object)
        dataset["t2m"][6000, 3, 3] += 0.5
    return copy


def test_areas_deliveries_and_a_revision_live_together_through_kills(
    warehouse: Warehouse, era5_samples: Path, gulf: Path, tmp_path: Path
) -> None:
    """Two areas, three deliveries of one of them, and a preliminary month of the other that becomes final."""
    september = "2023-09"
    telangana = sorted((era5_samples / "telangana-2023-09").glob("*.nc"))
    deliveries = []
    for hours in (56, 112, 168):
        files = [tmp_path / f"{hours}-{path.name}" for path in telangana]
        for path, piece in zip(telangana, files, strict=True):
            cut(path, piece, set(), {"valid_time": slice(0, hours)})
        deliveries.append(flatten(files, september, tmp_path / str(hours)))
    preliminary = flatten([marked_preliminary(gulf, tmp_path)], september, tmp_path / "preliminary")
    final = flatten([gulf], september, tmp_path / "final")

    load_month(warehouse, preliminary)
    held: tuple[FlatMonth, ...] = (preliminary,)
    for delivery in deliveries:
        with loading_process(warehouse, delivery) as process:
            process.kill()
            process.wait()
        assert_holds(warehouse, *held)
        load_month(warehouse, delivery)
        held = (preliminary, delivery)
        assert_holds(warehouse, *held)
    revised = load_month(warehouse, final)
    assert (revised.columns_changed, revised.kept_locations) == (("temperature_2m",), 441)
    assert_holds(warehouse, final, deliveries[-1])
    month = contents(warehouse, Month(2023, 9))
    assert [(part.locations, part.state, part.version) for part in month.parts] == [
        (63, "loaded", "final"),
        (441, "incomplete", "final"),
    ]
    assert month.parts[0].revised_at is not None
    # A fragment does not take the place of more.
    with pytest.raises(RefusedError, match=r"441 places .* would lose 56 hours"):
        load_month(warehouse, deliveries[1])
