"""docker/kubernetes/values.yaml on a cluster of one node: a backfill whose pods are killed and evicted; Dask in pods.

`docker/kubernetes/try` makes the cluster and runs this in its network; the database is a pod, the bucket a server on
the node.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
import yaml
from pyarrow import fs

from era5_pipeline_tests.cli.test_up import WebUI
from era5_pipeline_tests.commands import BIN, ROOT, environment
from era5_pipeline_tests.docker_stack import wait_for
from era5_pipeline_tests.helm_release import apply, configuration, deployment, kubectl, release, service, shown
from era5_pipeline_tests.test_docker import BACKFILL, BACKFILL_STATUS, HOURS, RUNS

if TYPE_CHECKING:
    from collections.abc import Iterator

# The folder of the cluster, where this may write.
CLUSTER = Path(os.environ["ERA5_TEST_KUBERNETES"])
# The machine, as pods see it; the addresses that its DNS server has for the code server and db.example.org.
NODE, CODE, DATABASE = "10.76.0.1", "10.96.0.40", "10.96.0.50"
SCHEDULER = "10.96.0.60"
DAGSTER_IMAGE, DATABASE_IMAGE = "docker.io/library/era5-stand-in:dagster", "docker.io/library/era5-stand-in:database"
AREA, LOCATIONS = "-6/106/-6.5/106.5", 9
UID = 10001


@dataclass(frozen=True)
class Installed:
    """The chart's release, and what it needs: `values` as installed, the passwords, the bucket and the web UI."""

    values: dict[str, Any]
    passwords: dict[str, str]
    bucket: fs.S3FileSystem
    web: WebUI

    def url(self, user: str) -> str:
        return f"postgresql://{user}:{self.passwords[user]}@{DATABASE}:5432/era5?sslmode=require"

    def connect(self, user: str) -> psycopg.Connection:
        return psycopg.connect(self.url(user), autocommit=True)

    def is_reached(self) -> bool:
        try:
            self.connect("postgres").close()
        except psycopg.OperationalError:
            return False
        return True

    @property
    def image(self) -> str:
        """The pipeline's image."""
        (code,) = self.values["dagster-user-deployments"]["deployments"]
        return f"{code['image']['repository']}:{code['image']['tag']}"


@pytest.fixture(scope="module")
def installed() -> Iterator[Installed]:
    """The steps of docs/kubernetes.md."""
    values = yaml.safe_load((ROOT / "docker" / "kubernetes" / "values.yaml").read_text())
    launcher = values["runLauncher"]["config"]["k8sRunLauncher"]
    # Small months that need no Climate Data Store; and this node has two cores for everything.
    launcher["envVars"] = [
        variable for variable in launcher["envVars"] if not variable.startswith(("ERA5_SOURCE=", "CDSAPI_RC="))
    ] + ["ERA5_SOURCE=sample", f"ERA5_AREA={AREA}"]
    launcher["resources"]["requests"] = {"cpu": "200m", "memory": "512Mi"}
    passwords = {name: secrets.token_hex(8) for name in ("postgres", "loader")}
    with running_bucket("era5") as bucket:
        start_database(passwords["postgres"])
        server = Installed(values, passwords, bucket, WebUI(""))
        # A pod may be ready before its Service's address leads to it.
        wait_for(server.is_reached, "the database is reached by its address", 60)
        done = subprocess.run(
            [str(BIN / "era5"), "db", "init", "--roles"],
            env=environment(CLUSTER / "home", ERA5_DATABASE_URL=server.url("postgres")),
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        with server.connect("postgres") as connection:
            connection.execute(f"CREATE ROLE loader LOGIN PASSWORD '{passwords['loader']}' IN ROLE era5_loader")
        apply(
            configuration("Secret", "era5-dagster-database", **{"postgresql-password": passwords["loader"]}),
            configuration("Secret", "era5-secrets", loader_password=passwords["loader"]),
            configuration(
                *("Secret", "era5-store"),
                AWS_ACCESS_KEY_ID="key",
                AWS_SECRET_ACCESS_KEY="secret",
                AWS_DEFAULT_REGION="us-east-1",
                AWS_ENDPOINT_URL=f"http://{NODE}:9000",
            ),
        )
        apply(*release(values, dagster_image=DAGSTER_IMAGE, code_address=CODE))
        wait_until_ready("pipeline-code", "weather-dagster-daemon", "weather-dagster-webserver")
        (address,) = (one["spec"]["clusterIP"] for one in shown("services") if "webserver" in one["metadata"]["name"])
        web = WebUI(f"http://{address}:8080")
        wait_for(lambda: has_location(web), "the web UI has loaded the code location", 120)
        yield Installed(values, passwords, bucket, web)


def has_location(web: WebUI) -> bool:
    try:
        found = web.ask("{ repositoriesOrError { ... on RepositoryConnection { nodes { name } } } }")
    except OSError:
        return False
    return bool(found["repositoriesOrError"].get("nodes"))


@contextmanager
def running_bucket(name: str) -> Iterator[fs.S3FileSystem]:
    """An S3 server on the node with a bucket."""
    with (CLUSTER / "log" / "s3.log").open("w") as log:
        command = [sys.executable, "-m", "moto.server", "--host", NODE, "--port", "9000"]
        process = subprocess.Popen(command, stdout=log, stderr=log)
    try:
        wait_for(lambda: answers(f"http://{NODE}:9000/moto-api/data.json"), "the S3 server answers", 60)
        client = fs.S3FileSystem(
            access_key="key",
            secret_key="secret",
            region="us-east-1",
            endpoint_override=f"http://{NODE}:9000",
            allow_bucket_creation=True,
        )
        client.create_dir(name)
        yield client
    finally:
        process.kill()
        process.wait()


def answers(url: str) -> bool:
    try:
        return httpx.get(url, timeout=5).is_success
    except httpx.HTTPError:
        return False


def start_database(password: str) -> None:
    """A database with TLS, at the address of db.example.org."""
    key, certificate = CLUSTER / "db.key", CLUSTER / "db.crt"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", "/CN=db.example.org"),
            *("-keyout", str(key), "-out", str(certificate)),
        ],
        capture_output=True,
        check=True,
    )
    # PostgreSQL reads a key only of its own user.
    start = (
        "install -o postgres -m 600 /run/secrets/db/key /tmp/key && exec postgres-entrypoint postgres -c ssl=on "
        "-c ssl_cert_file=/run/secrets/db/certificate -c ssl_key_file=/tmp/key"
    )
    apply(
        configuration("Secret", "db", password=password, key=key.read_text(), certificate=certificate.read_text()),
        deployment(
            "db",
            {
                "containers": [
                    {
                        "name": "db",
                        "image": DATABASE_IMAGE,
                        "imagePullPolicy": "Never",
                        "command": ["sh", "-c", start],
                        "env": [
                            {"name": "POSTGRES_PASSWORD_FILE", "value": "/run/secrets/db/password"},
                            {"name": "POSTGRES_DB", "value": "era5"},
                        ],
                        "volumeMounts": [{"name": "secrets", "mountPath": "/run/secrets/db"}],
                        "readinessProbe": {
                            "exec": {"command": ["pg_isready", "-h", "127.0.0.1", "-U", "postgres"]},
                            "periodSeconds": 2,
                        },
                    }
                ],
                "volumes": [{"name": "secrets", "secret": {"secretName": "db"}}],
            },
        ),
        service("db", 5432, DATABASE),
    )
    wait_until_ready("db")


def wait_until_ready(*names: str) -> None:
    for name in names:
        wait_for(partial(is_ready, name), f"{name} is ready", 300)


def is_ready(name: str) -> bool:
    (found,) = (one for one in shown("deployments") if one["metadata"]["name"] == name)
    return bool(found["status"].get("readyReplicas", 0) == found["spec"]["replicas"])


def pods_of_runs() -> dict[str, dict[str, Any]]:
    """The pods of runs that are there, by run."""
    return {pod["metadata"]["labels"]["dagster/run-id"]: pod for pod in shown("pods", "--selector", "dagster/run-id")}


def runs(server: Installed) -> dict[str, tuple[str, str]]:
    """Month and status of each run."""
    found = {}
    for run in server.web.ask(RUNS)["runsOrError"]["results"]:
        tags = {tag["key"]: tag["value"] for tag in run["tags"]}
        found[run["runId"]] = (tags.get("dagster/partition", "")[:7], run["status"])
    return found


def kill_process_of(run: str) -> None:
    """Kill the first process of a run's container, as the kernel would when memory ends."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_bytes().decode().split("\0")
            namespaces = [line for line in (folder / "status").read_text().splitlines() if line.startswith("NSpid:")]
        except OSError:
            continue
        if any(run in word for word in words) and namespaces[0].split()[-1] == "1":
            found.append(int(folder.name))
    (process,) = found
    os.kill(process, signal.SIGKILL)


def evict(pod: str) -> None:
    """Ask for the eviction of a pod, as `kubectl drain` and the autoscaler do."""
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": pod, "namespace": "default"}}
    path = f"/api/v1/namespaces/default/pods/{pod}/eviction"
    kubectl("create", "--raw", path, "--filename", "-", input=json.dumps(body))


@pytest.fixture(scope="module")
def backfilled(installed: Installed) -> tuple[str, str]:
    """Six months backfilled from the UI; meanwhile a run's process is killed, and another run's pod evicted.

    Returns the two runs.
    """
    parameters = {
        "assetSelection": [{"path": ["era5", name]} for name in ("raw", "flat", "weather")],
        "partitionNames": [f"{month}-01" for month in HOURS],
    }
    launched = installed.web.ask(BACKFILL, parameters=parameters)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched

    def started() -> set[str]:
        going = {run for run, (_, status) in runs(installed).items() if status == "STARTED"}
        return going & set(pods_of_runs())

    killed = min(wait_for(started, "a run has started in its pod", 300))
    (container,) = pods_of_runs()[killed]["spec"]["containers"]
    assert_confined(pods_of_runs()[killed], installed)
    assert container["image"] == installed.image
    kill_process_of(killed)
    evicted = min(wait_for(lambda: started() - {killed}, "another run has started in its pod", 300))
    evict(pods_of_runs()[evicted]["metadata"]["name"])

    def all_loaded() -> bool:
        done = {month for month, status in runs(installed).values() if status == "SUCCESS"}
        status = installed.web.ask(BACKFILL_STATUS, id=launched["backfillId"])["partitionBackfillOrError"]["status"]
        return done >= set(HOURS) and status not in ("REQUESTED", "COMPLETING")

    wait_for(all_loaded, "six months are loaded", 900)
    return killed, evicted


def assert_confined(pod: dict[str, Any], server: Installed) -> None:
    """No root, no capabilities, no file system to write to; and no password in what the cluster shows."""
    assert pod["spec"]["securityContext"]["runAsUser"] == UID
    for container in pod["spec"]["containers"]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["limits"]["memory"] == "2Gi"
    assert not [password for password in server.passwords.values() if password in json.dumps(pod)]


def test_every_month_is_loaded_once_although_a_run_was_killed_and_one_evicted(
    installed: Installed, backfilled: tuple[str, str]
) -> None:
    ended = runs(installed)
    assert sorted(month for month, status in ended.values() if status == "SUCCESS") == sorted(HOURS)
    assert {ended[run][1] for run in backfilled} == {"FAILURE"}
    with installed.connect("loader") as connection:
        rows = connection.execute(
            "SELECT to_char(time AT TIME ZONE 'UTC', 'YYYY-MM'), count(*), count(DISTINCT (time, location_id)) "
            "FROM weather GROUP BY 1"
        ).fetchall()
        attempts = connection.execute(
            "SELECT to_char(month, 'YYYY-MM'), count(*) FROM era5.load_attempt WHERE outcome = 'loaded' GROUP BY 1"
        ).fetchall()
    assert {month: (all_, different) for month, all_, different in rows} == {
        month: (hours * LOCATIONS, hours * LOCATIONS) for month, hours in HOURS.items()
    }
    assert dict(attempts) == dict.fromkeys(HOURS, 1)


def test_raw_and_flat_files_of_each_month_are_in_the_bucket(installed: Installed, backfilled: tuple[str, str]) -> None:
    names = [found.path for found in installed.bucket.get_file_info(fs.FileSelector("era5/store", recursive=True))]
    for month in HOURS:
        assert [name for name in names if month in name and name.endswith(".parquet")], (month, names)
        assert [name for name in names if month in name and "/raw/" in name], (month, names)
    assert backfilled


def test_services_are_the_images_that_the_values_name_and_run_as_their_user(installed: Installed) -> None:
    pods = {pod["metadata"]["labels"]["deployment"]: pod for pod in shown("pods", "--selector", "deployment")}
    assert pods["pipeline-code"]["spec"]["containers"][0]["image"] == installed.image
    for name in ("pipeline-code", "weather-dagster-daemon", "weather-dagster-webserver"):
        assert pods[name]["spec"]["securityContext"]["runAsUser"] == UID
        for status in pods[name]["status"]["containerStatuses"]:
            assert status["ready"]
            # On a busy machine one may have ended while it waited for its database, and been started again.
            assert status["lastState"].get("terminated", {}).get("reason") != "OOMKilled"
        assert not [password for password in installed.passwords.values() if password in json.dumps(pods[name])]


def test_two_workers_of_a_dask_cluster_in_pods_of_their_own_flatten_a_month(installed: Installed) -> None:
    """The disk that all of them mount is a folder of the node."""
    shared = CLUSTER / "shared"
    shared.mkdir()
    os.chown(shared, UID, UID)
    scheduler = f"tcp://{SCHEDULER}:8786"

    def pod(*command: str, **env: str) -> dict[str, Any]:
        return {
            "securityContext": {"runAsNonRoot": True, "runAsUser": UID, "runAsGroup": UID},
            "containers": [
                {
                    "name": "era5",
                    "image": installed.image,
                    "imagePullPolicy": "Never",
                    "command": list(command),
                    "env": [{"name": name, "value": value} for name, value in env.items()],
                    "volumeMounts": [{"name": "home", "mountPath": "/var/lib/era5"}],
                }
            ],
            "volumes": [{"name": "home", "hostPath": {"path": str(shared)}}],
        }

    apply(
        deployment("dask-scheduler", pod("dask", "scheduler", "--port", "8786", "--dashboard-address", ":8787")),
        service("dask-scheduler", 8786, SCHEDULER),
    )
    wait_until_ready("dask-scheduler")
    worker = ("--nthreads", "1", "--memory-limit", "1GB", "--local-directory", "/tmp/dask")
    apply(deployment("dask-worker", pod("dask", "worker", scheduler, *worker), replicas=2))
    wait_until_ready("dask-worker")
    load = ("era5", "load", "--from", "2022-01", "--source", "sample", "--area", "10/100/0/110")
    settings = {"ERA5_DATABASE_URL": installed.url("loader"), "ERA5_DASK_SCHEDULER": scheduler}
    apply(
        {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "load"},
            "spec": {"restartPolicy": "Never", **pod(*load, **settings)},
        }
    )
    phase = wait_for(lambda: {pod_phase("load")} & {"Succeeded", "Failed"}, "the month is loaded", 300)
    assert phase == {"Succeeded"}, kubectl("logs", "load")
    with installed.connect("loader") as connection:
        rows = connection.execute(
            "SELECT count(*), count(DISTINCT location_id) FROM weather WHERE time >= '2022-01-01'"
        )
        assert rows.fetchone() == (744 * 41 * 41, 41 * 41)
    workers = shown("pods", "--selector", "deployment=dask-worker")
    assert len({pod["status"]["podIP"] for pod in workers}) == 2
    (scheduler_pod,) = (one for one in shown("pods", "--selector", "deployment=dask-scheduler"))
    metrics = httpx.get(f"http://{scheduler_pod['status']['podIP']}:8787/metrics", timeout=20).text
    done = [line for line in metrics.splitlines() if "prefix_state_totals" in line and 'state="memory"' in line]
    assert sum(float(line.split()[-1]) for line in done) > 0, metrics


def pod_phase(name: str) -> str:
    (found,) = (one for one in shown("pods") if one["metadata"]["name"] == name)
    return str(found["status"]["phase"])
