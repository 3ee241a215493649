"""Tests of `runtime/stores`."""

from __future__ import annotations

import hashlib
import os
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import Era5Error, StoreError, StoreUnreachableError, TransientError, UsageError
from era5_pipeline.model.settings import Settings
from era5_pipeline.runtime import stores
from era5_pipeline.runtime.object_store import S3Address, require_folder_or_s3
from era5_pipeline.runtime.stores import ObjectStore, open_store
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.era5_files import full_disk
from era5_pipeline_tests.failing_proxy import FailingProxy, failing_proxy
from era5_pipeline_tests.stores import aws_environment, free_port, new_user
from era5_pipeline_tests.warehouse.loads import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline_tests.stores import S3Server


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        ("/a:/b", ("/a", "/b")),
        ("s3://bucket", ("s3://bucket",)),
        ("/a:s3://bucket/x:/b:s3://other", ("/a", "s3://bucket/x", "/b", "s3://other")),
        ("s3://bucket/x:s3://other/y", ("s3://bucket/x", "s3://other/y")),
        (":/a::s3://b:", ("/a", "s3://b")),
        ("", ()),
    ],
)
def test_folders_and_buckets_are_told_apart_in_a_list(text: str, parts: tuple[str, ...]) -> None:
    settings = Settings(files_dir=text)
    assert tuple(map(str, settings.files_dirs)) == tuple(part for part in parts if part.startswith("/"))
    assert settings.files_buckets == tuple(part for part in parts if part.startswith("s3://"))


@pytest.mark.parametrize(
    ("text", "bucket", "prefix"),
    [("s3://b1", "b1", ""), ("s3://bucket/", "bucket", ""), ("s3://my.bucket-1/a/b/", "my.bucket-1", "a/b")],
)
def test_an_address_is_a_bucket_and_a_prefix(text: str, bucket: str, prefix: str) -> None:
    address = S3Address.parse(text)
    assert (address.bucket, address.prefix) == (bucket, prefix)
    assert address.path("key") == "/".join(part for part in (bucket, prefix, "key") if part)


@pytest.mark.parametrize("text", ["s3://", "s3:///x", "s3://a b/c", "gs://bucket/x", "https://host/x"])
def test_other_addresses_are_refused(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        require_folder_or_s3(text)
    assert text in caught.value.message
    assert "s3://bucket" in caught.value.remedy
    with pytest.raises(UsageError):
        open_store(text)
    assert Settings(store="share").store_address == str(Path("share").absolute())


_MEGABYTE = 1 << 20


@pytest.fixture
def store(store_address: str) -> ObjectStore:
    return open_store(store_address)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A file of several parts of an upload."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(25 * _MEGABYTE))
    return path


def keys(store: ObjectStore) -> list[str]:
    return [found.key for found in store.objects()]


def test_a_file_comes_back_as_it_was(store: ObjectStore, file: Path, tmp_path: Path) -> None:
    store.require()
    store.upload(file, "raw/cds/a.nc")
    assert store.size_of("raw/cds/a.nc") == file.stat().st_size
    digest = store.download("raw/cds/a.nc", tmp_path / "back")
    assert digest == hashlib.sha256(file.read_bytes()).hexdigest()
    assert (tmp_path / "back").read_bytes() == file.read_bytes()


def test_what_is_not_there_is_none(store: ObjectStore, tmp_path: Path) -> None:
    store.require()
    assert store.size_of("raw/none") is None
    assert store.read("raw/none") is None
    assert store.download("raw/none", tmp_path / "none") is None
    store.remove("raw/none")
    assert keys(store) == []


def test_objects_are_replaced_removed_and_listed(store: ObjectStore, tmp_path: Path) -> None:
    before = time.time()
    for content in (b"{}", b'{"longer": 1}'):
        store.write("raw/2023-07.json", content)
        assert store.read("raw/2023-07.json") == content
    store.write("b", b"")
    (tmp_path / "empty").touch()
    store.upload(tmp_path / "empty", "a/empty")
    assert keys(store) == ["a/empty", "b", "raw/2023-07.json"]
    found = {one.key: one for one in store.objects()}
    assert (found["a/empty"].bytes, found["raw/2023-07.json"].bytes) == (0, 13)
    assert found["b"].modified_ns / 1e9 == pytest.approx(before, abs=600)
    for key in keys(store):
        store.remove(key)
    assert keys(store) == []


def test_an_upload_that_is_killed_leaves_nothing(store: ObjectStore, store_address: str, tmp_path: Path) -> None:
    """An earlier object under the key stays; the killed process's remains are not listed."""
    store.write("raw/a.nc", b"earlier")
    large = tmp_path / "large"
    with large.open("wb") as sparse:
        sparse.truncate(4_000 * _MEGABYTE)
    program = (
        "import sys; from pathlib import Path\n"
        "from era5_pipeline.runtime.stores import open_store\n"
        "store = open_store(sys.argv[1]); store.require(); print('begins', flush=True)\n"
        "store.upload(Path(sys.argv[2]), 'raw/a.nc'); print('done', flush=True)"
    )
    command = [sys.executable, "-c", program, store_address, str(large)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "begins\n"
        time.sleep(0.3)
        process.send_signal(signal.SIGKILL)
        assert process.stdout.read() == "", "the upload was over before it was killed"
    assert store.read("raw/a.nc") == b"earlier"
    assert keys(store) == ["raw/a.nc"]


def test_remains_of_killed_uploads_to_a_folder_are_removed_when_they_are_old(tmp_path: Path) -> None:
    store = open_store(str(tmp_path))
    for name, age_days in (("old", 3), ("new", 1)):
        left = tmp_path / f".unfinished-{name}"
        left.touch()
        os.utime(left, (time.time() - age_days * 86_400,) * 2)
    store.write("a", b"1")
    assert sorted(path.name for path in tmp_path.iterdir()) == [".unfinished-new", "a"]


def test_a_local_file_that_cannot_be_read_to_its_end_is_not_published(store: ObjectStore, tmp_path: Path) -> None:
    """/proc/self/mem is a file that can be opened, and whose first byte cannot be read."""
    with pytest.raises(Era5Error):
        store.upload(Path("/proc/self/mem"), "raw/a.nc")
    assert store.size_of("raw/a.nc") in {None, 0}


# --- S3: connections that are cut -------------------------------------------------------------------------------------


@pytest.fixture
def proxy(s3_server: S3Server) -> Iterator[FailingProxy]:
    with failing_proxy(s3_server.url) as proxy, aws_environment(proxy.url):
        yield proxy


@pytest.mark.parametrize("how", ["cut", "half", "503"])
def test_uploads_and_downloads_go_on_after_failures(
    proxy: FailingProxy, s3_server: S3Server, file: Path, tmp_path: Path, how: str
) -> None:
    store = open_store(f"s3://{s3_server.bucket()}/place")
    for where in ("^PUT .*partNumber=", "^GET .*/raw/a.nc"):
        proxy.fail(how, 2, where)
        if where.startswith("^PUT"):
            store.upload(file, "raw/a.nc")
        else:
            assert store.download("raw/a.nc", tmp_path / "back") == hashlib.sha256(file.read_bytes()).hexdigest()
    assert len(proxy.failed) == 4


@pytest.mark.usefixtures("two_attempts")
@pytest.mark.parametrize(
    ("how", "where"), [("cut", "partNumber="), ("cut", "^POST .*uploadId="), ("half", "^GET .*/a$")]
)
def test_a_transfer_that_is_always_cut_fails_as_temporary_and_leaves_nothing(
    proxy: FailingProxy, s3_server: S3Server, file: Path, tmp_path: Path, how: str, where: str
) -> None:
    store = open_store(f"s3://{s3_server.bucket()}/place")
    store.write("a", bytes(_MEGABYTE))
    proxy.fail(how, where=where)
    said = r"raw/a\.nc.*127\.0\.0\.1" if how == "cut" else "reading a"
    with pytest.raises(TransientError, match=said) as caught:
        store.upload(file, "raw/a.nc") if how == "cut" else store.download("a", tmp_path / "back")
    assert "AWS_ENDPOINT_URL" in caught.value.remedy
    assert store.size_of("raw/a.nc") is None


def calls_of(file: Path, folder: Path) -> dict[str, Callable[[ObjectStore], object]]:
    """Every call of a store, by name."""
    return {
        "require": lambda store: store.require(),
        "size_of": lambda store: store.size_of("a"),
        "read": lambda store: store.read("a"),
        "write": lambda store: store.write("b", b"12"),
        "upload": lambda store: store.upload(file, "b"),
        "download": lambda store: store.download("a", folder / "back"),
        "remove": lambda store: store.remove("a"),
        "objects": lambda store: [found.key for found in store.objects()],
    }


@pytest.fixture
def two_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a server twice instead of three times: the pause before the last attempt is the longest."""
    monkeypatch.setattr(stores, "_ATTEMPTS", 2)


@pytest.mark.usefixtures("two_attempts")
def test_every_call_of_a_server_that_refuses_is_given_up_after_the_patience(file: Path, tmp_path: Path) -> None:
    calls, port = calls_of(file, tmp_path), free_port()
    # At the same time, as each tries for seconds.
    with aws_environment(f"http://127.0.0.1:{port}"), ThreadPoolExecutor(1 + len(calls)) as threads:
        impatient = threads.submit(open_store("s3://bucket/read").read, "a")
        ended = {name: threads.submit(call, open_store(f"s3://bucket/{name}", 0.01)) for name, call in calls.items()}
        for name, result in ended.items():
            with pytest.raises(StoreUnreachableError, match=rf"s3://bucket/{name}.*127\.0\.0\.1:{port}") as caught:
                result.result()
            assert type(caught.value.__cause__) is TransientError
        with pytest.raises(TransientError, match=rf"s3://bucket/read.*127\.0\.0\.1:{port}") as hasty:
            impatient.result()
        assert type(hasty.value) is TransientError


@pytest.mark.usefixtures("two_attempts")
def test_every_call_waits_for_a_server_that_is_gone_and_goes_on_when_it_answers(
    file: Path,
    tmp_path: Path,
    s3_server: S3Server,
    proxy: FailingProxy,
    caplog: pytest.LogCaptureFixture,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(stores, "_AGAIN_SECONDS", 0.2)
    calls, bucket = calls_of(file, tmp_path), s3_server.bucket()
    with ThreadPoolExecutor(len(calls)) as threads:
        patient = {name: open_store(f"s3://{bucket}/{name}", patience_seconds=180.0) for name in calls}
        for store in patient.values():
            store.write("a", b"1")  # with a connection that is then lost
        proxy.fail("cut")
        ended = {name: threads.submit(call, patient[name]) for name, call in calls.items()}
        wait_until(lambda: all(f"waiting for the store s3://{bucket}/{name}" in caplog.text for name in calls))
        proxy.fail("", 0)
        returned = {name: result.result() for name, result in ended.items()}
        assert (returned["size_of"], returned["read"], returned["objects"]) == (1, b"1", ["a"])
        assert returned["download"] == hashlib.sha256(b"1").hexdigest()
        assert (patient["write"].read("b"), patient["remove"].read("a")) == (b"12", None)
        assert patient["upload"].download("b", tmp_path / "large") == hashlib.sha256(file.read_bytes()).hexdigest()
    said = next(message for message in caplog.messages if f"s3://{bucket}/upload" in message)
    assert f"writing b at {proxy.url}" in said
    assert "up to 3 min, by ERA5_STORE_PATIENCE_SECONDS" in said


@pytest.mark.usefixtures("two_attempts")
def test_a_server_that_is_silent_is_given_up_after_the_patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stores, "_SILENT_SECONDS", 1)
    with socket.create_server(("127.0.0.1", 0)) as silent:  # takes connections, and answers none
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        with aws_environment(url):
            store = open_store("s3://bucket", patience_seconds=1.0)
            with pytest.raises(StoreUnreachableError, match="up to 1 s, by ERA5_STORE_PATIENCE_SECONDS") as caught:
                store.read("a")
    assert caught.value.exit_code == 7
    assert "AWS_ENDPOINT_URL" in caught.value.remedy
    assert url in caught.value.message


# --- errors that a user can cause -------------------------------------------------------------------------------------


def test_a_missing_bucket_is_named(s3_server: S3Server) -> None:
    with aws_environment(s3_server.url):
        store = open_store("s3://no-such-bucket/x")
        for call in (store.require, lambda: store.write("a", b"1"), lambda: list(store.objects())):
            with pytest.raises(StoreError, match=r"s3://no-such-bucket/x.*NO_SUCH_BUCKET") as caught:
                call()
            assert "Create the bucket" in caught.value.remedy


def test_an_unknown_host_is_named() -> None:
    with aws_environment("http://nowhere.invalid:9000"), pytest.raises(TransientError, match=r"nowhere\.invalid"):
        open_store("s3://bucket").require()


@pytest.mark.parametrize("wrong", ["key", "secret", "no keys", "no rights"])
def test_wrong_keys_are_refused_with_the_remedy(strict_s3_server: S3Server, wrong: str, file: Path) -> None:
    bucket = strict_s3_server.bucket()
    key, secret = strict_s3_server.key, strict_s3_server.secret
    if wrong == "no rights":
        key, secret = new_user(strict_s3_server)
    key, secret = "AKIAWRONG" if wrong == "key" else key, "not-the-secret" if wrong == "secret" else secret
    with aws_environment(strict_s3_server.url, key, secret) as environment:
        if wrong == "no keys":
            environment.delenv("AWS_ACCESS_KEY_ID")
            environment.delenv("AWS_SECRET_ACCESS_KEY")
            environment.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")
        store = open_store(f"s3://{bucket}/x")
        for call in (store.require, lambda: store.write("a", b"1"), lambda: store.upload(file, "b")):
            with pytest.raises(StoreError, match=rf"s3://{bucket}/x") as caught:
                call()
            assert "AWS_ACCESS_KEY_ID" in caught.value.remedy
            assert secret not in str(caught.value)


def test_keys_may_be_in_a_profile(strict_s3_server: S3Server, tmp_path: Path) -> None:
    bucket = strict_s3_server.bucket()
    credentials = tmp_path / "credentials"
    key, secret = strict_s3_server.key, strict_s3_server.secret
    credentials.write_text(f"[era5]\naws_access_key_id = {key}\naws_secret_access_key = {secret}\n", encoding="utf-8")
    with aws_environment(strict_s3_server.url) as environment:
        environment.setenv("AWS_SHARED_CREDENTIALS_FILE", str(credentials))
        environment.setenv("AWS_PROFILE", "era5")
        for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
            environment.delenv(name)
        store = open_store(f"s3://{bucket}")
        store.write("a", b"1")
        assert store.read("a") == b"1"


def test_a_folder_that_is_not_mounted_is_no_empty_store(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "share"))
    with pytest.raises(StoreError, match=r"share does not exist") as caught:
        store.require()
    assert "Mount it" in caught.value.remedy
    with pytest.raises(StoreError):
        store.write("a", b"1")
    assert not (tmp_path / "share").exists()


def test_a_full_and_a_read_only_volume_are_named_and_keep_what_they_had(file: Path) -> None:
    with full_disk(_MEGABYTE) as folder:
        store = open_store(str(folder))
        store.write("raw/a.nc", b"earlier")
        with pytest.raises(StoreError, match=r"No space left") as caught:
            store.upload(file, "raw/a.nc")
        assert "ERA5_STORE" in caught.value.remedy
        assert store.read("raw/a.nc") == b"earlier"
        assert [path.name for path in (folder / "raw").iterdir()] == ["a.nc"]
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        with pytest.raises(StoreError, match=r"Read-only") as caught:
            store.write("a", b"1")
        assert "mount it writable" in caught.value.remedy
