"""`era5 db`: with the embedded server, and with the server of ERA5_DATABASE_URL."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psutil as _psutil
import psycopg
import pytest

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.postgres.embedded.server import EmbeddedServer
from era5_pipeline.postgres.urls import database_of
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.cli.test_load_dataset import LAND, land_files
from era5_pipeline_tests.commands import Home, InProcess, assert_explained
from era5_pipeline_tests.monthly import assert_monthly
from era5_pipeline_tests.pipelines import dagster_dropped
from era5_pipeline_tests.stores import free_port
from era5_pipeline_tests.warehouse.loads import wait_until

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths

psutil: Any = _psutil  # it comes without types


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Home) -> InProcess:
    return InProcess(capsys, monkeypatch, home.path)


def test_url_starts_the_server_and_leaves_it_running(home: Home, here: InProcess) -> None:
    url = home.run("db", "url").out.strip()
    assert home.server.is_running()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("era5",)
    assert here.run("db", "url").out.strip() == url
    # Commands use it, and leave it running too.
    assert "no month has been loaded yet" in here.run("status").out
    assert home.server.is_running()

    assert here.run("db", "stop").out == "stopped\n"
    assert not home.server.is_running()
    assert here.run("db", "stop").out == "the embedded server was not running\n"
    assert home.processes() == []


def test_init_creates_tables_and_names_the_layout(home: Home, here: InProcess) -> None:
    printed = here.run("db", "init").out
    assert "PostgreSQL 18" in printed
    assert printed.endswith("layout: partitions\n")
    assert str(home.path) in printed
    assert not home.server.is_running()
    with home.server.lease():
        assert here.run("db", "init").out == printed
        assert home.ask("era5", "SELECT count(*) FROM weather") == 0
        assert home.ask("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'era5_dagster'") == 1


def test_stop_is_refused_while_the_server_is_in_use(home: Home, here: InProcess) -> None:
    printed = here.run("db", "start").out
    assert printed.startswith("running: ")
    with home.server.lease():
        assert_explained(here.run("db", "stop", code=5), "is in use by")
        assert home.server.is_running()
        assert here.run("db", "stop", "--force").out == "stopped\n"
        assert not home.server.is_running()


def test_stop_refuses_the_server_of_the_url(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    assert here.run("db", "url").out.strip() == database_url
    assert_explained(here.run("db", "stop", code=2), "does not manage", "Unset it")
    with dagster_dropped(database_url):
        assert database_of(database_url) in here.run("db", "init").out
    here.set(ERA5_DATABASE_URL="postgresql://me:correct-horse@127.0.0.1:9/nowhere")
    for command in ("init", "start"):
        printed = here.run("db", command, code=5)
        assert_explained(printed, "me@127.0.0.1:9/nowhere", "ERA5_DATABASE_URL")
        assert "correct-horse" not in printed.err
        assert printed.out == ""


def psql(url: str) -> subprocess.CompletedProcess[str]:
    """`SELECT 1` by the client that most people have."""
    try:
        return subprocess.run(
            ["psql", "--no-psqlrc", "--no-password", url, "-Atc", "SELECT 1"],
            capture_output=True,
            text=True,
            check=False,
            env={"PATH": os.environ["PATH"]},
            timeout=600,
        )
    except FileNotFoundError:
        pytest.skip("needs psql")


@pytest.mark.parametrize("name", ["sp ace & 100%,:colon, ünï$quo\"te'", "l" * 120])
def test_psql_takes_every_url_that_is_printed(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Home, name: str
) -> None:
    (home.path / name).mkdir()
    here = InProcess(capsys, monkeypatch, home.path / name)
    try:
        urls = [here.run("db", "url").out.strip(), here.run("db", "start").out.removeprefix("running: ").strip()]
        urls += re.findall(r"postgresql://\S+", here.run("status").out + here.run("doctor").out)
        urls += [urls[0].replace("/era5?", "/nowhere?")]
        assert len(urls) == 5
        assert [psql(url).stdout for url in urls] == ["1\n"] * 4 + [""]
    finally:
        EmbeddedServer(here.home).stop(force=True)


def listening(home: Home) -> list[tuple[str, int]]:
    """Addresses of TCP that the server's process listens on."""
    process = psutil.Process(int((home.path / "postgres/postmaster.pid").read_text().split()[0]))
    return [tuple(c.laddr) for c in process.net_connections("tcp") if c.status == psutil.CONN_LISTEN]


def test_tcp_is_open_only_on_demand_to_this_machine_with_a_password(home: Home, here: InProcess) -> None:
    here.run("db", "start")
    by_socket = here.run("db", "url").out.strip()
    assert listening(home) == []
    assert_explained(here.run("db", "url", "--tcp", code=2), "does not listen on a port", "era5 db start --port")

    port = free_port()
    with home.server.lease():
        assert_explained(here.run("db", "start", "--port", str(port), code=5), "is in use by", "after a restart")
        assert listening(home) == []
    printed = here.run("db", "start", "--port", str(port)).out
    url = here.run("db", "url", "--tcp").out.strip()
    assert printed.splitlines()[1] == f"by TCP:  {url}"
    assert listening(home) == [("127.0.0.1", port)]
    # The socket's URL stays what it was.
    assert here.run("db", "url").out.strip() == by_socket
    assert (psql(url).stdout, psql(by_socket).stdout) == ("1\n", "1\n")
    with psycopg.connect(url) as connection:
        stored = connection.execute("SELECT rolpassword FROM pg_authid WHERE rolname = 'postgres'").fetchone()
        assert str(stored).startswith("('SCRAM-SHA-256$")
        assert connection.pgconn.used_password

    # Wrong password, none at all.
    password = psycopg.conninfo.conninfo_to_dict(url)["password"]
    assert len(str(password)) >= 32
    for wrong in (url.replace(str(password), "postgres"), url.replace(f":{password}@", "@")):
        with pytest.raises(psycopg.OperationalError, match=r"password authentication failed|no password supplied"):
            psycopg.connect(wrong, passfile="/dev/null")
    file = home.path / "postgres.password"
    assert (file.stat().st_mode & 0o777, file.read_text()) == (0o600, f"{password}\n")
    assert str(password) not in (home.path / "postgres.log").read_text(errors="replace")

    # A killed server listens again, with the same password.
    os.kill(int((home.path / "postgres/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    with home.server.lease():
        assert psql(url).stdout == "1\n"
        assert psql(by_socket).stdout == "1\n"
    assert here.run("db", "start").out == f"running: {by_socket}\n"
    assert listening(home) == [("127.0.0.1", port)]

    # Stopped: nothing listens any more, until it is asked for; the password is the same.
    here.run("db", "stop")
    here.run("db", "start")
    assert listening(home) == []
    other = free_port()
    assert (
        here.run("db", "start", "--port", str(other))
        .out.splitlines()[1]
        .endswith(url.partition("@")[2].replace(str(port), str(other)))
    )
    assert here.run("db", "url", "--tcp").out.strip() == url.replace(f":{port}/", f":{other}/")
    here.run("db", "stop")
    assert home.processes() == []
    assert not list(home.path.glob("**/.s.PGSQL.*"))


def is_free(port: int) -> bool:
    with suppress(OSError), socket.create_server(("127.0.0.1", port)):
        return True
    return False


def test_a_port_in_use_is_refused(home: Home, here: InProcess, caplog: pytest.LogCaptureFixture) -> None:
    port = free_port()
    with socket.create_server(("127.0.0.1", port)):
        printed = here.run("db", "start", "--port", str(port), code=2)
        assert_explained(printed, f"port {port} of 127.0.0.1 is in use", "era5 db start --port N")
        assert not home.server.is_running()
    here.run("db", "start", "--port", str(port))
    os.kill(int((home.path / "postgres/postmaster.pid").read_text().split()[0]), signal.SIGKILL)
    wait_until(lambda: not home.server.is_running())
    wait_until(lambda: is_free(port))  # the server's other processes hold it until they have noticed
    # Taken while the server was down: commands go on, by the socket.
    with socket.create_server(("127.0.0.1", port)), home.server.lease():
        assert f"port {port} is in use" in caplog.text
        assert home.ask("era5", "SELECT 1") == 1
        assert listening(home) == []
    here.run("db", "stop")


def test_a_port_is_of_the_embedded_server_only(here: InProcess, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    for arguments in (("start", "--port", "5433"), ("url", "--tcp")):
        assert_explained(here.run("db", *arguments, code=2), "a server that era5 does not manage")


def test_tables_and_summaries_of_another_data_set(on_server: InProcess, tmp_path: Path) -> None:
    def counted(query: str) -> Any:
        with Warehouse(os.environ["ERA5_DATABASE_URL"]).connect() as connection:
            return connection.execute(query.encode()).fetchall()

    assert on_server.run("db", "init", *LAND).out.endswith("layout: partitions\n")
    assert counted("SELECT count(*) FROM weather_land") == [(0,)]
    folder = land_files(tmp_path / "land", hours=24).parent
    on_server.run("load", *LAND, "--files-dir", str(folder), "--allow-incomplete")
    summaries = "SELECT location_id, temperature_2m_mean, temperature_2m_hours FROM weather_land_monthly ORDER BY 1"
    before = counted(summaries)
    counted("DELETE FROM era5_land.monthly_summary RETURNING 1")
    counted("UPDATE era5_land.ledger SET has_summaries = false RETURNING 1")
    assert on_server.run("db", "summaries").out == "every month in the table has its summaries\n"
    filled = on_server.run("db", "summaries", *LAND).out
    assert filled == "2023-07: summaries of 6 places (1 of 1 months)\n"
    np.testing.assert_allclose(counted(summaries), before, rtol=1e-6)
    assert len(before) == 6


def test_summaries_fills_months_of_an_earlier_version(
    here: InProcess, database_url: str, flat_months: FlatMonths
) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    assert here.run("db", "summaries").out == "every month in the table has its summaries\n"
    for month in ("2023-07", "2023-08"):
        load_month(Warehouse(database_url), replace(flat_months(month), summaries=None))
    assert "2 months have no rows in weather_monthly: era5 db summaries computes them\n" in here.run("status").out
    assert here.run("db", "summaries").out.splitlines() == [
        "2023-07: summaries of 6 places (1 of 2 months)",
        "2023-08: summaries of 6 places (2 of 2 months)",
    ]
    assert_monthly(Warehouse(database_url), months=2)
    status = here.run("status").out
    assert "weather_monthly" not in status
    assert "monthly summaries: " in status
    assert here.run("db", "summaries").out == "every month in the table has its summaries\n"
