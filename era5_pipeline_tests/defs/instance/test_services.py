"""The services of `era5 up`; `cli/test_up.py` runs them."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.defs.instance.services import LOCATION, dagster_services, socket_path, sole_services
from era5_pipeline.model.errors import LocalDiskError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def temporary(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files with a short path, instead of the system's."""
    with tempfile.TemporaryDirectory(dir="/tmp", prefix="e5-") as folder:
        monkeypatch.setattr(tempfile, "tempdir", folder)
        yield Path(folder)


def test_services_share_one_code_server(tmp_path: Path) -> None:
    path = socket_path(tmp_path)
    path.touch()
    services = dagster_services(tmp_path, 3210)
    assert [service.name for service in services] == ["code-server", "webserver", "daemon"]
    assert not path.exists()  # left by a killed server; a new one could not bind it
    (location,) = json.loads((tmp_path / "workspace.yaml").read_text())["load_from"]
    # The same at every start: schedules and backfills are stored under it.
    assert location == {"grpc_server": {"host": "localhost", "socket": str(path), "location_name": LOCATION}}
    code_server, webserver, daemon = services
    assert str(path) in code_server.argv
    assert {"127.0.0.1", "3210"} < set(webserver.argv)
    for service in (webserver, daemon):
        assert str(tmp_path / "workspace.yaml") in service.argv
    # The code server is not running.
    assert code_server.ready is not None
    assert webserver.ready is not None
    assert not code_server.ready()
    assert daemon.ready is None


def test_webserver_is_ready_once_it_answers(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ready = dagster_services(tmp_path, port)[1].ready
    assert ready is not None
    assert not ready()


def test_socket_is_in_a_private_folder_if_the_path_is_too_long(temporary: Path) -> None:
    folder = temporary / ("long" * 40)
    path = socket_path(folder)
    assert path == socket_path(folder)
    assert path != socket_path(folder / "other")
    assert len(os.fsencode(path)) <= 107
    assert path.parent.parent == temporary
    assert path.parent.stat().st_mode & 0o777 == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_socket_folder_of_another_user_is_refused(temporary: Path) -> None:
    folder = temporary / ("long" * 40)
    os.chown(socket_path(folder).parent, 12345, -1)
    with pytest.raises(LocalDiskError, match="belongs to another user"):
        socket_path(folder)


def test_services_run_only_once_per_folder(tmp_path: Path) -> None:
    program = "import sys; from pathlib import Path; from era5_pipeline.defs.instance.services import sole_services\n"
    program += "with sole_services(Path(sys.argv[1])): print('has it', flush=True); sys.stdin.read()"
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout
        assert other.stdout.readline() == "has it\n"
        with pytest.raises(UsageError, match="already running in"), sole_services(tmp_path):
            pass
        other.kill()
    with sole_services(tmp_path):
        pass


def test_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    if os.geteuid() == 0:
        pytest.skip("root may write everywhere")
    tmp_path.chmod(0o500)
    with pytest.raises(LocalDiskError, match=str(tmp_path)), sole_services(tmp_path):
        pass
