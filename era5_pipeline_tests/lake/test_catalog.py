"""The lake's table: its form, its catalog in the warehouse's database, and who may use it."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql
from pyiceberg.exceptions import CommitFailedException, NoSuchTableError

from era5_pipeline.lake.catalog import (
    LakePlace,
    WarehouseCatalog,
    lake_errors,
    schema_of_table,
)
from era5_pipeline.lake.pointer import prepare
from era5_pipeline.model.errors import StoreError, TransientError
from era5_pipeline.model.variables import VARIABLES
from era5_pipeline_tests.lake.test_months import assert_same, lake_at, load
from era5_pipeline_tests.servers import fresh_role
from era5_pipeline_tests.stores import aws_environment

if TYPE_CHECKING:
    from era5_pipeline.lake.months import Lake
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths


@pytest.fixture
def place(tmp_path: Path) -> LakePlace:
    (tmp_path / "lake").mkdir()
    return LakePlace(str(tmp_path / "lake"))


def test_numbers_of_columns_do_not_depend_on_what_else_there_is() -> None:
    everything = schema_of_table(variable.column for variable in VARIABLES)
    few = schema_of_table(["snowfall", "temperature_2m"])
    assert [field.name for field in few.fields][4:] == ["temperature_2m", "snowfall"]
    for field in few.fields:
        assert everything.find_field(field.name) == field
    numbers = [field.field_id for field in everything.fields]
    assert len(set(numbers)) == len(numbers)


def test_every_column_has_a_comment_with_its_unit() -> None:
    docs = {field.name: field.doc for field in schema_of_table(["temperature_2m", "total_precipitation"]).fields}
    assert docs["temperature_2m"] == "Air temperature 2 m above the surface; degC"
    assert docs["total_precipitation"] is not None
    assert docs["total_precipitation"].endswith("; mm")
    assert all(docs.values())


def test_without_a_catalog_there_is_no_table(embedded_warehouse: Warehouse, place: LakePlace) -> None:
    with embedded_warehouse.connect() as connection:
        catalog = WarehouseCatalog(connection, place)
        assert catalog.location_of_metadata() is None
        with pytest.raises(NoSuchTableError):
            catalog.load_table(("era5", "weather"))


def test_a_table_is_made_once_and_columns_are_added(embedded_warehouse: Warehouse, place: LakePlace) -> None:
    with embedded_warehouse.connect() as connection:
        prepare(connection)
        prepare(connection)
        # What is rolled back is not there.
        with connection.transaction(force_rollback=True):
            WarehouseCatalog(connection, place).open_table(["temperature_2m"])
        assert WarehouseCatalog(connection, place).location_of_metadata() is None
        with connection.transaction():
            WarehouseCatalog(connection, place).open_table(["temperature_2m"])
        with connection.transaction():
            table = WarehouseCatalog(connection, place).open_table(["snowfall"])
        assert [field.name for field in table.schema().fields][4:] == ["temperature_2m", "snowfall"]
        assert [field.name for field in table.spec().fields] == ["time_month", "location_id_trunc"]


def test_a_commit_based_on_an_older_state_is_refused(embedded_warehouse: Warehouse, place: LakePlace) -> None:
    with embedded_warehouse.connect() as connection:
        prepare(connection)
        catalog = WarehouseCatalog(connection, place)
        with connection.transaction():
            table = catalog.open_table(["temperature_2m"])
        older = catalog.load_table(("era5", "weather"))
        with table.transaction() as change:
            change.set_properties(by="one")
        connection.execute("UPDATE iceberg_tables SET metadata_location = %s", (older.metadata_location,))
        with older.transaction() as change:
            change.set_properties(by="another")
        connection.execute("DELETE FROM iceberg_tables")
        with pytest.raises((CommitFailedException, NoSuchTableError)), older.transaction() as change:
            change.set_properties(by="a third")


@pytest.mark.parametrize(
    ("kind", "fault"),
    [
        *(("metadata", fault) for fault in ("truncated", "empty", "another file", "lost")),
        *((kind, fault) for kind in ("list of manifests", "manifest") for fault in ("truncated", "lost")),
    ],
)
def test_damaged_metadata_is_named_and_the_remedy_helps(
    embedded_warehouse: Warehouse, flat_months: FlatMonths, local_lake: Lake, tmp_path: Path, kind: str, fault: str
) -> None:
    lake = local_lake
    load(lake, embedded_warehouse, flat_months())
    with embedded_warehouse.connect() as connection:
        table = lake.open(connection)
        assert table is not None
        snapshot = table.current_snapshot()
        assert snapshot is not None
        file = {
            "metadata": Path(table.metadata_location),
            "list of manifests": Path(snapshot.manifest_list),
            "manifest": Path(snapshot.manifests(table.io)[0].manifest_path),
        }[kind]
        content = {"truncated": file.read_bytes()[:900], "empty": b"", "another file": b"{}", "lost": None}[fault]
        file.unlink()
        if content is not None:
            file.write_bytes(content)
        for look in (lambda: lake.months(connection), lambda: load(lake, embedded_warehouse, flat_months(seed=2))):
            with pytest.raises(StoreError, match=file.name) as caught:
                look()
            assert ("lost" if fault == "lost" else "damaged") in caught.value.message
        # As the remedy says.
        (statement,) = re.findall(r"DELETE FROM .* = 'era5'", caught.value.remedy)
        connection.execute(statement.encode())
    (tmp_path / "new").mkdir()
    again = lake_at(str(tmp_path / "new"), tmp_path / "home")
    load(again, embedded_warehouse, flat_months())
    assert_same(again, embedded_warehouse)


def test_who_may_load_may_load_into_the_lake(embedded_warehouse: Warehouse, server_url: str) -> None:
    with (
        fresh_role(server_url) as loader,
        fresh_role(server_url) as reader,
        embedded_warehouse.connect() as connection,
    ):
        for role, privileges in ((loader, "SELECT, INSERT, UPDATE, DELETE"), (reader, "SELECT")):
            connection.execute(f"GRANT {privileges} ON era5.ledger TO {role}".encode())
        prepare(connection)
        for role, may_write in ((loader, True), (reader, False)):
            found = connection.execute(
                "SELECT has_table_privilege(%s, 'iceberg_tables', 'SELECT'), "
                "has_table_privilege(%s, 'iceberg_tables', 'UPDATE')",
                (role, role),
            ).fetchone()
            assert found == (True, may_write)
        connection.execute(sql.SQL("DROP OWNED BY {}, {}").format(sql.Identifier(loader), sql.Identifier(reader)))


def test_two_sessions_prepare_at_once(embedded_warehouse: Warehouse) -> None:
    with embedded_warehouse.connect() as one, embedded_warehouse.connect() as other:
        with one.transaction():
            one.execute("SELECT pg_advisory_xact_lock(hashtextextended('era5.lake', 0))")
            other.execute("SET lock_timeout = '200ms'")
            with pytest.raises(psycopg.errors.LockNotAvailable):
                prepare(other)
        prepare(other)


def test_errors_of_a_folder_name_it() -> None:
    with (
        pytest.raises(StoreError, match="the lake /data/lake: Permission denied") as caught,
        lake_errors(LakePlace("/data/lake")),
    ):
        raise PermissionError(13, "Permission denied", "/data/lake/weather")
    assert "ERA5_LAKE" in caught.value.remedy


def test_errors_of_a_bucket_keep_their_kind() -> None:
    with (
        pytest.raises(TransientError, match="the lake s3://bucket/lake") as caught,
        lake_errors(LakePlace("s3://bucket/lake")),
    ):
        raise OSError("When reading information for key: AWS Error SLOW_DOWN during HeadObject operation")
    assert "ERA5_LAKE" in caught.value.remedy


def test_properties_have_the_address_of_a_server_and_no_keys() -> None:
    with aws_environment("http://127.0.0.1:9000", "the-key", "the-secret"):
        properties = LakePlace("s3://bucket/lake").properties
    own = "era5_pipeline.lake.catalog.LakeFileIO"
    assert properties == {"py-io-impl": own, "s3.endpoint": "http://127.0.0.1:9000", "s3.region": "us-east-1"}
    assert LakePlace("/data/lake").properties == {}
