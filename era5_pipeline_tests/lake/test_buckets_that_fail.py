"""Loads while the lake's bucket throttles, is cut off, or refuses: retried or refused, and nothing half-committed."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from era5_pipeline.lake.read import list_files, read_rows
from era5_pipeline.lake.upkeep import clean, read_both, verify_month
from era5_pipeline.model.errors import Era5Error, StoreError, TransientError
from era5_pipeline.runtime import stores
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests.flat_months import rows_of_table
from era5_pipeline_tests.lake.test_months import assert_same, lake_at, load, rows_of_lake, snapshots
from era5_pipeline_tests.local_http import LocalServer
from era5_pipeline_tests.postgres.test_tls import make_authority, make_certificate
from era5_pipeline_tests.stores import S3Server, aws_environment, free_port, moto_command, new_user

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
# Making one for each request took most of the proxy's time: it reads all authorities' certificates.
_CLIENT = httpx.Client(timeout=240)


class FailingProxy:
    """Passes requests on to an S3 server, except those that `fails` says: 503 SlowDown, or the connection is cut."""

    def __init__(self, server: S3Server, fails: Callable[[str, str], str]) -> None:
        proxy = self
        self.failed: list[str] = []

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # The body follows the headers at once, and not when the client has acknowledged those, 40 ms later.
            disable_nagle_algorithm = True

            def handle_any(self) -> None:
                body = self._body()
                how = fails(self.command, self.path)
                if how:
                    proxy.failed.append(f"{self.command} {self.path}")
                if how == "cut":
                    self.close_connection = True
                    return
                if how == "slow down":
                    self._answer(503, {"Content-Type": "application/xml"}, _SLOW_DOWN)
                    return
                sent = {name: value for name, value in self.headers.items() if name.lower() not in _OWN_HEADERS}
                url = f"{server.url}{self.path}"
                answer = _CLIENT.request(self.command, url, headers=sent, content=body)
                headers = {name: value for name, value in answer.headers.items() if name not in _OWN_HEADERS}
                if self.command == "HEAD":
                    headers["Content-Length"] = answer.headers.get("Content-Length", "0")
                self._answer(answer.status_code, headers, answer.content)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_any  # noqa: N815

            def _body(self) -> bytes:
                if self.headers.get("Transfer-Encoding") != "chunked":
                    return self.rfile.read(int(self.headers.get("Content-Length") or 0))
                parts = []
                while size := int(self.rfile.readline(), 16):
                    parts.append(self.rfile.read(size))
                    self.rfile.readline()
                while self.rfile.readline().strip():
                    pass
                return b"".join(parts)

            def _answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
                self.send_response_only(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                if "Content-Length" not in headers:
                    self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: Any) -> None:
                """Say nothing."""

        self._server = LocalServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


_OWN_HEADERS = {"content-length", "transfer-encoding", "connection", "server", "date"}


@contextmanager
def failing(server: S3Server, bucket: str, tmp_path: Path, fails: Callable[[str, str], str]) -> Iterator[Lake]:
    """The lake behind a proxy that fails."""
    proxy = FailingProxy(server, fails)
    try:
        with aws_environment(proxy.url):
            yield lake_at(f"s3://{bucket}/lake", tmp_path / "home")
        assert proxy.failed
    finally:
        proxy.close()


class Times:
    """Fails the first requests of a method whose path contains some words."""

    def __init__(self, how: str, times: int, method: str, words: str) -> None:
        self._how, self._left, self._method, self._words = how, times, method, words

    def __call__(self, method: str, path: str) -> str:
        if self._left and method == self._method and self._words in path:
            self._left -= 1
            return self._how
        return ""


@pytest.fixture
def two_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a bucket twice instead of three times: the pause before the last attempt is the longest."""
    monkeypatch.setattr(stores, "_ATTEMPTS", 2)


@pytest.mark.parametrize(("how", "words"), [("slow down", "/data/"), ("cut", "/metadata/")])
def test_a_bucket_that_fails_for_a_moment_is_asked_again(
    how: str,
    words: str,
    s3_server: S3Server,
    embedded_warehouse: Warehouse,
    flat_months: FlatMonths,
    tmp_path: Path,
) -> None:
    with failing(s3_server, s3_server.bucket(), tmp_path, Times(how, 2, "PUT", words)) as lake:
        load(lake, embedded_warehouse, flat_months())
        assert_same(lake, embedded_warehouse)


@pytest.mark.usefixtures("two_attempts")
@pytest.mark.parametrize(
    ("how", "words"), [("slow down", "/data/"), ("cut", "/metadata/"), ("slow down", ".metadata.json")]
)
def test_a_bucket_that_goes_on_failing_changes_neither_lake_nor_warehouse(
    how: str,
    words: str,
    s3_server: S3Server,
    embedded_warehouse: Warehouse,
    flat_months: FlatMonths,
    tmp_path: Path,
) -> None:
    bucket = s3_server.bucket()
    with aws_environment(s3_server.url):
        lake = lake_at(f"s3://{bucket}/lake", tmp_path / "home")
        load(lake, embedded_warehouse, flat_months())
        before = rows_of_table(embedded_warehouse)
    broken = failing(s3_server, bucket, tmp_path, Times(how, 10**6, "PUT", words))
    with broken as behind, pytest.raises(TransientError) as caught:
        load(behind, embedded_warehouse, flat_months(seed=2), replace_more=True)
    assert "lake" in caught.value.message
    with aws_environment(s3_server.url):
        assert rows_of_table(embedded_warehouse) == before == rows_of_lake(lake, embedded_warehouse)
        assert snapshots(lake, embedded_warehouse) == 1
        load(lake, embedded_warehouse, flat_months(seed=2), replace_more=True)
        assert_same(lake, embedded_warehouse)


@pytest.mark.usefixtures("two_attempts")
@pytest.mark.parametrize(("how", "words"), [("slow down", ".metadata.json"), ("cut", ".avro"), ("slow down", "/data/")])
def test_a_bucket_that_cannot_be_read_changes_nothing_and_is_read_again(
    how: str,
    words: str,
    s3_server: S3Server,
    embedded_warehouse: Warehouse,
    flat_months: FlatMonths,
    tmp_path: Path,
) -> None:
    bucket = s3_server.bucket()
    with aws_environment(s3_server.url):
        lake = lake_at(f"s3://{bucket}/lake", tmp_path / "home")
        load(lake, embedded_warehouse, flat_months(points=(3, 3)))
        before = rows_of_table(embedded_warehouse)
    # A commit reads metadata and manifests, and of data files those of which some places stay.
    fewer = flat_months(seed=2)
    with (
        failing(s3_server, bucket, tmp_path, Times(how, 10**6, "GET", words)) as behind,
        pytest.raises(TransientError) as caught,
    ):
        load(behind, embedded_warehouse, fewer, replace_more=True)
    assert "lake" in caught.value.message
    with aws_environment(s3_server.url):
        assert rows_of_table(embedded_warehouse) == before == rows_of_lake(lake, embedded_warehouse)
        assert snapshots(lake, embedded_warehouse) == 1
    with failing(s3_server, bucket, tmp_path, Times(how, 1, "GET", words)) as behind:
        load(behind, embedded_warehouse, fewer, replace_more=True)
        assert_same(behind, embedded_warehouse)


@pytest.mark.usefixtures("two_attempts")
def test_verify_of_a_bucket_that_fails_says_so(
    s3_server: S3Server, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    bucket = s3_server.bucket()
    with aws_environment(s3_server.url):
        load(lake_at(f"s3://{bucket}/lake", tmp_path / "home"), embedded_warehouse, flat_months())
    for how, times, ends_well in (("slow down", 1, True), ("cut", 10**6, False)):
        with (
            failing(s3_server, bucket, tmp_path, Times(how, times, "GET", "/data/")) as behind,
            embedded_warehouse.connect() as connection,
        ):
            table, (contents,) = read_both(connection, behind)
            if ends_well:
                assert verify_month(behind, table, contents) == ()
            else:
                with pytest.raises(TransientError, match="the lake s3://"):
                    verify_month(behind, table, contents)


def test_a_large_file_that_is_cut_off_is_not_taken_for_whole(
    s3_server: S3Server, flat_months: FlatMonths, tmp_path: Path
) -> None:
    flat = flat_months(points=(40, 60))
    (file,) = flat.row_files
    assert file.path.stat().st_size > 5 << 20  # sent in parts
    bucket = s3_server.bucket()
    with (
        failing(s3_server, bucket, tmp_path, Times("cut", 10**6, "PUT", "partNumber=")) as behind,
        pytest.raises(TransientError, match="lake"),
    ):
        behind.stage(flat)
    assert list(behind.store.objects()) == []
    with failing(s3_server, bucket, tmp_path, Times("cut", 2, "PUT", "partNumber=")) as behind:
        staged = behind.stage(flat)
        (stored,) = behind.store.objects()
        assert [stored.bytes] == [file.bytes for file in staged.files]


def test_a_bucket_without_the_right_to_delete_stops_the_cleaning_with_the_remedy(
    strict_s3_server: S3Server, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    bucket = strict_s3_server.bucket()
    rights = _policy(bucket, "s3:ListBucket", "s3:GetObject", "s3:PutObject")
    key, secret = new_user(strict_s3_server, rights)
    now = timedelta(0)
    with aws_environment(strict_s3_server.url, key, secret), embedded_warehouse.connect() as connection:
        lake = lake_at(f"s3://{bucket}/lake", tmp_path / "home")
        load(lake, embedded_warehouse, flat_months())
        load(lake, embedded_warehouse, flat_months(seed=2), replace_more=True)
        with pytest.raises(StoreError) as caught:
            clean(connection, lake, keep=now, orphans_after=now)
        assert "s3:DeleteObject" in caught.value.remedy
        assert_same(lake, embedded_warehouse)
    with (
        aws_environment(strict_s3_server.url, strict_s3_server.key, strict_s3_server.secret),
        embedded_warehouse.connect() as connection,
    ):
        # The snapshot has expired already; its files go now.
        lake = lake_at(f"s3://{bucket}/lake", tmp_path / "home")
        done = clean(connection, lake, keep=now, orphans_after=now)
        assert done.snapshots == 0
        assert done.files > 0
        assert_same(lake, embedded_warehouse)


def _policy(bucket: str, *actions: str) -> dict[str, Any]:
    resource = [f"arn:aws:s3:::{bucket}", f"arn:aws:s3:::{bucket}/*"]
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": resource}
    return {"Version": "2012-10-17", "Statement": [statement]}


@pytest.mark.parametrize("rights", [(), ("s3:ListBucket", "s3:GetObject")])
def test_a_bucket_without_rights_is_refused_with_the_remedy(
    rights: tuple[str, ...],
    strict_s3_server: S3Server,
    embedded_warehouse: Warehouse,
    flat_months: FlatMonths,
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
) -> None:
    bucket = strict_s3_server.bucket()
    key, secret = new_user(strict_s3_server, _policy(bucket, *rights) if rights else None)
    with aws_environment(strict_s3_server.url, key, secret), pytest.raises(StoreError) as caught:
        load(lake_at(f"s3://{bucket}/lake", tmp_path / "home"), embedded_warehouse, flat_months())
    assert "s3:PutObject" in caught.value.remedy
    for said in (caught.value.message, caught.value.remedy, caplog.text):
        assert secret not in said
    assert rows_of_table(embedded_warehouse) == []


def test_a_server_whose_certificate_is_of_an_own_authority(
    embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ca_file = make_authority(tmp_path, "ca")
    make_certificate(tmp_path, "ca", "server", "127.0.0.1", "IP:127.0.0.1")
    port = free_port()
    command = [*moto_command(port), "-c", str(tmp_path / "server.crt"), "-k", str(tmp_path / "server.key")]
    server = S3Server(command, port, ca_file=ca_file)
    server.start()
    try:
        bucket = server.bucket()
        with aws_environment(server.url):
            with pytest.raises(StoreError) as caught:
                load(lake_at(f"s3://{bucket}/lake", tmp_path / "home"), embedded_warehouse, flat_months())
            assert "AWS_CA_BUNDLE" in caught.value.remedy
            monkeypatch.setenv("AWS_CA_BUNDLE", str(ca_file))
            lake = lake_at(f"s3://{bucket}/lake", tmp_path / "home")
            load(lake, embedded_warehouse, flat_months())
            assert_same(lake, embedded_warehouse)
            with embedded_warehouse.connect() as connection:
                (contents,) = read_ledger(connection)
                assert verify_month(lake, lake.open(connection), contents) == ()
                files = list_files(lake, connection)
            read = read_rows(lake.place.address, files, 1, 1_038_240, ["temperature_2m"])
            assert sum(rows.num_rows for _, rows in read) == flat_months().rows
    finally:
        server.stop()


def test_a_bucket_that_does_not_exist_is_named(
    s3_server: S3Server, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    with aws_environment(s3_server.url), pytest.raises(Era5Error, match="no-such-bucket") as caught:
        load(lake_at("s3://no-such-bucket/lake", tmp_path / "home"), embedded_warehouse, flat_months())
    assert "ERA5_LAKE" in caught.value.remedy
    assert "ERA5_STORE" not in caught.value.remedy
