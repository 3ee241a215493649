"""Opening the lake that the settings name."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.lake.open_lake import open_lake
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import Settings

if TYPE_CHECKING:
    from pathlib import Path


def test_a_lake_needs_an_address_and_parquet(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="there is no lake"):
        open_lake(Settings(home=tmp_path))
    with pytest.raises(UsageError, match="ERA5_FORMAT is csv"):
        open_lake(Settings(home=tmp_path, lake=str(tmp_path), format="csv"))
    with pytest.raises(UsageError, match="neither a folder nor an address of S3"):
        open_lake(Settings(home=tmp_path, lake="gs://bucket/lake"))


def test_without_pyiceberg_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "era5_pipeline.lake.months", None)
    with pytest.raises(UsageError, match="needs pyiceberg") as caught:
        open_lake(Settings(home=tmp_path, lake=str(tmp_path)))
    assert f"{sys.executable} -m pip install 'era5-pipeline[lake]'" in caught.value.remedy
