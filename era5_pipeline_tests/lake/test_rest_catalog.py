"""A REST catalog that follows the lake: Apache Iceberg's own, as a server on this machine."""

from __future__ import annotations

import os
import socket
import subprocess
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError

from benchmarks.engines import open_duckdb
from era5_pipeline.lake.pointer import forget_followers
from era5_pipeline.lake.rest_catalog import RestFollower
from era5_pipeline.lake.upkeep import clean
from era5_pipeline.model.errors import StoreError, TransientError, UsageError
from era5_pipeline_tests.commands import ROOT, new_home
from era5_pipeline_tests.docker_stack import wait_for
from era5_pipeline_tests.lake.test_lake_page import blocks_of, page_of
from era5_pipeline_tests.lake.test_months import lake_at, load, table_of
from era5_pipeline_tests.lake.test_spark import QUICK_JAVA
from era5_pipeline_tests.servers import fresh_warehouse
from era5_pipeline_tests.stores import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.table import Table

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.lake.months import Lake
    from era5_pipeline.lake.rest_catalog import Published
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

JARS = Path(os.environ["ERA5_TEST_SPARK"]) / "rest"
(PROGRAM,) = blocks_of((ROOT / "docs" / "lake.md").read_text(encoding="utf-8"), "python")
(REST_OF_PAGE,) = blocks_of(page_of("DuckDB"), "sql", "-- duckdb, REST\n")


@dataclass
class RestServer:
    """The catalog's process; `start` after `stop` goes on with the same tables at the same port."""

    folder: Path
    port: int
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        serve = [str(ROOT / ".ci" / "iceberg-rest" / "serve"), str(JARS.parent), str(self.folder), str(self.port)]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(serve, env={**os.environ, **QUICK_JAVA}, stdout=log, stderr=log)
        wait_for(self._answers, "the REST catalog answers", 60)

    def _answers(self) -> bool:
        try:
            socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
        except OSError:
            return False
        return True

    def stop(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process.wait()
            self.process = None


@pytest.fixture(scope="module")
def rest_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RestServer]:
    """One for all tests: a virtual machine of Java takes seconds to start."""
    server = RestServer(tmp_path_factory.mktemp("rest"), free_port())
    server.start()
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
def rest(rest_server: RestServer) -> RestServer:
    """The server, running and without the table of another test."""
    if rest_server.process is None:
        rest_server.start()
    with catalog_at(rest_server) as catalog, suppress(NoSuchTableError, NoSuchNamespaceError):
        catalog.drop_table("era5.weather")
    return rest_server


@pytest.fixture
def lake(rest: RestServer, tmp_path: Path) -> Lake:
    (tmp_path / "lake").mkdir()
    return replace(lake_at(str(tmp_path / "lake"), tmp_path / "home"), follower=RestFollower(rest.url))


@pytest.fixture
def warehouse(server_url: str) -> Iterator[Warehouse]:
    with fresh_warehouse(server_url) as warehouse:
        yield warehouse


def published(lake: Lake, warehouse: Warehouse) -> Published:
    with warehouse.connect() as connection:
        done = lake.publish(connection)
    assert done is not None
    return done


@contextmanager
def catalog_at(rest: RestServer) -> Iterator[Catalog]:
    catalog = load_catalog("rest", type="rest", uri=rest.url)
    try:
        yield catalog
    finally:
        catalog.close()


def rows_by_rest(rest: RestServer) -> int:
    with catalog_at(rest) as catalog:
        return int(catalog.load_table("era5.weather").scan().to_arrow().num_rows)


def rows_in(warehouse: Warehouse) -> int:
    with warehouse.connect() as connection:
        ((rows,),) = connection.execute("SELECT count(*) FROM weather").fetchall()
    return int(rows)


def test_each_snapshot_is_told_once(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths
) -> None:
    load(lake, warehouse, flat_months("2023-07"))
    first = published(lake, warehouse)
    assert (first.snapshots, first.added, first.removed) == (1, 1, 0)
    load(lake, warehouse, flat_months("2023-08"))
    load(lake, warehouse, flat_months("2023-07", seed=2), replace_more=True)
    assert replace(published(lake, warehouse), snapshots=0).added == 2
    assert published(lake, warehouse).added == 0
    own = table_of(lake, warehouse)
    with catalog_at(rest) as catalog:
        theirs = catalog.load_table("era5.weather")
        assert {one.snapshot_id for one in theirs.metadata.snapshots} == {
            one.snapshot_id for one in own.metadata.snapshots
        }
        order = [("location_id", "ascending"), ("time", "ascending")]
        assert theirs.scan().to_arrow().sort_by(order).equals(own.scan().to_arrow().sort_by(order))
        first_rows = theirs.scan(snapshot_id=theirs.metadata.snapshots[0].snapshot_id).to_arrow()
        assert first_rows.num_rows == own.scan(snapshot_id=own.metadata.snapshots[0].snapshot_id).to_arrow().num_rows


def test_duckdb_attaches_the_catalog(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths
) -> None:
    load(lake, warehouse, flat_months("2023-07"))
    load(lake, warehouse, flat_months("2023-08", missing=0.2))
    published(lake, warehouse)
    query = "SELECT count(*), count(temperature_2m), avg(CAST(temperature_2m AS double precision)) FROM {}"
    with open_duckdb() as connection, warehouse.connect() as own:
        attach, count, _ = REST_OF_PAGE.replace("https://catalog.example.org/iceberg", rest.url).split(";\n")
        connection.execute(attach)
        assert connection.execute(count).fetchall() == own.execute("SELECT count(*) FROM weather").fetchall()
        ((rows, values, mean),) = connection.execute(query.format("lake.era5.weather")).fetchall()
        wanted = own.execute(query.format("weather").encode()).fetchall()
    assert [(rows, values, pytest.approx(mean))] == wanted


def test_only_this_machine_reaches_the_server(rest: RestServer) -> None:
    assert rest.process is not None
    listening = [one.laddr for one in psutil.Process(rest.process.pid).net_connections("tcp") if one.status == "LISTEN"]
    assert {(one.ip.removeprefix("::ffff:"), one.port) for one in listening} == {("127.0.0.1", rest.port)}


def test_the_program_of_the_page_reads_by_it(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(lake, warehouse, flat_months("2023-07", points=(3, 3), north=8.5, west=10.0))
    published(lake, warehouse)
    monkeypatch.setenv("ERA5_LAKE_CATALOG", rest.url)
    names: dict[str, Any] = {}
    exec(PROGRAM, names)  # the page's own text
    with warehouse.connect() as own:
        ((wanted,),) = own.execute("SELECT avg(temperature_2m::float8) FROM weather WHERE location_id = 565240")
    assert names["answer"] == pytest.approx(wanted)


def test_columns_that_are_added_later_are_told(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths
) -> None:
    load(lake, warehouse, flat_months("2023-07"))
    published(lake, warehouse)
    load(lake, warehouse, flat_months("2023-08", names=("t2m", "u10")))
    published(lake, warehouse)
    own = table_of(lake, warehouse)
    with catalog_at(rest) as catalog:
        theirs = catalog.load_table("era5.weather")
        assert {(f.field_id, f.name) for f in theirs.schema().fields} == {
            (f.field_id, f.name) for f in own.schema().fields
        }
        assert theirs.scan().to_arrow().column("zonal_wind_10m").null_count < theirs.scan().to_arrow().num_rows


def test_a_catalog_that_does_not_answer_ends_no_load_and_learns_of_the_month_later(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths
) -> None:
    load(lake, warehouse, flat_months("2023-07"))
    assert lake.after_commit(warehouse, 24) == ()
    rest.stop()
    load(lake, warehouse, flat_months("2023-08"))
    (note,) = lake.after_commit(warehouse, 24)
    assert rest.url in note
    assert "era5 lake publish" in note
    rest.start()
    assert rows_by_rest(rest) < rows_in(warehouse)
    assert published(lake, warehouse).added == 1
    assert rows_by_rest(rest) == rows_in(warehouse)


def test_loads_that_end_together_are_all_told(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths
) -> None:
    load(lake, warehouse, flat_months("2023-06"))
    published(lake, warehouse)
    notes: list[str] = []

    def one(flat: FlatMonth) -> None:
        load(lake, warehouse, flat)
        notes.extend(lake.after_commit(warehouse, 24))

    flats = [flat_months(f"2023-{month:02d}") for month in (7, 8, 9, 10)]
    threads = [threading.Thread(target=one, args=(flat,)) for flat in flats]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert notes == []
    assert rows_by_rest(rest) == rows_in(warehouse)


def test_expired_snapshots_go_there_before_their_files_do(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths
) -> None:
    load(lake, warehouse, flat_months("2023-07"))
    published(lake, warehouse)
    load(lake, warehouse, flat_months("2023-07", seed=2), replace_more=True)
    now = timedelta(0)
    with warehouse.connect() as connection:
        done = clean(connection, lake, keep=now, orphans_after=now)
    assert done.snapshots == 1
    with catalog_at(rest) as catalog:
        assert len(catalog.load_table("era5.weather").metadata.snapshots) == 1
    assert rows_by_rest(rest) == rows_in(warehouse)
    # It goes on: its own metadata was not taken for something left behind.
    load(lake, warehouse, flat_months("2023-08"))
    assert published(lake, warehouse).added == 1
    rest.stop()
    with warehouse.connect() as connection, pytest.raises(TransientError):
        clean(connection, lake, keep=now, orphans_after=now)
    rest.start()
    assert rows_by_rest(rest) == rows_in(warehouse)


def test_its_metadata_stays_though_it_is_not_set(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths
) -> None:
    load(lake, warehouse, flat_months("2023-07"))
    published(lake, warehouse)
    load(lake, warehouse, flat_months("2023-08"))
    published(lake, warehouse)
    now = timedelta(0)
    alone = replace(lake, follower=None)
    with warehouse.connect() as connection:
        with pytest.raises(UsageError, match="follows this lake, and ERA5_LAKE_CATALOG is unset") as caught:
            clean(connection, alone, keep=now, orphans_after=now)
        assert rest.url in caught.value.message
        assert rows_by_rest(rest) == rows_in(warehouse)
        clean(connection, lake, keep=now, orphans_after=now)
        assert rows_by_rest(rest) == rows_in(warehouse)
        assert forget_followers(connection, but=rest.url) == []
        assert forget_followers(connection, but=None) == [rest.url]
        load(lake, warehouse, flat_months("2023-09"))
        clean(connection, alone, keep=now, orphans_after=now)


def test_loads_do_not_wait_for_a_catalog_that_hangs(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths, monkeypatch: pytest.MonkeyPatch
) -> None:
    load(lake, warehouse, flat_months("2023-07"))
    asked, answers = threading.Event(), threading.Event()
    publish = RestFollower.publish

    def hang(follower: RestFollower, table: Table) -> Published:
        asked.set()
        assert answers.wait(240)
        return publish(follower, table)

    monkeypatch.setattr(RestFollower, "publish", hang)
    notes: list[str] = []
    first = threading.Thread(target=lambda: notes.extend(lake.after_commit(warehouse, 24)))
    first.start()
    assert asked.wait(240)
    with warehouse.connect() as connection:
        # Neither a lock of the catalog's row nor a transaction is kept meanwhile.
        ((open_ones,),) = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND state LIKE 'idle in tr%'"
        ).fetchall()
        assert open_ones == 0
    load(lake, warehouse, flat_months("2023-08"))
    assert lake.after_commit(warehouse, 24) == ()  # at once
    answers.set()
    first.join()
    assert notes == []
    assert rows_by_rest(rest) == rows_in(warehouse)


def test_what_another_program_did_there_is_refused(
    lake: Lake, warehouse: Warehouse, rest: RestServer, flat_months: FlatMonths
) -> None:
    load(lake, warehouse, flat_months("2023-07"))
    published(lake, warehouse)
    with catalog_at(rest) as catalog:
        catalog.load_table("era5.weather").delete("location_id > 0")
    load(lake, warehouse, flat_months("2023-08"))
    with pytest.raises(UsageError, match="another program has changed"):
        published(lake, warehouse)
    with catalog_at(rest) as catalog:
        catalog.drop_table("era5.weather")
    published(lake, warehouse)
    assert rows_by_rest(rest) == rows_in(warehouse)


def test_another_table_of_that_name_is_refused(
    lake: Lake, warehouse: Warehouse, server_url: str, flat_months: FlatMonths, tmp_path: Path
) -> None:
    load(lake, warehouse, flat_months("2023-07"))
    published(lake, warehouse)
    (tmp_path / "other").mkdir()
    other = replace(lake_at(str(tmp_path / "other"), tmp_path / "home"), follower=lake.follower)
    with fresh_warehouse(server_url) as second:
        load(other, second, flat_months("2023-07"))
        with pytest.raises(UsageError, match="has another table"):
            published(other, second)


class _Refusing(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        body = b'{"error": {"message": "Not authorized", "type": "NotAuthorizedException", "code": 401}}'
        self.send_response(401)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002
        """Say nothing."""


def test_a_token_that_is_refused_is_in_no_message(
    lake: Lake, warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    token = tmp_path / "token"
    token.write_text("very-secret\n")
    load(lake, warehouse, flat_months("2023-07"))
    with ThreadingHTTPServer(("127.0.0.1", 0), _Refusing) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        url = f"http://user:hidden@127.0.0.1:{server.server_port}/catalog?warehouse=w"
        with pytest.raises(StoreError, match="refuses") as raised:
            published(replace(lake, follower=RestFollower(url, token)), warehouse)
        server.shutdown()
    assert "very-secret" not in str(raised.value)
    assert "hidden" not in str(raised.value)
    assert "ERA5_LAKE_CATALOG_TOKEN_FILE" in raised.value.remedy


def test_by_the_commands(rest: RestServer, tmp_path: Path) -> None:
    (tmp_path / "lake").mkdir()
    settings = {"ERA5_LAKE": str(tmp_path / "lake"), "ERA5_LAKE_CATALOG": rest.url}
    with new_home() as home:
        home.run("db", "start", "--port", str(free_port()))
        sample = ("--source", "sample", "--area", "10/100/9.5/100.5")
        home.run("load", "--from", "2023-07", "--to", "2023-08", *sample, code=0, **settings)
        assert rows_by_rest(rest) == (744 + 744) * 9
        with catalog_at(rest) as catalog:
            catalog.drop_table("era5.weather")
        told = home.run("lake", "publish", code=0, **settings).out
        assert told == f"{rest.url}: 2 snapshots, 2 added, 0 removed\n"
        told = home.run("lake", "publish", code=0, **settings).out
        assert told == f"{rest.url}: 2 snapshots, 0 added, 0 removed\n"
        home.run("drop", "--from", "2023-08", "--yes", code=0, **settings)
        assert rows_by_rest(rest) == 744 * 9
        rest.stop()
        failed = home.run("lake", "publish", code=7, **settings)
        assert rest.url in failed.err
        assert "Traceback" not in failed.err
        assert "there is no REST catalog" in home.run("lake", "publish", code=2, ERA5_LAKE=settings["ERA5_LAKE"]).err
