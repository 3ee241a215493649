"""Limits come from the settings."""

from __future__ import annotations

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import read_settings
from era5_pipeline.serving.limits import ServingLimits


def test_the_defaults_of_the_settings_are_those_of_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("CONNECTIONS", "WAITING_REQUESTS", "WAIT_SECONDS", "STATEMENT_SECONDS", "VALUES"):
        monkeypatch.delenv(f"ERA5_SERVE_{name}", raising=False)
    assert ServingLimits.of(read_settings()) == ServingLimits()


def test_settings_are_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    given = {
        "CONNECTIONS": "3",
        "WAITING_REQUESTS": "4",
        "WAIT_SECONDS": "0.5",
        "STATEMENT_SECONDS": "6",
        "VALUES": "7",
    }
    for name, value in given.items():
        monkeypatch.setenv(f"ERA5_SERVE_{name}", value)
    expected = ServingLimits(connections=3, waiting_requests=4, wait_seconds=0.5, statement_seconds=6.0, values=7)
    assert ServingLimits.of(read_settings()) == expected
    with pytest.raises(UsageError, match="8 values, and the limit is 7"):
        expected.require_values(8)
    expected.require_values(7)


@pytest.mark.parametrize(("name", "value"), [("CONNECTIONS", "0"), ("WAIT_SECONDS", "-1"), ("VALUES", "many")])
def test_a_setting_that_is_no_limit_is_refused(monkeypatch: pytest.MonkeyPatch, name: str, value: str) -> None:
    monkeypatch.setenv(f"ERA5_SERVE_{name}", value)
    with pytest.raises(UsageError, match=f"ERA5_SERVE_{name}"):
        read_settings()
