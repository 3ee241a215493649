"""Tests of `api/database`."""

from __future__ import annotations

import subprocess
import sys
import warnings
from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import psycopg
import pytest
import xarray as xr

import era5_pipeline as era5
from era5_pipeline.api.database import open_database
from era5_pipeline.model.times import hour_of, hours_in
from era5_pipeline.postgres.urls import with_database
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.real_months import NetcdfFile

DOHA: dict[str, Any] = {"latitude": 25.25, "longitude": 51.5}
# Half a unit in the last place of float32 at 50 degC.
DEGREES = 2e-6


def sql_of(warehouse: Warehouse, query: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(warehouse.url, options="-c TimeZone=Asia/Kolkata") as connection:
        return connection.execute(query, binary=True).fetchall()


# Its numbers: test_same_numbers.
def test_a_series_is_a_frame_of_hours_in_utc(db: era5.Database) -> None:
    frame = db.series(**DOHA, start="2023-07", end="2023-07", columns="temperature_2m")
    assert frame.index.name == "time"
    assert str(frame.index.dtype) == "datetime64[s, UTC]"
    assert frame.index.tolist() == pd.date_range("2023-07-01", "2023-07-31 23:00", freq="h", tz="UTC").tolist()
    assert list(frame.columns) == ["temperature_2m"]
    assert frame["temperature_2m"].dtype == np.float32


def test_a_series_says_place_units_and_credit(db: era5.Database) -> None:
    attrs = db.series(place="Doha", start="2023-07-01", end=date(2023, 7, 2)).attrs
    assert attrs["place"] == "Doha, Qatar"
    assert (attrs["latitude"], attrs["longitude"]) == (25.25, 51.5)
    assert attrs["units"] == {"temperature_2m": "degC"}
    assert attrs["long_names"] == {"temperature_2m": "2 metre temperature"}
    assert attrs["missing_months"] == attrs["missing_hours"] == {}
    assert "Copernicus Climate Change Service information 2023" in attrs["credit"]


def test_local_time_is_the_standard_offset(db: era5.Database) -> None:
    utc = db.series(place="Doha", start="2023-07", end="2023-07")
    local = db.series(place="Doha", start="2023-07", end="2023-07", local_time=True)
    assert str(local.index[0]) == "2023-07-01 03:00:00+03:00"
    assert local.index.name == "time"
    assert local.index.tolist() == utc.index.tolist()  # the same instants
    assert np.array_equal(local["temperature_2m"], utc["temperature_2m"])
    assert (local.attrs["time_zone"], local.attrs["utc_offset_minutes"]) == ("Asia/Qatar", 180)
    assert local.attrs["units"] == {"temperature_2m": "degC"}


@pytest.mark.parametrize(
    ("start", "end"),
    [
        ("2023-07-01T05:00", "2023-07-02T06:00"),
        ("2023-07-01T10:30+05:30", "2023-07-02T06:00Z"),
        (datetime(2023, 7, 1, 5, tzinfo=UTC), pd.Timestamp("2023-07-02T06:00")),
        (np.datetime64("2023-07-01T05", "h"), np.datetime64("2023-07-02T06:00:00", "ns")),
    ],
    ids=["text", "zones", "datetime and pandas", "numpy"],
)
def test_times_of_any_kind_are_instants_of_utc(db: era5.Database, start: Any, end: Any) -> None:
    index = db.series(**DOHA, start=start, end=end).index
    assert index[0] == pd.Timestamp("2023-07-01T05:00Z")
    assert index[-1] == pd.Timestamp("2023-07-02T06:00Z")
    assert len(index) == 26


def test_a_missing_month_is_nan_and_said(db: era5.Database, gulf: NetcdfFile) -> None:
    with pytest.warns(era5.MissingDataWarning, match="no data for 2023-08") as caught:
        frame: Any = db.series(**DOHA, start="2023-07", end="2023-09")
    assert caught[0].filename == __file__
    assert frame.attrs["missing_months"] == {"temperature_2m": ["2023-08"]}
    assert len(frame) == 24 * (31 + 31 + 30)
    assert frame.loc["2023-08", "temperature_2m"].isna().all()
    for month in ("2023-07", "2023-09"):
        found = frame.loc[month, "temperature_2m"]
        np.testing.assert_allclose(found, gulf.at(25.25, 51.5, month), rtol=0, atol=DEGREES)


def test_a_place_and_a_box_are_exported(db: era5.Database, tmp_path: Path) -> None:
    with pytest.warns(era5.MissingDataWarning, match="no data for 2023-08") as caught:
        db.export(tmp_path / "doha.parquet", **DOHA, start="2023-07", end="2023-09", columns="t2m")
    assert caught[0].filename == __file__
    assert len(pd.read_parquet(tmp_path / "doha.parquet")) == (31 + 30) * 24  # their numbers: test_same_numbers
    db.export(f"{tmp_path}/box.nc", area=(26, 51, 25, 51.5), start="2023-07-01", end="2023-07-01")
    with xr.open_dataset(tmp_path / "box.nc") as box:
        assert box["temperature_2m"].shape == (24, 5, 3)
    with pytest.raises(era5.UsageError, match="cannot be combined"):
        db.export(tmp_path / "a.nc", "Doha", area="26/51/25/51.5")
    with pytest.raises(era5.UsageError, match="names no format"):
        db.export(tmp_path / "a.xlsx", "Doha")


def test_months_are_those_of_the_ledger(db: era5.Database, real: Warehouse) -> None:
    months: Any = db.months()
    assert [str(month) for month in months.index] == ["2018-10", "2023-06", "2023-07", "2023-09"]
    assert months.index.dtype == "period[M]"
    counts = sql_of(real, "SELECT to_char(time AT TIME ZONE 'UTC', 'YYYY-MM'), count(*) FROM weather GROUP BY 1")
    assert months["rows"].to_dict() == {pd.Period(month): count for month, count in counts}
    assert months.loc["2023-07", "columns"] == "temperature_2m"
    assert months.loc["2023-07", ["hours", "hours_expected", "state"]].tolist() == [744, 744, "loaded"]
    assert months.loc["2023-07", "loaded_at"].tzinfo is not None


def test_a_climate_answer_is_of_the_days_asked_for(db: era5.Database, gulf: NetcdfFile) -> None:
    answer = db.climate("Doha", start="2023-07", end="2023-07")
    assert answer.place.name == "Doha, Qatar"
    days = gulf.at(25.25, 51.5, "2023-07").reshape(31, 24)
    np.testing.assert_allclose(answer.daily["mean_temperature"], days.mean(axis=1), rtol=0, atol=2e-5)
    with pytest.warns(era5.MissingDataWarning, match="2023-08"):
        db.climate("Doha", start="2023-07", end="2023-09", local_time=True)
    with pytest.raises(era5.UsageError, match="is an hour"):
        db.climate("Doha", start="2023-07-01T05:00")
    with pytest.raises(era5.UsageError, match="not a baseline"):
        db.climate("Doha", baseline="1991")


SQL = "'; DROP TABLE weather; --"


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ({}, "no place is given"),
        ({"place": 7}, "a place must be text"),
        ({"latitude": SQL, "longitude": 0}, "not a number"),
        ({**DOHA, "columns": "temperature"}, "temperature"),
        ({**DOHA, "start": SQL}, "is not a time"),
        ({**DOHA, "cell": "sea"}, "cell is 'sea'"),
    ],
    ids=lambda value: None if isinstance(value, dict) else value,
)
def test_a_wrong_question_is_a_usage_error(db: era5.Database, question: dict[str, Any], message: str) -> None:
    with pytest.raises(era5.UsageError, match=message) as caught:
        db.series(**question)
    assert caught.value.remedy


def test_what_the_table_lacks_is_a_no_data_error(db: era5.Database) -> None:
    with pytest.raises(era5.NoDataError, match="no data there; the nearest"):
        db.series(place="Jakarta")
    with pytest.raises(era5.NoDataError, match=r"no row from 2023-08.*it holds 2023-06 to 2023-07, 2023-09"):
        db.series(**DOHA, start="2023-08", end="2023-08")
    with pytest.raises(era5.NoDataError, match="no column surface_pressure"):
        db.series(**DOHA, columns="surface_pressure")
    with pytest.raises(era5.NoDataError, match="snowfall is NULL"):
        db.series(**DOHA, columns="snowfall")


def test_the_table_cannot_be_written(db: era5.Database) -> None:
    with pytest.raises(era5.ServerUnsuitableError, match="read-only"), db._connected("writing") as connection:
        connection.execute("DELETE FROM weather")


def test_an_empty_database_says_that_nothing_is_loaded(empty_warehouse: Warehouse) -> None:
    with era5.open(empty_warehouse.url) as database:
        assert database.months().empty
        for ask in (
            lambda: database.series(**DOHA),
            lambda: database.climate(**DOHA),
            lambda: database.field("t2m", month="2023-07"),
            lambda: database.field("t2m", time="2023-07-01T00"),
            database.dataset,
        ):
            with pytest.raises(era5.NoDataError, match="no month has been loaded yet"):
                ask()


@pytest.mark.parametrize("ask", [era5.Database.series, era5.Database.climate], ids=["series", "climate"])
@pytest.mark.parametrize("is_empty", [True, False], ids=["nothing is", "another is"])
def test_a_place_that_is_not_loaded_says_the_command_that_loads_it(
    embedded_warehouse: Warehouse, flat_months: Any, ask: Callable[..., Any], is_empty: bool
) -> None:
    if not is_empty:
        load_month(embedded_warehouse, flat_months("2023-07"))
    with era5.open(embedded_warehouse.url) as database:
        for asked, command in (
            ({"place": "Jakarta"}, 'era5 load --place "Jakarta, Indonesia".'),
            ({"latitude": -6.2, "longitude": 106.8}, "era5 load --lat -6.25 --lon 106.75."),
            # The nearest cell of this city is water.
            ({"place": "Singapore", "cell": "land"}, "era5 load --lat 1.5 --lon 103.75."),
        ):
            with pytest.raises(era5.NoDataError) as raised:
                ask(database, **asked)
            assert raised.value.remedy == f"Load all hours of the place since 1940: {command}"


def test_hours_that_a_month_lacks_are_nan_and_said(warehouse: Warehouse, flat_months: Any) -> None:
    load_month(warehouse, flat_months("2023-07", missing=0.2))
    with era5.open(warehouse.url) as database, warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        frame = database.series(latitude=10.25, longitude=20.25, columns=["t2m", "tp"])
    assert [warning.category for warning in caught] == [era5.MissingDataWarning]
    assert len(frame) == 744
    for column in frame:
        lacking = frame.index[frame[column].isna()]
        runs = frame.attrs["missing_hours"][column]
        assert hours_in(runs) == {hour_of(time) for time in lacking}
        assert 0.1 < len(lacking) / 744 < 0.3


def test_a_stray_hour_of_a_large_area_decides_neither_the_area_nor_the_time(
    warehouse: Warehouse, flat_months: FlatMonths
) -> None:
    for flat in (flat_months("2022-01", points=(30, 40), hours=1), flat_months("2023-07"), flat_months("2023-08")):
        load_month(warehouse, flat)
    with open_database(warehouse.url) as db:
        with pytest.warns(era5.MissingDataWarning, match=r"left out: 1,194 places .* single hours of 2022-01"):
            ds = db.dataset()
        assert dict(ds.sizes) == {"time": 24 * 62, "latitude": 2, "longitude": 3}
        assert str(ds["time"].values[0]) == "2023-07-01T00:00:00.000000000"
        with pytest.warns(era5.MissingDataWarning, match="left out: single hours of 2022-01"):
            frame = db.series(latitude=10.5, longitude=20.0)
        assert len(frame) == 24 * 62
        assert not frame.isna().any(axis=None)

        # Queries by time or by area find the data.
        with pytest.warns(era5.MissingDataWarning, match="hours or values are missing"):
            assert db.dataset(start="2022-01", end="2022-01").sizes["longitude"] == 40
        with pytest.warns(era5.MissingDataWarning):
            assert len(db.series(latitude=10.5, longitude=20.0, end="2022-01").dropna()) == 1
        # A place of which nothing else is held.
        with pytest.warns(era5.MissingDataWarning):
            assert len(db.series(latitude=10.0, longitude=29.75).dropna()) == 1
        with pytest.warns(era5.MissingDataWarning):
            assert db.dataset(area=(10.0, 29.75, 10.0, 29.75)).sizes["time"] == 744


def run(code: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, with these settings."""
    variables = environment(home, PYTHONPATH=str(ROOT))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=variables,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_import_takes_nothing_that_is_slow(tmp_path: Path) -> None:
    """Nothing but the standard library: so it takes a few hundredths of a second."""
    code = (
        "import sys; before = set(sys.modules); import era5_pipeline as era5; "
        "found = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names); "
        "print(sorted(found)); assert era5.Era5Error and callable(era5.open); "
        "heavy = {'dagster', 'matplotlib', 'pandas', 'xarray', 'dask'} & set(sys.modules); print(heavy)"
    )
    result = run(code, tmp_path)
    assert result.stdout.splitlines() == ["['era5_pipeline']", "set()"], result.stderr


def test_all_names_are_there_and_no_others() -> None:
    for name in era5.__all__:
        assert getattr(era5, name) is not None
    assert set(era5.__all__) <= set(dir(era5))
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        era5.opne  # noqa: B018


def test_nothing_is_created_without_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("ERA5_HOME", str(home))
    monkeypatch.delenv("ERA5_DATABASE_URL", raising=False)
    with pytest.raises(era5.NoDatabaseError, match="there is no database in"):
        era5.open()
    assert not home.exists()


def test_a_wrong_url_is_refused(server_url: str) -> None:
    with pytest.raises(era5.UsageError):
        era5.open("mysql://localhost/era5")
    with pytest.raises(era5.UsageError, match="a URL must be text"):
        era5.open(7)  # type: ignore[arg-type]
    with pytest.raises(era5.ServerUnreachableError):
        era5.open("postgresql://user:secret@127.0.0.1:1/era5")
    with pytest.raises(era5.NoDatabaseError, match="no_such_database"):
        era5.open(with_database(server_url, "no_such_database"))


def test_the_settings_name_the_database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERA5_DATABASE_URL", database_url)
    with era5.open() as db:
        assert db.months().empty
        assert "closed" not in repr(db)
    assert "closed" in repr(db)
    db.close()
    with pytest.raises(era5.UsageError, match="the database is closed"):
        db.months()


def test_the_password_is_shown_nowhere(database_url: str) -> None:
    url = database_url + ("&" if "?" in database_url else "?") + "password=hunter2"
    with era5.open(url) as db:
        assert "hunter2" not in repr(db) + repr(vars(db))


def test_a_program_that_closes_nothing_leaves_no_server(tmp_path: Path, flat_months: FlatMonths) -> None:
    """An embedded server, started by `open`, is stopped when Python ends."""
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.embedded.server import EmbeddedServer
    from era5_pipeline.warehouse.load_month import load_month

    with open_warehouse(Settings(home=tmp_path, database_url=None), create=True) as warehouse:
        load_month(warehouse, flat_months("2023-07"))
    code = (
        "import era5_pipeline as era5; db = era5.open(); "
        "print(len(db.series(latitude=10.25, longitude=20.25, columns='t2m')))"
    )
    result = run(code, tmp_path)
    assert result.stdout == "744\n", result.stderr
    assert not EmbeddedServer(tmp_path).is_running()
