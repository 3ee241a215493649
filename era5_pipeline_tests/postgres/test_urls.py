"""Tests of `postgres/urls`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from pydantic import SecretStr
from sqlalchemy.engine import make_url

from era5_pipeline.model.errors import LocalDiskError, UsageError
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.urls import (
    database_of,
    given_dagster_url,
    given_warehouse_url,
    normalized,
    url_parameters,
    with_database,
    without_password,
)
from era5_pipeline_tests.commands import as_nobody

if TYPE_CHECKING:
    from pathlib import Path

words = st.text(st.characters(exclude_categories=("Cs", "Cc")), min_size=1, max_size=12).filter(
    lambda w: w.strip() == w
)


def quoted(text: str) -> str:
    return "".join(f"%{byte:02X}" for byte in text.encode())


@given(user=words, password=words, database=words.filter(lambda word: "@" not in word))
def test_any_user_password_and_database_survive_normalization(user: str, password: str, database: str) -> None:
    given_url = f"postgresql://{quoted(user)}:{quoted(password)}@host:5433/{quoted(database)}"
    url = normalized(given_url)
    assert conninfo_to_dict(url) == conninfo_to_dict(given_url)
    assert database_of(url) == database
    parsed = make_url(url)
    assert (parsed.username, parsed.password) == (user, password)
    assert (parsed.database or parsed.query["dbname"]) == database
    assert (parsed.host, parsed.port) == ("host", 5433)
    other = conninfo_to_dict(with_database(url, "other"))
    assert other == conninfo_to_dict(url) | {"dbname": "other"}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("postgresql://u@h/d", "postgresql://u@h/d"),
        ("postgres://u:p@h:1/d", "postgresql://u:p@h:1/d"),
        (" postgresql://u@h/d\n", "postgresql://u@h/d"),
        ("postgresql://h/d", "postgresql://h/d"),
        ("postgresql://u@[::1]:5432/d", "postgresql://u@[::1]:5432/d"),
        ("postgresql://u@h/d?sslmode=require", "postgresql://u@h/d?sslmode=require"),
        ("postgresql://u@h/?dbname=d&connect_timeout=3", "postgresql://u@h/d?connect_timeout=3"),
        ("postgresql:///d?host=/run/pg&port=5432", "postgresql:///d?host=/run/pg&port=5432"),
        ("postgresql://postgres@/d?host=/run/pg&port=5432", "postgresql://postgres@/d?host=/run/pg&port=5432"),
        ("postgresql://u@a:1,b:2/d", "postgresql://u@/d?host=a,b&port=1,2"),
        ("postgresql://u@h/d?options=-c%20work_mem%3D1MB", "postgresql://u@h/d?options=-c%20work_mem%3D1MB"),
        # libpq accepts these characters in a password; other clients end the URL there.
        ("postgresql://u:a#b@h/d", "postgresql://u:a%23b@h/d"),
        ("postgresql://u:a?b@h/d", "postgresql://u:a%3Fb@h/d"),
    ],
)
def test_a_normalized_url_is_understood_by_every_client(url: str, expected: str) -> None:
    assert normalized(url) == expected
    assert conninfo_to_dict(expected) == conninfo_to_dict(url.strip())
    make_url(expected)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "mysql://u:hunter2@h/d",
        "host=h password=hunter2 dbname=d",
        "postgresql://u:hunter2@h",
        "postgresql://u:hunter2@h/",
        "postgresql://u:hunter2@h/d?nonsense=hunter2",
        "postgresql://u:hunter2%zz@h/d",
        "postgresql://u:hunter2%e2@h/d",
        # Unescaped characters in the password: libpq takes parts of it for host, port or database.
        "postgresql://u:hunter2/x@h/d",
        "postgresql://u:hunter/2@h:5432/d",
        "postgresql://u:2/hunter2@h/d",
        "postgresql://u:x@hunter2:y@h/d",
        "postgresql://u:x@hunter2@h/d",
        "postgresql://u:x@hunter2@127.0.0.1:5432/d",
    ],
)
def test_an_invalid_url_is_rejected_without_being_repeated(url: str) -> None:
    with pytest.raises(UsageError, match=r"^ERA5_DATABASE_URL") as refused:
        normalized(url)
    assert "hunter" not in str(refused.value)
    assert refused.value.__cause__ is None
    assert refused.value.__suppress_context__ or refused.value.__context__ is None


@given(password=st.text(st.sampled_from("hunter2@/:?#%[] "), min_size=6))
def test_a_password_is_never_shown_escaped_or_not(password: str) -> None:
    secret = "hunter2" + password
    for spelled in (quoted(secret), secret):
        url = f"postgresql://user:{spelled}@host:5432/base"
        try:
            shown = without_password(url)
        except UsageError as refused:
            shown = str(refused)
        assert "hunter2" not in shown


def test_only_user_host_port_and_database_are_shown() -> None:
    assert without_password("postgresql://u:p@h:1/d?sslpassword=p") == "postgresql://u@h:1/d"
    assert without_password("postgresql:///d") == "postgresql:///d"
    assert url_parameters("postgresql://u@h/d") == {"user": "u", "host": "h", "dbname": "d"}


@given(user=words, password=words, database=words.filter(lambda word: "@" not in word))
def test_a_shown_url_leads_to_the_same_place(user: str, password: str, database: str) -> None:
    for place in ("h:5433/{}", "[::1]:5433/{}", "/{}?host=/run/pg&port=5432", "a:1,b:2/{}", "/{}?hostaddr=127.0.0.1"):
        url = f"postgresql://{quoted(user)}:{quoted(password)}@{place.format(quoted(database))}"
        expected = conninfo_to_dict(url)
        del expected["password"]
        assert conninfo_to_dict(without_password(url)) == expected


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
