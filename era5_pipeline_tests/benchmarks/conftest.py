"""The fixtures of the tests of whole suites."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.commands import InProcess, new_home

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[InProcess]:
    """Commands in this process, in a folder of their own, without programs that the machine may have beside its own."""
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    with new_home() as home:
        here = InProcess(capsys, monkeypatch, home.path)
        here.set(ERA5_HOME=str(home.path / "home"))
        yield here
