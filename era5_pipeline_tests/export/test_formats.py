"""`export.formats`: the format of a path, and what is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.export.formats import export_format
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(
    ("name", "format_", "expected"),
    [
        *(("a.csv", None, "csv"), ("a.b.CSV.GZ", None, "csv"), ("2023.07.parquet", None, "parquet")),
        *(("a.nc", None, "netcdf"), ("a.nc", "netcdf", "netcdf"), ("a.nc", "nc", "netcdf")),
        *(("a.zarr", None, "zarr"), ("a", "zarr", "zarr"), ("a.dat", "csv", "csv")),
        (".nc", "netcdf", "netcdf"),
    ],
)
def test_the_suffix_or_the_name_is_the_format(tmp_path: Path, name: str, format_: str | None, expected: str) -> None:
    assert export_format(tmp_path / name, format_) == expected


@pytest.mark.parametrize(
    ("name", "format_", "message"),
    [
        ("a", None, "names no format"),
        ("a.xlsx", None, r"the suffix \.xlsx names no format"),
        ("a.gz", None, r"the suffix \.gz names no format"),
        ("a.parquet.gz", None, r"the suffix \.gz names no format"),
        ("a.csv", "netcdf", "is the name of a file of csv"),
        ("a.nc", "grib", "'grib' is not a format"),
        ("there/a.nc", None, "there is no folder"),
        ("file/a.nc", None, "there is no folder"),
        ("folder.nc", None, "is a folder"),
        ("mine.zarr", None, "is not a Zarr store"),
        ("file", "zarr", "is not a Zarr store"),
        ("/dev/stdout", "csv", "is not a file"),
        ("/dev/null", "csv", "is not a file"),
    ],
)
def test_what_does_not_fit_is_refused(tmp_path: Path, name: str, format_: str | None, message: str) -> None:
    (tmp_path / "folder.nc").mkdir()
    (tmp_path / "mine.zarr").mkdir()
    (tmp_path / "mine.zarr" / "thesis.txt").write_text("years of work")
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=message):
        export_format(tmp_path / name, format_)
    assert (tmp_path / "mine.zarr" / "thesis.txt").read_text() == "years of work"
