"""A table with twenty variables, of which months hold different ones: loaded, revised, verified and asked for.

From the sources `sample`, `cds` (a preliminary month that becomes final) and `files` (real files), on every layout. The
source `arco` and requests of more variables than one may have are tested with these sources.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest

from era5_pipeline.defs.metadata import raw_metadata
from era5_pipeline.flat.checks import TABLE_CHECKS
from era5_pipeline.model.errors import Era5Error, RefusedError, WarehouseError
from era5_pipeline.model.grid import ERA5_GRID, Location
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import DEFAULT_COLUMNS, find_variable, find_variables
from era5_pipeline.planning.current_contents import unchanged_months
from era5_pipeline.planning.updates import revisions
from era5_pipeline.read.boxes import read_field
from era5_pipeline.read.hours import read_series
from era5_pipeline.read.missing import describe_absent, find_gaps, gap_lines
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.changes import kept_columns
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.era5_files import OTHER_VARIABLES, VARIABLES, without_pictures
from era5_pipeline_tests.monthly import assert_monthly
from era5_pipeline_tests.samples import unpacked

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.stages import LoadResult
    from era5_pipeline.warehouse.ledger_entry import MonthContents

TWENTY = "default,d2m,msl,sp,skt,sst,u100,v100,fg10,mx2t,mn2t,ssrd,swvl1,cbh,avg_sdswrf"
SOME = "d2m,sst,cbh"
AREA = "-5/106/-6/107"
JULY, AUGUST, SEPTEMBER = Month(2023, 7), Month(2023, 8), Month(2023, 9)
PLACE = ERA5_GRID.nearest_location(-5.5, 106.5)


@dataclass
class Loading:
    """Loads months with all stages, as `era5 load` does, and reads what the table then holds."""

    warehouse: Warehouse
    home: Path

    def settings(self, **values: Any) -> Settings:
        return Settings(_env_file=None, home=self.home, **({"source": "sample", "area": AREA} | values))

    def load(self, month: Month, **values: Any) -> LoadResult:
        settings = self.settings(**values)
        with without_pictures():
            raw = run_raw(settings, month)
            assert all(outcome.passed for outcome in raw.outcomes), raw.outcomes
            flat = run_flat(settings, month)
        assert all(outcome.passed for outcome in flat.outcomes), flat.outcomes
        result = run_load(settings, self.warehouse, month)
        assert [outcome.name for outcome in result.outcomes if outcome.passed] == list(TABLE_CHECKS), result.outcomes
        return result

    def contents(self, month: Month) -> MonthContents:
        with self.warehouse.connect() as connection:
            return next(held for held in read_ledger(connection) if held.month == month)

    def values(self, month: Month, columns: str, place: Location = PLACE) -> dict[str, np.ndarray]:
        with self.warehouse.connect() as connection:
            return dict(read_series(connection, place, find_variables(columns), month.start, month.end).values)


@pytest.fixture
def loading(warehouse: Warehouse, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Loading:
    monkeypatch.chdir(tmp_path)
    return Loading(warehouse, tmp_path / "home")


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[CdsServer]:
    (tmp_path / "served").mkdir()
    with CdsServer(tmp_path / "served") as server:
        monkeypatch.setenv("CDSAPI_URL", server.url)
        monkeypatch.setenv("CDSAPI_KEY", server.key)
        yield server


def values_in_files(result: LoadResult, folder: Path, columns: str, place: Location = PLACE) -> dict[str, np.ndarray]:
    """The hours of a place in the raw files, read with netCDF4 alone, in the unit of the table."""
    found = {}
    wanted = {name: variable for variable in find_variables(columns) for name in variable.names_in_files}
    for file in result.flat.raw.files:
        for path in unpacked(file.path, folder):
            with netCDF4.Dataset(path) as dataset:
                north = int(np.argmin(np.abs(dataset["latitude"][:] - place.latitude)))
                east = int(np.argmin(np.abs(dataset["longitude"][:] - place.longitude)))
                for name in wanted.keys() & dataset.variables.keys():
                    values = np.ma.filled(dataset[name][:, north, east].astype(np.float64), np.nan)
                    found[wanted[name].column] = values * wanted[name].scale + wanted[name].offset
    return found


def test_months_hold_different_variables_and_each_is_verified_and_asked_for(loading: Loading, tmp_path: Path) -> None:
    loading.load(JULY)
    august = loading.load(AUGUST, variables=TWENTY)
    loading.load(SEPTEMBER, variables=SOME)
    assert len(august.flat.columns) == 20
    held = {month: loading.contents(month) for month in (JULY, AUGUST, SEPTEMBER)}
    # Variables of the sea have no values on land, and occasional ones have none at some hours: neither is a gap.
    assert {one.state for one in held.values()} == {"loaded"}
    assert held[JULY].column_names == DEFAULT_COLUMNS
    assert held[AUGUST].column_names == tuple(variable.column for variable in find_variables(TWENTY))
    assert held[SEPTEMBER].column_names == ("dewpoint_2m", "sea_surface_temperature", "cloud_base_height")
    # Every value at a place is that of the raw file.
    expected, actual = values_in_files(august, tmp_path, TWENTY), loading.values(AUGUST, TWENTY)
    assert actual.keys() == expected.keys() == {variable.column for variable in find_variables(TWENTY)}
    for column, values in expected.items():
        np.testing.assert_allclose(actual[column], values, rtol=1e-6, atol=1e-6, err_msg=column)
    assert np.isnan(loading.values(JULY, SOME)["dewpoint_2m"]).all()
    assert np.isnan(loading.values(SEPTEMBER, "default")["temperature_2m"]).all()
    assert np.isfinite(loading.values(SEPTEMBER, SOME)["dewpoint_2m"]).all()


def test_missing_values_of_the_sea_and_of_clouds_are_no_gaps(loading: Loading) -> None:
    result = loading.load(AUGUST, variables=SOME)
    facts = {one.column: one for one in result.flat.columns}
    rows = result.flat.rows
    assert 0 < facts["sea_surface_temperature"].values < rows
    assert facts["sea_surface_temperature"].values % AUGUST.hours == 0
    assert 0 < facts["cloud_base_height"].values < rows
    assert all((one.missing, one.missing_hours) == (0, ()) for one in facts.values())
    with loading.warehouse.connect() as connection:
        variable = find_variable("sst")
        snapshot = read_field(connection, AUGUST.start + timedelta(days=3), variable)
        finite = np.isfinite(snapshot.values)
        assert 0 < finite.sum() < finite.size
        assert describe_absent(connection, snapshot) == []
        rows_of, columns_of = np.nonzero(finite)
        sea = ERA5_GRID.nearest_location(
            float(ERA5_GRID.latitudes_of([round((snapshot.latitudes[rows_of[0]] + 90) * 4)])[0]),
            float(ERA5_GRID.longitudes_of([round((snapshot.longitudes[columns_of[0]] + 179.75) * 4)])[0]),
        )
        variables = find_variables(SOME)
        series = read_series(connection, sea, variables, AUGUST.start, AUGUST.end)
        assert np.isnan(series.values["cloud_base_height"]).any()
        assert gap_lines(find_gaps(series, variables, AUGUST.start, AUGUST.end)) == []


def test_a_month_may_get_more_variables_but_does_not_lose_any_unasked(loading: Loading) -> None:
    loading.load(AUGUST)
    more = loading.load(AUGUST, variables=TWENTY)
    assert more.loaded.replaced_rows == more.loaded.rows
    assert len(loading.contents(AUGUST).parts) == 1
    with pytest.raises(Exception, match=r"would lose the variables dewpoint_2m, .*volumetric_soil_water") as raised:
        loading.load(AUGUST)
    # The remedy is the list of all of them.
    assert f"--variables {TWENTY})" in raised.value.remedy  # type: ignore[attr-defined]
    assert loading.contents(AUGUST).column_names == tuple(variable.column for variable in find_variables(TWENTY))
    assert loading.load(AUGUST, variables=TWENTY).loaded.changed is False
    loading.load(AUGUST, replace=True)
    assert loading.contents(AUGUST).column_names == DEFAULT_COLUMNS
    assert np.isnan(loading.values(AUGUST, "d2m")["dewpoint_2m"]).all()


ADDED = "u100,v100,ssrd"


def test_variables_are_added_to_the_rows_of_a_month_and_the_others_stay(loading: Loading, tmp_path: Path) -> None:
    loading.load(AUGUST, area="0/106/-1/107")
    before = loading.load(AUGUST)
    old = {column: loading.values(AUGUST, column)[column] for column in DEFAULT_COLUMNS}
    added = loading.load(AUGUST, variables=ADDED)
    assert added.flat.column_names == tuple(variable.column for variable in find_variables(ADDED))
    assert (added.loaded.rows, added.loaded.replaced) == (before.loaded.rows, ())
    assert added.loaded.kept_columns == DEFAULT_COLUMNS
    for column, values in old.items():
        np.testing.assert_array_equal(loading.values(AUGUST, column)[column], values)
    for column, values in values_in_files(added, tmp_path, ADDED).items():
        np.testing.assert_allclose(loading.values(AUGUST, column)[column], values, rtol=1e-6, err_msg=column)
    other, part = loading.contents(AUGUST).parts
    assert other.column_names == DEFAULT_COLUMNS
    assert part.column_names == (*DEFAULT_COLUMNS, *added.flat.column_names)
    (addition,) = part.additions
    assert addition.columns == added.flat.column_names
    assert [file.sha256 for file in addition.files] == [file.sha256 for file in added.flat.raw.files]
    assert [file.sha256 for file in part.files] == [file.sha256 for file in before.flat.raw.files]
    assert (part.state, part.rows, part.has_summaries) == ("loaded", before.flat.rows, True)
    assert_monthly(loading.warehouse)
    before_it = part.of_columns(DEFAULT_COLUMNS)
    assert kept_columns(before_it, added.flat) == DEFAULT_COLUMNS
    # Real values are not put beside generated ones.
    assert kept_columns(before_it, replace(added.flat, raw=replace(added.flat.raw, source="cds"))) == ()
    # A repeated load is recognised, whichever of the two it repeats.
    for variables in (ADDED, None):
        again = loading.load(AUGUST, variables=variables)
        assert (again.loaded.changed, again.loaded.confirmed, again.loaded.columns_changed) == (False, False, ())
    assert unchanged_months(loading.settings(variables=ADDED), loading.warehouse, (AUGUST,)) == {AUGUST}
    # One of the loads again, by force, leaves the columns of the other; all of them in one load are one again.
    assert loading.load(AUGUST, force=True).loaded.kept_columns == added.flat.column_names
    assert len(loading.contents(AUGUST).parts[1].additions) == 1
    loading.load(AUGUST, variables=f"default,{ADDED}")
    (_, part) = loading.contents(AUGUST).parts
    assert (part.additions, len(part.columns)) == ((), 9)


def test_a_load_that_fails_after_its_rows_leaves_the_month_as_it_was_and_can_be_repeated(loading: Loading) -> None:
    loading.load(AUGUST)
    with loading.warehouse.connect() as connection:
        connection.execute("ALTER TABLE era5.ledger ADD CONSTRAINT refused CHECK (jsonb_array_length(additions) = 0)")
        with pytest.raises(Era5Error, match="refused"):
            loading.load(AUGUST, variables="u100")
        assert loading.contents(AUGUST).column_names == DEFAULT_COLUMNS
        assert np.isnan(loading.values(AUGUST, "u100")["zonal_wind_100m"]).all()
        assert np.isfinite(loading.values(AUGUST, "t2m")["temperature_2m"]).all()
        connection.execute("ALTER TABLE era5.ledger DROP CONSTRAINT refused")
    assert loading.load(AUGUST, variables="u100").loaded.kept_columns == DEFAULT_COLUMNS
    assert np.isfinite(loading.values(AUGUST, "u100")["zonal_wind_100m"]).all()


def test_variables_are_not_added_where_rows_differ(loading: Loading) -> None:
    loading.load(AUGUST, sample_hours=48, allow_incomplete=True)
    for values in ({}, {"area": "-5/106/-5.5/107"}):
        with pytest.raises(RefusedError, match="would lose the variables temperature_2m") as raised:
            loading.load(AUGUST, variables="u100", **values)
    assert "--variables default,u100" in raised.value.remedy
    with pytest.raises(RefusedError) as raised:
        loading.load(AUGUST, variables="t2m,u100", sample_hours=48, allow_incomplete=True)
    assert "Ask for the new ones alone, and they are added to the rows (--variables u100)" in raised.value.remedy
    with loading.warehouse.connect() as connection:
        connection.execute("DELETE FROM weather WHERE location_id = %s", (PLACE.location_id,))
    with pytest.raises(WarehouseError, match=r"holds 1,152 rows of these places, and the ledger says 1,200"):
        loading.load(AUGUST, variables="u100", sample_hours=48, allow_incomplete=True)
    assert loading.contents(AUGUST).column_names == DEFAULT_COLUMNS


def test_added_variables_alone_are_requested_and_a_revision_requests_all(loading: Loading, server: CdsServer) -> None:
    month, later = Month(2026, 8), datetime(2026, 12, 20, 12, tzinfo=UTC)
    options: dict[str, Any] = {"source": "cds", "cds_poll_seconds": 0.01, "cds_retry_seconds": 0.01}
    server.final_until = datetime(2026, 6, 30, 23, tzinfo=UTC)
    loading.load(month, **options)
    loading.load(month, **options, variables="d2m")
    assert server.submissions[-1]["variable"] == ["2m_dewpoint_temperature"]
    (update,) = revisions(loading.settings(**options), [loading.contents(month)], later)
    assert find_variables(update.overrides["variables"]) == find_variables("default,d2m")
    server.final_until = datetime(2026, 9, 30, 23, tzinfo=UTC)
    loading.load(month, **(options | dict(update.overrides)))
    (part,) = loading.contents(month).parts
    assert (part.version, len(part.columns), part.additions) == ("final", 7, ())


@pytest.mark.usefixtures("server")
def test_variables_of_own_files_are_added_to_rows_of_a_service(loading: Loading, point_series: Path) -> None:
    month, place = Month(2024, 2), ERA5_GRID.nearest_location(48.75, 2.25)
    loading.load(month, source="cds", area="48.75/2.25/48.75/2.25", cds_poll_seconds=0.01)
    old = loading.values(month, "default", place)
    paris = str(point_series / "paris-2024-nc-zip")
    loading.load(month, source="files", files_dir=paris, area=None, variables="d2m,sp")
    new = loading.values(month, "default,d2m,sp", place)
    for column, values in old.items():
        np.testing.assert_array_equal(new[column], values)
    assert np.isfinite(new["dewpoint_2m"]).all()
    contents = loading.contents(month)
    (part,) = contents.parts
    assert (part.source, contents.sources) == ("cds", ("cds", "files"))
    # Neither the final version of the rows nor that of the files, which state none.
    assert (part.version, part.of_columns(DEFAULT_COLUMNS).version) == ("unknown", "final")
    with loading.warehouse.connect() as connection:
        assert connection.execute("SELECT sources FROM era5.month").fetchall() == [("cds, files",)]


def test_real_files_with_other_variables_are_asked_for_by_name(
    loading: Loading, point_series: Path, era5_samples: Path, tmp_path: Path
) -> None:
    paris = point_series / "paris-2024-nc-zip" / "era5_2024.zip"
    options: dict[str, Any] = {"source": "files", "area": None}
    loading.load(
        Month(2024, 2), files_dir=str(paris), variables="default,d2m,sp".replace("default", "t2m,u10,v10"), **options
    )
    norway = era5_samples / "norway-2018-10-packed"
    loading.load(Month(2018, 10), files_dir=str(norway), variables="t2m,tp,d2m", **options)
    loading.load(Month(2024, 3), files_dir=str(paris), **options)
    # The asset's metadata also name the variables that a load without a list leaves out.
    result = run_raw(loading.settings(files_dir=str(paris), **options), Month(2024, 3))
    assert {"dewpoint_2m", "surface_pressure"} <= set(result.besides)
    assert "dewpoint_2m" in str(raw_metadata(result)["not loaded"].value)
    named = run_raw(loading.settings(files_dir=str(paris), variables="all", **options), Month(2024, 3))
    assert named.besides == ()
    place = ERA5_GRID.nearest_location(48.75, 2.25)
    (file,) = unpacked(paris, tmp_path)
    known = {**VARIABLES, **OTHER_VARIABLES}
    with netCDF4.Dataset(file) as dataset:
        times: Any = netCDF4.num2date(dataset["valid_time"][:], dataset["valid_time"].units)
        inside = np.array([time.month == 2 for time in times])
        for name in ("t2m", "u10", "v10", "d2m", "sp"):
            column, _, _, scale, offset = known[name]
            expected = dataset[name][:][inside].astype(np.float64) * scale + offset
            actual = loading.values(Month(2024, 2), name, place)[column]
            np.testing.assert_allclose(actual, expected, rtol=1e-6, err_msg=name)
    assert loading.contents(Month(2024, 3)).column_names == ("temperature_2m", "zonal_wind_10m", "meridional_wind_10m")
    assert np.isnan(loading.values(Month(2024, 3), "d2m", place)["dewpoint_2m"]).all()
