"""Fixtures: a test server for each module, and a source that uses it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.sources.cds.source_under_test import TODAY, SourceUnderTest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdsServer]:
    with CdsServer(tmp_path_factory.mktemp("cds"), today=TODAY) as server:
        yield server


@pytest.fixture
def cds(running: CdsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceUnderTest:
    running.reset(today=TODAY)
    monkeypatch.setenv("CDSAPI_URL", running.url)
    monkeypatch.setenv("CDSAPI_KEY", running.key)
    monkeypatch.setenv("CDSAPI_RC", str(tmp_path / "none"))
    return SourceUnderTest(running, tmp_path / "cds")
