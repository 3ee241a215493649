"""A run as in a pod of Dagster's Helm chart: storages of dagster-postgres, and a launcher that is not installed."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING

import dagster as dg
import psycopg
import yaml
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.definitions.reconstruct import ReconstructableRepository
from dagster._grpc.types import ExecuteRunArgs

from era5_pipeline.definitions import defs
from era5_pipeline_tests.commands import BIN, ROOT, environment
from era5_pipeline_tests.pipelines import SMALL
from era5_pipeline_tests.servers import fresh_database

if TYPE_CHECKING:
    from pathlib import Path

JOB = ReconstructableRepository(ModuleCodePointer("era5_pipeline.definitions", "defs", None)).get_reconstructable_job(
    "load_month"
)
STORAGES = {
    "run_storage": ("dagster_postgres.run_storage", "PostgresRunStorage"),
    "event_log_storage": ("dagster_postgres.event_log", "PostgresEventLogStorage"),
    "schedule_storage": ("dagster_postgres.schedule_storage", "PostgresScheduleStorage"),
}


def test_run_code_needs_neither_our_storage_nor_the_launcher(server_url: str, tmp_path: Path) -> None:
    values = yaml.safe_load((ROOT / "docker" / "kubernetes" / "values.yaml").read_text())
    with fresh_database(server_url) as warehouse, fresh_database(server_url) as of_dagster:
        configuration = {
            **{
                name: {"module": module, "class": class_, "config": {"postgres_url": of_dagster}}
                for name, (module, class_) in STORAGES.items()
            },
            "run_launcher": {"module": "dagster_k8s", "class": "K8sRunLauncher", "config": {}},
            "compute_logs": {
                "module": "dagster._core.storage.noop_compute_log_manager",
                "class": "NoOpComputeLogManager",
            },
            "telemetry": {"enabled": False},
            **values["additionalInstanceConfig"],
            "run_coordinator": values["dagsterDaemon"]["runCoordinator"]["config"]["customRunCoordinator"],
        }
        (tmp_path / "dagster.yaml").write_text(yaml.safe_dump(configuration))
        with dg.DagsterInstance.from_config(str(tmp_path)) as instance:
            origin = JOB.get_python_origin()
            run = instance.create_run_for_job(
                defs.resolve_job_def("load_month"),
                run_config={"resources": {"era5": {"config": SMALL}}},
                tags={"dagster/partition": "2020-02-01"},
                job_code_origin=origin,
            )
            # The command that K8sRunLauncher gives to a pod.
            program, *arguments = ExecuteRunArgs(origin, run.run_id, instance_ref=None).get_command_args()
            settings = {"DAGSTER_HOME": str(tmp_path), "ERA5_DATABASE_URL": warehouse}
            done = subprocess.run(
                [str(BIN / program), *arguments],
                env=environment(tmp_path / "home", **settings),
                cwd=tmp_path,
                capture_output=True,
                text=True,
                check=False,
                timeout=600,
            )
            assert done.returncode == 0, done.stderr[-3000:]
            (ended,) = instance.get_runs()
            assert ended.status is dg.DagsterRunStatus.SUCCESS, done.stdout[-3000:] + done.stderr[-3000:]
        with psycopg.connect(warehouse) as connection:
            assert connection.execute("SELECT count(*) FROM weather").fetchone() == (696 * 9,)
