"""The database URLs of the settings, with a password from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from pydantic import SecretStr

from era5_pipeline.model.errors import LocalDiskError, ServerUnreachableError, UsageError
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import DATABASE, Warehouse, dagster_url, open_warehouse
from era5_pipeline.postgres.given_urls import given_dagster_url, given_warehouse_url
from era5_pipeline.postgres.urls import url_parameters, without_password
from era5_pipeline_tests.cli.test_up import free_port
from era5_pipeline_tests.commands import as_nobody, new_home

if TYPE_CHECKING:
    from pathlib import Path

URL = SecretStr("postgresql://loader@db:5432/era5?sslmode=require")


def test_password_of_the_file_is_used_for_urls_without_one(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("p@ss/w?rd\n")
    settings = Settings(database_url=URL, dagster_database_url=URL, database_password_file=file)
    expected = {"user": "loader", "host": "db", "port": "5432", "dbname": "era5", "sslmode": "require"}
    for url in (given_warehouse_url(settings), given_dagster_url(settings)):
        assert url is not None
        assert url_parameters(url) == expected | {"password": "p@ss/w?rd"}


def test_password_of_the_url_wins(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("other")
    settings = Settings(database_url=SecretStr("postgresql://u:own@h/d"), database_password_file=file)
    assert given_warehouse_url(settings) == "postgresql://u:own@h/d"


def test_without_a_url_the_file_is_not_even_read(tmp_path: Path) -> None:
    settings = Settings(database_password_file=tmp_path / "missing")
    assert given_warehouse_url(settings) is None
    assert given_dagster_url(settings) is None


@pytest.mark.parametrize(
    "content", [None, b"", b"\nsecond\n", b"\xff\xfe"], ids=["missing", "empty", "blank", "binary"]
)
def test_unusable_file_is_named_with_its_remedy(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "password"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UsageError, match=r"ERA5_DATABASE_PASSWORD_FILE: .*password is missing, empty") as caught:
        given_warehouse_url(Settings(database_url=URL, database_password_file=file))
    assert "as one line" in caught.value.remedy


def test_unreadable_file_is_a_matter_of_permission(tmp_path: Path) -> None:
    file = tmp_path / "password"
    file.write_text("secret")
    file.chmod(0o000)
    settings = Settings(database_url=URL, database_password_file=file)
    with as_nobody(), pytest.raises(LocalDiskError, match="ERA5_DATABASE_PASSWORD_FILE"):
        given_warehouse_url(settings)


@pytest.mark.server
def test_server_takes_the_password_of_the_file(tmp_path: Path) -> None:
    """Also for Dagster's database, whose URL follows from that of the warehouse."""
    file = tmp_path / "password"
    with new_home() as home:
        home.run("db", "start", "--port", str(free_port()))
        url = home.server.tcp_url(DATABASE)
        file.write_text(url_parameters(url)["password"])
        settings = Settings(database_url=SecretStr(without_password(url)), database_password_file=file)
        with open_warehouse(settings, create=True) as warehouse:
            with warehouse.connect() as connection:
                assert connection.info.user == "postgres"
            other = dagster_url(warehouse, settings)
        with Warehouse(other).connect() as connection:
            assert connection.info.dbname == f"{DATABASE}_dagster"
        file.write_text("wrong")
        with (
            pytest.raises(ServerUnreachableError, match="password authentication failed"),
            open_warehouse(settings) as w,
        ):
            w.connect()
