"""Where the lake is, and what errors there say."""

from __future__ import annotations

import pytest

from era5_pipeline.lake.place import LakePlace, lake_errors
from era5_pipeline.model.errors import StoreError, TransientError
from era5_pipeline_tests.stores import aws_environment


def test_errors_of_a_folder_name_it() -> None:
    with pytest.raises(StoreError, match="the lake /data/lake: Permission denied") as caught, lake_errors("/data/lake"):
        raise PermissionError(13, "Permission denied", "/data/lake/weather")
    assert "ERA5_LAKE" in caught.value.remedy


def test_errors_of_a_bucket_keep_their_kind() -> None:
    with pytest.raises(TransientError, match="the lake s3://bucket/lake") as caught, lake_errors("s3://bucket/lake"):
        raise OSError("When reading information for key: AWS Error SLOW_DOWN during HeadObject operation")
    assert "ERA5_LAKE" in caught.value.remedy


def test_properties_have_the_address_of_a_server_and_no_keys() -> None:
    with aws_environment("http://127.0.0.1:9000", "the-key", "the-secret"):
        properties = LakePlace("s3://bucket/lake").properties
    assert properties == {"s3.endpoint": "http://127.0.0.1:9000", "s3.region": "us-east-1"}
    assert LakePlace("/data/lake").properties == {}
