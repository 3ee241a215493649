"""Runs of the real assets on a real Dagster instance, each in its own database."""

from __future__ import annotations

import os
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
import psycopg
import pytest
from psycopg import sql

from era5_pipeline.defs.instance.open_instance import open_instance
from era5_pipeline.defs.runner import MonthRun, run_month
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import DAGSTER_SUFFIX, Warehouse
from era5_pipeline.postgres.urls import database_of, with_database
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.servers import database_copy, fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

# Small and fast: 3 x 3 points.
SMALL = {"source": "sample", "area": "-6/106/-6.5/106.5"}


@dataclass(frozen=True)
class Pipeline:
    """A warehouse, and the Dagster instance beside it."""

    home: Path
    url: str
    instance: dg.DagsterInstance

    def run(self, month: str, **overrides: object) -> MonthRun:
        return run_month(self.instance, Month.parse(month), overrides=overrides)

    def events(self, run: MonthRun, kind: dg.DagsterEventType) -> list[dg.DagsterEvent]:
        entries = self.instance.all_logs(run.run_id, of_type=kind)
        return [entry.dagster_event for entry in entries if entry.dagster_event is not None]

    def materialized(self, run: MonthRun) -> dict[str, dict[str, Any]]:
        """Read the metadata that Dagster stored, by the last part of the asset's key; see `plain`."""
        found = {}
        for event in self.events(run, dg.DagsterEventType.ASSET_MATERIALIZATION):
            assert event.asset_key is not None
            metadata = event.step_materialization_data.materialization.metadata
            found[event.asset_key.path[-1]] = plain(metadata)
        return found

    def checks(self, run: MonthRun) -> dict[str, bool]:
        """Whether each asset check passed, by name."""
        evaluations = [
            event.asset_check_evaluation_data for event in self.events(run, dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        ]
        return {evaluation.check_name: evaluation.passed for evaluation in evaluations}

    def attempts(self, run: MonthRun, stage: str) -> int:
        """Count how often the step was started."""
        kinds = (dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_RESTARTED)
        return sum(event.step_key == f"era5__{stage}" for kind in kinds for event in self.events(run, kind))

    def rows(self, month: str) -> int:
        """Count the month's rows in the table; 0 if there is no table."""
        begin = Month.parse(month)
        with Warehouse(self.url).connect() as connection:
            if connection.execute("SELECT to_regclass('weather')").fetchone() == (None,):
                return 0
            query = "SELECT count(*) FROM weather WHERE time >= %s AND time < %s"
            row = connection.execute(query, (begin.start, begin.end)).fetchone()
            return int(row[0]) if row else 0

    def entry(self, month: str) -> LedgerEntry | None:
        """Read the entry of the month's only part; None if it has no parts."""
        with Warehouse(self.url).connect() as connection:
            return next(
                (held.parts[0] for held in read_ledger(connection) if str(held.month) == month and held.parts), None
            )

    def held(self, month: str) -> LedgerEntry:
        """Read this entry of a month that has one."""
        entry = self.entry(month)
        assert entry is not None
        return entry


def plain(metadata: Mapping[str, Any]) -> dict[str, Any]:
    """The values by name, those of the entry "technical" among them."""
    found: dict[str, Any] = {name: value.value for name, value in metadata.items()}
    technical: dict[str, Any] = found.pop("technical", {})
    assert found.keys().isdisjoint(technical)
    return found | technical


@contextmanager
def dagster_dropped(url: str) -> Iterator[None]:
    """Drop Dagster's database, which is beside the database of the URL, at the end of the context."""
    try:
        yield
    finally:
        name = database_of(url) + DAGSTER_SUFFIX
        with psycopg.connect(with_database(url, "postgres"), autocommit=True) as connection:
            connection.execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))


@contextmanager
def settings_of(home: Path, url: str, **env: str) -> Iterator[None]:
    """Set the environment of a user: home, warehouse and `env`, without other settings of the pipeline."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith(("ERA5_", "DAGSTER_"))]:
            patch.delenv(name)
        for name, value in {"ERA5_HOME": str(home), "ERA5_DATABASE_URL": url, **env}.items():
            patch.setenv(name, value)
        patch.chdir(home)
        yield


def create_dagster_tables(url: str) -> None:
    """Create in a database what the first command that opens the instance does."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        with settings_of(home, url, ERA5_DAGSTER_DATABASE_URL=url), open_instance(home):
            pass


@contextmanager
def dagster_beside(server_url: str, url: str) -> Iterator[None]:
    """Have Dagster's tables beside the database of the URL in this context; creating them took longer than a month."""
    with database_copy(server_url, create_dagster_tables, name=database_of(url) + DAGSTER_SUFFIX):
        yield


@contextmanager
def new_pipeline(server_url: str, home: Path, **env: str) -> Iterator[Pipeline]:
    """Make a pipeline on a new database of the server; its months have no preview map."""
    with (
        fresh_database(server_url) as url,
        dagster_beside(server_url, url),
        without_pictures(),
        settings_of(home, url, **env),
        open_instance(home) as instance,
    ):
        yield Pipeline(home, url, instance)
