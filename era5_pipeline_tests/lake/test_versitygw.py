"""The lake and the store of files on versitygw, an S3 server that has regions, checks keys, and is not moto."""

from __future__ import annotations

import os
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.lake.upkeep import LakeVerifier, clean
from era5_pipeline.model.errors import StoreError
from era5_pipeline.runtime.stores import open_store
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests.flat_months import rows_of_table
from era5_pipeline_tests.lake.test_months import assert_same, lake_at, load, table_of

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.lake.conftest import Gateway


def test_months_are_loaded_replaced_compared_and_cleaned_up(
    gateway: Gateway, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    with gateway.environment():
        lake = lake_at(f"s3://{gateway.bucket('months')}/a/lake", tmp_path / "home")
        load(lake, embedded_warehouse, flat_months("2023-07"))
        load(lake, embedded_warehouse, flat_months("2023-08", missing=0.1))
        load(lake, embedded_warehouse, flat_months("2023-07", seed=2), replace_more=True)
        assert_same(lake, embedded_warehouse)
        now = timedelta(0)
        with embedded_warehouse.connect() as connection:
            done = clean(connection, lake, keep=now, orphans_after=now)
            assert done.snapshots == 2
            assert done.files > 0
            table = table_of(lake, embedded_warehouse)
            assert [LakeVerifier(lake, table).differences(contents) for contents in read_ledger(connection)] == [(), ()]
        assert_same(lake, embedded_warehouse)


def test_the_store_of_files(gateway: Gateway, tmp_path: Path) -> None:
    with gateway.environment():
        store = open_store(f"s3://{gateway.bucket('files')}/some/place")
        store.require()
        (tmp_path / "large").write_bytes(os.urandom(12 << 20))
        (tmp_path / "small").write_bytes(b"few")
        for name in ("large", "small"):
            store.upload(tmp_path / name, f"raw/{name}")
        assert {found.key: found.bytes for found in store.objects()} == {"raw/large": 12 << 20, "raw/small": 3}
        assert store.download("raw/large", tmp_path / "again") is not None
        assert (tmp_path / "again").read_bytes() == (tmp_path / "large").read_bytes()
        store.remove("raw/large")
        assert [found.key for found in store.objects()] == ["raw/small"]


@pytest.mark.parametrize("what", ["region", "keys"])
def test_a_wrong_region_and_wrong_keys_are_refused_with_the_remedy(
    what: str, gateway: Gateway, embedded_warehouse: Warehouse, flat_months: FlatMonths, tmp_path: Path
) -> None:
    bucket = gateway.bucket(f"wrong-{what}")
    with gateway.environment():
        lake = lake_at(f"s3://{bucket}/lake", tmp_path / "home")
        load(lake, embedded_warehouse, flat_months("2023-07"))
        before = rows_of_table(embedded_warehouse)
    wrong = {"region": {"region": "us-east-1"}, "keys": {"secret": "other-secret"}}[what]
    with gateway.environment(**wrong), pytest.raises(StoreError) as raised:
        load(lake_at(f"s3://{bucket}/lake", tmp_path / "home"), embedded_warehouse, flat_months("2023-08"))
    named = {"region": "Set AWS_REGION", "keys": "AWS_SECRET_ACCESS_KEY"}[what]
    assert named in raised.value.remedy
    assert "other-secret" not in str(raised.value)
    with gateway.environment():
        assert rows_of_table(embedded_warehouse) == before
        assert_same(lake, embedded_warehouse)
    # Looking at a single file, the server says nothing but 400.
    with gateway.environment(**wrong), pytest.raises(StoreError) as raised, embedded_warehouse.connect() as connection:
        lake_at(f"s3://{bucket}/lake", tmp_path / "home").open(connection)
