"""The same place and month in every way that the table is read, on every layout: the numbers of the file it came from.

Real files. SQL is compared with the netCDF, as netCDF4 reads it, or the GRIB, as cfgrib and ecCodes do; every other way
with SQL, to the bit, and answers over HTTP to the decimals that they are rounded to.
"""

from __future__ import annotations

import io
import json
import zipfile
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import psycopg
import pytest
import xarray as xr

import era5_pipeline as era5
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.netcdf.test_grib import UK, by_ec_codes
from era5_pipeline_tests.real_months import GULF, NORWAY, TELANGANA, NetcdfFile
from era5_pipeline_tests.served import served

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import httpx
    import numpy.typing as npt

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.commands import InProcess

pytestmark = pytest.mark.filterwarnings("ignore::era5_pipeline.api.frames.MissingDataWarning")


@dataclass(frozen=True)
class Case:
    """A place and month of a real file: where it is in the file, and its column, factor and offset in the table.

    `rounding`: half a unit in the last place of the table's numbers. HTTP gives it this name and as many decimals.
    """

    file: Path
    name: str
    time: str
    point: tuple[int, int]
    month: str
    column: str
    scale: float
    offset: float
    rounding: float
    http_name: str
    decimals: int


CASES = {
    # Kelvin as float32, in a ZIP; a packed file of the old layout, 16 bits a number; metres as float32.
    "gulf": Case(
        *(GULF.file, "t2m", "valid_time", (3, 4), "2023-07", "temperature_2m", 1.0, -273.15, 2e-6),
        *("temperature_2m", 1),
    ),
    "norway": Case(
        *(NORWAY.file, "tp", "time", (2, 3), "2018-10", "total_precipitation", 1000.0, 0.0, 5e-7), *("precipitation", 2)
    ),
    "telangana": Case(
        *(TELANGANA.file, "tp", "valid_time", (1, 2), "2023-06", "total_precipitation", 1000.0, 0.0, 5e-7),
        *("precipitation", 2),
    ),
    # GRIB 1, 16 bits a number, of one day; cfgrib rounds its kelvin to float32.
    "uk": Case(*(UK, "t2m", "time", (10, 20), "2019-03", "temperature_2m", 1.0, -273.15, 2e-5), *("temperature_2m", 1)),
}


@dataclass(frozen=True, eq=False)
class Hours:
    """Hours (n,) in UTC, ascending, and a value of each."""

    times: npt.NDArray[np.datetime64]
    values: npt.NDArray[Any]

    @property
    def held(self) -> Hours:
        """Without hours that have no value: one of the files has one day of its month."""
        return Hours(self.times[~np.isnan(self.values)], self.values[~np.isnan(self.values)])


@dataclass(frozen=True)
class Question:
    """What is asked, in which warehouse, with what is needed to ask."""

    case: Case
    latitude: float
    longitude: float
    warehouse: Warehouse
    client: httpx.Client
    command: InProcess

    @property
    def area(self) -> str:
        """The place, as a rectangle of one point."""
        return f"{self.latitude}/{self.longitude}/{self.latitude}/{self.longitude}"

    @property
    def last_day(self) -> str:
        """The last day of the month."""
        return str(np.datetime64(self.case.month, "M") + np.timedelta64(1, "M") - np.timedelta64(1, "D"))


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, NetcdfFile]:
    """Each file as netCDF4 reads it, in units of the table."""
    found = {}
    for name, case in CASES.items():
        path = case.file
        if path.suffix == ".zip":
            folder = tmp_path_factory.mktemp(name)
            with zipfile.ZipFile(path) as archive:
                (member,) = archive.namelist()
                path = folder / archive.extract(member, folder)
        elif path.suffix == ".grib":
            with xr.open_dataset(path, engine="cfgrib", backend_kwargs={"indexpath": ""}) as dataset:
                path = tmp_path_factory.mktemp(name) / "by-cfgrib.nc"
                dataset[[case.name]].to_netcdf(path)
        found[name] = NetcdfFile(path, case.name, case.time, case.scale, case.offset)
    return found


@pytest.fixture(scope="session")
def flat_of_files(tmp_path_factory: pytest.TempPathFactory) -> list[FlatMonth]:
    home = tmp_path_factory.mktemp("same-numbers")
    with era5_files.without_pictures():
        return [era5_files.flatten([case.file], case.month, home) for case in CASES.values()]


@pytest.fixture(scope="module")
def loaded(shared_warehouse: Warehouse, flat_of_files: list[FlatMonth]) -> Warehouse:
    """The table with the months of all files, on each layout."""
    for flat in flat_of_files:
        load_month(shared_warehouse, flat)
    return shared_warehouse


@pytest.fixture(scope="module")
def client(loaded: Warehouse) -> Iterator[httpx.Client]:
    with served(loaded) as client:
        yield client


@pytest.fixture
def command(here: InProcess, loaded: Warehouse) -> InProcess:
    here.set(ERA5_DATABASE_URL=loaded.url)
    return here


@pytest.fixture(params=list(CASES))
def case(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def question(
    case: str, files: dict[str, NetcdfFile], loaded: Warehouse, client: httpx.Client, command: InProcess
) -> Question:
    row, column = CASES[case].point
    latitude, longitude = float(files[case].latitudes[row]), float(files[case].longitudes[column])
    return Question(CASES[case], latitude, longitude, loaded, client, command)


def by_sql(asked: Question) -> Hours:
    with psycopg.connect(asked.warehouse.url, options="-c TimeZone=UTC") as connection:
        rows = connection.execute(
            f"SELECT time AT TIME ZONE 'UTC', {asked.case.column} FROM weather "
            "WHERE location_id = era5.at(%s, %s) AND time >= %s AND time < %s::timestamptz + interval '1 month' "
            "ORDER BY time".encode(),
            (asked.latitude, asked.longitude, f"{asked.case.month}-01Z", f"{asked.case.month}-01Z"),
            binary=True,
        ).fetchall()
    return Hours(
        np.array([time for time, _ in rows], dtype="datetime64[s]"),
        np.array([value for _, value in rows], dtype=np.float32),
    )


def by_series(asked: Question) -> Hours:
    with era5.open(asked.warehouse.url) as db:
        frame = db.series(
            latitude=asked.latitude,
            longitude=asked.longitude,
            start=asked.case.month,
            end=asked.case.month,
            columns=asked.case.column,
        )
    return Hours(pd.DatetimeIndex(frame.index).tz_localize(None).to_numpy(), frame[asked.case.column].to_numpy())


def of_array(array: xr.DataArray, asked: Question) -> Hours:
    """The hours of an array of one point, or of one that has it."""
    there = array.sel(latitude=asked.latitude, longitude=asked.longitude)
    return Hours(there["time"].to_numpy(), there.to_numpy())


def by_field(asked: Question) -> Hours:
    with era5.open(asked.warehouse.url) as db:
        return of_array(db.field(asked.case.column, month=asked.case.month, area=asked.area), asked)


def by_dataset(asked: Question) -> Hours:
    """The months of all files in one lazy array, of which one place is read."""
    with era5.open(asked.warehouse.url) as db:
        with pytest.warns(era5.MissingDataWarning):
            array = db.dataset(columns=asked.case.column)[asked.case.column]
        return of_array(array.sel(time=asked.case.month), asked)


def by_xarray(asked: Question) -> Hours:
    with xr.open_dataset(
        asked.warehouse.url, engine="era5", area=asked.area, start=asked.case.month, end=asked.case.month
    ) as dataset:
        return of_array(dataset[asked.case.column].load(), asked)


def exported(asked: Question, name: str) -> Path:
    """The place and month, as the command writes them to a file of this name."""
    path = asked.command.home / name
    place = ("--lat", str(asked.latitude), "--lon", str(asked.longitude))
    asked.command.run("export", *place, "--from", asked.case.month, "--column", asked.case.column, "--out", str(path))
    return path


def by_csv(asked: Question, name: str = "place.csv") -> Hours:
    """By pandas, which reads the decimals as float32."""
    frame = pd.read_csv(exported(asked, name), parse_dates=["time"], dtype={asked.case.column: "float32"})
    return Hours(frame["time"].dt.tz_localize(None).to_numpy(), frame[asked.case.column].to_numpy())


def by_compressed_csv(asked: Question) -> Hours:
    return by_csv(asked, "place.csv.gz")


def by_parquet(asked: Question) -> Hours:
    frame = pd.read_parquet(exported(asked, "place.parquet"))
    return Hours(frame["time"].dt.tz_localize(None).to_numpy(), frame[asked.case.column].to_numpy())


def by_netcdf(asked: Question) -> Hours:
    with xr.open_dataset(exported(asked, "place.nc")) as dataset:
        return of_array(dataset[asked.case.column].load(), asked)


def by_zarr(asked: Question) -> Hours:
    with xr.open_zarr(exported(asked, "place.zarr")) as dataset:
        return of_array(dataset[asked.case.column].load(), asked)


def over_http(asked: Question, **more: str) -> httpx.Response:
    parameters = {
        "latitude": str(asked.latitude),
        "longitude": str(asked.longitude),
        "start_date": f"{asked.case.month}-01",
        "end_date": asked.last_day,
        "hourly": asked.case.http_name,
    }
    answer = asked.client.get("/v1/archive", params=parameters | more)
    assert answer.status_code == 200, answer.text
    return answer


def by_http_json(asked: Question) -> Hours:
    hourly = json.loads(over_http(asked).content)["hourly"]
    return Hours(np.array(hourly["time"], dtype="datetime64[s]"), np.array(hourly[asked.case.http_name], dtype=float))


def by_http_csv(asked: Question) -> Hours:
    _, hourly = over_http(asked, format="csv").text.split("\n\n")
    frame = pd.read_csv(io.StringIO(hourly), parse_dates=["time"])
    (column,) = [name for name in frame.columns if name != "time"]
    return Hours(frame["time"].to_numpy(), frame[column].to_numpy())


EXACT: dict[str, Callable[[Question], Hours]] = {
    "series": by_series,
    "field": by_field,
    "dataset": by_dataset,
    "xarray": by_xarray,
    "csv": by_csv,
    "csv.gz": by_compressed_csv,
    "parquet": by_parquet,
    "netcdf": by_netcdf,
    "zarr": by_zarr,
}
ROUNDED: dict[str, Callable[[Question], Hours]] = {"json": by_http_json, "http-csv": by_http_csv}


def test_sql_has_the_numbers_of_the_file(case: str, question: Question, files: dict[str, NetcdfFile]) -> None:
    found, asked = by_sql(question), CASES[case]
    expected = files[case].at(question.latitude, question.longitude, asked.month)
    of_month = files[case].times.astype("datetime64[M]") == np.datetime64(asked.month)
    assert np.array_equal(found.times, files[case].times[of_month])
    assert len(np.unique(expected)) > 20
    np.testing.assert_allclose(found.values, expected, rtol=1e-7, atol=asked.rounding)


def test_sql_has_the_numbers_of_ec_codes(loaded: Warehouse) -> None:
    wanted = by_ec_codes(UK, CASES["uk"].month).sorted()
    with psycopg.connect(loaded.url) as connection:
        rows = connection.execute(
            "SELECT location_id, (extract(epoch FROM time) / 3600)::bigint, temperature_2m FROM weather "
            "WHERE time >= '2019-03-01Z' AND time < '2019-04-01Z'",
            binary=True,
        ).fetchall()
    found = {(place, hour): value for place, hour, value in rows}
    expected = zip(wanted.locations.tolist(), wanted.hours.tolist(), wanted.values["temperature_2m"], strict=True)
    assert found == {(place, hour): np.float32(value) for place, hour, value in expected}


@pytest.mark.parametrize("way", list(EXACT))
def test_each_way_has_the_numbers_of_sql(question: Question, way: str) -> None:
    found, expected = EXACT[way](question).held, by_sql(question)
    assert found.values.dtype == np.float32
    assert np.array_equal(found.times, expected.times)
    assert np.array_equal(found.values, expected.values)


@pytest.mark.parametrize("way", list(ROUNDED))
def test_http_has_the_numbers_of_sql_rounded(question: Question, way: str) -> None:
    found, expected = ROUNDED[way](question).held, by_sql(question)
    assert np.array_equal(found.times, expected.times)
    half = 0.5 * 10.0**-question.case.decimals
    np.testing.assert_allclose(found.values, expected.values.astype(float), rtol=1e-7, atol=half + 1e-9)
    assert np.array_equal(found.values, np.round(found.values, question.case.decimals))
