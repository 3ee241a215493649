"""Stores that tests use, as a pytest plugin: a folder, and S3 servers on this machine.

The S3 server of every test is moto's, which takes any key. Tests of keys take versitygw, if it is on the PATH, or named
by ERA5_TEST_VERSITYGW; else they are skipped.
"""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
from pyarrow import fs

from era5_pipeline.model.settings import Settings
from era5_pipeline.runtime.file_store import FileStore

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY, SECRET = "test-key", "test-secret"
_READY_SECONDS = 120.0
# Read now: fixtures remove such variables from the environment.
_STRICT_SERVER = os.environ.get("ERA5_TEST_VERSITYGW") or shutil.which("versitygw")


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass
class S3Server:
    """An S3 server's process; `start` after `stop` goes on at the same port."""

    command: list[str]
    port: int
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> None:
        self.process = subprocess.Popen(
            self.command, env={**os.environ, **self.env}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + _READY_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=5).close()
            except OSError:
                assert self.process.poll() is None, f"{self.command[0]} ended at once"
                assert time.monotonic() < deadline, f"{self.command[0]} does not answer"
                time.sleep(0.1)
            else:
                return

    def stop(self) -> None:
        if self.process is not None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()
            self.process = None

    def client(self, key: str = KEY, secret: str = SECRET) -> fs.S3FileSystem:
        """A client that may create buckets, as the project's own may not."""
        return fs.S3FileSystem(
            access_key=key,
            secret_key=secret,
            region="us-east-1",
            endpoint_override=self.url,
            allow_bucket_creation=True,
            allow_bucket_deletion=True,
        )

    def bucket(self) -> str:
        name = f"era5-{uuid4().hex[:12]}"
        self.client().create_dir(name)
        return name


@contextmanager
def running(command: list[str], port: int, **env: str) -> Iterator[S3Server]:
    server = S3Server(command, port, env)
    server.start()
    try:
        yield server
    finally:
        server.stop()


def moto_command(port: int) -> list[str]:
    return [str(Path(sys.executable).with_name("moto_server")), "-H", "127.0.0.1", "-p", str(port)]


@pytest.fixture(scope="session")
def s3_server() -> Iterator[S3Server]:
    port = free_port()
    with running(moto_command(port), port) as server:
        yield server


@pytest.fixture(scope="session")
def strict_s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """An S3 server that checks keys."""
    program = _STRICT_SERVER
    if program is None:
        pytest.skip("no S3 server that checks keys: put versitygw on the PATH, or name it by ERA5_TEST_VERSITYGW")
    port, folder = free_port(), tmp_path_factory.mktemp("versitygw")
    command = [program, "--port", f"127.0.0.1:{port}", "posix", str(folder)]
    with running(command, port, ROOT_ACCESS_KEY=KEY, ROOT_SECRET_KEY=SECRET) as server:
        yield server


@contextmanager
def aws_environment(endpoint: str, key: str = KEY, secret: str = SECRET) -> Iterator[None]:
    """Set the environment of a user of the S3 server, without any other of Amazon's settings."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in os.environ if name.startswith("AWS_")]:
            patch.delenv(name)
        patch.setenv("AWS_ENDPOINT_URL", endpoint)
        patch.setenv("AWS_ACCESS_KEY_ID", key)
        patch.setenv("AWS_SECRET_ACCESS_KEY", secret)
        patch.setenv("AWS_EC2_METADATA_DISABLED", "true")
        yield


def clean_file_store(home: Path, address: str) -> FileStore:
    """A store of files with nothing here yet."""
    return FileStore.of(Settings(home=home, store=address))


@pytest.fixture
def s3_address(s3_server: S3Server) -> Iterator[str]:
    """An empty place in a bucket."""
    with aws_environment(s3_server.url):
        yield f"s3://{s3_server.bucket()}/some/place"


@pytest.fixture(params=["folder", "s3"])
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "s3":
        return str(request.getfixturevalue("s3_address"))
    (tmp_path / "store").mkdir()
    return str(tmp_path / "store")
