"""The Dagster definitions: keys, groups, checks, jobs, partitions."""

from __future__ import annotations

import re
import shutil
import subprocess
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import dagster as dg
import pytest
from psycopg.sql import SQL

from era5_pipeline.definitions import defs
from era5_pipeline.defs import assets
from era5_pipeline.defs.metadata import COLUMN_SCHEMA
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.warehouse.layouts.layout import weather_table
from era5_pipeline_tests.commands import BIN, ROOT, Home, environment

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "era5_pipeline"
# By asset: upstream assets, group, kinds, and checks with whether they block.
ASSETS = {
    "era5/raw": (set(), "era5", {"netcdf"}, {"grid_aligned": True, "variables_present": True, "hours_complete": True}),
    "era5/flat": (
        {"era5/raw"},
        "era5",
        {"xarray", "dask", "parquet"},
        {"values_within_bounds": True, "no_missing_values": True},
    ),
    "era5/weather": (
        {"era5/flat"},
        "era5",
        # An embedded server has no TimescaleDB, and which one a URL leads to is not known before a load.
        {"postgres"},
        {"rows_equal": False, "columns_equal": False},
    ),
}


def test_a_code_server_can_load_all_definitions() -> None:
    """As it does when it starts: names of ops, graphs and jobs are unique."""
    defs.get_repository_def().load_all_definitions()


def test_assets() -> None:
    graph = defs.resolve_asset_graph()
    found = {}
    for key in graph.get_all_asset_keys():
        node = graph.get(key)
        checks = {check.name: graph.get_check_spec(check).blocking for check in node.check_keys}
        kinds = {tag.removeprefix("dagster/kind/") for tag in node.tags if tag.startswith("dagster/kind/")}
        parents = {parent.to_user_string() for parent in node.parent_keys}
        found[key.to_user_string()] = (parents, node.group_name, kinds, checks)
        assert list(node.owners) == ["team:era5"]
        assert node.description
    assert found == ASSETS
    assert all(graph.get_check_spec(key).description for key in graph.asset_check_keys)


@pytest.mark.parametrize("lake", [None, "lake"])
def test_the_asset_of_the_lake_is_there_if_one_is_set(
    lake: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ERA5_HOME", str(tmp_path))
    if lake is None:
        monkeypatch.delenv("ERA5_LAKE", raising=False)
    else:
        monkeypatch.setenv("ERA5_LAKE", str(tmp_path / lake))
    found = dg.Definitions([assets.flat, *assets.lake_assets()], resources=dict(defs.resources or {}))
    with dg.DagsterInstance.ephemeral():  # otherwise Dagster asks the process's last instance, which may be gone
        graph = found.resolve_asset_graph()
    keys = {key.to_user_string() for key in graph.get_all_asset_keys()}
    assert ("era5/lake" in keys) == (lake is not None)
    if lake is not None:
        node = graph.get(dg.AssetKey(["era5", "lake"]))
        assert {parent.to_user_string() for parent in node.parent_keys} == {"era5/flat"}
        assert not node.is_materializable
        assert node.partitions_def == assets.MONTHS


def test_jobs_and_schedules() -> None:
    (job,) = [job for job in defs.jobs or () if job.name == "load_month"]
    assert job.description
    resolved = defs.resolve_job_def("load_month")
    assert {key.to_user_string() for key in resolved.asset_layer.executable_asset_keys} == set(ASSETS)
    assert resolved.executor_def is dg.in_process_executor
    assert set(defs.resources or {}) == {"era5"}


def test_partitions_are_the_months_of_era5() -> None:
    partitions = defs.resolve_job_def("load_month").partitions_def
    assert isinstance(partitions, dg.MonthlyPartitionsDefinition)
    keys = partitions.get_partition_keys()
    now = datetime.now(tz=UTC)
    assert keys[0] == "1940-01-01"
    assert keys[-1] == f"{now:%Y-%m}-01"
    assert len(keys) == (now.year - 1940) * 12 + now.month
    for node in defs.resolve_asset_graph().asset_nodes:
        assert node.is_materializable
        assert node.partitions_def == partitions


def test_column_schema_is_the_same_as_in_the_table() -> None:
    ddl = weather_table(SQL("")).as_string().replace('"', "")
    body = ddl[ddl.index("(") + 1 : ddl.rindex(")")]
    wanted = re.findall(r"^\s*(\w+)\s+(\w+)( NOT NULL)?,?$", body, flags=re.MULTILINE)
    columns = [(c.name, c.type, " NOT NULL" if not c.constraints.nullable else "") for c in COLUMN_SCHEMA.columns]
    assert columns == wanted
    assert len(columns) == 10
    assert all(column.description for column in COLUMN_SCHEMA.columns)
    for variable, column in zip(DEFAULT_VARIABLES, COLUMN_SCHEMA.columns[4:], strict=True):
        assert column.name == variable.column
        assert f"[{variable.unit}]" in (column.description or "")
        assert column.constraints.other == [f"{variable.minimum:g} <= value <= {variable.maximum:g}"]
    graph = defs.resolve_asset_graph()
    for name in ("flat", "weather"):
        metadata = graph.get(dg.AssetKey(["era5", name])).metadata
        assert metadata["dagster/column_schema"] == COLUMN_SCHEMA


def dg_command(home: Home, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A copy of the project's files, because Dagster writes to the current folder."""
    project = home.path / "project"
    project.mkdir(exist_ok=True)
    for name in ("pyproject.toml", "dagster.yaml", "workspace.yaml"):
        shutil.copy(ROOT / name, project / name)
    if not (project / "era5_pipeline").exists():
        (project / "era5_pipeline").symlink_to(PACKAGE)
    return subprocess.run(
        [BIN / "dg", *arguments],
        cwd=project,
        env=environment(home.path, ERA5_SOURCE="sample"),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )


def test_dg_check_passes(home: Home) -> None:
    checked = dg_command(home, "check", "defs")
    assert checked.returncode == 0, checked
    said = checked.stdout + checked.stderr
    assert "All definitions loaded successfully" in said
    assert "warning" not in said.lower()


def test_dg_launches_a_month(home: Home) -> None:
    launched = dg_command(home, "launch", "--assets", "*", "--partition", "2023-07-01")
    assert launched.returncode == 0, launched.stderr
    log = launched.stdout + launched.stderr
    assert log.count("ASSET_MATERIALIZATION - ") == 3
    assert "RUN_SUCCESS" in log
    assert not home.server.is_running()
    with home.server.lease():
        assert home.ask("era5", "SELECT (month::text, state, source, rows)::text FROM era5.ledger") == (
            f"(2023-07-01,loaded,sample,{744 * 121})"
        )
        # Recorded like any other run, with no settings other than the home.
        assert home.ask("era5_dagster", "SELECT count(*) FROM runs WHERE status = 'SUCCESS'") == 1
