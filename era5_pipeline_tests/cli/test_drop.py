"""`era5 drop`, and what `era5 load` says of the rows that it replaced: real files of two areas in one month."""

from __future__ import annotations

from typing import TYPE_CHECKING

import dagster as dg
import psycopg
import pytest
from dagster._core.storage.partition_status_cache import AssetPartitionStatus

from era5_pipeline.defs.assets import MONTHS, WEATHER
from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.model.errors import RefusedError, UsageError
from era5_pipeline.postgres.connect import DAGSTER_SUFFIX
from era5_pipeline.postgres.urls import database_of
from era5_pipeline_tests.commands import InProcess, assert_explained
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.pipelines import dagster_beside
from era5_pipeline_tests.real_months import GULF, TELANGANA_WEEK
from era5_pipeline_tests.servers import database_copy

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline_tests.real_months import RealMonths

SEPTEMBER = ("--from", "2023-09")


@pytest.fixture(scope="module")
def load_both(real_months: RealMonths) -> Callable[[str], None]:
    """What fills a database with both areas."""
    return real_months.loading(GULF.of("2023-09"), TELANGANA_WEEK)


@pytest.fixture
def two_areas(here: InProcess, server_url: str, load_both: Callable[[str], None]) -> Iterator[InProcess]:
    """The command with a copy of a database with both areas."""
    with database_copy(server_url, load_both) as url, dagster_beside(server_url, url):
        here.set(ERA5_DATABASE_URL=url)
        with without_pictures():
            yield here


def test_status_shows_both_areas(two_areas: InProcess) -> None:
    shown = two_areas.run("status").out
    assert "2 parts" in shown
    assert "26.5/50.5/24.5/52" in shown
    lacking = "zonal_wind_10m, meridional_wind_10m, total_precipitation at 2023-09-08T00 to 2023-09-30T23"
    assert f"2023-09 lacks {lacking}" in shown


def test_less_in_place_of_more_is_refused_with_what_would_be_lost(
    two_areas: InProcess, era5_samples: Path, tmp_path: Path
) -> None:
    accumulated = tmp_path / "tp"
    accumulated.mkdir()
    (file,) = (era5_samples / "telangana-2023-09").glob("*accum*")
    (accumulated / file.name).symlink_to(file)
    fewer = ("load", *SEPTEMBER, "--files-dir", str(accumulated), "--allow-incomplete")
    refused = two_areas.run(*fewer, code=RefusedError.exit_code)
    assert_explained(refused, "2023-09: the table holds more than the new files")
    assert "would lose the variables zonal_wind_10m, meridional_wind_10m" in refused.err
    assert "--replace" in refused.err
    (loaded,) = two_areas.run(*fewer, "--replace", "--json").json()
    (part,) = loaded["replaced"]
    assert (part["locations"], part["hours"], part["rows"], part["source"]) == (441, 168, 441 * 168, "files")
    assert part["columns"] == ["zonal_wind_10m", "meridional_wind_10m", "total_precipitation"]
    assert loaded["kept_locations"] == 63


def test_drop_shows_what_goes_and_asks(two_areas: InProcess) -> None:
    refused = two_areas.run("drop", *SEPTEMBER, code=UsageError.exit_code)
    assert "Traceback" not in refused.err
    assert (
        "2023-09  would remove 45,360 rows: 63 places (26.5/50.5/24.5/52), 720 hours of temperature_2m" in refused.err
    )
    assert "--yes" in refused.err
    assert len(two_areas.run("status", "--json").json()[0]["parts"]) == 2


def test_drop_removes_an_area_then_the_rest(two_areas: InProcess) -> None:
    (dropped,) = two_areas.run("drop", *SEPTEMBER, "--area", "26.5/50.5/25.5/52", "--yes", "--json").json()
    assert (dropped["month"], dropped["rows"], dropped["kept_locations"]) == ("2023-09", 35 * 720, 28 + 441)
    (month,) = two_areas.run("status", "--json").json()
    assert [part["locations"] for part in month["parts"]] == [28, 441]
    printed = two_areas.run("drop", *SEPTEMBER, "--yes")
    assert f"2023-09  removed {28 * 720 + 441 * 168:,} rows" in printed.out
    (month,) = two_areas.run("status", "--json").json()
    assert (month["state"], month["rows"], month["parts"]) == ("dropped", 0, [])
    # A year is all of its months.
    assert "nothing to remove" in two_areas.run("drop", "--from", "2022", "--to", "2023", "--yes").err
    assert two_areas.run("drop", *SEPTEMBER, "--yes", "--json").json() == []


def test_dagster_offers_a_month_without_rows_to_a_backfill_again(on_server: InProcess, era5_samples: Path) -> None:
    load = ("load", *SEPTEMBER, "--files-dir", str(era5_samples / "gulf-2023"))
    on_server.run(*load)
    with open_instance(on_server.home) as instance:

        def status() -> AssetPartitionStatus | None:
            return (instance.get_status_by_partition(WEATHER, ["2023-09-01"], MONTHS) or {})["2023-09-01"]

        on_server.run("drop", *SEPTEMBER, "--area", "26.5/50.5/25.5/52", "--yes")
        assert status() is AssetPartitionStatus.MATERIALIZED
        assert "warning" not in on_server.run("drop", *SEPTEMBER, "--yes").err
        assert status() is AssetPartitionStatus.FAILED
        (run,) = instance.get_runs(dg.RunsFilter(tags={"era5/dropped": "true"}))
        assert (run.status, run.tags["era5/month"]) == (dg.DagsterRunStatus.FAILURE, "2023-09")
        (entry,) = instance.all_logs(run.run_id, of_type=dg.DagsterEventType.RUN_FAILURE)
        assert entry.dagster_event is not None
        assert entry.dagster_event.message == "dropped by era5 drop"
        # It was meant: nothing failed.
        assert on_server.run("load", "--failed").out == "no month's last attempt failed\n"
        on_server.run(*load)
        assert status() is AssetPartitionStatus.MATERIALIZED


def test_without_dagster_nothing_is_recorded_and_nothing_is_created(
    here: InProcess, server_url: str, load_both: Callable[[str], None]
) -> None:
    with database_copy(server_url, load_both) as url:
        here.set(ERA5_DATABASE_URL=url)
        printed = here.run("drop", *SEPTEMBER, "--yes")
        assert "removed" in printed.out
        assert "warning" not in printed.err
        with psycopg.connect(server_url) as connection:
            found = "SELECT FROM pg_database WHERE datname = %s"
            assert connection.execute(found, (database_of(url) + DAGSTER_SUFFIX,)).fetchone() is None


def test_months_are_removed_though_dagster_cannot_record_it(two_areas: InProcess) -> None:
    two_areas.set(ERA5_DAGSTER_DATABASE_URL="postgresql://me@127.0.0.1:9/nowhere")
    printed = two_areas.run("drop", *SEPTEMBER, "--yes")
    assert "removed" in printed.out
    assert "warning: the months are removed, but Dagster's web UI still shows them as loaded" in printed.err
