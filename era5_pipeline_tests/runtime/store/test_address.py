"""Addresses of stores and of files, alone and in lists with colons between them."""

from __future__ import annotations

from pathlib import Path

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import Settings
from era5_pipeline.runtime.store.address import S3Address, require_folder_or_s3
from era5_pipeline.runtime.store.object_store import open_store


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


def test_settings_have_folders_and_buckets_apart() -> None:
    settings = Settings(files_dir="/a:s3://bucket/x:/b")
    assert settings.files_dirs == (Path("/a"), Path("/b"))
    assert settings.files_buckets == ("s3://bucket/x",)
    assert settings.source_name == "files"


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


def test_a_folder_is_absolute_and_an_address_is_left_as_it_is() -> None:
    assert Settings(store="share").store_address == str(Path("share").absolute())
    assert Settings(store="s3://bucket/x").store_address == "s3://bucket/x"
    assert Settings().store_address is None
    with pytest.raises(UsageError):
        open_store(Settings(store="gs://bucket").store_address or "")
