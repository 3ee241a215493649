"""Values between the grid points, which the store interpolated: at the nearest points, if asked, and said everywhere.

Real files and others; on every layout. Values are compared with netCDF4, ecCodes and cfgrib.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import netCDF4
import numpy as np
import pytest
import xarray as xr
from psycopg import sql

from era5_pipeline.model.errors import BadFileError, RefusedError, UsageError
from era5_pipeline.model.grid import Shift
from era5_pipeline.model.months import Month
from era5_pipeline.read.credit import read_credit
from era5_pipeline.sources.files import FilesSource
from era5_pipeline.sources.source import RawMonth
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.era5_files import (
    ALL_VARIABLES,
    COLUMNS,
    GRIB_LAYOUTS,
    Rows,
    Weather,
    assert_same_rows,
    expected_rows,
    flat_rows,
    flatten,
    half_steps_of,
    hours_from,
    location_id,
    weather,
    write,
    write_netcdf,
)
from era5_pipeline_tests.flat_months import rows_of_table
from era5_pipeline_tests.netcdf.test_grib import by_ec_codes
from era5_pipeline_tests.samples import DATA, more_real_files
from era5_pipeline_tests.warehouse.loads import ask
from era5_pipeline_tests.warehouse.test_parts import parts

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess

DELHI = DATA / "era5" / "delhi-2018-offgrid" / "delhi_weather_2018_01.nc"
ALPS = DATA / "era5" / "alps-2020-01-packed-offgrid" / "SURF_202001.nc"
POINT = DATA / "era5" / "point-2015-grib" / "wind.grib"
JULY = "2023-07"
SHIFT = Shift(0.1, -0.05)
SAID = "interpolated by the store, shifted by 0.1 N 0.05 W"
HOURS = hours_from("2023-07-01T00", 744)


def near(shift: Shift = SHIFT, *, seed: int = 1, names: tuple[str, ...] = ("t2m", "tp")) -> Weather:
    """Weather of July beside six grid points; without a shift, at them."""
    return weather(
        HOURS,
        [10.5 + shift.north, 10.25 + shift.north],
        [20.0 + shift.east, 20.25 + shift.east, 20.5 + shift.east],
        names,
        seed=seed,
    )


def flat_of(folder: Path, of: Weather, *, seed: int = 1) -> FlatMonth:
    folder.mkdir()
    return flatten([write_netcdf(folder / f"{seed}.nc", of)], JULY, folder, off_grid="nearest")


@pytest.fixture(scope="module")
def shifted(tmp_path_factory: pytest.TempPathFactory) -> FlatMonth:
    return flat_of(tmp_path_factory.mktemp("off-grid") / "shifted", near())


@pytest.fixture(scope="module")
def on_grid(tmp_path_factory: pytest.TempPathFactory) -> FlatMonth:
    return flat_of(tmp_path_factory.mktemp("off-grid") / "grid", near(Shift(0.0, 0.0), seed=2))


# ---- values


def by_netcdf(path: Path) -> Rows:
    """The rows of a file, by the grid points that its coordinates are rounded to."""
    with xr.open_dataset(path) as dataset:
        time = dataset["valid_time" if "valid_time" in dataset.coords else "time"]
        hours = time.to_numpy().astype("datetime64[h]").astype(np.int64)
        numbers = [location_id(float(n), float(e)) for n in dataset["latitude"] for e in dataset["longitude"]]
        values = {
            ALL_VARIABLES[str(name)][0]: dataset[name].to_numpy().astype(np.float64).reshape(-1)
            * ALL_VARIABLES[str(name)][3]
            + ALL_VARIABLES[str(name)][4]
            for name in dataset.data_vars
            if name in ("t2m", "d2m", "tp")
        }
    return Rows(np.tile(numbers, hours.size), np.repeat(hours, len(numbers)), values).sorted()


REAL = {
    DELHI: ("2018-01", Shift(-0.1, 0.05)),
    ALPS: ("2020-01", Shift(-0.049, 0.043)),
    POINT: ("2015-01", Shift(0.0, -0.1)),
    **dict.fromkeys(more_real_files("five-2020-06-23T18.grib"), ("2020-06", Shift(-0.086, -0.043))),
    **dict.fromkeys(more_real_files("six-2018-2025-mixed-versions.grib"), ("2024-12", Shift(0.02, -0.08))),
    **dict.fromkeys(more_real_files("wind-2015-point-37-25.9.grib"), ("2015-06", Shift(0.0, -0.1))),
}


@pytest.fixture(scope="module", params=list(REAL), ids=lambda path: path.stem)
def real(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[FlatMonth, Rows]:
    """A month of a real file, and its rows as ecCodes or the netCDF library read them."""
    path, (month, _) = request.param, REAL[request.param]
    wanted = by_ec_codes(path, month) if path.suffix == ".grib" else by_netcdf(path)
    home = tmp_path_factory.mktemp("real")
    return flatten([path], month, home, variables=tuple(wanted.values), off_grid="nearest"), wanted


def test_values_of_real_files_are_at_the_nearest_points(real: tuple[FlatMonth, Rows]) -> None:
    flat, wanted = real
    assert_same_rows(flat_rows(flat.path), with_nulls(wanted))
    _, shift = REAL[flat.raw.files[0].path]
    assert flat.shift == shift


def test_real_files_are_loaded_with_what_the_store_did(warehouse: Warehouse, real: tuple[FlatMonth, Rows]) -> None:
    flat, wanted = real
    load_month(warehouse, flat)
    assert verify_month(warehouse, flat) == ()
    (part,) = parts(warehouse, flat.month)
    assert part.interpolated == flat.shift
    assert_same_rows(rows_in_table(warehouse, tuple(wanted.values)), with_nulls(wanted))


def rows_in_table(warehouse: Warehouse, columns: tuple[str, ...]) -> Rows:
    """All rows of the table, read by SQL; default columns without values are NaN."""
    names = sorted({*COLUMNS, *columns})
    with warehouse.connect() as connection:
        rows = connection.execute(
            sql.SQL("SELECT location_id, (extract(epoch FROM time) / 3600)::bigint, {} FROM weather").format(
                sql.SQL(", ").join(map(sql.Identifier, names))
            ),
            binary=True,
        ).fetchall()
    keys = np.array([row[:2] for row in rows], dtype=np.int64)
    values = np.array([row[2:] for row in rows], dtype=np.float64)
    return Rows(keys[:, 0], keys[:, 1], dict(zip(names, values.T, strict=True)))


def with_nulls(wanted: Rows) -> Rows:
    """The rows with the default columns that they lack, as NaN."""
    lacking = dict.fromkeys(COLUMNS, np.full(wanted.hours.size, np.nan))
    return replace(wanted, values=lacking | wanted.values).sorted()


@pytest.mark.parametrize("layout", GRIB_LAYOUTS[:3], ids=str)
def test_messages_between_the_grid_points_go_to_the_nearest(tmp_path: Path, layout: object) -> None:
    of = weather(HOURS[:24], [10.6, 10.35], [19.95, 20.2], ["t2m", "tp"])
    flat = flatten(write(tmp_path, of, layout), JULY, tmp_path, off_grid="nearest")  # type: ignore[arg-type]
    assert flat.shift is not None
    assert flat.shift.is_like(SHIFT)
    assert_same_rows(flat_rows(flat.path), expected_rows(of, JULY), half_steps_of(of, layout))  # type: ignore[arg-type]


# ---- what is asked


def test_without_the_option_the_refusal_is_the_command_for_the_area_on_the_grid(tmp_path: Path) -> None:
    source = FilesSource((DELHI.parent,), tmp_path)
    (problem,) = source.problems()
    assert source.months() == ()
    assert problem.remedy == (
        "Request it on the grid: era5 load --from 2018-01 --to 2018-01 --source cds --area 29/76.75/28.25/77.5 "
        "--variables t2m,d2m; or take each value to its nearest point, 0.1 degrees off: --off-grid nearest."
    )
    raw = source.fetch(Month(2018, 1))
    assert raw.off_grid == "refuse"
    with pytest.raises(RefusedError, match=r"latitude 28\.9 is not on") as refused:
        flatten([file.path for file in raw.files], "2018-01", tmp_path)
    assert refused.value.remedy == problem.remedy


def test_with_the_option_the_folder_has_months_and_no_problem(tmp_path: Path) -> None:
    source = FilesSource((DELHI.parent,), tmp_path, off_grid="nearest")
    assert source.problems() == ()
    assert source.months() == (Month(2018, 1),)
    raw = source.fetch(Month(2018, 1))
    assert raw.off_grid == "nearest"
    assert RawMonth.from_json(raw.to_json()) == raw
    # Another choice of the same folder, from the same catalogue.
    assert FilesSource((DELHI.parent,), tmp_path).months() == ()
    assert source.known(Month(2018, 1)) == raw


def test_months_on_the_grid_are_the_same_with_and_without_the_option(tmp_path: Path) -> None:
    (tmp_path / "era5").mkdir()
    write_netcdf(tmp_path / "era5" / "a.nc", near(Shift(0.0, 0.0)))
    raws = [
        FilesSource((tmp_path / "era5",), tmp_path, off_grid=choice).fetch(Month(2023, 7))
        for choice in ("refuse", "nearest")
    ]
    assert raws[0] == raws[1]


def test_two_shifts_or_one_and_the_grid_are_not_loaded_together(tmp_path: Path) -> None:
    folder = tmp_path / "era5"
    folder.mkdir()
    write_netcdf(folder / "a.nc", near())
    write_netcdf(folder / "b.nc", replace(near(Shift(0.0, 0.0)), longitudes=np.array([30.0, 30.25, 30.5])))
    with pytest.raises(BadFileError, match=f"a.nc is {SAID}, .*b.nc is on the grid") as refused:
        flatten(sorted(folder.iterdir()), JULY, tmp_path, off_grid="nearest")
    assert "one after another" in refused.value.remedy
    # Each by itself, and an area that only one of them has.
    assert flatten(sorted(folder.iterdir()), JULY, tmp_path, off_grid="nearest", area="11/29/9/31").shift is None
    write_netcdf(folder / "b.nc", near(Shift(0.05, 0.05)))
    with pytest.raises(BadFileError, match=r"shifted by 0\.05 N 0\.05 E"):
        flatten(sorted(folder.iterdir()), JULY, tmp_path, off_grid="nearest")


def test_only_the_source_files_has_such_values(here: InProcess) -> None:
    load = ("load", "--from", JULY, "--source", "sample", "--area", "1/1/1/1", "--off-grid", "nearest")
    assert "--off-grid nearest is for your own files" in here.run(*load, code=UsageError.exit_code).err


def test_a_command_loads_them_and_a_failed_month_keeps_the_choice(
    here: InProcess, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, warehouse: Warehouse
) -> None:
    folder = tmp_path / "era5"
    folder.mkdir()
    write_netcdf(folder / "a.nc", weather(HOURS[:24], [10.6, 10.35], [19.95, 20.2]))
    here.set(ERA5_DATABASE_URL=warehouse.url)
    load = ("load", "--files-dir", str(folder))
    error = here.run(*load, code=BadFileError.exit_code).err
    assert "--source cds --area 10.75/19.75/10.25/20.25 --variables t2m; or take each value" in error
    monkeypatch.setenv("ERA5_OFF_GRID", "nearest")
    assert "is incomplete" in here.run(*load, code=RefusedError.exit_code).err
    monkeypatch.delenv("ERA5_OFF_GRID")
    (month,) = here.run("load", "--failed", "--allow-incomplete", "--json").json()
    assert (month["rows"], month["interpolated"]) == (96, {"north": 0.1, "east": -0.05})
    assert SAID in here.run(*load, "--off-grid", "nearest", "--allow-incomplete", "--force").out


# ---- the table


def test_values_on_the_grid_are_never_replaced_unasked(
    warehouse: Warehouse, shifted: FlatMonth, on_grid: FlatMonth
) -> None:
    load_month(warehouse, on_grid)
    held = rows_of_table(warehouse)
    with pytest.raises(RefusedError, match=f"would lose values on the grid: the new ones are {SAID}") as refused:
        load_month(warehouse, shifted)
    assert "--replace" in refused.value.remedy
    assert rows_of_table(warehouse) == held
    loaded = load_month(warehouse, shifted, replace_more=True)
    assert loaded.changed
    (part,) = parts(warehouse)
    assert part.interpolated == SHIFT
    # The other way round, nobody needs to be asked.
    (replaced,) = load_month(warehouse, on_grid).replaced
    assert str(replaced).endswith(SAID)
    (part,) = parts(warehouse)
    assert part.interpolated is None
    assert rows_of_table(warehouse) == held


def test_values_with_another_shift_are_not_replaced_unasked(
    warehouse: Warehouse, shifted: FlatMonth, tmp_path: Path
) -> None:
    load_month(warehouse, shifted)
    other = flat_of(tmp_path / "other", near(Shift(0.05, 0.05), seed=3))
    with pytest.raises(RefusedError, match=r"would lose values shifted by 0\.1 N 0\.05 W: the new ones are"):
        load_month(warehouse, other)
    # The same shift, to the digits that files have.
    alike = flat_of(tmp_path / "alike", near(Shift(0.101, -0.05), seed=4))
    assert load_month(warehouse, alike).changed


def test_variables_are_added_only_with_the_same_shift(
    warehouse: Warehouse, shifted: FlatMonth, on_grid: FlatMonth, tmp_path: Path
) -> None:
    more = flat_of(tmp_path / "more", near(names=("u10",)))
    load_month(warehouse, on_grid)
    with pytest.raises(RefusedError, match="values on the grid"):
        load_month(warehouse, more)
    load_month(warehouse, shifted, replace_more=True)
    assert load_month(warehouse, more).kept_columns == ("temperature_2m", "total_precipitation")
    (part,) = parts(warehouse)
    assert part.interpolated == SHIFT


def test_the_same_files_with_and_without_the_option_are_told_apart(warehouse: Warehouse, shifted: FlatMonth) -> None:
    load_month(warehouse, shifted)
    assert not load_month(warehouse, shifted).changed
    assert replace(shifted.raw, off_grid="refuse").fingerprint != shifted.raw.fingerprint


# ---- where it is said: every answer has the same credit (test_versions_of_answers)


@pytest.fixture
def loaded(warehouse: Warehouse, shifted: FlatMonth) -> Warehouse:
    load_month(warehouse, shifted)
    return warehouse


@pytest.fixture
def command(here: InProcess, loaded: Warehouse) -> InProcess:
    here.set(ERA5_DATABASE_URL=loaded.url)
    return here


def test_status_and_sql_say_what_was_interpolated(loaded: Warehouse, command: InProcess) -> None:
    said = command.run("status").out
    assert f"2023-07: {SAID}" in said
    (month,) = command.run("status", "--json").json()
    assert month["interpolated"] == [{"north": 0.1, "east": -0.05}] == [month["parts"][0]["interpolated"]]
    assert ask(loaded.url, "SELECT interpolated FROM era5.month") == 1


def test_an_export_says_what_was_interpolated(command: InProcess, tmp_path: Path) -> None:
    out = command.run("export", "--from", JULY, "--area", "11/20/10/21", "--out", str(tmp_path / "out.nc"))
    assert SAID in out.out + out.err
    with netCDF4.Dataset(tmp_path / "out.nc") as dataset:
        assert dataset.interpolated == f"2023-07: {SAID}"
        assert dataset.credit.endswith(SAID)


def test_values_on_the_grid_beside_them_are_some_values(loaded: Warehouse, tmp_path: Path) -> None:
    beside = flat_of(tmp_path / "beside", replace(near(Shift(0.0, 0.0)), longitudes=np.array([30.0, 30.25, 30.5])))
    load_month(loaded, beside)
    with loaded.connect() as connection:
        assert read_credit(connection, None, None).endswith(f"; some values {SAID}")
        assert "shifted" not in read_credit(connection, None, None, beside.location_ids)
