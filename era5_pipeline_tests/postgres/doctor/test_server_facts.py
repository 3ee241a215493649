"""Measuring this machine, and recognising the process of a session."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import psutil as _psutil
import psycopg
import pytest

from era5_pipeline.postgres.doctor.server_facts import Machine, is_session_here, log_folder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.postgres.embedded.server import EmbeddedServer

psutil: Any = _psutil  # it comes without types


@pytest.fixture(scope="module")
def session(server_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(server_url, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="module")
def ended() -> int:
    """The number of a process that has ended."""
    with subprocess.Popen([sys.executable, "-c", ""]) as process:
        pass
    return process.pid


def test_memory_cores_and_disk_of_this_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine.here(tmp_path)
    assert machine.memory_bytes is not None
    assert 1 << 26 < machine.memory_bytes <= psutil.virtual_memory().total
    assert machine.cores == os.cpu_count()
    assert machine.free_bytes == pytest.approx(shutil.disk_usage(tmp_path).free, rel=0.2)
    # A machine without control groups has its whole memory; a disk that is inaccessible is unknown.
    monkeypatch.setattr("era5_pipeline.postgres.doctor.server_facts._cgroup_memory_limits", list)
    assert Machine.here(None) == Machine(psutil.virtual_memory().total, os.cpu_count(), None)


def test_a_session_on_this_machine_is_recognised(session: psycopg.Connection[Any]) -> None:
    pid = session.info.backend_pid
    assert is_session_here(pid, "postgres", "postgres", None)
    # The process with that number is PostgreSQL's, but serves another session.
    assert not is_session_here(pid, "postgres", "other", None)
    assert not is_session_here(pid, "other", "postgres", None)
    assert not is_session_here(pid, "postgres", "postgres", 5432)


def test_other_processes_are_no_session(session: psycopg.Connection[Any], ended: int) -> None:
    postmaster = psutil.Process(session.info.backend_pid).ppid()
    for pid in (os.getpid(), postmaster, ended):
        assert not is_session_here(pid, "postgres", "postgres", None)


def test_the_folder_of_the_log_is_found_by_the_process(
    session: psycopg.Connection[Any], embedded: EmbeddedServer
) -> None:
    data = embedded.data_folder
    found = [log_folder(session.info.backend_pid, reported) for reported in (None, str(data), "/nowhere")]
    if sys.platform == "linux":  # /proc has it, whatever path the server reports
        assert all(folder is not None and folder.samefile(data / "pg_wal") for folder in found)


def test_the_folder_of_the_log_is_found_by_the_servers_path(ended: int, tmp_path: Path) -> None:
    """As for a server of another user, whose process cannot be inspected."""
    assert log_folder(ended, None) is None
    assert log_folder(ended, str(tmp_path / "elsewhere")) is None
    assert log_folder(ended, str(tmp_path)) == tmp_path
    (tmp_path / "pg_wal").mkdir()
    assert log_folder(ended, str(tmp_path)) == tmp_path / "pg_wal"
