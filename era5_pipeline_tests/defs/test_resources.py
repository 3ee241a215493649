"""Settings that a run can override, and settings that it cannot."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.defs.resources import Era5Resource
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)  # no .env
    monkeypatch.setenv("ERA5_HOME", str(tmp_path))
    for name in Settings.model_fields.keys() - {"home"}:
        monkeypatch.delenv(f"ERA5_{name.upper()}", raising=False)


def test_every_field_is_a_setting_and_none_is_secret() -> None:
    fields = set(Era5Resource.model_fields)
    assert fields <= set(Settings.model_fields)
    # Settings of the machine, the service, the schedules, the queue or the server, not of a run.
    assert set(Settings.model_fields) - fields == {
        *("home", "store", "keep", "database_url", "dagster_database_url", "database_password_file"),
        *("lock_timeout_seconds", "dask_scheduler", "alert_url", "ui_url"),
        *("cds_poll_seconds", "cds_retry_seconds", "cds_patience_hours", "arco_url"),
        *("available_after_days", "revise_after_months", "order"),
        *("serve_connections", "serve_waiting_requests", "serve_wait_seconds", "serve_statement_seconds"),
        *("serve_values", "store_patience_seconds", "allowed_hosts"),
    }


def test_unset_fields_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("ERA5_SOURCE", "sample")
    monkeypatch.setenv("ERA5_AREA", "1/2/0/3")
    monkeypatch.setenv("ERA5_FORCE", "true")
    settings = Era5Resource().settings()
    assert (settings.home, settings.source, settings.area, settings.force) == (tmp_path, "sample", "1/2/0/3", True)
    assert settings.format == "parquet"


def test_set_fields_override_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERA5_SOURCE", "sample")
    monkeypatch.setenv("ERA5_FORCE", "true")
    resource = Era5Resource(source="files", files_dir="/data", format="csv", force=False, sample_hours=3)
    settings = resource.settings()
    assert (settings.source, settings.files_dir, settings.format) == ("files", "/data", "csv")
    assert (settings.force, settings.sample_hours) == (False, 3)


@pytest.mark.parametrize(("field", "value"), [("source", "cloud"), ("format", "xlsx"), ("sample_hours", 0)])
def test_invalid_field_is_named(field: str, value: str | int) -> None:
    with pytest.raises(UsageError, match=f"ERA5_{field.upper()}"):
        Era5Resource(**{field: value}).settings()  # type: ignore[arg-type]
