"""`query.climate.reading.climate_provenance`: preliminary hours, versions, sources and gaps of an answer."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.derived_variables import find_columns
from era5_pipeline.model.grid import nearest_location
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.query.climate.reading.climate_hours import hours_of_cell
from era5_pipeline.query.climate.reading.climate_provenance import read_provenance
from era5_pipeline.query.credit import era5_credit
from era5_pipeline.query.export.contents_reading import read_contents
from era5_pipeline.query.export.export_sink import file_attributes
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.query.export.test_run_export import place_at
from era5_pipeline_tests.warehouse.versioned_months import FINAL, PRELIMINARY, VersionedMonths
from era5_pipeline_tests.weather_table import JAKARTA, Connection

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

HERE = nearest_location(10.5, 20.0)
LOCATIONS = LocationSet(((HERE.location_id, HERE.location_id + 1),))


def test_preliminary_hours_are_counted_and_their_months_named(warehouse: Warehouse, tmp_path: Path) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make(FINAL, month="2024-09"))
    # From the 21st on preliminary: 240 of 744 hours of temperature, none of precipitation.
    mixed = {"t2m": [FINAL] * 504 + [PRELIMINARY] * 240, "tp": [FINAL] * 744}
    load_month(warehouse, make(mixed, month="2024-10"))
    load_month(warehouse, make(PRELIMINARY, month="2024-12", source="arco"))
    with warehouse.connect() as connection:
        hours = hours_of_cell(connection, HERE, None, None)
        found = read_provenance(connection, LOCATIONS, hours, None, None)
        september = read_provenance(connection, LOCATIONS, hours.iloc[:720], None, None)
    assert found.hours == 720 + 744 + 744
    assert found.preliminary_share == pytest.approx((240 + 744) / found.hours)
    assert found.versions == {"final": 1, "mixed": 1, "preliminary": 1}
    assert found.sources == {"cds": 2, "arco": 1}
    assert [str(month) for month in found.missing_months["temperature"]] == ["2024-11"]
    assert found.lines[0] == "44.57 % of the hours are preliminary (ERA5T), in 2024-10, 2024-12: they may change"
    assert found.lines[1] == "no zonal_wind_10m, meridional_wind_10m at this place: NULL in every row"
    assert found.gaps == found.lines[2:] == ("no data for 2024-11",)
    assert (september.preliminary_share, september.versions) == (0, {"final": 1})
    assert september.gaps == ()
    assert found.version_words == "44.6 % of the hours preliminary (ERA5T)"
    assert september.version_words == "0.0 % of the hours preliminary (ERA5T)"


def test_an_unknown_version_is_not_none_and_generated_data_are_noticed(warehouse: Warehouse, tmp_path: Path) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make("", month="2024-09"))
    load_month(warehouse, make(FINAL, month="2024-10"))
    load_month(warehouse, make("", month="2024-08", source="sample"))
    with warehouse.connect() as connection:
        every = hours_of_cell(connection, HERE, None, None)
        hours = every.iloc[744:]
        found = read_provenance(connection, LOCATIONS, hours, None, None)
        september = read_provenance(connection, LOCATIONS, hours.iloc[:720], None, None)
        with_baseline = read_provenance(connection, LOCATIONS, hours, None, None, beside=every)
        generated = read_provenance(connection, LOCATIONS, every.iloc[:744], None, None)
    assert found.versions == {"unknown": 1, "final": 1}
    assert found.preliminary_share == 0
    assert found.unknown_share == pytest.approx(720 / 1464)
    assert found.version_words == "0.0 % of the hours preliminary (ERA5T), version unknown for 49.2 % of the hours"
    assert found.lines[0].startswith("version unknown for 49.18 % of the hours: the files of 1 months do not say")
    assert (september.preliminary_share, september.unknown_share) == (None, 1.0)
    assert september.version_words == "version unknown for 100.0 % of the hours"
    assert (found.notice, september.notice) == (None, None)
    # The baseline has generated hours.
    assert (with_baseline.notice or "").startswith("Partly generated sample data, not ERA5")
    assert (generated.notice or "").startswith("Generated sample data, not ERA5")


def test_sources_of_added_variables_are_named_where_they_were_read(warehouse: Warehouse, tmp_path: Path) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make(FINAL, month="2024-10", names=("t2m",)))
    load_month(warehouse, make(FINAL, month="2024-10", names=("tp",), source="arco"))
    load_month(warehouse, make("", month="2024-10", north=50.0))
    with warehouse.connect() as connection:
        connection.execute("UPDATE era5.ledger SET source = 'sample' WHERE version = 'unknown'")
        hours = hours_of_cell(connection, HERE, None, None)
        temperature = hours[["temperature_2m"]]
        found = [read_provenance(connection, LOCATIONS, some, None, None) for some in (hours, temperature)]
        here = place_at(10.5, 20.0)
        export = [read_contents(connection, here, find_columns(names), None, None) for names in ("t2m,tp", "tp")]
    assert [one.sources for one in found] == [{"cds": 1, "arco": 1}, {"cds": 1}]
    # The generated data of another place are not of this one.
    assert {one.credit for one in found} | {one.credit for one in export} == {era5_credit(2024, 2024)}
    loaded_from = [file_attributes(contents)["source"].partition("loaded from ")[2] for contents in export]
    assert loaded_from == ["arco, cds", "arco"]


def test_the_first_hours_of_local_days_are_no_gap_where_their_month_was_never_loaded(
    warehouse: Warehouse, tmp_path: Path
) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make(FINAL, month="2024-10"))
    october = datetime(2024, 10, 1, tzinfo=UTC)
    # Days of UTC+07:00, and of UTC-05:00.
    spans = [
        (october - timedelta(hours=7), october + timedelta(days=31, hours=-7)),
        (october + timedelta(hours=5), october + timedelta(days=31, hours=5)),
    ]
    with warehouse.connect() as connection:
        hours = hours_of_cell(connection, HERE, None, None)
        within = [hours[(hours.index >= start) & (hours.index < end)] for start, end in spans]
        found = [read_provenance(connection, LOCATIONS, part, *span) for part, span in zip(within, spans, strict=True)]
        day_before = read_provenance(connection, LOCATIONS, hours, october - timedelta(days=1), None)
        load_month(warehouse, make(FINAL, month="2024-09", hours=700))
        held = read_provenance(connection, LOCATIONS, within[0], *spans[0])
    assert [one.gaps for one in found] == [(), ()]
    # A whole day that was asked for is missing, and so are hours of a month that was loaded.
    assert day_before.gaps != ()
    assert held.missing_hours == {"temperature": 7, "precipitation": 7}


def test_single_missing_hours_are_counted(warehouse: Warehouse, tmp_path: Path) -> None:
    make = VersionedMonths(tmp_path)
    load_month(warehouse, make(FINAL, month="2024-09", hours=700))
    with warehouse.connect() as connection:
        hours = hours_of_cell(connection, HERE, None, None)
        found = read_provenance(connection, LOCATIONS, hours, None, None)
    assert found.missing_hours == {"temperature": 20, "precipitation": 20}
    assert found.missing_months == {}


def test_without_a_ledger_the_rows_alone_are_told(weather_table: Connection) -> None:
    weather_table.execute("DROP SCHEMA era5 CASCADE")
    hours = hours_of_cell(weather_table, JAKARTA, None, None)
    location = LocationSet(((JAKARTA.location_id, JAKARTA.location_id + 1),))
    found = read_provenance(weather_table, location, hours, None, None)
    assert (found.months, found.hours, found.preliminary_share) == (2, 71, None)
    assert (found.versions, found.sources) == ({}, {})
    assert (found.unknown_share, found.version_words) == (1.0, "version unknown for 100.0 % of the hours")
    assert found.missing_hours["temperature"] == 1
