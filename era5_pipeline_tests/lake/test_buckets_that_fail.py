"""Loads while the lake's bucket throttles, is cut off, or refuses: retried or refused, and nothing half-committed."""

from __future__ import annotations

import re
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.lake.read import list_files, read_rows
from era5_pipeline.lake.upkeep import LakeVerifier, clean, read_both
from era5_pipeline.model.errors import Era5Error, StoreError, TransientError
from era5_pipeline.runtime import stores
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests.failing_proxy import failing_proxy
from era5_pipeline_tests.flat_months import rows_of_table
from era5_pipeline_tests.lake.test_months import assert_same, lake_at, load, rows_of_lake, snapshots
from era5_pipeline_tests.postgres.test_tls import make_authority, make_certificate
from era5_pipeline_tests.stores import S3Server, aws_environment, free_port, moto_command, new_user

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.lake.months import Lake
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.failing_proxy import How
    from era5_pipeline_tests.flat_months import FlatMonths


@contextmanager
def failing(
    server: S3Server, bucket: str, tmp_path: Path, how: How, method: str, words: str, times: int = 10**6
) -> Iterator[Lake]:
    """The lake behind a proxy that fails the first requests of a method whose path contains some words."""
    with failing_proxy(server.url) as proxy, aws_environment(proxy.url):
        proxy.fail(how, times, f"^{method} .*{re.escape(words)}")
        yield lake_at(f"s3://{bucket}/lake", tmp_path / "home")
        assert proxy.failed


@pytest.fixture
def two_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ask a bucket twice instead of three times: the pause before the last attempt is the longest."""
    monkeypatch.setattr(stores, "_ATTEMPTS", 2)


@pytest.mark.usefixtures("two_attempts")
@pytest.mark.parametrize(
    ("method", "how", "words"),
    [
        *(("PUT", how, words) for how, words in (("503", "/data/"), ("cut", "/metadata/"), ("503", ".metadata.json"))),
        *(("GET", how, words) for how, words in (("503", ".metadata.json"), ("cut", ".avro"), ("503", "/data/"))),
    ],
)
def test_a_bucket_that_fails_changes_neither_lake_nor_warehouse_and_is_asked_again(
    method: str,
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
        failing(s3_server, bucket, tmp_path, how, method, words) as behind,
        pytest.raises(TransientError) as caught,
    ):
        load(behind, embedded_warehouse, fewer, replace_more=True)
    assert "lake" in caught.value.message
    with aws_environment(s3_server.url):
        assert rows_of_table(embedded_warehouse) == before == rows_of_lake(lake, embedded_warehouse)
        assert snapshots(lake, embedded_warehouse) == 1
    with failing(s3_server, bucket, tmp_path, how, method, words, 1) as behind:
        load(behind, embedded_warehouse, fewer, replace_more=True)
        assert_same(behind, embedded_warehouse)


@pytest.mark.usefixtures("two_attempts")
def test_verify_of_a_bucket_that_fails_says_so(
    s3_server: S3Server, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    bucket = s3_server.bucket()
    with aws_environment(s3_server.url):
        load(lake_at(f"s3://{bucket}/lake", tmp_path / "home"), embedded_warehouse, flat_months())
    for how, times, ends_well in (("503", 1, True), ("cut", 10**6, False)):
        with (
            failing(s3_server, bucket, tmp_path, how, "GET", "/data/", times) as behind,
            embedded_warehouse.connect() as connection,
        ):
            table, (contents,) = read_both(connection, behind)
            if ends_well:
                assert LakeVerifier(behind, table).differences(contents) == ()
            else:
                with pytest.raises(TransientError, match="the lake s3://"):
                    LakeVerifier(behind, table).differences(contents)


def test_a_large_file_that_is_cut_off_is_not_taken_for_whole(
    s3_server: S3Server, flat_months: FlatMonths, tmp_path: Path
) -> None:
    flat = flat_months(points=(40, 60))
    (file,) = flat.row_files
    assert file.path.stat().st_size > 5 << 20  # sent in parts
    bucket = s3_server.bucket()
    with (
        failing(s3_server, bucket, tmp_path, "cut", "PUT", "partNumber=") as behind,
        pytest.raises(TransientError, match="lake"),
    ):
        behind.stage(flat)
    assert list(behind.store.objects()) == []
    with failing(s3_server, bucket, tmp_path, "cut", "PUT", "partNumber=", 2) as behind:
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
    embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    ca_file = make_authority(tmp_path, "ca")
    make_certificate(tmp_path, "ca", "server", "127.0.0.1", "IP:127.0.0.1")
    port = free_port()
    command = [*moto_command(port), "-c", str(tmp_path / "server.crt"), "-k", str(tmp_path / "server.key")]
    server = S3Server(command, port, ca_file=ca_file)
    server.start()
    try:
        bucket = server.bucket()
        with aws_environment(server.url) as environment:
            with pytest.raises(StoreError) as caught:
                load(lake_at(f"s3://{bucket}/lake", tmp_path / "home"), embedded_warehouse, flat_months())
            assert "AWS_CA_BUNDLE" in caught.value.remedy
            environment.setenv("AWS_CA_BUNDLE", str(ca_file))
            lake = lake_at(f"s3://{bucket}/lake", tmp_path / "home")
            load(lake, embedded_warehouse, flat_months())
            assert_same(lake, embedded_warehouse)
            with embedded_warehouse.connect() as connection:
                (contents,) = read_ledger(connection)
                assert LakeVerifier(lake, lake.open(connection)).differences(contents) == ()
                files = list_files(lake, connection)
            read = read_rows(lake.place, files, 1, 1_038_240, ["temperature_2m"])
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
