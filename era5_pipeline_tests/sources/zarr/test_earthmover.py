"""The source `earthmover` on a repository of its layout: from where, and which copy of the values, it reads."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING

import boto3
import numpy as np
import pytest

from era5_pipeline.model.months import Month, months_between
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.sources.zarr.earthmover import EarthmoverSource
from era5_pipeline.stages import run_flat, run_raw
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.sources.zarr.test_icechunk_objects import AREA, HOURS, MONTH, NEEDS_ICECHUNK
from era5_pipeline_tests.sources.zarr.test_source import values_in
from era5_pipeline_tests.stores import KEY, SECRET
from era5_pipeline_tests.zarr_stores import COLUMNS, SPATIAL, TEMPORAL, expected, upload, write_repository

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.stores import S3Server


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("earthmover") / "era5"
    write_repository(folder, HOURS, temporal=TEMPORAL, spatial=SPATIAL)
    return folder


def settings_at(url: str, home: Path, area: str = str(AREA)) -> Settings:
    return Settings(
        _env_file=None, home=home, source="earthmover", earthmover_url=url, area=area, variables=",".join(COLUMNS)
    )


def source_at(url: str, home: Path, area: str = str(AREA)) -> EarthmoverSource:
    opened = source_of(settings_at(url, home, area))
    assert isinstance(opened, EarthmoverSource)
    return opened


@NEEDS_ICECHUNK
def test_a_month_is_of_the_source_and_its_values_are_those_of_the_repository(repository: Path, tmp_path: Path) -> None:
    settings = settings_at(f"icechunk+file://{repository}", tmp_path)
    raw = run_raw(settings, MONTH).raw
    assert raw.source == "earthmover"
    for column in COLUMNS:
        np.testing.assert_array_equal(values_in(raw, column), expected(column, hours_of_month(MONTH), AREA))
    with without_pictures():
        assert run_flat(settings, MONTH).flat.rows == MONTH.hours * 7 * 10
    assert source_of(settings).known(MONTH) == raw


@NEEDS_ICECHUNK
def test_it_is_read_without_a_key(
    repository: Path, s3_server: S3Server, s3_address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A key of the environment, which is of another store, is not sent: here it would be refused."""
    upload(repository, s3_server.client(), s3_address)
    bucket, _, prefix = s3_address.removeprefix("s3://").partition("/")
    client = boto3.client(
        "s3", endpoint_url=s3_server.url, aws_access_key_id=KEY, aws_secret_access_key=SECRET, region_name="us-east-1"
    )
    for found in client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix):
        for one in found["Contents"]:
            client.put_object_acl(Bucket=bucket, Key=one["Key"], ACL="public-read")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "of another store")
    raw = source_at(f"icechunk+{s3_address}", tmp_path).fetch(MONTH)
    hours = hours_of_month(MONTH)
    np.testing.assert_array_equal(values_in(raw, "temperature_2m"), expected("temperature_2m", hours, AREA))


@pytest.mark.parametrize(
    ("area", "months", "cut"),
    [
        (str(AREA), ("2020-02", "2020-02"), "temporal"),
        ("global", ("2020-02", "2020-02"), "spatial"),
        ("global", ("1940-01", "2020-12"), "spatial"),  # all years are read, and half a chunk at each end more
        ("7/94/-12/142", ("2020-02", "2020-02"), "temporal"),  # Indonesia: 136 tiles
        ("75/-170/0/170", ("2020-02", "2020-02"), "spatial"),
        ("75/-170/0/170", ("2020-02", "2020-12"), "temporal"),
    ],
)
def test_the_cut_that_takes_fewer_values_is_read(tmp_path: Path, area: str, months: tuple[str, str], cut: str) -> None:
    chosen = source_at("icechunk+file:///era5", tmp_path, area).for_months(months_between(*months))
    assert chosen.access.url == f"icechunk+file:///era5//single/{cut}"


@NEEDS_ICECHUNK
@pytest.mark.parametrize("cut", ["temporal", "spatial"])
def test_what_is_recorded_of_a_month_is_of_the_copy_that_it_is_from(
    repository: Path, tmp_path: Path, cut: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("era5_pipeline.sources.zarr.earthmover._is_less_in_space", lambda *_: cut == "spatial")
    opened = source_at(f"icechunk+file://{repository}", tmp_path)
    raw = opened.fetch(MONTH)
    opened.record_completeness(raw, is_complete=False)
    assert opened.known(MONTH) is None
    opened.record_completeness(opened.fetch(MONTH), is_complete=True)
    again = opened.known(MONTH)
    assert again is not None
    # Also those of a month that was recorded as incomplete.
    opened.record_completeness(again, is_complete=False)
    opened.invalidate(again)
    notes = [json.loads(path.with_suffix(".json").read_text()) for path in (file.path for file in again.files)]
    assert [note["piece"] for note in notes] == [None] * len(again.files)
    shutil.rmtree(tmp_path / "raw")
    assert opened.known(Month(2020, 1)) is None


def test_tiles_begin_at_the_pole_and_at_greenwich(tmp_path: Path) -> None:
    """614 tiles of 12 x 12 places, and no more, take fewer values than the hours of a month of the globe."""
    for area, cut in (("90/0/33.25/92.75", "temporal"), ("90/0/33/92.75", "spatial")):  # 19 x 31 tiles, 20 x 31
        chosen = source_at("icechunk+file:///era5", tmp_path, area).for_months([Month(2020, 1)])
        assert chosen.access.url.endswith(cut)
