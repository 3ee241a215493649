"""Recognise the type of a file by its first bytes, never by its name."""

from __future__ import annotations

import csv
import re
import stat
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

Kind = Literal["netcdf", "zip", "csv", "other"]

# A CSV with this column is a point series; `point_csv` checks the other columns.
TIME_COLUMN = "valid_time"
# Enough to tell any type: a CSV header with all 23 variables of the time-series dataset takes 150 bytes.
HEAD_BYTES = 4096

_HDF5 = b"\x89HDF\r\n\x1a\n"
_NETCDF = (_HDF5, b"CDF\x01", b"CDF\x02", b"CDF\x05")
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
# Suffixes of data files; a folder of ERA5 files may also contain notes and scripts.
_CLAIMS = frozenset({".nc", ".nc3", ".nc4", ".netcdf", ".cdf", ".h5", ".hdf5", ".zip", ".grib", ".grib2", ".grb"})
_GET_NETCDF = "Download it again as netCDF from the Climate Data Store, or move it out of the folder."


def kind_of(path: Path) -> Kind:
    """Tell the type of the file at `path`.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        return kind_of_bytes(file.read(HEAD_BYTES))


def is_hdf5(path: Path) -> bool:
    """Whether the netCDF file at `path` is HDF5, as those of netCDF-4 are.

    Raises:
        OSError: if it cannot be read.
    """
    with path.open("rb") as file:
        return file.read(len(_HDF5)) == _HDF5


def special_kind(path: Path) -> str | None:
    """What the path is if it is neither a file nor a folder: such things may never end, or wait for ever to be opened.

    Raises:
        OSError: if it cannot be looked up.
    """
    mode = path.stat().st_mode
    if stat.S_ISREG(mode) or stat.S_ISDIR(mode):
        return None
    named = {stat.S_IFIFO: "a named pipe", stat.S_IFSOCK: "a socket"}
    return f"is {named.get(stat.S_IFMT(mode), 'a device')}, not a file"


def kind_of_bytes(head: bytes) -> Kind:
    """Tell the type of a file by its first bytes: at least eight, for a CSV its first line."""
    if head.startswith(_NETCDF):
        return "netcdf"
    if head.startswith(_ZIP):
        return "zip"
    # With any separator: a series that a spreadsheet program rewrote gets a specific error later.
    return "csv" if TIME_COLUMN in (name.strip(' "') for name in re.split(r"[,;\t]", first_line(head))) else "other"


def first_line(content: bytes) -> str:
    """The first line of a text, without byte order mark and line break."""
    line = re.split(rb"[\r\n]", content[:HEAD_BYTES], maxsplit=1)[0]
    return line.decode("utf-8-sig", errors="replace").strip()


def names_in(content: bytes) -> list[str]:
    """The column names of a CSV, from its first line."""
    return [name.strip() for name in next(csv.reader([first_line(content)], skipinitialspace=True), [])]


def claims_to_be_data(path: Path) -> bool:
    """Whether the file's suffix is that of data: if its contents are not, that is an error."""
    return path.suffix.lower() in _CLAIMS


def describe_other(path: Path) -> tuple[str, str]:
    """Describe a file that is neither netCDF, ZIP nor a point series: what it is instead, and the remedy."""
    with path.open("rb") as file:
        head = file.read(512)
    if not head:
        return "is empty", _GET_NETCDF
    if head.startswith(b"GRIB"):
        return "is GRIB, not netCDF", 'Request "data_format": "netcdf" from the Climate Data Store, or convert it.'
    if head.startswith(b"version https://git-lfs"):
        return (
            "is a Git LFS pointer, not the data itself",
            "Run `git lfs pull` in the repository that the file came from.",
        )
    if head.startswith((b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"7z\xbc\xaf", b"\x28\xb5\x2f\xfd")):
        return "is compressed as a whole", "Unpack it first; ZIP files are read as they are."
    text = head.lstrip().lower()
    if text.startswith((b"<!doctype", b"<html", b"<?xml", b"{")):
        return "is a web page or an error message, not netCDF", _GET_NETCDF
    try:
        # The cut at 512 bytes may split a character; everything before it must be text.
        head.decode("utf-8", errors="strict" if len(head) < 512 else "ignore")
    except UnicodeDecodeError:
        return "is neither netCDF nor ZIP", _GET_NETCDF
    if b"\x00" in head:
        return "is neither netCDF nor ZIP", _GET_NETCDF
    return f"is text, neither netCDF nor a point series as CSV (which has a column {TIME_COLUMN})", _GET_NETCDF
