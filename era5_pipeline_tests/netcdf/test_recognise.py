from __future__ import annotations

import bz2
import gzip
import lzma
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.netcdf.recognise import claims_to_be_data, describe_other, kind_of
from era5_pipeline_tests.era5_files import GRIB_LAYOUTS, LAYOUTS, Layout, hours_from, weather, write

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("layout", [*LAYOUTS, *GRIB_LAYOUTS], ids=str)
def test_every_layout_is_recognised_under_any_file_name(tmp_path: Path, layout: Layout) -> None:
    path, *_ = write(tmp_path, weather(hours_from("2023-07-01T00", 2)), layout)
    assert kind_of(path.rename(tmp_path / "anything")) == (
        "zip" if layout.zipped else "grib" if layout.grib else "netcdf"
    )


OTHERS = {
    "empty": (b"", "is empty"),
    "gzip": (gzip.compress(b"CDF\x01" * 100), "is compressed"),
    "bzip2": (bz2.compress(b"CDF\x01" * 100), "is compressed"),
    "xz": (lzma.compress(b"CDF\x01" * 100), "is compressed"),
    "a page": (b"  \n<!DOCTYPE html><html>Service unavailable</html>", "web page or an error message"),
    "an answer": (b'{"title": "required licences not accepted"}', "web page or an error message"),
    "a pointer": (b"version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n", "Git LFS pointer"),
    "a table": (b"time,t2m\n2023-07-01,300.1\n" * 100, "is text"),
    "a table in German": ("Temperatur in °C für Köln,".encode() * 100, "is text"),
    "a cut character": (("x" * 511 + "ü").encode(), "is text"),
    "numbers": (bytes(range(256)) * 4, "neither netCDF, GRIB nor ZIP"),
    "zeros": (bytes(4096), "neither netCDF, GRIB nor ZIP"),
    "less than a name": (b"CD", "is text"),
}


@pytest.mark.parametrize("what", OTHERS)
def test_other_file_types_are_described_with_a_remedy(tmp_path: Path, what: str) -> None:
    content, said = OTHERS[what]
    path = tmp_path / "era5.nc"
    path.write_bytes(content)
    assert kind_of(path) == "other"
    text, remedy = describe_other(path)
    assert said in text
    assert remedy


def test_suffixes_of_data_files(tmp_path: Path) -> None:
    data = ("a.nc", "A.NC", "a.nc4", "a.netcdf", "a.zip", "a.grib", "a.grb", "a.h5", "a.b.nc")
    others = ("notes.md", "download.py", "nc", "a.nc.txt", "README", "a.csv", "a.idx")
    assert [name for name in (*data, *others) if claims_to_be_data(tmp_path / name)] == list(data)
