"""Detect the type of a file from its first bytes, never from its name."""

from __future__ import annotations

import csv
import re
import stat
from pathlib import PurePath
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

Kind = Literal["netcdf", "grib", "zip", "csv", "other"]

# A CSV with this column is a point series; `archive` checks the other columns.
TIME_COLUMN = "valid_time"
# Enough to detect any type: a CSV header with all 23 variables of the time-series dataset takes 150 bytes.
HEAD_BYTES = 4096

_HDF5 = b"\x89HDF\r\n\x1a\n"
_NETCDF = (_HDF5, b"CDF\x01", b"CDF\x02", b"CDF\x05")
_GRIB = b"GRIB"
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
# Suffixes of data files; a folder of ERA5 files may also contain notes and scripts.
_CLAIMS = frozenset(
    {".nc", ".nc3", ".nc4", ".netcdf", ".cdf", ".h5", ".hdf5", ".zip", ".grib", ".grib2", ".grb", ".grb2"}
)
# Of an archive such as t2m.zarr.tar.gz.
_ZARR = ".zarr"
# Other formats that weather data come in, by suffix: not read, and counted.
_OTHER_FORMATS = {
    **dict.fromkeys((".csv", ".tsv"), "CSV"),
    **dict.fromkeys((".json", ".geojson"), "JSON"),
    **dict.fromkeys((".tif", ".tiff"), "TIFF"),
    **dict.fromkeys((".xls", ".xlsx"), "Excel"),
    **dict.fromkeys((".npy", ".npz"), "NumPy"),
    ".parquet": "Parquet",
    ".feather": "Feather",
    ".arrow": "Arrow",
    ".mat": "MATLAB",
    ".pkl": "pickle",
    ".hdf": "HDF4",
}
# Of the first line of a text.
_SHOWN_CHARACTERS = 60
_GET_NETCDF = "Download it again as netCDF from the Climate Data Store, or move it out of the folder."


def kind_of(path: Path) -> Kind:
    """Detect the type of the file at `path`."""
    with path.open("rb") as file:
        return kind_of_bytes(file.read(HEAD_BYTES))


def is_hdf5(path: Path) -> bool:
    """Return True if the netCDF file at `path` is HDF5, as netCDF-4 files are."""
    with path.open("rb") as file:
        return file.read(len(_HDF5)) == _HDF5


def special_kind(path: Path) -> str | None:
    """Name what the path is if not a file or folder: pipes and devices may block or never end."""
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    named = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return f"is {named.get(stat.S_IFMT(mode), 'a device')}, not a file"


def kind_of_bytes(head: bytes) -> Kind:
    """Detect the type from the first bytes: at least eight, for a CSV the first line."""
    if head.startswith(_NETCDF):
        return "netcdf"
    if head.startswith(_GRIB):
        return "grib"
    if head.startswith(_ZIP):
        return "zip"
    # Accept any separator: a series rewritten by a spreadsheet program gets a specific error later.
    return "csv" if TIME_COLUMN in (name.strip(' "') for name in re.split(r"[,;\t]", first_line(head))) else "other"


def first_line(content: bytes) -> str:
    """The first line of a text, without byte order mark or line break."""
    line = re.split(rb"[\r\n]", content[:HEAD_BYTES], maxsplit=1)[0]
    return line.decode("utf-8-sig", errors="replace").strip()


def names_in(content: bytes) -> list[str]:
    """The column names of a CSV, from its first line."""
    return [name.strip() for name in next(csv.reader([first_line(content)], skipinitialspace=True), [])]


def claims_to_be_data(path: Path) -> bool:
    """Return True if the file's suffix claims data, so that other contents are an error."""
    return path.suffix.lower() in _CLAIMS or _ZARR in path.suffixes


def other_format(name: str) -> str | None:
    """The format of a data file that is not read, by its suffix; None for notes, scripts and the like."""
    return _OTHER_FORMATS.get(PurePath(name).suffix.lower())


def counts_text(counts: Mapping[str, int]) -> str:
    """Write counts of files by format: `3 CSV, 1 TIFF`."""
    return ", ".join(f"{count:,} {name}" for name, count in counts.items())


def describe_other(path: Path) -> tuple[str, str]:
    """Describe a file that is not netCDF, GRIB, ZIP or a point series: what it is instead, and the remedy."""
    with path.open("rb") as file:
        head = file.read(512)
    if not head:
        return "is empty", _GET_NETCDF
    if head.startswith(b"version https://git-lfs"):
        return (
            "is a Git LFS pointer, not the data itself",
            "Run `git lfs pull` in the repository that the file came from.",
        )
    if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"\x28\xb5\x2f\xfd")):
        if _ZARR in path.suffixes:
            return (
                "is an archive of a Zarr store",
                "Unpack it, and read it with --source zarr; or move it away.",
            )
        return "is compressed as a whole", "Unpack it first; ZIP files are read as they are."
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"{")):
        return "is a web page or an error message, not netCDF", _GET_NETCDF
    try:
        # The cut at 512 bytes may split a character; the rest must be text.
        head.decode("utf-8", errors="strict" if len(head) < 512 else "ignore")
    except UnicodeDecodeError:
        return "is neither netCDF, GRIB nor ZIP", _GET_NETCDF
    if b"\x00" in head:
        return "is neither netCDF, GRIB nor ZIP", _GET_NETCDF
    first = next((line for line in head.decode("utf-8-sig", errors="ignore").splitlines() if line.strip()), "")
    return (
        f"is text, neither netCDF nor a point series as CSV (which has a column {TIME_COLUMN}); it begins with "
        f"{first.strip()[:_SHOWN_CHARACTERS]!r}",
        _GET_NETCDF,
    )
