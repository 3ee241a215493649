"""`era5 serve` as a process: what it says when it cannot start, how it ends, several processes, and who may write."""

from __future__ import annotations

import os
import re
import signal
import socket
import sys
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpx
import psycopg
import pytest
from prometheus_client.parser import text_string_to_metric_families

from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.embedded.processes import first_number
from era5_pipeline.sources.zarr import icechunk_objects
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.commands import ERA5, CommandResult, Home, InProcess, assert_explained, ended, new_home
from era5_pipeline_tests.sources.zarr.test_icechunk_objects import NEEDS_ICECHUNK
from era5_pipeline_tests.warehouse.loads import wait_until
from era5_pipeline_tests.zarr_stores import hours_between, write_repository

if TYPE_CHECKING:
    import subprocess
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths

_SECONDS = 240.0
# The command `era5` with another grace period for answers, which has no setting. The processes that it starts get it
# with uvicorn's configuration.
_WITH_GRACE = """
from era5_pipeline.cli import main
from era5_pipeline.serving import server

server._GRACE_SECONDS = {}
main()
"""


# Each process takes longer to receive this app than uvicorn waits for an answer by default.
# uvicorn asks one process after the other, so the second has twice the time.
_SLOW_APP = """
import time
from fastapi import FastAPI
from era5_pipeline.serving import server
from era5_pipeline.serving.server import address_of, bound_socket, run_server

server._ANSWER_SECONDS = 5


class SlowApp:
    def __call__(self):
        return FastAPI()

    def __reduce__(self):
        return slowly_made, ()


def slowly_made():
    time.sleep(13)
    return SlowApp()


if __name__ == "__main__":
    bound = bound_socket("127.0.0.1", 0)
    print(address_of(bound), flush=True)
    run_server(SlowApp(), bound, 2, access_log=False)
"""


class Serving:
    """A running `era5 serve`, its URL, and a client of it."""

    def __init__(self, process: subprocess.Popen[str], url: str, client: httpx.Client) -> None:
        self.process, self.url, self.client = process, url, client

    def ended(self) -> CommandResult:
        return ended(self.process, _SECONDS)


@contextmanager
def serving(home: Home, *arguments: str, grace_seconds: int | None = None, **env: str) -> Iterator[Serving]:
    """Run `era5 serve` on a free port in this context, with another grace period if one is given."""
    command = (ERA5,) if grace_seconds is None else (sys.executable, "-c", _WITH_GRACE.format(grace_seconds))
    process = home.start_program(*command, "serve", "--port", "0", *arguments, **env)
    try:
        assert process.stdout is not None
        first = process.stdout.readline()
        url = re.fullmatch(r"era5 serve: (http://\S+), its routes: \1/docs\n", first)
        assert url is not None, (first, process.poll())
        with httpx.Client(base_url=url[1], timeout=_SECONDS) as client:
            wait_until(lambda: _answers(client) or process.poll() is not None)
            yield Serving(process, url[1], client)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                ended(process, _SECONDS)
            finally:
                process.kill()


def _answers(client: httpx.Client) -> bool:
    try:
        return client.get("/healthz").status_code == 200
    except httpx.TransportError:
        return False


def assert_ended_well(home: Home, printed: CommandResult) -> None:
    """Require the log of a server that was asked for /docs, and that it has ended without a traceback."""
    assert printed.code == 0
    assert printed.out == "stopped\n"
    assert '"GET /docs HTTP/1.1" 200' in printed.err
    assert "Traceback" not in printed.err
    wait_until(lambda: home.processes() == [])


# SIGINT to one process: test_a_reader_is_not_warned_of_and_the_server_ends_well_at_ctrl_c; SIGTERM to two:
# test_several_processes_answer_and_their_metrics_are_added_up; to one:
# test_an_answer_that_is_under_way_is_finished_before_the_end.
@pytest.mark.endurance
def test_two_processes_end_well_at_ctrl_c(home: Home, database_url: str) -> None:
    with serving(home, "--workers", "2", ERA5_DATABASE_URL=database_url) as server:
        assert server.client.get("/docs").status_code == 200
        server.client.close()
        server.process.send_signal(signal.SIGINT)
        printed = server.ended()
    assert_ended_well(home, printed)


def test_an_answer_that_is_under_way_is_finished_before_the_end(home: Home, database_url: str) -> None:
    """The table is locked, so that the start page, which reads the ledger, waits until the lock is released."""
    found: list[httpx.Response] = []
    with Warehouse(database_url).connect() as connection:
        ensure_schema(connection)
    with psycopg.connect(database_url) as locking:
        locking.execute("LOCK TABLE era5.ledger")
        with serving(home, ERA5_DATABASE_URL=database_url) as server:
            asking = threading.Thread(target=lambda: found.append(httpx.get(server.url, timeout=_SECONDS)))
            asking.start()
            with psycopg.connect(database_url, autocommit=True) as witness:
                query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~* 'ledger'"
                wait_until(lambda: witness.execute(query).fetchone() == (1,))
            server.process.send_signal(signal.SIGTERM)
            time.sleep(1.0)
            assert server.process.poll() is None
            locking.rollback()
            asking.join(_SECONDS)
            printed = server.ended()
    assert (printed.code, printed.out) == (0, "stopped\n")
    assert "Traceback" not in printed.err
    (answer,) = found
    assert answer.status_code == 200  # of an empty ledger: nothing is loaded yet
    assert "No month is loaded yet" in answer.text


def test_several_processes_answer_and_their_metrics_are_added_up(home: Home, database_url: str) -> None:
    def total(client: httpx.Client) -> float:
        return sum(
            sample.value
            for family in text_string_to_metric_families(client.get("/metrics").text)
            for sample in family.samples
            if sample.name == "era5_http_requests_total" and sample.labels["route"] == "/docs"
        )

    with serving(home, "--workers", "2", ERA5_DATABASE_URL=database_url) as server:
        for _ in range(60):  # each on a connection of its own, which either process may take
            assert httpx.get(f"{server.url}/docs", timeout=_SECONDS).status_code == 200
        assert [total(server.client), total(server.client)] == [60, 60]
        # The whole is still right when a process was killed, and another has taken its place.
        children = [int(pid) for pid in _children(server.process.pid)]
        os.kill(children[-1], signal.SIGKILL)
        server.client.close()
        with httpx.Client(base_url=server.url, timeout=_SECONDS) as client:
            wait_until(lambda: _answers(client))
            wait_until(lambda: total(client) == 60)
        server.process.send_signal(signal.SIGTERM)
        printed = server.ended()
    assert_ended_well(home, printed)


def test_a_process_that_takes_long_to_import_the_app_is_not_killed(home: Home, tmp_path: Path) -> None:
    """Longer than uvicorn waits for an answer: killed for that, no process would ever serve."""
    (tmp_path / "slow.py").write_text(_SLOW_APP, encoding="utf-8")
    process = home.start_program(sys.executable, str(tmp_path / "slow.py"))
    try:
        assert process.stdout is not None
        with httpx.Client(base_url=process.stdout.readline().strip(), timeout=_SECONDS) as client:
            assert client.get("/docs").status_code == 200
    finally:
        process.send_signal(signal.SIGTERM)
        ended(process, _SECONDS)


def _children(pid: int) -> list[str]:
    """Processes that uvicorn started: not the one by which Python's multiprocessing keeps track of them."""
    found = []
    with open(f"/proc/{pid}/task/{pid}/children", encoding="ascii") as children:  # noqa: PTH123
        for child in children.read().split():
            with open(f"/proc/{child}/cmdline", "rb") as words:  # noqa: PTH123
                if b"spawn_main" in words.read():
                    found.append(child)
    return found


def test_a_port_in_use_is_named(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        printed = here.run("serve", "--port", port, code=2)
    assert_explained(printed, f"port {port} is in use on 127.0.0.1", "era5 serve --port N")


@pytest.mark.parametrize(
    ("address", "what"),
    [
        ("no-such-host.invalid", "the host 'no-such-host.invalid' is not known"),
        ("192.0.2.7", "cannot listen on 192.0.2.7"),
        ("999.1.1.1", "the host '999.1.1.1' is not known"),
        ("a" * 300, "is not known"),
    ],
    ids=["unknown", "another machine's", "no address", "too long"],
)
def test_a_wrong_host_is_explained(here: InProcess, database_url: str, address: str, what: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    assert_explained(here.run("serve", "--host", address, "--port", "0", code=2), what, "--host 127.0.0.1")


# One who may write: test_beyond_this_machine_and_with_a_user_that_may_write_it_warns.
def test_a_reader_is_not_warned_of_and_the_server_ends_well_at_ctrl_c(
    home: Home, database_url: str, flat_months: FlatMonths
) -> None:
    load_month(Warehouse(database_url), flat_months())
    name = f"reader_of_{os.getpid()}"
    with psycopg.connect(database_url, autocommit=True) as administrator:
        administrator.execute(
            f"CREATE ROLE {name} LOGIN; GRANT USAGE ON SCHEMA era5 TO {name}; "
            f"GRANT SELECT ON ALL TABLES IN SCHEMA public, era5 TO {name}".encode()
        )
        try:
            reader = database_url.replace("postgres@", f"{name}@")
            with serving(home, ERA5_DATABASE_URL=reader) as server:
                assert "6 points" in server.client.get("/").text
                assert server.client.get("/docs").status_code == 200
                server.client.close()
                server.process.send_signal(signal.SIGINT)
                printed = server.ended()
            assert "may change" not in printed.err
            assert_ended_well(home, printed)
        finally:
            administrator.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())


def test_the_embedded_server_is_started_and_started_again_when_it_is_killed() -> None:
    with new_home() as home:
        home.run("load", "--source", "sample", "--from", "2023-07", "--area", "10/20/9.75/20.25")
        # Nobody reads the log of requests here, of which there may be many.
        with serving(home, "--no-access-log") as server:
            assert "4 points" in server.client.get("/").text
            pid_file = home.server.data_folder / "postmaster.pid"
            postmaster = first_number(pid_file)
            assert postmaster
            os.kill(postmaster, signal.SIGKILL)
            # A request that comes meanwhile waits for the server, or is refused.
            wait_until(lambda: _answers(server.client) and first_number(pid_file) != postmaster)
            assert "4 points" in server.client.get("/").text
            server.process.send_signal(signal.SIGTERM)
            printed = server.ended()
        assert "starting it again" in printed.err
        assert not home.server.is_running()


@pytest.mark.parametrize("workers", ["1", pytest.param("2", marks=pytest.mark.endurance)])
def test_an_answer_that_does_not_end_is_given_up_at_the_end(home: Home, database_url: str, workers: str) -> None:
    """Its statement would wait for a lock for as long as one may take, which is an hour here."""
    found: list[httpx.Response] = []
    with Warehouse(database_url).connect() as connection:
        ensure_schema(connection)
    with psycopg.connect(database_url) as locking:
        locking.execute("LOCK TABLE era5.ledger")
        with serving(
            home,
            *("--workers", workers),
            grace_seconds=1,
            ERA5_DATABASE_URL=database_url,
            ERA5_SERVE_STATEMENT_SECONDS="3600",
        ) as server:
            asking = threading.Thread(target=lambda: found.append(httpx.get(server.url, timeout=_SECONDS)))
            asking.start()
            with psycopg.connect(database_url, autocommit=True) as witness:
                query = "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query ~* 'ledger'"
                wait_until(lambda: witness.execute(query).fetchone() == (1,))
                server.process.send_signal(signal.SIGTERM)
                printed = server.ended()
                asking.join(_SECONDS)
                wait_until(lambda: witness.execute(query).fetchone() == (0,), 120)
    assert printed.code == 0
    assert "Traceback" not in printed.err
    (answer,) = found
    assert (answer.status_code, answer.headers["retry-after"]) == (503, "5")
    assert answer.json()["reason"].startswith("The server is being stopped.")


def test_an_allowed_host_that_is_no_name_is_refused(here: InProcess) -> None:
    for name in ("https://weather.example.org", "weather.example.org:443"):
        printed = here.run("serve", "--allowed-host", name, code=2)
        assert_explained(printed, f"allowed host '{name}': not a host name", "Give the name alone")
    here.set(ERA5_ALLOWED_HOSTS="weather.example.org, a/b")
    for command in ("serve", "up"):
        assert_explained(here.run(command, code=2), "allowed host 'a/b': not a host name", "Give the name alone")


def test_beyond_this_machine_and_with_a_user_that_may_write_it_warns(
    home: Home, database_url: str, flat_months: FlatMonths
) -> None:
    """It answers to the names that are allowed."""
    load_month(Warehouse(database_url), flat_months())
    with serving(
        home,
        *("--host", "0.0.0.0", "--allowed-host", "One.example"),
        ERA5_ALLOWED_HOSTS="two.example,three.example",
        ERA5_DATABASE_URL=database_url,
    ) as server:
        assert server.url.startswith("http://127.0.0.1:")
        statuses = {
            name: server.client.get("/healthz?live=true", headers={"Host": name}).status_code
            for name in ("one.example", "two.example:8000", "three.example", "four.example")
        }
        server.process.send_signal(signal.SIGTERM)
        printed = server.ended()
    assert "there is no password" in printed.err
    assert "the user postgres may change the table" in printed.err
    assert "era5 db init --roles" in printed.err
    assert statuses == {"one.example": 200, "two.example:8000": 200, "three.example": 200, "four.example": 421}


# --- Places that are fetched: their answers are in serving/test_fetch -------------------------------------------------


@NEEDS_ICECHUNK
def test_a_place_is_fetched_by_two_processes_on_an_empty_machine_and_over_a_restart(tmp_path: Path) -> None:
    """The embedded server is created and started by the command; nothing of the fetch outlives it."""
    write_repository(tmp_path / "open", hours_between(Month(2020, 1), Month(2020, 2)), ("temperature_2m",))
    settings: dict[str, Any] = {
        "ERA5_EARTHMOVER_URL": f"icechunk+file://{tmp_path / 'open'}",
        "ERA5_VARIABLES": "t2m",
        "CDSAPI_RC": str(tmp_path / "none"),
    }
    arguments = ("--fetch", "--fetch-limit", "1", "--workers", "2")
    path = "/v1/climate?latitude=50&longitude=1"

    def asked(server: Serving, path: str = path) -> int:
        # On a connection of its own, which either process may take.
        return httpx.get(server.url + path, timeout=_SECONDS).status_code

    def is_loading() -> bool:
        return any("load --lat" in words for words in home.processes())

    with new_home() as home:
        with serving(home, *arguments, **settings) as server:
            assert "A place is loaded when you ask for it" in server.client.get("/").text
            assert [asked(server) for _ in range(6)] == [202] * 6
            wait_until(is_loading)
            server.client.close()
            server.process.send_signal(signal.SIGTERM)
            printed = server.ended()
        assert (printed.code, printed.out) == (0, "stopped\n")
        assert "Traceback" not in printed.err
        wait_until(lambda: home.processes() == [])
        with serving(home, *arguments, **settings) as server:
            wait_until(lambda: asked(server) == 200, _SECONDS)
            assert asked(server, "/v1/climate?latitude=50&longitude=2") == 429
            newest = server.client.get("/healthz").json()["newest_hours"]
            assert newest == {"earthmover": "2020-02-29T23:00:00Z"}
            server.client.close()
            server.process.send_signal(signal.SIGINT)
            printed = server.ended()
        assert printed.code == 0
        assert printed.err.count("loaded latitude 50, longitude 1 for a request") == 1


def test_fetching_is_refused_at_the_start_if_it_cannot_be_done(
    here: InProcess, embedded_warehouse: Warehouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    here.set(ERA5_DATABASE_URL=embedded_warehouse.url)
    assert_explained(here.run("serve", "--fetch-limit", "5", code=2), "--fetch-limit is for", "Add --fetch")
    printed = here.run("serve", "--fetch", "--host", "0.0.0.0", "--port", "0", code=2)
    assert_explained(printed, "anyone who can reach 0.0.0.0", "--fetch-limit PLACES")
    with monkeypatch.context() as old:
        old.setattr(icechunk_objects, "_OLDEST_PYTHON", (4, 0))
        printed = here.run("serve", "--fetch", "--port", "0", code=2)
        assert_explained(printed, "need Python 3.12 or later", "newer Python")
    with monkeypatch.context() as without:
        without.setattr("importlib.util.find_spec", lambda name: None if name == "icechunk" else name)
        if sys.version_info >= (3, 12):
            printed = here.run("serve", "--fetch", "--port", "0", code=2)
            assert_explained(printed, "the library icechunk, not installed", "era5-pipeline[icechunk]")


@NEEDS_ICECHUNK
def test_fetching_is_refused_to_those_who_may_not_load(here: InProcess, embedded_warehouse: Warehouse) -> None:
    name = f"reader_of_{os.getpid()}"
    reader = embedded_warehouse.url.replace("//postgres@", f"//{name}@")
    with psycopg.connect(embedded_warehouse.url, autocommit=True) as administrator:
        administrator.execute(f"CREATE ROLE {name} LOGIN; GRANT pg_read_all_data TO {name}".encode())
        try:
            here.set(ERA5_DATABASE_URL=reader)
            printed = here.run("serve", "--fetch", "--port", "0", code=5)
            assert_explained(
                printed, f"the user {name} may read this warehouse, but not load", "ERA5_FETCH_DATABASE_URL"
            )
            here.set(ERA5_FETCH_DATABASE_URL=embedded_warehouse.url)
            with serving(
                Home(here.home), "--fetch", ERA5_DATABASE_URL=reader, ERA5_FETCH_DATABASE_URL=embedded_warehouse.url
            ) as server:
                assert server.client.get("/healthz").status_code == 200
            here.set(ERA5_DATABASE_URL=embedded_warehouse.url, ERA5_FETCH_DATABASE_URL=reader)
            assert here.run("serve", "--fetch", "--port", "0", code=5).out == ""
        finally:
            administrator.execute(f"DROP OWNED BY {name}; DROP ROLE {name}".encode())
