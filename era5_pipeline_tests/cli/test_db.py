"""`era5 db`: with the embedded server, and with the server of ERA5_DATABASE_URL."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline.postgres.urls import database_of
from era5_pipeline_tests.commands import Home, InProcess, assert_explained, new_home
from era5_pipeline_tests.pipelines import dagster_dropped

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with new_home() as home:
        yield home


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
