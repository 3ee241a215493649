"""The launcher of containers, as far as no engine is needed: configuration, settings passed on, errors.

Containers themselves are in `test_docker.py`.
"""

from __future__ import annotations

from typing import Any

import dagster as dg
import pytest
import yaml
from dagster._core.code_pointer import ModuleCodePointer
from dagster._core.launcher import LaunchRunContext
from dagster._core.launcher.base import WorkerStatus
from dagster._core.origin import JobPythonOrigin, RepositoryPythonOrigin
from dagster._serdes import ConfigurableClassData

from era5_pipeline.defs.instance.container_launcher import ContainerRunLauncher
from era5_pipeline.model.errors import Era5Error
from era5_pipeline_tests.commands import ROOT

ENVIRONMENT = {
    "STACK_RUN_CODE_SERVER": "era5-code",
    "STACK_RUN_NETWORK": "era5",
    "STACK_RUN_MEMORY": "1536m",
    "STACK_RUN_CPUS": "1.5",
}
ORIGIN = JobPythonOrigin("load_month", RepositoryPythonOrigin("python", ModuleCodePointer("here", "defs", None)))


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name, value in ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("DOCKER_HOST", "tcp://127.0.0.1:1")  # nobody listens there
    return monkeypatch


def configured() -> ContainerRunLauncher:
    """The launcher as Dagster makes it from the configuration of containers."""
    given = yaml.safe_load((ROOT / "docker" / "dagster-docker.yaml").read_text())["run_launcher"]
    made: Any = ConfigurableClassData(given["module"], given["class"], yaml.safe_dump(given["config"])).rehydrate(
        as_type=ContainerRunLauncher
    )
    assert isinstance(made, ContainerRunLauncher)
    return made


def test_a_run_gets_the_limits_and_volumes_of_the_configuration() -> None:
    context = configured().get_container_context(dg.DagsterRun("load_month"))
    assert context.networks == ["era5"]
    shown = {name: context.container_kwargs[name] for name in ("mem_limit", "nano_cpus", "volumes_from", "auto_remove")}
    assert shown == {
        "mem_limit": 1536 * 2**20,
        "nano_cpus": 1_500_000_000,
        "volumes_from": ["era5-code"],
        "auto_remove": True,
    }


def test_a_run_gets_the_settings_of_the_daemon_and_nothing_else_of_its_environment(
    environment: pytest.MonkeyPatch,
) -> None:
    environment.setenv("ERA5_AREA", "1/2/0/3")
    environment.setenv("AWS_REGION", "eu")
    environment.setenv("POSTGRES_PASSWORD", "secret")
    passed = configured().get_container_context(dg.DagsterRun("load_month")).env_vars
    assert {"ERA5_AREA=1/2/0/3", "AWS_REGION=eu", "STACK_RUN_CPUS=1.5"} <= set(passed)
    assert not [line for line in passed if line.startswith(("POSTGRES_", "PATH=", "HOME=", "DOCKER_"))]


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [("STACK_RUN_MEMORY", "much", "not an amount of memory"), ("STACK_RUN_CPUS", "two", "not a number of cores")],
)
def test_limit_that_is_no_number_is_named(environment: pytest.MonkeyPatch, name: str, value: str, what: str) -> None:
    environment.setenv(name, value)
    with pytest.raises(Era5Error, match=f"'{value}' is {what}") as caught:
        configured()
    assert name in caught.value.remedy


def test_without_an_engine_a_run_says_what_is_missing() -> None:
    run = dg.DagsterRun("load_month", job_code_origin=ORIGIN)
    with pytest.raises(Era5Error, match="the Docker engine cannot be reached") as caught:
        configured().launch_run(LaunchRunContext(run, workspace=None))
    assert "STACK_DOCKER_GID" in caught.value.remedy


@pytest.mark.parametrize("machine", ["laptop", "", "0123456789abcdef"])
def test_a_run_of_a_process_outside_containers_is_not_taken_for_lost(machine: str) -> None:
    run = dg.DagsterRun("load_month", tags={"era5/host": machine} if machine else {})
    assert configured().check_run_worker_health(run).status is WorkerStatus.RUNNING
