"""A fixture: the source `cds` on the test server of the folder above."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.sources.cds.source_under_test import TODAY, SourceUnderTest

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.cds_store import CdsServer


@pytest.fixture
def cds(running: CdsServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> SourceUnderTest:
    running.reset(today=TODAY)
    monkeypatch.setenv("CDSAPI_URL", running.url)
    monkeypatch.setenv("CDSAPI_KEY", running.key)
    monkeypatch.setenv("CDSAPI_RC", str(tmp_path / "none"))
    return SourceUnderTest(running, tmp_path / "cds")
