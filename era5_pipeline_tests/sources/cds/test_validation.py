from __future__ import annotations

import io
import zipfile
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from era5_pipeline.model.errors import SourceError
from era5_pipeline.model.months import Month
from era5_pipeline.sources.cds.retry_policy import RetryableError
from era5_pipeline.sources.cds.validation import validate_download

if TYPE_CHECKING:
    from pathlib import Path

MONTH = Month(2020, 2)
NETCDF = b"\x89HDF\r\n\x1a\n" + bytes(range(256)) * 40
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)


def zipped(*names: str, content: bytes = NETCDF) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as archive:
        for name in names:
            archive.writestr(name, content)
    return made.getvalue()


def validate(folder: Path, content: bytes) -> str:
    path = folder / "file"
    path.write_bytes(content)
    return validate_download(MONTH, path)


def test_the_services_files_are_valid(tmp_path: Path) -> None:
    assert validate(tmp_path, NETCDF) == ".nc"
    assert validate(tmp_path, b"CDF\x01" + bytes(100)) == ".nc"
    names = ("data_stream-oper_stepType-instant.nc", "data_stream-oper_stepType-accum.nc")
    assert validate(tmp_path, zipped(*names)) == ".zip"


@pytest.mark.parametrize("content", [b"", b"<!doctype html><html></html>", b"{}", b"time,t2m\n", bytes(100), zipped()])
def test_other_files_are_damaged_and_need_a_new_request(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(RetryableError) as caught:
        validate(tmp_path, content)
    assert caught.value.needs_new_request


def test_a_point_series_in_place_of_a_month_is_named(tmp_path: Path) -> None:
    with pytest.raises(RetryableError, match="point series as CSV"):
        validate(tmp_path, b"valid_time,t2m,latitude,longitude\n2020-02-01 00:00:00,280.1,50.0,8.0\n")


@pytest.mark.parametrize(
    "name", ["../evil.nc", "a/../../evil.nc", "/evil.nc", "C:\\evil.nc", "..\\evil.nc", "\\\\host\\share\\evil.nc"]
)
def test_a_zip_member_outside_of_the_zip_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(SourceError, match="outside of it"):
        validate(tmp_path, zipped("data.nc", name))


def test_a_small_member_may_be_compressed_to_very_little(tmp_path: Path) -> None:
    assert validate(tmp_path, zipped("data.nc", content=NETCDF[:8] + bytes(10_000_000))) == ".zip"


@in_one_folder
@given(st.data())
def test_any_damage_to_a_zip_is_detected_or_harmless(tmp_path: Path, data: st.DataObject) -> None:
    whole = zipped("data.nc")
    content = bytearray(whole)
    content[data.draw(st.integers(4, len(content) - 1))] ^= data.draw(st.integers(1, 255))
    try:
        validate(tmp_path, bytes(content))
    except (RetryableError, SourceError):
        return
    # A ZIP that is accepted must still hold the data: only names, dates and the like were damaged.
    with zipfile.ZipFile(io.BytesIO(bytes(content))) as archive:
        assert archive.read(archive.infolist()[0]) == NETCDF


@in_one_folder
@given(st.integers(0, 1000))
def test_a_truncated_zip_is_detected(tmp_path: Path, length: int) -> None:
    whole = zipped("data.nc")
    with pytest.raises((RetryableError, SourceError)):
        validate(tmp_path, whole[: min(length, len(whole) - 1)])
