"""The system of docker/ on a real engine: image, services, runs in containers that are killed, proxy, wrong image.

`make test-docker` gives an engine and images; without them, nothing here can run.
"""

from __future__ import annotations

import base64
import json
import re
import socket
import ssl
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from era5_pipeline.defs.instance.container_launcher import VERSION_LABEL
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.months import Month
from era5_pipeline_tests.cli.test_up import TERMINATE
from era5_pipeline_tests.docker_stack import IMAGES, SERVICES, docker, inspected, kill, running_stack, wait_for

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline_tests.docker_stack import Stack

pytestmark = pytest.mark.skipif(not IMAGES, reason="needs a Docker engine and images (make test-docker)")
AREA = "-6/106/-6.5/106.5"
LOCATIONS = 9
HOURS = {"2020-01": 744, "2020-02": 696, "2020-03": 744, "2020-04": 720, "2020-05": 744, "2020-06": 720}
BACKFILL = """
mutation ($parameters: LaunchBackfillParams!) {
  launchPartitionBackfill(backfillParams: $parameters) {
    __typename
    ... on LaunchBackfillSuccess { backfillId }
    ... on PythonError { message }
  }
}
"""
BACKFILL_STATUS = (
    "query ($id: String!) { partitionBackfillOrError(backfillId: $id) { ... on PartitionBackfill { status } } }"
)
RUNS = "{ runsOrError { ... on Runs { results { runId status tags { key value } } } } }"
FAILURE = """
query ($run: ID!) {
  logsForRun(runId: $run) {
    ... on EventConnection { events { ... on MessageEvent { message } ... on ErrorEvent { error { message } } } }
  }
}
"""
UID = 10001


@pytest.fixture(scope="module")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    settings = {"ERA5_SOURCE": "sample", "ERA5_AREA": AREA, "STACK_RUN_MEMORY": "1g"}
    with running_stack(tmp_path_factory.mktemp("docker"), **settings) as stack:
        yield stack


def runs(stack: Stack) -> dict[str, tuple[str, str]]:
    """Month and status of each run."""
    found = {}
    for run in stack.web.ask(RUNS)["runsOrError"]["results"]:
        tags = {tag["key"]: tag["value"] for tag in run["tags"]}
        found[run["runId"]] = (tags.get("dagster/partition", "")[:7], run["status"])
    return found


def status_of(stack: Stack, run: str) -> str:
    return runs(stack)[run][1]


def messages(stack: Stack, run: str) -> str:
    events = stack.web.ask(FAILURE, run=run)["logsForRun"]["events"]
    return "\n".join(f"{e.get('message', '')}\n{(e.get('error') or {}).get('message', '')}" for e in events)


def wait_for_end(stack: Stack, run: str, seconds: float = 300) -> str:
    ended = {"SUCCESS", "FAILURE", "CANCELED"}
    return str(wait_for(lambda: ended & {status_of(stack, run)}, f"run {run} ends", seconds).pop())


def months(stack: Stack) -> dict[str, Any]:
    return {entry["month"]: entry for entry in json.loads(stack.era5("status", "--json"))}


def processes_of(container: str) -> list[dict[str, str]]:
    """/proc/PID/status, on the host, of each process of the container."""
    pids = docker("top", container, "-o", "pid").split()[1:]
    found = []
    for pid in pids:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        found.append(dict(line.split(":\t", 1) for line in lines if ":\t" in line))
    assert found
    return found


def assert_confined(container: str) -> None:
    """No root, no capabilities, no way to gain some, and no file system to write to but volumes and /tmp."""
    for process in processes_of(container):
        assert process["Uid"].split() == [str(UID)] * 4, process
        assert int(process["CapEff"], 16) == 0
        assert process["NoNewPrivs"].strip() == "1"
    host = inspected(container)["HostConfig"]
    assert host["ReadonlyRootfs"]
    assert host["Memory"] > 0
    assert host["NanoCpus"] > 0


def assert_no_password(stack: Stack, container: str) -> None:
    shown = json.dumps(inspected(container))
    assert not [password for password in stack.passwords if password in shown], container


def test_image_has_no_compiler_and_nothing_of_development(stack: Stack) -> None:
    script = "command -v gcc cc g++ make pip; python -c 'import pytest' 2>/dev/null && echo pytest; id -u"
    assert docker("run", "--rm", "--entrypoint", "sh", stack.image, "-c", script).split() == [str(UID)]
    labels = json.loads(docker("image", "inspect", stack.image))[0]["Config"]["Labels"]
    version = docker("run", "--rm", stack.image, "era5", "--version").split()[-1]
    assert labels[VERSION_LABEL] == version


def test_ports_are_open_on_this_machine_only(stack: Stack) -> None:
    published = {}
    for service, container in stack.containers().items():
        for port, places in inspected(container)["NetworkSettings"]["Ports"].items():
            for place in places or ():
                published[service, port] = (place["HostIp"], int(place["HostPort"]))
    assert published == {
        ("db", "5432/tcp"): ("127.0.0.1", stack.ports["db"]),
        ("web", "3000/tcp"): ("127.0.0.1", stack.ports["ui"]),
        ("serve", "8000/tcp"): ("127.0.0.1", stack.ports["serve"]),
    }


def test_services_are_confined_and_show_no_password(stack: Stack) -> None:
    containers = stack.containers()
    for service in SERVICES:
        assert_no_password(stack, containers[service])
        if service != "db":
            assert_confined(containers[service])
    assert {process["Uid"].split()[0] for process in processes_of(containers["db"])} != {"0"}
    mounts = {service: str(inspected(containers[service])["Mounts"]) for service in SERVICES}
    assert [service for service in SERVICES if "docker.sock" in mounts[service]] == ["web", "daemon"]
    # The passwords that `prepare` made are in files that nobody else on this machine can reach.
    assert (stack.folder / "secrets").stat().st_mode & 0o077 == 0
    assert not [password for password in stack.passwords if password in (stack.folder / "printed").read_text()]


def served(stack: Stack, path: str) -> Any:
    """The answer of the HTTP server, as JSON or text."""
    with urllib.request.urlopen(f"http://127.0.0.1:{stack.ports['serve']}{path}", timeout=60) as answer:
        text = answer.read().decode()
        return json.loads(text) if answer.headers.get_content_type() == "application/json" else text


def test_the_http_server_reads_as_a_reader_and_is_well_again_when_the_database_was_restarted(stack: Stack) -> None:
    container = stack.containers()["serve"]
    wait_for(lambda: inspected(container)["State"]["Health"]["Status"] == "healthy", "the HTTP server is healthy")
    assert served(stack, "/healthz")["database"] == "ok"
    printed = docker("logs", container)
    assert "may change the table" not in printed
    with stack.connect("reader", "reader_password") as connection:
        sessions = "SELECT count(*) FROM pg_stat_activity WHERE usename = 'reader' AND pid <> pg_backend_pid()"
        assert connection.execute(sessions).fetchone() != (0,)
    stack.compose("restart", "db")

    def is_well() -> bool:
        try:
            return bool(served(stack, "/healthz")["status"] == "ok")
        except (urllib.error.HTTPError, OSError):
            return False

    wait_for(is_well, "the HTTP server answers again")
    assert inspected(container)["RestartCount"] == 0


def test_loader_and_reader_have_no_more_than_their_roles(stack: Stack) -> None:
    with stack.connect("loader", "loader_password") as connection:
        row = connection.execute("SELECT rolsuper OR rolcreaterole FROM pg_roles WHERE rolname = 'loader'").fetchone()
        assert row == (False,)
    with stack.connect("reader", "reader_password") as connection:
        assert connection.execute("SHOW statement_timeout").fetchone() == ("5min",)
        with pytest.raises(psycopg.errors.ReadOnlySqlTransaction):
            connection.execute("CREATE TABLE here (there int)")


@pytest.fixture(scope="module")
def backfilled(stack: Stack) -> Stack:
    """Six months backfilled from the UI; in the middle of it, a run's container and the daemon are killed."""
    parameters = {
        "assetSelection": [{"path": ["era5", name]} for name in ("raw", "flat", "weather")],
        "partitionNames": [f"{month}-01" for month in HOURS],
    }
    launched = stack.web.ask(BACKFILL, parameters=parameters)["launchPartitionBackfill"]
    assert launched["__typename"] == "LaunchBackfillSuccess", launched

    def started() -> list[str]:
        """Containers of runs that have begun."""
        going = {run for run, (_, status) in runs(stack).items() if status == "STARTED"}
        return [container for run, container in stack.run_containers().items() if run in going]

    victim = wait_for(started, "a run has started in its container")[0]
    assert_confined(victim)
    assert_no_password(stack, victim)
    assert inspected(victim)["HostConfig"]["Memory"] == 1 << 30
    kill(victim)
    daemon = stack.containers()["daemon"]
    kill(daemon)
    # The engine alone starts it again.
    wait_for(lambda: inspected(daemon)["RestartCount"] == 1 and inspected(daemon)["State"]["Running"], "it is back")

    def is_over() -> bool:
        status = stack.web.ask(BACKFILL_STATUS, id=launched["backfillId"])["partitionBackfillOrError"]["status"]
        return status not in ("REQUESTED", "COMPLETING")

    def all_loaded() -> bool:
        done = {month for month, status in runs(stack).values() if status == "SUCCESS"}
        return done >= set(HOURS) and is_over()

    wait_for(all_loaded, "six months are loaded", 900)
    return stack


def test_every_month_is_loaded_once_although_run_and_daemon_were_killed(backfilled: Stack) -> None:
    ended = runs(backfilled)
    # The run that was killed, and a run that took its place; no month was run twice with success.
    assert sorted(month for month, status in ended.values() if status == "SUCCESS") == sorted(HOURS)
    assert sum(status == "FAILURE" for _, status in ended.values()) >= 1
    assert {status for _, status in ended.values()} == {"SUCCESS", "FAILURE"}
    ledger = months(backfilled)
    assert {month: (e["state"], e["hours"], e["rows"]) for month, e in ledger.items()} == {
        month: ("loaded", hours, hours * LOCATIONS) for month, hours in HOURS.items()
    }
    with backfilled.connect("reader", "reader_password") as connection:
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


def test_no_container_of_an_ended_run_is_left(backfilled: Stack) -> None:
    wait_for(lambda: not backfilled.run_containers(), "the containers of ended runs are gone", 60)


def test_terminating_a_run_in_the_ui_ends_its_container(stack: Stack) -> None:
    # The run waits for the month, which this session has locked.
    with stack.connect("loader", "loader_password") as connection:
        connection.execute("SELECT pg_advisory_lock(%s, %s)", (ERA5.lock_class, Month(2021, 1).number))
        run = stack.web.launch("2021-01-01")
        wait_for(lambda: "is being loaded by" in messages(stack, run), "the run waits for the lock")
        assert run in stack.run_containers()
        ended = stack.web.ask(TERMINATE, run=run)["terminateRun"]["__typename"]
        assert ended == "TerminateRunSuccess"
        assert wait_for_end(stack, run) == "CANCELED"
    wait_for(lambda: run not in stack.run_containers(), "its container is gone", 60)
    assert "2021-01" not in months(stack)


def test_command_in_a_container_is_no_lost_run_until_it_is_killed(stack: Stack) -> None:
    with stack.connect("loader", "loader_password") as connection:
        connection.execute("SELECT pg_advisory_lock(%s, %s)", (ERA5.lock_class, Month(2021, 2).number))
        before = set(runs(stack))
        name = f"{stack.name}-load"
        load = stack.start("run", "--name", name, "--no-TTY", "era5", "load", "--from", "2021-02")
        try:
            (run,) = wait_for(lambda: set(runs(stack)) - before, "the command has a run")
            wait_for(lambda: "is being loaded by" in messages(stack, run), "it waits for the lock")
            # Longer than the daemon takes to look twice after every run.
            time.sleep(25)
            assert status_of(stack, run) == "STARTED"
            kill(name)
            load.wait(60)
            assert wait_for_end(stack, run) == "FAILURE"
            assert "of the command is exited" in messages(stack, run)
        finally:
            load.kill()
            load.communicate()
            docker("rm", "--force", name)


def launched_after_restart(stack: Stack, month: str) -> str:
    """Launch the month as soon as the web UI has found the code server that has just been started."""

    def attempt() -> str | None:
        try:
            return stack.web.launch(month)
        except AssertionError as error:
            assert "PipelineNotFoundError" in str(error)  # noqa: PT017  # the location is not loaded yet
            return None

    return str(wait_for(attempt, "the web UI has loaded the code location"))


def test_code_server_of_another_version_is_named_with_its_remedy(stack: Stack) -> None:
    other = f"{stack.name}:other"
    docker("build", "--tag", other, "-", input=f"FROM {stack.image}\nLABEL {VERSION_LABEL}=9.9.9\n")
    try:
        stack.compose("up", "--detach", "--no-deps", "--no-build", "--wait", "code", STACK_IMAGE=other)
        run = launched_after_restart(stack, "2021-03-01")
        assert wait_for_end(stack, run) == "FAILURE"
        said = messages(stack, run)
        assert re.search(r"the code server's image is era5-pipeline 9\.9\.9, that of the daemon \d", said), said
        assert "docker compose up --detach" in said
        assert run not in stack.run_containers()
        assert "2021-03" not in months(stack)
        # It is not tried again, which would fail in the same way.
        time.sleep(15)
        assert [month for month, _ in runs(stack).values()].count("2021-03") == 1
    finally:
        stack.compose("up", "--detach", "--no-deps", "--no-build", "--wait", "code")
        docker("image", "rm", "--force", other)
    # With the remedy, the same month is loaded.
    assert wait_for_end(stack, launched_after_restart(stack, "2021-03-01")) == "SUCCESS"


def ask_proxy(url: str, password: str | None, context: ssl.SSLContext | None = None) -> tuple[int, str]:
    request = urllib.request.Request(url)
    if password is not None:
        request.add_header("Authorization", "Basic " + base64.b64encode(f"era5:{password}".encode()).decode())
    try:
        with urllib.request.urlopen(request, timeout=30, context=context) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, ""


def upgraded(port: int, password: str) -> str:
    """The first line of the answer to a request for a WebSocket."""
    word = base64.b64encode(f"era5:{password}".encode()).decode()
    lines = (
        *("GET /graphql HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Authorization: Basic {word}", "Connection: Upgrade"),
        *("Upgrade: websocket", "Sec-WebSocket-Version: 13", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ=="),
        *("Sec-WebSocket-Protocol: graphql-ws", "", ""),
    )
    with socket.create_connection(("127.0.0.1", port), 30) as connection:
        connection.sendall("\r\n".join(lines).encode())
        return connection.recv(4096).decode().splitlines()[0]


def test_proxy_asks_for_a_password_and_passes_the_ui(stack: Stack, tmp_path: Path) -> None:
    printed = (stack.folder / "printed").read_text()
    password = re.search(r"user era5, password (\w+)", printed)
    assert password is not None, printed
    port, known = stack.ports["public"], password[1]
    stack.compose("--profile", "public", "up", "--detach", "--no-deps", "proxy")
    address = f"http://127.0.0.1:{port}"

    def answers() -> bool:
        try:
            return bool(ask_proxy(f"{address}/server_info", None)[0])
        except OSError:
            return False

    wait_for(answers, "the proxy answers", 60)
    assert ask_proxy(f"{address}/server_info", None)[0] == 401
    assert ask_proxy(f"{address}/server_info", "wrong")[0] == 401
    code, page = ask_proxy(f"{address}/", known)
    assert (code, 'id="initialization-data"' in page) == (200, True)
    assert "dagster_version" in ask_proxy(f"{address}/server_info", known)[1]
    assert "101" in upgraded(port, known)
    container = stack.compose("--profile", "public", "ps", "--quiet", "proxy").strip()
    assert_confined(container)
    assert {p["HostIp"] for p in inspected(container)["NetworkSettings"]["Ports"]["8080/tcp"]} == {"127.0.0.1"}

    # With a certificate: the same, encrypted, and not in plain.
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost"),
            *("-addext", "subjectAltName=IP:127.0.0.1"),
            *("-keyout", str(tmp_path / "privkey.pem"), "-out", str(tmp_path / "fullchain.pem")),
        ],
        capture_output=True,
        check=True,
    )
    for file in tmp_path.iterdir():
        file.chmod(0o444)
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(0o755)
    secure = {"STACK_PUBLIC_SCHEME": "https", "STACK_TLS": str(tmp_path)}
    stack.compose("--profile", "public", "up", "--detach", "--no-deps", "proxy", **secure)
    context = ssl.create_default_context(cafile=str(tmp_path / "fullchain.pem"))
    wait_for(answers, "the proxy answers", 60)
    assert ask_proxy(f"https://127.0.0.1:{port}/server_info", None, context)[0] == 401
    assert ask_proxy(f"https://127.0.0.1:{port}/server_info", known, context)[0] == 200
    assert ask_proxy(f"{address}/server_info", known)[0] == 400
