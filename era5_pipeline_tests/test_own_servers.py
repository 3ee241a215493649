"""Separate servers for tests: their version, stops and crashes, small disks, and complete removal."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, LiteralString

import psutil as _psutil
import psycopg
import pytest

from era5_pipeline.postgres.urls import url_parameters
from era5_pipeline_tests.own_servers import own_server_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.own_servers import OwnServer
    from era5_pipeline_tests.servers import Host

psutil: Any = _psutil  # it comes without types


def numbers_in(warehouse: Warehouse) -> list[int]:
    with psycopg.connect(warehouse.url) as connection:
        return [row[0] for row in connection.execute("SELECT number FROM numbers ORDER BY number")]


def processes_in(folder: Path) -> list[int]:
    return [found.pid for found in psutil.process_iter(["cwd"]) if str(found.info["cwd"]).startswith(str(folder))]


def folder_of(server: OwnServer) -> Path:
    return Path(url_parameters(server.url())["host"])


def ask(url: str, query: LiteralString) -> Any:
    """The first row."""
    with psycopg.connect(url, autocommit=True) as connection:
        return connection.execute(query).fetchone()


def test_a_separate_server_has_the_version_of_the_server_under_test(
    own_server: OwnServer, host: Host, host_url: str
) -> None:
    what: LiteralString = (
        "SELECT version(), (SELECT default_version FROM pg_available_extensions WHERE name = 'timescaledb')"
    )
    assert ask(own_server.url(), what) == ask(host_url, what)
    assert ask(own_server.url(), "SELECT current_setting('timescaledb.license', true)") == (host.license,)
    assert ask(own_server.url(), "SHOW wal_level") == ("minimal",)
    system: LiteralString = "SELECT system_identifier FROM pg_control_system()"
    assert ask(own_server.url(), system) != ask(host_url, system)


@pytest.mark.parametrize(
    ("fault", "recovers"),
    [
        (lambda server, pid: server.stop(), False),
        (lambda server, pid: server.stop("immediate"), True),
        (lambda server, pid: server.kill_session(pid), True),
    ],
    ids=["fast", "immediate", "session killed"],
)
def test_only_committed_rows_survive_a_stop_or_crash(
    own_server: OwnServer, own_warehouse: Warehouse, fault: Callable[[OwnServer, int], None], recovers: bool
) -> None:
    with psycopg.connect(own_warehouse.url) as connection:
        connection.execute("CREATE TABLE numbers (number integer)")
        connection.execute("INSERT INTO numbers VALUES (1)")
        connection.commit()
        connection.execute("INSERT INTO numbers VALUES (2)")
        logged = len(own_server.log())
        fault(own_server, connection.info.backend_pid)
        with pytest.raises(psycopg.OperationalError):
            connection.execute("INSERT INTO numbers VALUES (3)")
    own_server.start()
    assert numbers_in(own_warehouse) == [1]
    assert ("automatic recovery in progress" in own_server.log()[logged:]) == recovers


def test_processes_folders_and_mounts_are_removed_after_a_failed_test(host: Host) -> None:
    def use() -> None:
        with own_server_of(host, disk_bytes={"tables": 16 << 20}) as server:
            folders.append(folder_of(server))
            assert processes_in(folders[0])
            raise AssertionError("as a test does")

    folders: list[Path] = []
    with pytest.raises(AssertionError, match="as a test does"):
        use()
    assert not folders[0].exists()
    assert not processes_in(folders[0])
    assert str(folders[0]) not in Path("/proc/self/mounts").read_text(encoding="utf-8")


def test_a_disk_can_be_filled_and_emptied(
    server_on_small_disks: OwnServer, warehouse_on_small_disks: Warehouse
) -> None:
    disk = server_on_small_disks.disks["tables"]
    assert str(folder_of(server_on_small_disks)) not in Path("/proc/self/mounts").read_text(encoding="utf-8")
    with psycopg.connect(warehouse_on_small_disks.url, autocommit=True) as connection:
        connection.execute("CREATE TABLE numbers AS SELECT 1 AS number")
        disk.fill()
        assert disk.free_bytes == 0
        with pytest.raises(psycopg.errors.DiskFull, match="No space left on device"):
            connection.execute("INSERT INTO numbers SELECT generate_series(1, 100000)")
        disk.empty()
        connection.execute("INSERT INTO numbers SELECT generate_series(2, 100000)")
    assert len(numbers_in(warehouse_on_small_disks)) == 100_000
