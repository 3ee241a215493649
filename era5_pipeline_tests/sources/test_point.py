"""The source `point` on a test server with the service's protocol, through the real client."""

from __future__ import annotations

import csv
import io
import re
import zipfile
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest
import time_machine

from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import MonthFailedError, NotYetAvailableError, SourceError, UsageError
from era5_pipeline.model.grid import ERA5_GRID, ERA5_LAND_GRID
from era5_pipeline.model.months import Month, month_range
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.times import hour_of
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.sources.point import FIRST_DAYS, SeriesQuery
from era5_pipeline_tests.cds_store.timeseries import DATA, cache_key, snapped, values_of
from era5_pipeline_tests.sources.cds.source_under_test import TODAY, inventory
from era5_pipeline_tests.sources.conftest import MEKONG, PointUnderTest

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.sources.source import RawMonth

MARCH = Month(2021, 3)


@pytest.fixture(autouse=True)
def few_years(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask for seven years instead of 86, most of whose hours no other test than the first needs."""
    for name in FIRST_DAYS:
        monkeypatch.setitem(FIRST_DAYS, name, date(2020, 1, 1))


def values_in(raw: RawMonth, name: str) -> npt.NDArray[np.float32]:
    with netCDF4.Dataset(raw.files[0].path) as dataset:
        return np.asarray(dataset[name][:])


def real_values(month: Month, *names: str) -> dict[str, list[float]]:
    """Read with the csv module from the real file, as served; by name."""
    (archive,) = (DATA / "mekong-2020-2025-csv-zip").glob("*.zip")
    with zipfile.ZipFile(archive) as opened:
        rows = list(csv.DictReader(io.StringIO(opened.read(opened.namelist()[0]).decode())))
    of_month = [row for row in rows if row["valid_time"].startswith(str(month))]
    return {name: [float(np.float32(row[name])) for row in of_month] for name in names}


def require_near(location: dict[str, float], latitude: float, longitude: float) -> None:
    """Check that the location is beside the grid point, within the globe, and nearer to it than to any other."""
    assert 0 < abs(location["latitude"] - latitude) <= 0.0501
    assert 0 < abs(location["longitude"] - longitude) <= 0.0501
    assert abs(location["latitude"]) < 90
    assert abs(location["longitude"]) < 180


def test_many_months_are_one_request(point: PointUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(FIRST_DAYS, "era5", date(1940, 1, 1))
    source = point.source(names=None)
    months = [Month(1940, 1), Month(1983, 2), *month_range(Month(2020, 1), Month(2020, 12)), Month(2026, 9)]
    raws = [source.fetch(month) for month in months]
    (inputs,) = point.server.submissions
    require_near(inputs.pop("location"), 10.75, 106.25)
    assert sorted(inputs.pop("variable")) == [
        *("10m_u_component_of_wind", "10m_v_component_of_wind", "2m_temperature"),
        *("total_cloud_cover", "total_precipitation"),
    ]
    period = inputs["date"][0]
    assert period in {f"1940-01-01/2026-11-{day}" for day in range(16, 21)}  # the newest hour is of the 15th
    assert inputs == {
        "date": [period],
        "data_format": "netcdf",
    }
    for month, raw in zip(months, raws, strict=True):
        held = inventory(raw, point.home)
        assert held.hours.size == month.hours
        assert len(held.columns) == 5
        assert int(held.coverage.sum()) == 1
        assert raw.warnings == ("the dataset of point series does not have snowfall: it is NULL",)
        assert raw.points == "10.75/106.25"
    assert any("point 10.75/106.25: sent as request" in text for text in point.said)


def test_a_month_has_the_values_of_the_real_series(point: PointUnderTest) -> None:
    raw = point.source(names=None).fetch(MARCH)
    for name, values in real_values(MARCH, "t2m", "u10", "v10", "tp").items():
        assert values_in(raw, name).tolist() == values, name


def test_young_months_are_preliminary_and_old_ones_state_no_version(point: PointUnderTest) -> None:
    source = point.source()
    versions = {
        month: {*inventory(source.fetch(month), point.home).expver["temperature_2m"]}
        for month in month_range(Month(2026, 5), Month(2026, 10))
    }
    assert versions == {month: {"unknown" if month < Month(2026, 7) else "0005"} for month in versions}


def test_the_point_at_180_is_asked_for_as_minus_180(point: PointUnderTest) -> None:
    for asked in (ERA5_GRID.nearest_location(12.0, 180.0), ERA5_GRID.nearest_location(12.0, -179.9)):
        raw = point.source(asked).fetch(MARCH)
        assert raw.points == "12/180"
        assert inventory(raw, point.home).coverage.nonzero()[1].tolist() == [1439]
    (inputs,) = point.server.submissions
    require_near(inputs["location"], 12.0, -180.0)


def test_several_points_are_a_request_each_and_one_month(point: PointUnderTest) -> None:
    paris = ERA5_GRID.nearest_location(48.86, 2.35)
    raw = point.source(MEKONG, paris).fetch(MARCH)
    assert len(raw.files) == 2
    for inputs, latitude, longitude in zip(point.server.submissions, (10.75, 48.75), (106.25, 2.25), strict=True):
        require_near(inputs["location"], latitude, longitude)
    assert int(inventory(raw, point.home).coverage.sum()) == 2


def test_a_newer_series_changes_only_the_months_whose_values_changed(point: PointUnderTest) -> None:
    months = [Month(2020, 12), Month(2026, 6), Month(2026, 9)]
    point.server.final_until = datetime(2026, 7, 1, tzinfo=UTC)

    def fingerprints(*, refetch: bool) -> list[str]:
        source = point.source(refetch=refetch)
        return [source.fetch(month).fingerprint for month in months]

    before = fingerprints(refetch=False)
    point.server.forget_answers()
    point.server.today += timedelta(days=2)
    with time_machine.travel(TODAY + timedelta(days=2)):
        assert fingerprints(refetch=True) == before
        assert len(point.server.submissions) == 2
        # September was preliminary; its values are others now.
        point.server.final_until = datetime(2026, 9, 30, 23, tzinfo=UTC)
        point.server.forget_answers()
        after = fingerprints(refetch=True)
    assert [one == other for one, other in zip(before, after, strict=True)] == [True, True, False]
    assert len(list((point.home / "raw" / "point").glob("2026-09-*.nc"))) == 1


def test_a_month_that_the_series_does_not_reach_is_asked_for_again_after_half_a_day(point: PointUnderTest) -> None:
    point.source().fetch(MARCH)
    month = Month(2026, 11)
    partial = point.source().fetch(month)
    assert inventory(partial, point.home).hours.size == 14 * 24 + 13  # to 15 November, 12:00
    assert len(point.server.submissions) == 1
    point.server.today += timedelta(days=1)
    with time_machine.travel(TODAY + timedelta(days=1)):
        more = point.source().fetch(month)
        assert inventory(more, point.home).hours.size == 15 * 24 + 13
        assert len(point.server.submissions) == 2
        assert point.source().fetch(MARCH).files
    assert len(point.server.submissions) == 2


def test_a_month_without_any_hour_is_not_available_yet(point: PointUnderTest) -> None:
    point.server.today = TODAY - timedelta(days=17)
    with pytest.raises(NotYetAvailableError, match=r"2026-11 is not available yet: .* is 2026-10-29 12:00"):
        point.source().fetch(Month(2026, 11))


def test_a_kept_series_needs_no_key_and_no_service(point: PointUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    first = point.source().fetch(MARCH)
    first.files[0].path.unlink()
    monkeypatch.delenv("CDSAPI_KEY")
    monkeypatch.delenv("CDSAPI_URL")
    assert point.source().known(MARCH) == first
    assert not first.files[0].path.exists()
    assert point.source().fetch(MARCH) == first
    assert first.files[0].path.is_file()
    assert point.source(refetch=True).known(MARCH) is None


def test_a_damaged_series_is_asked_for_again(point: PointUnderTest) -> None:
    first = point.source().fetch(MARCH)
    (series,) = (point.home / "raw" / "point").glob("series_*.zip")
    content = bytearray(series.read_bytes())
    content[len(content) // 2] ^= 0xFF
    series.write_bytes(content)
    assert point.source().fetch(MARCH) == first
    assert len(point.server.submissions) == 2


def test_invalid_values_are_asked_for_again(point: PointUnderTest) -> None:
    source = point.source()
    source.invalidate(source.fetch(MARCH))
    source.fetch(MARCH)
    assert len(point.server.submissions) == 2
    assert len(list((point.home / "raw" / "point").glob("series_*.zip"))) == 1


def test_a_request_of_an_interrupted_run_is_taken_up(point: PointUnderTest) -> None:
    point.server.faults.accepted_polls = 10_000
    with pytest.raises(SourceError, match=r"point 10.75/106.25: request .* is in the queue"):
        point.source(patience_hours=0.01).fetch(MARCH)
    point.server.faults.accepted_polls = 0
    point.server.finish_jobs()
    point.source().fetch(Month(2020, 1))
    assert len(point.server.submissions) == 1


def test_a_request_whose_answer_was_lost_is_found(point: PointUnderTest) -> None:
    point.server.faults.drop_submit_reply = 1
    with time_machine.travel(datetime.now(tz=UTC)):
        point.source().fetch(MARCH)
    assert len(point.server.submissions) == 1


# --- bad answers ----------------------------------------------------------------


GAP = hour_of(datetime(2021, 5, 3, tzinfo=UTC))


@pytest.mark.parametrize(
    ("fault", "value", "says"),
    [
        ("other_point", True, "point 10.75/106.25: the service returned the point 10.75/106.5"),
        ("hours_cut", 24 * 60, r"the series has 58,\d{3} of 60,\d{3} hours: it ends at 2026-09-16 12:00"),
        ("hours_gap", (GAP, GAP + 47), "lacks 48 hours in between: 2021-05-03T00 to 2021-05-04T23"),
        ("absent", ("tp",), "the series lacks total_precipitation"),
    ],
)
def test_another_series_than_asked_for_is_refused(point: PointUnderTest, fault: str, value: Any, says: str) -> None:
    setattr(point.server.faults, fault, value)
    with pytest.raises(MonthFailedError, match=says) as caught:
        point.source(names=("temperature_2m", "total_precipitation")).fetch(MARCH)
    folder = point.home / "raw" / "point"
    assert [path for path in folder.iterdir() if path.suffix in (".nc", ".zip", ".part")] == []
    assert caught.value.remedy


def test_a_series_damaged_in_the_service_is_asked_for_once_more(point: PointUnderTest) -> None:
    point.server.faults.corrupt_zip = 1
    assert point.source().fetch(MARCH).files
    assert len(point.server.submissions) == 2
    point.server.faults.corrupt_zip = 10
    with pytest.raises(MonthFailedError, match="damaged"):
        point.source(ERA5_GRID.nearest_location(0, 0)).fetch(MARCH)


def test_a_series_cut_off_in_the_store_is_asked_for_with_another_key(point: PointUnderTest) -> None:
    point.server.faults.truncate_answers = 1
    assert point.source(names=None).fetch(MARCH).files
    assert len(point.server.submissions) == 2
    assert point.server.retrievals == 2


@pytest.mark.parametrize("place", [(90, -180), (-90, 179.75), (0, 0), (0.25, -0.25)])
def test_two_variants_have_two_entries_in_the_cache(place: tuple[float, float]) -> None:
    query = SeriesQuery(
        ERA5_GRID.nearest_location(*place), in_table_order(("temperature_2m", "u10")), TODAY.date(), Path()
    )
    variants = [query.new_variant(None) for _ in range(50)]
    for variant in variants:
        location = query.inputs(variant)["location"]
        require_near(location, *query.inputs(None)["location"].values())
        assert snapped(**location) == snapped(**query.inputs(None)["location"])
    keys = {cache_key(query.inputs(variant), TODAY - timedelta(days=5)) for variant in variants}
    assert len(keys) > 45


def test_a_series_that_fails_is_asked_for_once_for_all_months(point: PointUnderTest) -> None:
    point.server.faults.fail_jobs = 10_000
    source = point.source()
    messages = []
    for month in month_range(Month(2021, 1), Month(2021, 4)):
        with pytest.raises(MonthFailedError, match=r"point 10.75/106.25: gave up") as caught:
            source.fetch(month)
        messages.append(str(caught.value))
    assert len(set(messages)) == 1
    assert len(point.server.submissions) == 3  # those of one month
    point.server.faults.fail_jobs = 0
    assert point.source().fetch(MARCH).files  # by the next command


def test_a_licence_that_is_not_accepted_names_the_page_of_the_dataset(point: PointUnderTest) -> None:
    point.server.faults.licence = True
    with pytest.raises(SourceError, match=f"licence .* \\(for {ERA5.cds_series_name}\\)") as caught:
        point.source().fetch(MARCH)
    assert re.search(rf"https://\S+/datasets/{ERA5.cds_series_name}\?tab=download", caught.value.remedy)
    assert point.slept == []


def test_variables_that_the_dataset_does_not_have_are_named(point: PointUnderTest) -> None:
    with pytest.raises(UsageError, match="does not have snowfall, soil_temperature_level_1") as caught:
        point.source(names=("temperature_2m", "snowfall", "soil_temperature_level_1")).fetch(MARCH)
    assert "--variables t2m;" in caught.value.remedy
    assert point.server.submissions == []


# --- ERA5-Land ------------------------------------------------------------------

JAVA = ERA5_LAND_GRID.nearest_location(-6.6, 106.8)


def test_the_groups_of_era5_land_are_joined_to_a_month(point: PointUnderTest) -> None:
    raw = point.source(JAVA, names=None, dataset=ERA5_LAND).fetch(MARCH)
    assert {job.dataset for job in point.server.jobs.values()} == {"reanalysis-era5-land-timeseries"}
    (inputs,) = point.server.submissions
    assert sorted(inputs["variable"]) == [
        *("10m_u_component_of_wind", "10m_v_component_of_wind", "2m_temperature", "total_precipitation"),
    ]
    (series,) = (point.home / "raw" / "point").glob("series_*.zip")
    with zipfile.ZipFile(series) as archive:
        groups = [name.partition("-sfc-")[2] for name in archive.namelist()]
    for group, expected in zip(groups, ("2m-temperature", "pressure-precipitation", "wind"), strict=True):
        assert group.startswith(expected)
    assert raw.dataset == ERA5_LAND
    assert raw.warnings == ("the dataset of point series does not have snowfall: it is NULL",)
    assert raw.points == "-6.6/106.8"
    hours = np.arange(MARCH.hours) + hour_of(MARCH.start)
    for variable in ERA5_LAND.catalogue.find_all("t2m,u10,v10,tp"):
        # Amounts of hours, as they came.
        assert values_in(raw, variable.short_name).tolist() == values_of(variable, -6.6, 106.8, hours).tolist()
    with netCDF4.Dataset(raw.files[0].path) as file:
        assert (file.title, file.source) == (
            "A month of ERA5-Land hourly time-series data",
            "reanalysis-era5-land-timeseries",
        )


def test_a_group_that_ends_early_has_no_values_after_it(point: PointUnderTest) -> None:
    point.server.faults.hours_late = 30
    source = point.source(JAVA, names=("temperature_2m", "zonal_wind_10m"), dataset=ERA5_LAND)
    raw = source.fetch(Month(2026, 11))
    t2m, u10 = values_in(raw, "t2m"), values_in(raw, "u10")
    assert np.isfinite(t2m).all()
    assert np.flatnonzero(np.isnan(u10)).tolist() == list(range(t2m.size - 30, t2m.size))


def test_the_series_of_era5_land_begins_with_its_second_day(
    point: PointUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(FIRST_DAYS, "era5-land", date(1950, 1, 2))
    source = point.source(JAVA, dataset=ERA5_LAND)
    assert values_in(source.fetch(Month(1950, 1)), "t2m").size == 30 * 24
    assert point.server.submissions[0]["date"][0].startswith("1950-01-02/")
    with pytest.raises(UsageError, match="1949-12 is before ERA5-Land begins"):
        source.fetch(Month(1949, 12))
    # The missing day is not asked for again, however old the series is.
    point.server.today += timedelta(days=1)
    with time_machine.travel(TODAY + timedelta(days=1)):
        assert source.fetch(Month(1950, 1)).files
    assert len(point.server.submissions) == 1


def test_a_point_of_era5_land_at_180_is_asked_for_as_it_is(point: PointUnderTest) -> None:
    place = ERA5_LAND_GRID.nearest_location(-16.8, 180.0)
    assert point.source(place, dataset=ERA5_LAND).fetch(MARCH).points == "-16.8/180"
    query = SeriesQuery(place, ERA5_LAND.catalogue.find_all("t2m"), TODAY.date(), Path(), ERA5_LAND)
    for variant in (query.new_variant(None) for _ in range(50)):
        location = query.inputs(variant)["location"]
        assert 0 < abs(location["latitude"] + 16.8) <= 0.0201
        assert 0 < 180 - location["longitude"] <= 0.0201
        assert snapped(**location, dataset=ERA5_LAND) == (-16.8, 180.0)


def test_a_point_at_sea_is_refused_before_it_is_asked_for(point: PointUnderTest) -> None:
    settings = Settings(_env_file=None, home=point.home, source="point", dataset="era5-land", point="-5.8/107.2")
    with pytest.raises(UsageError, match=r"ERA5-Land has no values at point -5.8/107.2, at sea") as caught:
        source_of(settings)
    assert "-6/107.1" in caught.value.remedy
    assert source_of(settings.model_copy(update={"point": "-6/107.1"})).name == "point"
    assert source_of(settings.model_copy(update={"dataset": "era5"})).name == "point"
    assert point.server.requests == []
