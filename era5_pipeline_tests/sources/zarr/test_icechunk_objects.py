"""Icechunk repositories of ERA5's layout as Zarr stores: from a folder, over HTTP and from S3, and their faults."""

from __future__ import annotations

import shutil
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.model.errors import SourceError, TransientError, UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.sources.zarr import icechunk_objects
from era5_pipeline.sources.zarr.icechunk_objects import IcechunkAddress, require_icechunk
from era5_pipeline_tests.arco_store import served
from era5_pipeline_tests.sources.zarr.test_source import source, values_in
from era5_pipeline_tests.stores import aws_environment
from era5_pipeline_tests.zarr_stores import COLUMNS, SPATIAL, TEMPORAL, expected, upload, weather, write_repository

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.stores import S3Server

MONTH = Month(2020, 2)
HOURS = range(hours_of_month(MONTH).start - 24, hours_of_month(MONTH).stop + 24)
AREA = Area(51.0, -1.0, 49.5, 1.25)
NEEDS_ICECHUNK = pytest.mark.skipif(sys.version_info < (3, 12), reason="Icechunk 2 needs Python 3.12")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A month, and a day on each side, cut in time and cut in space."""
    folder = tmp_path_factory.mktemp("icechunk") / "era5"
    write_repository(folder, HOURS, temporal=TEMPORAL, spatial=SPATIAL)
    return folder


def address_of(folder: Path, what: str = "single/temporal") -> str:
    return f"icechunk+file://{folder}//{what}"


def chunks_of(folder: Path) -> list[Path]:
    """The objects with values, the largest last."""
    return sorted((folder / "chunks").iterdir(), key=lambda path: path.stat().st_size)


# --- addresses ---


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://era5/p/q//single/temporal", IcechunkAddress("s3://era5/p/q", "single/temporal", branch="main")),
        ("file:///a/b//g@branch:next", IcechunkAddress("file:///a/b", "g", branch="next")),
        ("https://host/a//g/@tag:v1.0", IcechunkAddress("https://host/a", "g", tag="v1.0")),
        (
            "s3://era5//g@T9H8SG2PVXWNY0QNJPJG",
            IcechunkAddress("s3://era5", "g", snapshot="T9H8SG2PVXWNY0QNJPJG"),
        ),
    ],
)
def test_an_address_names_place_group_and_state(text: str, address: IcechunkAddress) -> None:
    assert IcechunkAddress.parse(f"icechunk+{text}") == address


@pytest.mark.parametrize(
    "text",
    [
        "s3://era5/p",
        "s3:////g",
        "file://folder//g",
        "ftp://h/p//g",
        "s3://era5//",
        "s3://era5//g@",
        "s3://era5//g@tag:",
        "https:////g",
    ],
)
def test_other_addresses_are_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match=r"snapshot|place and a group|bucket") as refused:
        IcechunkAddress.parse(f"icechunk+{text}")
    assert "s3://" in refused.value.remedy


# --- values ---


@NEEDS_ICECHUNK
@pytest.mark.parametrize("by", ["folder", "http", "s3"])
def test_values_are_those_of_the_repository_by_every_way(
    repository: Path, by: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if by == "s3":
        place, server = request.getfixturevalue("s3_address"), request.getfixturevalue("s3_server")
        upload(repository, server.client(), place)
        raw = source(f"icechunk+{place}//single/temporal", tmp_path).fetch(MONTH)
    elif by == "http":
        with served(repository, with_ranges=True) as web:
            raw = source(f"icechunk+{web.url}//single/temporal", tmp_path).fetch(MONTH)
    else:
        raw = source(address_of(repository), tmp_path).fetch(MONTH)
    for column in COLUMNS:
        np.testing.assert_array_equal(values_in(raw, column), expected(column, hours_of_month(MONTH), AREA))


@NEEDS_ICECHUNK
def test_values_cut_in_space_are_those_cut_in_time(repository: Path, tmp_path: Path) -> None:
    in_time, in_space = (
        source(address_of(repository, f"single/{cut}"), tmp_path).fetch(MONTH) for cut in ("temporal", "spatial")
    )
    for column in COLUMNS:
        np.testing.assert_array_equal(values_in(in_time, column), values_in(in_space, column))


@NEEDS_ICECHUNK
def test_a_snapshot_is_read_as_it_was(tmp_path: Path) -> None:
    folder, hours = tmp_path / "era5", range(HOURS.start, HOURS.start + 240)
    first = write_repository(folder, hours)
    write_repository(folder, hours, values={column: one + 1 for column, one in weather(hours).items()})
    old = source(address_of(folder, f"single/temporal@{first}"), tmp_path / "raw").fetch(MONTH)
    new = source(address_of(folder), tmp_path / "raw").fetch(MONTH)
    wanted = expected("temperature_2m", range(HOURS.start + 24, hours.stop), AREA)
    np.testing.assert_array_equal(values_in(old, "temperature_2m"), wanted)
    np.testing.assert_array_equal(values_in(new, "temperature_2m"), wanted + 1)


# --- faults ---


@NEEDS_ICECHUNK
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("single/temporal@branch:none", "has no branch none"),
        ("single/temporal@tag:none", "has no tag none"),
        ("single/temporal@T9H8SG2PVXWNY0QNJPJG", "has no snapshot T9H8SG2PVXWNY0QNJPJG"),
        ("single/other", "there is no Zarr store at"),
    ],
)
def test_what_is_not_there_is_named(repository: Path, tmp_path: Path, what: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        source(address_of(repository, what), tmp_path).fetch(MONTH)


@NEEDS_ICECHUNK
def test_a_folder_without_a_repository_is_named(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=f"there is no Icechunk repository at file://{tmp_path}"):
        source(address_of(tmp_path), tmp_path / "raw").fetch(MONTH)


@NEEDS_ICECHUNK
def test_a_lost_chunk_is_an_error_and_not_missing_values(repository: Path, tmp_path: Path) -> None:
    shutil.copytree(repository, tmp_path / "era5")
    chunks_of(tmp_path / "era5")[-1].unlink()
    area = Area(52.0, -2.5, 47.0, 2.5)
    with pytest.raises(SourceError, match=r"the chunk \[\d+, \d+, \d+\] of single/temporal/t\w+ is lost"):
        source(address_of(tmp_path / "era5"), tmp_path / "raw", area=area).fetch(MONTH)
    assert not list((tmp_path / "raw").rglob("*.nc"))


@NEEDS_ICECHUNK
def test_a_chunk_that_was_never_written_is_missing_values(tmp_path: Path) -> None:
    values = weather(HOURS)
    values["temperature_2m"][400:] = np.nan
    write_repository(tmp_path / "era5", HOURS, values=values)
    raw = source(address_of(tmp_path / "era5"), tmp_path / "raw").fetch(MONTH)
    got = values_in(raw, "temperature_2m")
    assert np.isfinite(got[: 400 - 24]).all()
    assert np.isnan(got[400 - 24 :]).all()


@NEEDS_ICECHUNK
@pytest.mark.parametrize("status", [429, 503])
def test_a_store_that_throttles_is_asked_again_and_that_is_said(repository: Path, tmp_path: Path, status: int) -> None:
    said: list[str] = []
    with served(repository, with_ranges=True) as web:
        web.fail("refuse", 2, where="/chunks/.*", status=status)
        raw = source(f"icechunk+{web.url}//single/temporal", tmp_path, say=said.append).fetch(MONTH)
    assert raw.files
    assert any(f"status code: {status}" in text and "reading again in" in text for text in said)


@NEEDS_ICECHUNK
def test_a_store_that_is_down_ends_the_month_after_six_tries(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(TransientError, match=r"cannot be read .*Connection refused"):
        source("icechunk+http://127.0.0.1:9/era5//single/temporal", tmp_path, say=said.append).fetch(MONTH)
    assert len(said) == 5


@NEEDS_ICECHUNK
def test_a_store_that_may_not_be_read_is_not_asked_again(repository: Path, tmp_path: Path) -> None:
    with served(repository, with_ranges=True) as web:
        web.fail("refuse", where=".*", status=403)
        with pytest.raises(SourceError, match="status 403"):
            source(f"icechunk+{web.url}//single/temporal", tmp_path).fetch(MONTH)


@NEEDS_ICECHUNK
def test_keys_of_s3_that_are_wrong_are_no_endless_wait(
    repository: Path, strict_s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = strict_s3_server.bucket()
    upload(repository, strict_s3_server.client(), f"s3://{bucket}/era5")
    with (
        aws_environment(strict_s3_server.url, strict_s3_server.key, "wrong"),
        pytest.raises(SourceError, match="status 403"),
    ):
        source(f"icechunk+s3://{bucket}/era5//single/temporal", tmp_path).fetch(MONTH)


# --- the extra ---


def test_an_old_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(icechunk_objects, "_OLDEST_PYTHON", (4, 0))
    with pytest.raises(UsageError, match=r"need Python 3\.12 or later"):
        require_icechunk()


@NEEDS_ICECHUNK
def test_a_missing_library_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pcodec" else name)
    with pytest.raises(UsageError, match="the library pcodec, not installed") as refused:
        require_icechunk()
    assert "era5-pipeline[icechunk]" in refused.value.remedy
