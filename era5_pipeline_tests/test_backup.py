"""Backup and restore as docs/backup.md has them: the commands there, into new databases, and loads that go on."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import DAGSTER_SUFFIX, Warehouse
from era5_pipeline.postgres.embedded.processes import binaries
from era5_pipeline.postgres.urls import database_of, with_database
from era5_pipeline.runtime.compiled import is_available
from era5_pipeline.warehouse.layouts import batch_load
from era5_pipeline_tests.commands import ROOT, InProcess
from era5_pipeline_tests.flat_months import rows_of_table
from era5_pipeline_tests.pipelines import SMALL, dagster_dropped
from era5_pipeline_tests.servers import fresh_database

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.warehouse.layouts.batches import BatchReader
    from era5_pipeline_tests.servers import Host

LOAD = ("load", "--source", SMALL["source"], "--area", SMALL["area"])


def commands_of(title: str) -> str:
    """The block of commands in the documentation that begins with this comment."""
    text = (ROOT / "docs" / "backup.md").read_text(encoding="utf-8")
    (found,) = re.findall(rf"```bash\n# {re.escape(title)}\n(.*?)```", text, flags=re.DOTALL)
    return str(found)


def run(title: str, folder: Path, **urls: str) -> str:
    programs = binaries()
    if shutil.which("pg_dump", path=str(programs)) is None:
        pytest.skip(f"no pg_dump in {programs}")
    environment = os.environ | {"PATH": f"{programs}{os.pathsep}{os.environ['PATH']}"} | urls
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", commands_of(title)],
        env=environment, cwd=folder, capture_output=True, text=True, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def checksum(url: str) -> tuple[object, ...]:
    with psycopg.connect(url) as connection:
        row = connection.execute(
            "SELECT count(*), sum(location_id), sum(temperature_2m::numeric), min(time), max(time) FROM weather"
        ).fetchone()
    assert row is not None
    return row


def test_a_restored_warehouse_is_the_same_and_is_loaded_on(
    host: Host, host_url: str, warehouse: Warehouse, tmp_path: Path, here: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = warehouse.url
    as_batches = []
    read = batch_load.read_batches

    def read_batches(*given: Any) -> BatchReader:
        as_batches.append(str(given[2]))
        return read(*given)

    monkeypatch.setattr(batch_load, "read_batches", read_batches)
    with ExitStack() as stack:
        by_rows = stack.enter_context(fresh_database(host_url))
        for one in (url, by_rows):
            stack.enter_context(dagster_dropped(one))
        with monkeypatch.context() as patch:
            here.set(ERA5_DATABASE_URL=by_rows)
            patch.setenv("ERA5_BATCHES", "off")
            here.run(*LOAD, "--from", "2023-01", "--to", "2023-02")
            assert as_batches == []
        here.set(ERA5_DATABASE_URL=url)
        here.run(*LOAD, "--from", "2023-01", "--to", "2023-02")
        if host.layout == "columnstore" and is_available() and Settings().batches == "auto":
            assert sorted(as_batches) == ["2023-01", "2023-02"]
        before, status = checksum(url), here.run("status", "--json").json()
        run("backup", tmp_path, WAREHOUSE=url, DAGSTER=with_database(url, database_of(url) + DAGSTER_SUFFIX))

        restored, dagster = (stack.enter_context(fresh_database(host_url)) for _ in range(2))
        kind = "PostgreSQL" if host.license is None else "TimescaleDB"
        run(f"restore: {kind}", tmp_path, NEW_WAREHOUSE=restored, NEW_DAGSTER=dagster)
        assert run("check", tmp_path, NEW_WAREHOUSE=restored).strip() == ""
        assert checksum(restored) == before
        assert rows_of_table(Warehouse(restored)) == rows_of_table(Warehouse(by_rows))
        here.set(ERA5_DATABASE_URL=restored, ERA5_DAGSTER_DATABASE_URL=dagster)
        assert [month["month"] for month in here.run("status", "--json").json()] == [one["month"] for one in status]

        results = here.run(*LOAD, "--from", "2023-02", "--to", "2023-03", "--json").json()
        assert [(one["month"], one["state"]) for one in results] == [("2023-02", "unchanged"), ("2023-03", "loaded")]
        here.run(*LOAD, "--from", "2023-01", "--force")
        assert run("check", tmp_path, NEW_WAREHOUSE=restored).strip() == ""
        # A row that is lost shows.
        with psycopg.connect(restored) as connection:
            connection.execute("DELETE FROM weather WHERE time = '2023-03-01 00:00Z'")
        assert "2023-03-01" in run("check", tmp_path, NEW_WAREHOUSE=restored)
