"""Database URLs: parsed as libpq does, normalized for every client, and shown without their password."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.conninfo import conninfo_to_dict
from sqlalchemy.engine import make_url

from era5_pipeline.model.errors import UsageError
from era5_pipeline.postgres.urls import database_of, normalized, url_parameters, with_database, without_password

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
