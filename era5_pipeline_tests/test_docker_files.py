"""The files of docker/ against the project: versions, settings, Dagster's limits; what no engine is needed for."""

from __future__ import annotations

import re
import socket as sockets
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
import yaml

from era5_pipeline import __version__
from era5_pipeline.defs.instance.services import LOCATION
from era5_pipeline.model.settings import Settings
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

DOCKER = ROOT / "docker"
COMPOSE: Any = yaml.safe_load((DOCKER / "compose.yaml").read_text())
HELM: Any = yaml.safe_load((DOCKER / "kubernetes" / "values.yaml").read_text())
DAGSTER: Any = yaml.safe_load((ROOT / "dagster.yaml").read_text())
EXAMPLE = (DOCKER / ".env.example").read_text()
# Keys of the chart that its schema knows, as far as they are used here: a misspelt one would have no effect, silently.
CHART_KEYS = {
    "": {
        *("global", "generatePostgresqlPasswordSecret", "postgresql", "rabbitmq", "redis", "flower", "runLauncher"),
        *("dagster-user-deployments", "dagsterDaemon", "dagsterWebserver", "additionalInstanceConfig"),
        *("computeLogManager", "telemetry"),
    },
    "postgresql": {
        *("enabled", "postgresqlHost", "postgresqlUsername", "postgresqlDatabase", "postgresqlParams", "service")
    },
    "runLauncher.config.k8sRunLauncher": {
        *("imagePullPolicy", "envVars", "envSecrets", "volumes", "volumeMounts", "resources", "securityContext"),
        *("runK8sConfig", "jobNamespace", "labels"),
    },
    "runLauncher.config.k8sRunLauncher.runK8sConfig": {"podSpecConfig", "jobSpecConfig", "containerConfig"},
    "dagsterDaemon": {
        *("enabled", "runCoordinator", "runMonitoring", "runRetries", "env", "podSecurityContext", "securityContext"),
        *("resources", "volumes", "volumeMounts"),
    },
    "dagsterDaemon.runCoordinator": {"enabled", "type", "config"},
    "dagsterDaemon.runCoordinator.config": {"customRunCoordinator"},
    "dagsterDaemon.runMonitoring": {
        *("enabled", "startTimeoutSeconds", "pollIntervalSeconds", "maxResumeRunAttempts"),
        *("freeSlotsAfterRunEndSeconds", "cancelTimeoutSeconds"),
    },
    "dagsterDaemon.runRetries": {"enabled", "maxRetries", "retryOnAssetOrOpFailure"},
    "dagsterWebserver": {
        *(
            "service",
            "workspace",
            "readinessProbe",
            "podSecurityContext",
            "securityContext",
            "resources",
            "env",
            "volumes",
        )
    },
    "dagster-user-deployments": {"enabled", "enableSubchart", "deployments"},
    "dagster-user-deployments.deployments.0": {
        *("name", "image", "dagsterApiGrpcArgs", "port", "includeConfigInLaunchedRuns", "env", "envSecrets"),
        *("volumes", "volumeMounts", "podSecurityContext", "securityContext", "resources"),
    },
}


def value(tree: Any, path: str) -> Any:
    for key in path.split(".") if path else ():
        tree = tree[int(key)] if isinstance(tree, list) else tree[key]
    return tree


# --- image and compose.yaml ------------------------------------------------------------------------------------------


def test_the_version_is_the_same_everywhere() -> None:
    dockerfile = (DOCKER / "Dockerfile").read_text()
    assert re.findall(r"^ARG VERSION=(.+)$", dockerfile, re.MULTILINE) == [__version__]
    tags = {tag for text in (dockerfile, EXAMPLE, str(COMPOSE)) for tag in re.findall(r"era5-pipeline:([\w.]+)", text)}
    assert tags == {__version__}
    assert value(HELM, "dagster-user-deployments.deployments.0.image.tag") == __version__


def test_containers_replace_only_how_runs_are_launched_and_what_is_written_to_disk() -> None:
    replaced = yaml.safe_load((DOCKER / "dagster-docker.yaml").read_text())
    assert set(replaced) == {"run_launcher", "compute_logs", "local_artifact_storage"}
    assert {"storage", "run_coordinator", "concurrency", "run_retries", "run_monitoring"} <= set(DAGSTER)
    # A run that is lost is started again; it is not resumed.
    assert DAGSTER["run_monitoring"].get("max_resume_run_attempts", 0) == 0


def test_every_variable_of_compose_is_explained_and_none_other() -> None:
    used = set(re.findall(r"\$\{(STACK_\w+)", (DOCKER / "compose.yaml").read_text()))
    explained = dict(re.findall(r"^#?(STACK_\w+)=(.*)$", EXAMPLE, re.MULTILINE))
    assert used - set(explained) == {"STACK_SETTINGS"}  # of tests: another file than .env
    assert set(explained) - used == set()
    defaults = dict(re.findall(r"\$\{(STACK_\w+):-([^}]*)\}", (DOCKER / "compose.yaml").read_text()))
    differing = {n: (explained[n], d) for n, d in defaults.items() if n in explained and explained[n] != d}
    assert set(differing) <= {"STACK_TLS"}  # with http nothing is needed, and its folder stands there


def test_settings_that_compose_gives_exist() -> None:
    known = {f"ERA5_{name.upper()}" for name in Settings.model_fields}
    given = set(re.findall(r"^#?\s*(ERA5_\w+)[:=]", (DOCKER / "compose.yaml").read_text() + EXAMPLE, re.MULTILINE))
    given |= set(re.findall(r"\b(ERA5_\w+)=", (DOCKER / "kubernetes" / "values.yaml").read_text()))
    assert given <= known
    # A name of compose.yaml that looked like a setting would be refused as a misspelt one.
    assert not [name for name in re.findall(r"\$\{(\w+)", (DOCKER / "compose.yaml").read_text()) if "ERA5" in name]


def test_every_service_is_confined_and_limited() -> None:
    for name, service in COMPOSE["services"].items():
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name
        assert service["mem_limit"], name
        assert "privileged" not in service, name
        for port in service.get("ports", ()):
            assert port.startswith(("127.0.0.1:", "${STACK_PUBLIC_ADDRESS:-127.0.0.1}:")), (name, port)


def test_nothing_about_a_machine_is_in_the_image() -> None:
    text = (DOCKER / "Dockerfile").read_text()
    assert not re.search(r"proxy|certificate|ca-cert|index-url|https?://", text, re.IGNORECASE)
    assert not text.startswith("# syntax=")  # a frontend that would have to be pulled


def test_files_that_the_image_needs_are_let_through_and_exist() -> None:
    allowed = [line[2:] for line in (ROOT / ".dockerignore").read_text().splitlines() if line.startswith("!/")]
    assert [name for name in allowed if not (ROOT / name).exists()] == []
    assert not [name for name in allowed if name.startswith((".", "docker/.", "docker/secrets"))]


def test_prepare_makes_secrets_once_and_shows_no_password_of_the_database(tmp_path: Path) -> None:
    folder = tmp_path / "docker"
    folder.mkdir()
    for name in ("prepare", ".env.example"):
        (folder / name).write_bytes((DOCKER / name).read_bytes())

    def prepare(socket: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["sh", str(folder / "prepare")],
            env={"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "STACK_DOCKER_SOCKET": socket},
            capture_output=True,
            text=True,
            check=False,
        )

    missing = prepare(str(tmp_path / "none.sock"))
    assert (missing.returncode, "there is no socket" in missing.stderr) == (1, True)
    assert not (folder / ".env").exists()

    with sockets.socket(sockets.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        first = prepare(str(tmp_path / "s"))
        assert first.returncode == 0, first.stderr
        made = {path.name: path.read_text() for path in (folder / "secrets").iterdir()}
        again = prepare(str(tmp_path / "s"))
    assert again.stdout == ""
    assert {path.name: path.read_text() for path in (folder / "secrets").iterdir()} == made
    passwords = {name: text for name, text in made.items() if name.endswith("_password")}
    assert set(passwords) == {"superuser_password", "loader_password", "reader_password"}
    assert len(set(passwords.values())) == 3
    assert min(map(len, passwords.values())) >= 32
    assert not [text for text in passwords.values() if text in first.stdout]
    assert f"STACK_DOCKER_GID={(tmp_path / 's').stat().st_gid}\n" in (folder / ".env").read_text()
    assert (folder / "secrets").stat().st_mode & 0o777 == 0o700


# --- values.yaml -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", CHART_KEYS)
def test_values_have_only_keys_that_the_chart_knows(path: str) -> None:
    assert set(value(HELM, path)) <= CHART_KEYS[path]


def test_queue_monitoring_and_retries_of_the_chart_are_those_of_dagster_yaml() -> None:
    daemon, more = HELM["dagsterDaemon"], HELM["additionalInstanceConfig"]
    # Dagster's own class: its image, which runs the daemon there, does not have ours.
    queue = daemon["runCoordinator"]["config"]["customRunCoordinator"]
    assert (queue["module"], queue["class"]) == ("dagster", "QueuedRunCoordinator")
    assert queue["config"] == DAGSTER["run_coordinator"]["config"]
    assert more["concurrency"] == DAGSTER["concurrency"]
    assert daemon["runRetries"] == DAGSTER["run_retries"]
    monitoring = DAGSTER["run_monitoring"]
    shown = daemon["runMonitoring"]
    assert shown["pollIntervalSeconds"] == monitoring["poll_interval_seconds"]
    assert shown["freeSlotsAfterRunEndSeconds"] == monitoring["free_slots_after_run_end_seconds"]
    assert shown["maxResumeRunAttempts"] == monitoring.get("max_resume_run_attempts", 0)


def test_webserver_and_daemon_know_the_code_server_under_the_name_of_the_code_location() -> None:
    (code,) = HELM["dagster-user-deployments"]["deployments"]
    (server,) = HELM["dagsterWebserver"]["workspace"]["servers"]
    (local,) = yaml.safe_load((DOCKER / "workspace.yaml").read_text())["load_from"]
    assert server == {"host": code["name"], "port": code["port"], "name": LOCATION}
    assert local["grpc_server"]["location_name"] == LOCATION
    assert code["dagsterApiGrpcArgs"][-2:] == ["--location-name", LOCATION]


def test_every_pod_of_the_chart_is_confined_and_limited() -> None:
    launcher = HELM["runLauncher"]["config"]["k8sRunLauncher"]
    (code,) = HELM["dagster-user-deployments"]["deployments"]
    pods = {
        "code": (code["podSecurityContext"], code["securityContext"], code["resources"]),
        "run": (
            launcher["runK8sConfig"]["podSpecConfig"]["securityContext"],
            launcher["securityContext"],
            launcher["resources"],
        ),
        **{
            name: (HELM[name]["podSecurityContext"], HELM[name]["securityContext"], HELM[name]["resources"])
            for name in ("dagsterDaemon", "dagsterWebserver")
        },
    }
    for name, (pod, container, resources) in pods.items():
        assert pod["runAsNonRoot"], name
        assert pod["runAsUser"] == 10001, name
        assert container["allowPrivilegeEscalation"] is False, name
        assert container["capabilities"] == {"drop": ["ALL"]}, name
        assert set(resources) == {"requests", "limits"}, name


def test_passwords_are_in_secrets_only() -> None:
    text = (DOCKER / "kubernetes" / "values.yaml").read_text()
    assert not re.search(r"://[^\s:/@]+:[^\s@]+@", text)
    assert not re.search(r"(postgresqlPassword|AWS_SECRET_ACCESS_KEY)\s*[:=]", text)
