"""Addresses, users and tokens of stores."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import SourceError, UsageError
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.sources.zarr.presets import PRESETS, access_of, require_told
from era5_pipeline.sources.zarr.store import ReadOnlyStore

if TYPE_CHECKING:
    from pathlib import Path


def settings(**values: Any) -> Settings:
    return Settings(_env_file=None, source="zarr", **values)


def test_a_preset_brings_its_address_and_user_and_needs_a_token(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="Earth Data Hub of Destination Earth answers only with a token"):
        access_of(settings(zarr_url="edh"))
    (tmp_path / "key").write_text("secret\n")
    access = access_of(settings(zarr_url="edh", zarr_token_file=tmp_path / "key"))
    assert (access.url, access.user, access.token) == (PRESETS["edh"].url, "edh", "secret")
    assert "secret" not in repr(access)
    assert access_of(settings(zarr_url="ecmwf-arco", zarr_token_file=tmp_path / "key")).user is None


def test_without_an_address_the_presets_are_named() -> None:
    with pytest.raises(UsageError, match="needs the address of a store") as caught:
        access_of(settings())
    assert "edh, ecmwf-arco, earthmover" in caught.value.remedy


def test_a_preset_is_a_source_by_its_name(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    by_source = Settings(_env_file=None, source="edh", zarr_token_file=tmp_path / "key")
    assert access_of(by_source) == access_of(settings(zarr_url="edh", zarr_token_file=tmp_path / "key"))


def test_the_open_store_needs_no_token_and_no_key_nor_another_endpoint() -> None:
    access = access_of(Settings(_env_file=None, source="earthmover"))
    assert (access.url, access.token, access.s3) == (PRESETS["earthmover"].url, None, "public")
    copied = access_of(Settings(_env_file=None, source="earthmover", earthmover_url="icechunk+s3://copy/era5"))
    assert (copied.url, copied.s3) == ("icechunk+s3://copy/era5//single/temporal", "unsigned")


@pytest.mark.parametrize("content", [None, "", "two words", "two\nlines", "schlüssel"])
def test_a_file_without_one_token_is_refused(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "token"
    if content is not None:
        path.write_text(content)
    with pytest.raises(UsageError) as caught:
        access_of(settings(zarr_url="https://store.invalid/a.zarr", zarr_token_file=path))
    assert str(path) in caught.value.message
    assert not content or content not in caught.value.message


@pytest.mark.parametrize(
    "url",
    ["https://edh:hunter2@store.invalid/a.zarr", "https://store.invalid/a.zarr?sig=hunter2", "https://s/a#hunter2"],
)
def test_an_address_with_a_key_is_refused_without_showing_it(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    monkeypatch.setenv("ERA5_ZARR_URL", url)
    with pytest.raises(UsageError, match="ERA5_ZARR_URL") as caught:
        read_settings()
    assert "hunter2" not in str(caught.value)
    with pytest.raises(UsageError) as directly:
        ReadOnlyStore.at(url, lambda _: None)
    assert "hunter2" not in str(directly.value)


def test_a_kind_of_address_that_is_not_known_is_refused() -> None:
    with pytest.raises(UsageError, match=r"abfs://container/a.zarr is an address of a kind that is not known"):
        ReadOnlyStore.at("abfs://container/a.zarr", lambda _: None)


def test_the_preset_of_the_hub_has_a_store_of_each_data_set(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("secret\n")
    chosen = settings(zarr_url="edh", zarr_token_file=tmp_path / "key", dataset="era5-land")
    url = "https://api.earthdatahub.destine.eu/era5/reanalysis-era5-land-no-antartica-v0.zarr"
    assert access_of(chosen).url == url
    assert access_of(chosen.model_copy(update={"source": "edh"})).url == url
    require_told(url, ERA5_LAND)


def test_a_preset_without_the_data_set_is_refused_by_name() -> None:
    preset = "earthmover"
    for chosen in (settings(zarr_url=preset, dataset="era5-land"), settings(dataset="era5-land")):
        with pytest.raises(UsageError, match=f"the source {preset} has no ERA5-Land"):
            access_of(chosen.model_copy(update={} if chosen.zarr_url else {"source": preset}))


def test_a_store_that_does_not_name_the_data_set_is_refused() -> None:
    for shown in ("/stores/a.zarr", PRESETS["edh"].url, PRESETS["ecmwf-arco"].url):
        with pytest.raises(UsageError, match="does not say that it is a store of ERA5-Land") as caught:
            require_told(shown, ERA5_LAND)
        assert "edh" in caught.value.remedy
        require_told(shown, ERA5)
    for url in PRESETS["ecmwf-arco"].groups["era5-land"]:
        require_told(url, ERA5_LAND)
