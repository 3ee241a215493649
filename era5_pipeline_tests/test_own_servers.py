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
    from era5_pipeline_tests.own_servers import OwnServer
    from era5_pipeline_tests.servers import Host

psutil: Any = _psutil  # it comes without types


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
