"""`query.api.open_database`: `era5.open`, what it imports, and what it does without a database."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

import era5_pipeline as era5
from era5_pipeline.postgres.urls import with_database
from era5_pipeline_tests.commands import ROOT, environment

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths


def run(code: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run Python in a process of its own, with these settings."""
    variables = environment(home, PYTHONPATH=str(ROOT))
    return subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env=variables,
        cwd=home,
        capture_output=True,
        text=True,
        check=False,
    )


def test_the_import_takes_nothing_that_is_slow(tmp_path: Path) -> None:
    """Nothing but the standard library: so it takes a few hundredths of a second."""
    code = (
        "import sys; before = set(sys.modules); import era5_pipeline as era5; "
        "found = {name.partition('.')[0] for name in set(sys.modules) - before} - set(sys.stdlib_module_names); "
        "print(sorted(found)); assert era5.Era5Error and callable(era5.open); "
        "heavy = {'dagster', 'matplotlib', 'pandas', 'xarray', 'dask'} & set(sys.modules); print(heavy)"
    )
    result = run(code, tmp_path)
    assert result.stdout.splitlines() == ["['era5_pipeline']", "set()"], result.stderr


def test_all_names_are_there_and_no_others() -> None:
    for name in era5.__all__:
        assert getattr(era5, name) is not None
    assert set(era5.__all__) <= set(dir(era5))
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        era5.opne  # noqa: B018


def test_nothing_is_created_without_a_database(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = tmp_path / "home"
    monkeypatch.setenv("ERA5_HOME", str(home))
    monkeypatch.delenv("ERA5_DATABASE_URL", raising=False)
    with pytest.raises(era5.NoDatabaseError, match="there is no database in"):
        era5.open()
    assert not home.exists()


def test_a_wrong_url_is_refused(server_url: str) -> None:
    with pytest.raises(era5.UsageError):
        era5.open("mysql://localhost/era5")
    with pytest.raises(era5.UsageError, match="a URL is text"):
        era5.open(7)  # type: ignore[arg-type]
    with pytest.raises(era5.ServerUnreachableError):
        era5.open("postgresql://user:secret@127.0.0.1:1/era5")
    with pytest.raises(era5.NoDatabaseError, match="no_such_database"):
        era5.open(with_database(server_url, "no_such_database"))


def test_the_settings_name_the_database(database_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ERA5_DATABASE_URL", database_url)
    with era5.open() as db:
        assert db.months().empty
        assert "closed" not in repr(db)
    assert "closed" in repr(db)
    db.close()
    with pytest.raises(era5.UsageError, match="the database is closed"):
        db.months()


def test_the_password_is_shown_nowhere(database_url: str) -> None:
    url = database_url + ("&" if "?" in database_url else "?") + "password=hunter2"
    with era5.open(url) as db:
        assert "hunter2" not in repr(db) + repr(vars(db))


def test_a_program_that_closes_nothing_leaves_no_server(tmp_path: Path, flat_months: FlatMonths) -> None:
    """An embedded server, started by `open`, is stopped when Python ends."""
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer
    from era5_pipeline.warehouse.load_month import load_month

    with open_warehouse(Settings(home=tmp_path, database_url=None), create=True) as warehouse:
        load_month(warehouse, flat_months("2023-07"))
    code = (
        "import era5_pipeline as era5; db = era5.open(); "
        "print(len(db.series(latitude=10.25, longitude=20.25, columns='t2m')))"
    )
    result = run(code, tmp_path)
    assert result.stdout == "744\n", result.stderr
    assert not EmbeddedServer(tmp_path).is_running()
