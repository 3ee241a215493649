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
from era5_pipeline.defs.metadata import column_schema
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.warehouse.layouts.layout import weather_table
from era5_pipeline_tests.commands import BIN, ROOT, Home, environment

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.model.dataset import Dataset

PACKAGE = ROOT / "era5_pipeline"


def assets_of(folder: str) -> dict[str, tuple[set[str], str, set[str], dict[str, bool]]]:
    """By asset of a data set: upstream assets, group, kinds, and checks with whether they block."""
    return {
        f"{folder}/raw": (
            set(),
            folder,
            {"netcdf"},
            {"grid_aligned": True, "variables_present": True, "hours_complete": True},
        ),
        f"{folder}/flat": (
            {f"{folder}/raw"},
            folder,
            {"xarray", "dask", "parquet"},
            {"values_within_bounds": True, "no_missing_values": True},
        ),
        f"{folder}/weather": (
            {f"{folder}/flat"},
            folder,
            # An embedded server has no TimescaleDB, and which one a URL leads to is not known before a load.
            {"postgres"},
            {"rows_equal": False, "columns_equal": False},
        ),
    }


# By the suffix of its jobs: each data set, the folder of its keys, and the year of its first month.
DATASETS_IN_DAGSTER = (("", ERA5, "era5", 1940), ("_era5_land", ERA5_LAND, "era5_land", 1950))


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
    assert found == assets_of("era5") | assets_of("era5_land")
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
    found = dg.Definitions([*assets.ASSETS, *assets.lake_assets()], resources=dict(defs.resources or {}))
    with dg.DagsterInstance.ephemeral():  # otherwise Dagster asks the process's last instance, which may be gone
        graph = found.resolve_asset_graph()
    keys = {key.to_user_string() for key in graph.get_all_asset_keys()}
    for _, dataset, folder, _ in DATASETS_IN_DAGSTER:
        assert (f"{folder}/lake" in keys) == (lake is not None)
        if lake is not None:
            node = graph.get(dg.AssetKey([folder, "lake"]))
            assert {parent.to_user_string() for parent in node.parent_keys} == {f"{folder}/flat"}
            assert not node.is_materializable
            assert node.partitions_def == assets.months_of(dataset)


@pytest.mark.parametrize(("suffix", "dataset", "folder", "year"), DATASETS_IN_DAGSTER)
def test_jobs_and_partitions(suffix: str, dataset: Dataset, folder: str, year: int) -> None:
    (job,) = [job for job in defs.jobs or () if job.name == f"load_month{suffix}"]
    assert job.description
    resolved = defs.resolve_job_def(job.name)
    assert {key.to_user_string() for key in resolved.asset_layer.executable_asset_keys} == set(assets_of(folder))
    assert resolved.executor_def is dg.in_process_executor
    assert defs.resolve_job_def(f"load_months{suffix}").executor_def is dg.in_process_executor
    partitions = resolved.partitions_def
    assert isinstance(partitions, dg.MonthlyPartitionsDefinition)
    keys = partitions.get_partition_keys()
    now = datetime.now(tz=UTC)
    assert keys[0] == f"{year}-01-01"
    assert keys[-1] == f"{now:%Y-%m}-01"
    assert len(keys) == (now.year - year) * 12 + now.month
    graph = defs.resolve_asset_graph()
    for key in assets.AssetKeys.of(dataset)[:3]:
        assert graph.get(key).is_materializable
        assert graph.get(key).partitions_def == partitions


def test_each_data_set_has_its_schedules_and_the_lake_one() -> None:
    assert set(defs.resources or {}) == {"era5"}
    kinds = ("monthly_update", "revise_preliminary", "current_month_daily")
    wanted = {f"{kind}{suffix}": f"load_month{suffix}" for suffix, *_ in DATASETS_IN_DAGSTER for kind in kinds}
    schedules = {schedule.name: schedule.job_name for schedule in defs.get_repository_def().schedule_defs}
    assert schedules == wanted | {"lake_upkeep": "clean_lake"}


@pytest.mark.parametrize(("dataset", "folder"), [(one, folder) for _, one, folder, _ in DATASETS_IN_DAGSTER])
def test_column_schema_is_the_same_as_in_the_table(dataset: Dataset, folder: str) -> None:
    ddl = weather_table(SQL(""), dataset).as_string().replace('"', "")
    body = ddl[ddl.index("(") + 1 : ddl.rindex(")")]
    wanted = re.findall(r"^\s*(\w+)\s+(\w+)( NOT NULL)?,?$", body, flags=re.MULTILINE)
    schema, defaults = column_schema(dataset), dataset.catalogue.default_variables
    columns = [(c.name, c.type, " NOT NULL" if not c.constraints.nullable else "") for c in schema.columns]
    assert columns == wanted
    assert len(columns) == 4 + len(defaults)
    assert all(column.description for column in schema.columns)
    assert f"latitude_index * {dataset.grid.columns} +" in (schema.columns[1].description or "")
    for variable, column in zip(defaults, schema.columns[4:], strict=True):
        assert column.name == variable.column
        assert f"[{variable.unit}]" in (column.description or "")
        assert column.constraints.other == [f"{variable.minimum:g} <= value <= {variable.maximum:g}"]
    graph = defs.resolve_asset_graph()
    for name in ("flat", "weather"):
        metadata = graph.get(dg.AssetKey([folder, name])).metadata
        assert metadata["dagster/column_schema"] == schema
    assert graph.get(dg.AssetKey([folder, "weather"])).metadata["dagster/table_name"] == dataset.table


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
    launched = dg_command(home, "launch", "--assets", "group:era5", "--partition", "2023-07-01")
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
