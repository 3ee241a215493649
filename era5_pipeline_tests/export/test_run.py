"""`export.run`: the numbers of the files that were loaded, from every format, on every layout."""

from __future__ import annotations

import gzip
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
import xarray as xr

from era5_pipeline.export.formats import export_format
from era5_pipeline.export.run import export
from era5_pipeline.model.cells import cell_of
from era5_pipeline.model.errors import NoDataError, TransientError
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.places import AskedPlace
from era5_pipeline.model.times import parse_time_range
from era5_pipeline.model.variables import find_variables
from era5_pipeline.runtime import progress
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import assert_says

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.export.run import Exported
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.real_months import NetcdfFile

NAMES = ("out.csv", "out.csv.gz", "out.parquet", "out.nc", "out.zarr")
# Half a unit in the last place of float32 at 50 degC.
DEGREES = 2e-6
GULF_BOX = Area(26.0, 50.75, 25.0, 51.5)
DOHA = (25.25, 51.5)


def place_at(latitude: float, longitude: float) -> AskedPlace:
    return AskedPlace(None, latitude, longitude, cell_of(latitude, longitude, "nearest"))


def export_to(
    warehouse: Warehouse,
    path: Path,
    asked: AskedPlace | Area | None,
    start: str | None = None,
    end: str | None = None,
    columns: str = "",
    **more: Any,
) -> Exported:
    first, after = parse_time_range(start, end or start)
    return export(
        warehouse,
        path,
        export_format(path, None),
        asked,
        columns=find_variables(columns) or None,
        start=first,
        end=after,
        **more,
    )


def read_back(path: Path, column: str) -> pd.Series[float]:
    """The values of a column by time, latitude and longitude, ascending, as pandas and xarray read the file."""
    keys = ["time", "latitude", "longitude"]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        if path.suffix in (".nc", ".zarr"):
            opened: Any = xr.open_dataset(path) if path.suffix == ".nc" else xr.open_zarr(path)
            with opened as dataset:
                found = dataset[column].to_series().dropna()
        else:
            table: Any = (
                pd.read_parquet(path)
                if path.suffix == ".parquet"
                else pd.read_csv(path, parse_dates=["time"], dtype={column: "float32"})
            )
            assert str(table["time"].dt.tz) == "UTC"
            table["time"] = table["time"].dt.tz_localize(None)
            at = [ERA5_GRID.location(number) for number in table["location_id"]]
            assert [(one.latitude, one.longitude) for one in at] == list(
                zip(table["latitude"], table["longitude"], strict=True)
            )
            found = table.set_index(keys)[column].dropna()
    assert found.dtype == np.float32
    found.index = found.index.set_levels([found.index.levels[0].astype("datetime64[ns]"), *found.index.levels[1:]])
    in_order: pd.Series[float] = found.reorder_levels(keys).sort_index()
    return in_order


def expected_of(file: NetcdfFile, months: tuple[str, ...], area: Area) -> pd.Series[float]:
    """The same of the netCDF that was loaded."""
    rows = np.flatnonzero((file.latitudes <= area.north) & (file.latitudes >= area.south))
    columns = np.flatnonzero((file.longitudes >= area.west) & (file.longitudes <= area.east))
    of_months = np.isin(file.times.astype("datetime64[M]").astype(str), months)
    values = file.values[of_months][:, rows][:, :, columns]
    axes: list[Any] = [file.times[of_months].astype("datetime64[ns]"), file.latitudes[rows], file.longitudes[columns]]
    index = pd.MultiIndex.from_product(axes, names=["time", "latitude", "longitude"])
    return pd.Series(values.reshape(-1), index).sort_index()


def assert_same(found: pd.Series[float], expected: pd.Series[float], tolerance: float) -> None:
    assert len(found) == len(expected) > 0
    for name in ("time", "latitude", "longitude"):
        assert (found.index.get_level_values(name) == expected.index.get_level_values(name)).all()
    np.testing.assert_allclose(found.to_numpy(), expected.to_numpy(), rtol=0, atol=tolerance)


@pytest.mark.parametrize("name", NAMES)
def test_a_box_is_that_of_the_file(real: Warehouse, gulf: NetcdfFile, tmp_path: Path, name: str) -> None:
    done = export_to(real, tmp_path / name, GULF_BOX, "2023-06", "2023-07")
    assert done.missing == ()
    assert done.rows == (30 + 31) * 24 * 5 * 4
    assert done.bytes > 0
    found = read_back(tmp_path / name, "temperature_2m")
    assert_same(found, expected_of(gulf, ("2023-06", "2023-07"), GULF_BOX), DEGREES)
    assert [path.name for path in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", NAMES)
def test_small_pieces_give_the_same(real: Warehouse, norway: NetcdfFile, tmp_path: Path, name: str) -> None:
    """The box is cut along latitudes, longitudes and time."""
    latitudes, longitudes = norway.latitudes[2:9], norway.longitudes[3:12]
    area = Area(float(latitudes[0]), float(longitudes[0]), float(latitudes[-1]), float(longitudes[-1]))
    reports: list[tuple[int, int]] = []
    with progress.listening(lambda stage, done, total, unit: reports.append((done, total))):
        export_to(real, tmp_path / name, area, "2018-10", columns="tp", piece_bytes=40_000)
    assert len(reports) > 10
    assert reports[-1][0] == reports[-1][1] == 744 * latitudes.size * longitudes.size
    found = read_back(tmp_path / name, "total_precipitation")
    assert_same(found, expected_of(norway, ("2018-10",), area), 1e-5)


@pytest.mark.parametrize("name", NAMES)
def test_places_that_the_table_lacks_are_counted(real: Warehouse, gulf: NetcdfFile, tmp_path: Path, name: str) -> None:
    """The file ends at 52 degrees east; columns of 52.25 to 53 are not there."""
    area = Area(26.0, 51.5, 25.75, 53.0)
    done = export_to(real, tmp_path / name, area, "2023-07")
    assert done.missing == ("no data at 8 of 14 grid points of 26/51.5/25.75/53",)
    assert_same(read_back(tmp_path / name, "temperature_2m"), expected_of(gulf, ("2023-07",), area), DEGREES)
    assert done.rows == 744 * (14 if name.endswith(("nc", "zarr")) else 6)


@pytest.mark.parametrize("name", NAMES)
def test_what_is_missing_is_said_and_has_no_values(
    real: Warehouse, gulf: NetcdfFile, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    months = ("2023-07", "2023-09")
    done = export_to(real, path, GULF_BOX, "2023-07", "2023-09")
    assert done.missing == ("no data for 2023-08",)
    assert_same(read_back(path, "temperature_2m"), expected_of(gulf, months, GULF_BOX), DEGREES)
    done = export_to(real, path, place_at(*DOHA), "2023-08-31T20", "2023-09-01T02")
    assert done.missing == ("no data at 2023-08-31T20 to 2023-08-31T23 (4 hours)",)
    assert len(read_back(path, "temperature_2m")) == 3
    attributes: Any = {}
    if path.suffix == ".parquet":
        attributes = {
            key.decode(): text.decode()
            for key, text in pq.read_metadata(path).metadata.items()
            if key != b"ARROW:schema"
        }
    elif path.suffix in (".nc", ".zarr"):
        with xr.open_dataset(path) if path.suffix == ".nc" else xr.open_zarr(path) as dataset:
            attributes = dataset.attrs
            assert dataset["temperature_2m"].shape == (7, 1, 1)
            assert dataset["temperature_2m"].attrs["missing_months"] == "2023-08"
            assert dataset["expver"].values.tolist() == [""] * 4 + ["0001"] * 3
    if attributes:
        assert attributes["missing"] == done.missing[0]
        assert "Copernicus Climate Change Service information 2023" in attributes["credit"]


def test_the_same_rows_are_the_same_bytes(real: Warehouse, tmp_path: Path) -> None:
    for name in ("a.csv.gz", "b.csv.gz", "c.csv"):
        export_to(real, tmp_path / name, GULF_BOX, "2023-07-01")
    assert (tmp_path / "a.csv.gz").read_bytes() == (tmp_path / "b.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "a.csv.gz").read_bytes()) == (tmp_path / "c.csv").read_bytes()
    lines = (tmp_path / "c.csv").read_text().splitlines()
    assert lines[0] == "time,location_id,latitude,longitude,temperature_2m"
    assert lines[1].startswith("2023-07-01 00:00:00Z,")
    assert len(lines) == 1 + 24 * 5 * 4


@pytest.mark.parametrize(
    ("asked", "times", "columns", "message"),
    [
        (Area(10.0, 10.0, 9.0, 11.0), (None,), "", "the table has no location in 10/10/9/11"),
        (place_at(-6.25, 106.75), (None,), "", "location 483547 .*no data there; the nearest"),
        (GULF_BOX, ("2020",), "", "the table has no .*; it holds 2023-06"),
        (place_at(*DOHA), ("2020",), "", "it holds 2023-06"),
        (place_at(*DOHA), ("2023-08",), "", "it holds 2023-06 to 2023-07, 2023-09"),
        (GULF_BOX, ("2023-07",), "sst", "the table has no column sea_surface_temperature"),
        (place_at(*DOHA), ("2023-07",), "tp", "total_precipitation is NULL .*has temperature_2m"),
        (GULF_BOX, ("2023-07",), "tp", "the table has no total_precipitation"),
    ],
    ids=["box elsewhere", "place elsewhere", "box before", "place before", "gap", "no column", "null", "null box"],
)
def test_nothing_there_is_an_error_and_keeps_the_file(
    real: Warehouse, tmp_path: Path, asked: Any, times: tuple[str | None], columns: str, message: str
) -> None:
    path = tmp_path / "out.nc"
    path.write_text("precious")
    with pytest.raises(NoDataError, match=message):
        export_to(real, path, asked, *times, columns=columns)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def after_first_piece(do: Callable[[], object]) -> progress.Progress:
    """A listener of progress that does something when the first piece of an export has been written."""
    is_first = [True]

    def listener(stage: progress.Stage, done: int, total: int, unit: str) -> None:
        if stage == "export" and is_first.pop() and done < total:
            do()
        is_first[:] = [False]

    return listener


@pytest.mark.parametrize("name", ["out.csv", "out.parquet", "out.nc", "out.zarr"])
def test_a_month_that_is_replaced_meanwhile_is_not_mixed(
    warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path, name: str
) -> None:
    old, new = (flat_months(points=(6, 8), names=("t2m",), seed=seed) for seed in (1, 2))
    load_month(warehouse, old)
    said: list[str] = []
    with progress.listening(after_first_piece(lambda: load_month(warehouse, new))):
        done = export_to(warehouse, tmp_path / name, None, say=said.append, piece_bytes=60_000)
    (message,) = said
    assert_says(message, "2023-07 changed", "during the export", "again")
    found = read_back(tmp_path / name, "temperature_2m")
    assert done.rows == len(found) == 744 * 48
    rows: Any = pd.read_parquet(new.path)
    rows["time"] = rows["time"].dt.tz_localize(None).astype("datetime64[ns]")
    wanted = rows.set_index(["time", "latitude", "longitude"])["temperature_2m"].sort_index()
    assert np.array_equal(found.to_numpy(), wanted.to_numpy())


def test_a_month_that_is_replaced_again_and_again_is_no_file(
    warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    months = [flat_months(points=(6, 8), names=("t2m",), seed=seed) for seed in (1, 2)]
    load_month(warehouse, months[0])
    path = tmp_path / "out.nc"
    path.write_text("precious")
    loads = [0]

    def replace(stage: progress.Stage, done: int, total: int, unit: str) -> None:
        if stage == "export" and done < total / 2:
            loads[0] += 1
            load_month(warehouse, months[loads[0] % 2])

    with progress.listening(replace), pytest.raises(TransientError, match="2023-07 changed"):
        export_to(warehouse, path, None, piece_bytes=60_000)
    assert loads[0] >= 3
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]


def test_a_month_that_is_dropped_meanwhile_is_not_half_there(
    warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    flat = flat_months(points=(6, 8), names=("t2m",))
    load_month(warehouse, flat)

    def drop() -> None:
        drop_month(warehouse, flat.month, None)

    with progress.listening(after_first_piece(drop)), pytest.raises(NoDataError):
        export_to(warehouse, tmp_path / "out.parquet", None, piece_bytes=60_000)
    assert list(tmp_path.iterdir()) == []


def test_places_that_come_meanwhile_are_not_half_there(
    warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    """The east of the box is loaded while the west is exported."""
    west, east = (flat_months(points=(6, 8), west=degrees, names=("t2m",)) for degrees in (20.0, 22.0))
    load_month(warehouse, west)
    said: list[str] = []
    with progress.listening(after_first_piece(lambda: load_month(warehouse, east))):
        done = export_to(
            warehouse, tmp_path / "out.parquet", Area(10.5, 20.0, 9.25, 23.75), say=said.append, piece_bytes=60_000
        )
    assert len(said) == 1
    assert done.missing == ()
    assert done.rows == 744 * 96


def test_other_months_may_be_loaded_meanwhile(warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path) -> None:
    load_month(warehouse, flat_months(points=(6, 8), names=("t2m",)))
    other = flat_months("2023-09", points=(6, 8), names=("t2m",))
    said: list[str] = []
    with progress.listening(after_first_piece(lambda: load_month(warehouse, other))):
        done = export_to(warehouse, tmp_path / "out.nc", None, "2023-07", say=said.append, piece_bytes=60_000)
    assert said == []
    assert done.rows == 744 * 48


@pytest.mark.parametrize("name", NAMES)
def test_a_box_across_the_antimeridian(
    warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path, name: str
) -> None:
    flat = flat_months("2023-02", points=(3, 6), north=-17.0, west=179.25, names=("t2m", "tp"), missing=0.01)
    load_month(warehouse, flat)
    export_to(warehouse, tmp_path / name, Area(-17.0, 179.5, -17.5, -179.75))
    found = read_back(tmp_path / name, "temperature_2m")
    longitudes = [179.5, 179.75, 180.0, 180.25] if name.endswith(("nc", "zarr")) else [-179.75, 179.5, 179.75, 180.0]
    assert found.index.get_level_values("longitude").unique().sort_values().tolist() == longitudes
    rows: Any = pd.read_parquet(flat.path)
    wanted = {(one.time.tz_localize(None), one.location_id): one.temperature_2m for one in rows.itertuples()}
    expected = [
        wanted[time, ERA5_GRID.nearest_location(latitude, longitude).location_id]
        for time, latitude, longitude in found.index.tolist()
    ]
    assert np.array_equal(found.to_numpy(), np.array(expected, dtype=np.float32))
    inside = LocationSet.of_area(Area(-17.0, 179.5, -17.5, -179.75)).ids()
    assert len(found) == int(rows[rows.location_id.isin(inside)].temperature_2m.notna().sum())


def test_a_table_without_a_ledger_gives_places(warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path) -> None:
    flat = flat_months(names=("t2m",))
    load_month(warehouse, flat)
    with warehouse.connect() as connection:
        connection.execute("DROP SCHEMA era5 CASCADE")
    done = export_to(warehouse, tmp_path / "out.parquet", place_at(10.25, 20.25))
    rows: Any = pd.read_parquet(flat.path)
    wanted = rows[(rows.latitude == 10.25) & (rows.longitude == 20.25)]
    found: Any = pd.read_parquet(tmp_path / "out.parquet")
    assert done.rows == 744
    assert np.array_equal(found["temperature_2m"], wanted["temperature_2m"])
    with pytest.raises(NoDataError, match="the ledger of this database cannot be read"):
        export_to(warehouse, tmp_path / "box.nc", None)
    with pytest.raises(NoDataError, match="it holds 2023-07-01"):
        export_to(warehouse, tmp_path / "place.nc", place_at(10.25, 20.25), "2020")


def test_an_empty_database_says_so(empty_warehouse: Warehouse, tmp_path: Path) -> None:
    for asked in (None, place_at(*DOHA)):
        with pytest.raises(NoDataError, match="no month has been loaded yet"):
            export_to(empty_warehouse, tmp_path / "out.csv", asked)
    assert list(tmp_path.iterdir()) == []
