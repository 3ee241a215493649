"""Stores that tests use, as a pytest plugin: a folder, and S3 servers on this machine.

Both servers are moto's: one takes any key, the other checks keys, signatures and rights.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import httpx
import pytest
from pyarrow import fs

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY, SECRET = "test-key", "test-secret"
_READY_SECONDS = 240.0
_REGION = "us-east-1"
# A request without a signature, which S3 denies, makes moto fail with 500 where it checks keys.
_STRICT = """
import sys
from moto.moto_server.werkzeug_app import DomainDispatcherApplication, create_backend_app
from werkzeug.serving import run_simple

moto = DomainDispatcherApplication(create_backend_app)

def app(environ, start_response):
    if "HTTP_AUTHORIZATION" in environ or environ["PATH_INFO"].startswith("/moto-api/"):
        return moto(environ, start_response)
    start_response("403 Forbidden", [("Content-Type", "application/xml")])
    return [b"<Error><Code>AccessDenied</Code><Message>Access Denied</Message></Error>"]

run_simple("127.0.0.1", int(sys.argv[1]), app, threaded=True)
"""
_ALL_RIGHTS = {"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}


def free_port() -> int:
    """Return a port of 127.0.0.1 that nothing listens on."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@dataclass
class S3Server:
    """An S3 server's process; `start` after `stop` goes on at the same port."""

    command: list[str]
    port: int
    env: dict[str, str] = field(default_factory=dict)
    key: str = KEY
    secret: str = SECRET
    process: subprocess.Popen[bytes] | None = None
    ca_file: Path | None = None

    @property
    def url(self) -> str:
        return f"{'http' if self.ca_file is None else 'https'}://127.0.0.1:{self.port}"

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

    def client(self) -> fs.S3FileSystem:
        """A client that may create buckets, as the project's own may not."""
        return fs.S3FileSystem(
            access_key=self.key,
            secret_key=self.secret,
            region=_REGION,
            endpoint_override=self.url,
            tls_ca_file_path=None if self.ca_file is None else str(self.ca_file),
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
def strict_s3_server() -> Iterator[S3Server]:
    """An S3 server that checks keys, signatures and rights; `new_user` makes others than its own."""
    port = free_port()
    command = [sys.executable, "-c", _STRICT, str(port)]
    with running(command, port, INITIAL_NO_AUTH_ACTION_COUNT="0") as server:
        server.key, server.secret = new_user(server, _ALL_RIGHTS)
        yield server


def new_user(server: S3Server, policy: dict[str, Any] | None = None) -> tuple[str, str]:
    """Create a user of the strict server, with the rights of a policy or none; return key and secret."""
    import boto3  # half a second

    _check_keys(server, on=False)
    try:
        iam = boto3.client(
            "iam", endpoint_url=server.url, region_name=_REGION, aws_access_key_id=KEY, aws_secret_access_key=SECRET
        )
        name = f"era5-{uuid4().hex[:12]}"
        iam.create_user(UserName=name)
        if policy is not None:
            iam.put_user_policy(UserName=name, PolicyName="rights", PolicyDocument=json.dumps(policy))
        made = iam.create_access_key(UserName=name)["AccessKey"]
        return made["AccessKeyId"], made["SecretAccessKey"]
    finally:
        _check_keys(server, on=True)


def _check_keys(server: S3Server, *, on: bool) -> None:
    """Tell moto after how many more requests it checks keys."""
    httpx.post(f"{server.url}/moto-api/reset-auth", content="0" if on else "1000").raise_for_status()


@contextmanager
def aws_environment(endpoint: str, key: str = KEY, secret: str = SECRET) -> Iterator[pytest.MonkeyPatch]:
    """Set the environment of a user of the S3 server, without any other of Amazon's settings.

    What else a test changes in it goes by the patch, which restores all in the right order.
    """
    with pytest.MonkeyPatch.context() as patch:
        _set_aws_environment(patch, endpoint, key, secret)
        yield patch


def _set_aws_environment(patch: pytest.MonkeyPatch, endpoint: str, key: str = KEY, secret: str = SECRET) -> None:
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        patch.delenv(name)
    patch.setenv("AWS_ENDPOINT_URL", endpoint)
    patch.setenv("AWS_ACCESS_KEY_ID", key)
    patch.setenv("AWS_SECRET_ACCESS_KEY", secret)
    patch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def s3_address(s3_server: S3Server, monkeypatch: pytest.MonkeyPatch) -> str:
    """An empty place in a bucket."""
    _set_aws_environment(monkeypatch, s3_server.url)
    return f"s3://{s3_server.bucket()}/some/place"


@pytest.fixture(autouse=True)
def _settings_of_s3_are_left_as_they_were() -> Iterator[None]:
    """Require that no setting of S3 outlives its test, where later ones would fail or pass by it."""
    before = _settings()
    yield
    assert _settings() == before


def _settings() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name.startswith("AWS_")}


@pytest.fixture(params=["folder", "s3"])
def store_address(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """An empty store of each kind."""
    if request.param == "s3":
        return str(request.getfixturevalue("s3_address"))
    (tmp_path / "store").mkdir()
    return str(tmp_path / "store")
