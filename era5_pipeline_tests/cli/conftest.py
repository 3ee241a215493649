"""Fixtures: each module's own `era5 up`, and commands on a running server, or on one of the CDS's protocol."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.backfills import Backfill, RunningUp, running_up
from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.commands import Home, InProcess, new_home
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.pipelines import dagster_beside
from era5_pipeline_tests.servers import fresh_warehouse

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.postgres.connect import Warehouse

# By the system clock, which commands use too.
NOW = datetime.now(tz=UTC)


@pytest.fixture(scope="module")
def up() -> Iterator[RunningUp]:
    with new_home() as home, running_up(home) as up:
        yield up


@pytest.fixture(scope="module")
def backfills() -> list[Backfill]:
    """Those that the tests launched."""
    return []


@pytest.fixture
def on_server(here: InProcess, embedded_warehouse: Warehouse, server_url: str) -> Iterator[InProcess]:
    """The command with a database on a running server, in which no month is loaded; it draws no preview maps."""
    here.set(ERA5_DATABASE_URL=embedded_warehouse.url)
    with dagster_beside(server_url, embedded_warehouse.url), without_pictures():
        yield here


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdsServer]:
    with CdsServer(tmp_path_factory.mktemp("cds"), today=NOW) as server:
        yield server


@pytest.fixture(scope="module")
def cds_home(tmp_path_factory: pytest.TempPathFactory) -> Home:
    return Home(tmp_path_factory.mktemp("home"))


@pytest.fixture(scope="module")
def url(server_url: str) -> Iterator[str]:
    """A database in which no month is loaded; months that are loaded in this process have no preview map."""
    with fresh_warehouse(server_url) as warehouse, dagster_beside(server_url, warehouse.url), without_pictures():
        yield warehouse.url


@pytest.fixture
def env(server: CdsServer, url: str) -> dict[str, str]:
    """Settings by which requests are sent to the test server."""
    server.reset(today=NOW)
    return {
        "ERA5_DATABASE_URL": url,
        "CDSAPI_URL": server.url,
        "CDSAPI_KEY": server.key,
        "ERA5_CDS_POLL_SECONDS": "0.05",
        "ERA5_CDS_RETRY_SECONDS": "0.05",
    }


@pytest.fixture
def era5(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, cds_home: Home, env: dict[str, str]
) -> InProcess:
    """The command with these settings."""
    here = InProcess(capsys, monkeypatch, cds_home.path)
    here.set(**env)
    return here
