from __future__ import annotations

import os
import traceback
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import SourceError
from era5_pipeline.sources.cds.client.credentials import read_credentials

if TYPE_CHECKING:
    from pathlib import Path

KEY = "0f3a7f8e-1f6c-4c33-9d1d-secret000000"
URL = "https://cds.example.org/api"


@pytest.fixture(autouse=True)
def rc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of ~/.cdsapirc, in an environment without any CDSAPI_ variable."""
    for name in [name for name in os.environ if name.startswith("CDSAPI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".cdsapirc"


def test_credentials_from_the_file(rc: Path) -> None:
    rc.write_text(f"url: {URL}/\nkey: {KEY}\nverify: 0\n")
    found = read_credentials()
    assert (found.url, found.key.get_secret_value(), found.verify) == (URL, KEY, False)


def test_the_environment_wins_over_the_file(rc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rc.write_text("url: https://other.example.org/api\nkey: another\n")
    monkeypatch.setenv("CDSAPI_URL", URL)
    monkeypatch.setenv("CDSAPI_KEY", KEY)
    found = read_credentials()
    assert (found.url, found.key.get_secret_value(), found.verify) == (URL, KEY, True)


def test_credentials_from_another_file(rc: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    other = tmp_path / "rc"
    other.write_text(f"url: {URL}\nkey: {KEY}\n")
    monkeypatch.setenv("CDSAPI_RC", str(other))
    assert read_credentials().url == URL


@pytest.mark.parametrize("start", ["", "\ufeffurl: https://cds.example.org/api\n"], ids=["none", "with a BOM"])
def test_a_file_with_only_a_key_gets_the_default_address(rc: Path, start: str) -> None:
    rc.write_text(f"{start}key: {KEY}\n", encoding="utf-8")
    found = read_credentials()
    assert (found.url, found.key.get_secret_value()) == ("https://cds.climate.copernicus.eu/api", KEY)


def test_a_key_in_the_environment_gets_the_default_address(rc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not rc.exists()
    monkeypatch.setenv("CDSAPI_KEY", KEY)
    found = read_credentials()
    assert (found.url, found.key.get_secret_value()) == ("https://cds.climate.copernicus.eu/api", KEY)


def test_the_key_is_in_no_repr(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDSAPI_URL", URL)
    monkeypatch.setenv("CDSAPI_KEY", KEY)
    found = read_credentials()
    assert KEY not in f"{found} {found!r} {found.key} {found.key!r}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "there is no key"),
        ("url: https://cds.example.org/api\n", "there is no key"),
        ("url: 0f3a7f8e\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: ftp://me:0f3a7f8e@cds.example.org\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: https://cds.example.org/api\nkey: 12345:0f3a7f8e\n", "old Climate Data Store"),
        ("url: https://cds.example.org/api\nkey: a key with blanks\n", "is invalid"),
        ("url: https://cds.example.org/api\nkey:\n", "is invalid"),
        ("url: https://cds.climate.copernicus.eu/api/v2\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: https://cds.example.org:port/api\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: https://[::1/api\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: http://cds.climate.copernicus.eu/api\nkey: 0f3a7f8e\n", "plain http"),
        ("url: http://10.0.0.1/api\nkey: 0f3a7f8e\n", "plain http"),
        ("url: http://127.0.0.1.example.org/api\nkey: 0f3a7f8e\n", "plain http"),
        ("url: cds.example.org\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: https://cds.example.org/api\nkey: 0f3a7f8e\nverify: perhaps\n", "invalid line"),
    ],
)
def test_errors_of_credentials_do_not_show_the_key(rc: Path, text: str | None, says: str) -> None:
    if text is not None:
        rc.write_text(text)
    with pytest.raises(SourceError, match=says) as caught:
        read_credentials()
    assert "https://cds.climate.copernicus.eu" in caught.value.remedy
    shown = "".join(traceback.format_exception(caught.value))
    assert "0f3a7f8e" not in shown
    assert "a key with blanks" not in shown


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "127.8.9.10", "[::1]"])
def test_plain_http_is_allowed_for_this_machine(rc: Path, address: str) -> None:
    rc.write_text(f"url: http://{address}:8080/api\nkey: {KEY}\n")
    assert read_credentials().url == f"http://{address}:8080/api"


def test_an_unreadable_file_of_credentials(rc: Path) -> None:
    rc.mkdir()
    with pytest.raises(SourceError, match="cannot be read"):
        read_credentials()
