"""`era5 db`: the embedded server by hand, and another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import psycopg
import pytest

from era5_pipeline.postgres.urls import database_of
from era5_pipeline_tests.commands import Here, Home, assert_explained, new_home
from era5_pipeline_tests.pipelines import dagster_dropped

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module")
def home() -> Iterator[Home]:
    with new_home() as home:
        yield home


@pytest.fixture
def here(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, home: Home) -> Here:
    return Here(capsys, monkeypatch, home.path)


def test_url_starts_the_server_and_leaves_it_running(home: Home, here: Here) -> None:
    url = home.run("db", "url").out.strip()
    assert home.server.is_running()
    with psycopg.connect(url) as connection:
        assert connection.execute("SELECT current_database()").fetchone() == ("era5",)
    assert here.run("db", "url").out.strip() == url
    # Commands use it, and leave it running too.
    assert "no month is loaded yet" in here.run("status").out
    assert home.server.is_running()

    assert here.run("db", "stop").out == "stopped\n"
    assert not home.server.is_running()
    assert here.run("db", "stop").out == "it was not running\n"
    assert home.processes() == []


def test_init_says_what_there_is(home: Home, here: Here) -> None:
    said = here.run("db", "init").out
    assert "PostgreSQL 18" in said
    assert said.endswith("layout: partitions\n")
    assert str(home.path) in said
    assert not home.server.is_running()
    with home.server.lease():
        assert here.run("db", "init").out == said
        assert home.ask("era5", "SELECT count(*) FROM weather") == 0
        assert home.ask("postgres", "SELECT count(*) FROM pg_database WHERE datname = 'era5_dagster'") == 1


def test_stop_asks_before_it_fails_others(home: Home, here: Here) -> None:
    said = here.run("db", "start").out
    assert said.startswith("running: ")
    with home.server.lease():
        assert_explained(here.run("db", "stop", code=5), "is in use by")
        assert home.server.is_running()
        assert here.run("db", "stop", "--force").out == "stopped\n"
        assert not home.server.is_running()


def test_server_of_others_is_left_alone(here: Here, database_url: str) -> None:
    here.set(ERA5_DATABASE_URL=database_url)
    assert here.run("db", "url").out.strip() == database_url
    assert_explained(here.run("db", "stop", code=2), "not ours to stop", "Unset it")
    with dagster_dropped(database_url):
        assert database_of(database_url) in here.run("db", "init").out
    here.set(ERA5_DATABASE_URL="postgresql://me:correct-horse@127.0.0.1:9/nowhere")
    for command in ("init", "start"):
        said = here.run("db", command, code=5)
        assert_explained(said, "me@127.0.0.1:9/nowhere", "ERA5_DATABASE_URL")
        assert "correct-horse" not in said.err
        assert said.out == ""
