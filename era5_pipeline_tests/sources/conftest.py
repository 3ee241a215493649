"""Fixtures: a test server for each module, and the sources `cds` and `point` on it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
import time_machine

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.runtime.file_store import LOCAL, FileStore
from era5_pipeline.sources.cds.retry_policy import RetrySettings
from era5_pipeline.sources.point import PointSource
from era5_pipeline.sources.source import Request
from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.sources.cds.source_under_test import TODAY, SourceUnderTest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Location

MEKONG = ERA5_GRID.nearest_location(10.75, 106.25)


@dataclass
class PointUnderTest:
    """Opens the source on a server; `said` and `slept` are what it said, and the seconds that it would have slept."""

    server: CdsServer
    home: Path
    said: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    file_store: FileStore = LOCAL

    def source(
        self,
        *places: Location,
        names: tuple[str, ...] | None = ("temperature_2m",),
        refetch: bool = False,
        dataset: Dataset = ERA5,
        **more: Any,
    ) -> PointSource:
        variables = None if names is None else dataset.catalogue.in_table_order(names)
        retries = RetrySettings(**{"poll_seconds": 60.0, "retry_seconds": 30.0, "sleep": self.slept.append, **more})
        request = Request(variables, points=places or (MEKONG,), dataset=dataset)
        return PointSource(self.home, request, refetch, retries, self.said.append, self.file_store)


@pytest.fixture(scope="package")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdsServer]:
    with CdsServer(tmp_path_factory.mktemp("cds"), today=TODAY) as server:
        yield server


@pytest.fixture
def service(running: CdsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CdsServer:
    """The server, without faults and answers of other tests, and an environment that names it."""
    running.reset(today=TODAY)
    monkeypatch.setenv("CDSAPI_URL", running.url)
    monkeypatch.setenv("CDSAPI_KEY", running.key)
    monkeypatch.setenv("CDSAPI_RC", str(tmp_path / "none"))
    return running


@pytest.fixture
def cds(service: CdsServer, tmp_path: Path) -> SourceUnderTest:
    return SourceUnderTest(service, tmp_path / "cds")


@pytest.fixture
def point(service: CdsServer, tmp_path: Path) -> Iterator[PointUnderTest]:
    with time_machine.travel(TODAY):
        yield PointUnderTest(service, tmp_path / "home")
