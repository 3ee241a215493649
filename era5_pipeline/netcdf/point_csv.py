"""Convert point series in CSV, as served for reanalysis-era5-single-levels-timeseries, to netCDF.

The columns are `valid_time`, short names of variables, `latitude` and `longitude`, in any order. The file states no
units, which are those of the same dataset's netCDF (K, m s**-1, m, 1), and usually no version. Here: reading the text
with pyarrow, and writing netCDF in the layout of the same dataset, so that grid, times and months are checked in one
place (`contents`). Not here: telling whether a file is a point series (`recognise`).
"""

from __future__ import annotations

import zipfile
from collections import Counter
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING

import netCDF4
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import xarray as xr

from era5_pipeline.model.errors import BadFileError, disk_errors
from era5_pipeline.model.variables import BY_SHORT_NAME
from era5_pipeline.netcdf.recognise import TIME_COLUMN, first_line, names_in

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

_EXPVER = "expver"
_PLACE = ("latitude", "longitude")
_COLUMN_TYPES = {
    TIME_COLUMN: pa.timestamp("s"),
    **dict.fromkeys(_PLACE, pa.float64()),
    _EXPVER: pa.string(),
    # The served text is the shortest that parses to the same float32.
    **dict.fromkeys(BY_SHORT_NAME, pa.float32()),
}
# All 23 variables of the dataset, hourly since 1940, take 200 MB.
_LARGEST_BYTES = 10**9
# Converted files kept in memory: the months of a load run one after another in one process, and each needs every file
# that covers it. A series of all our variables since 1940 takes 21 MB.
_CACHED_FILES = 16
# Initial size of the netCDF in memory; it grows as needed.
_FIRST_BYTES = 1 << 20
_AGAIN = "Download it again, or move it out of the folder."


@dataclass(frozen=True)
class CsvFile:
    """The CSV file `path`, or the `member` of the ZIP `path`; `size` and `modified_ns` tell whether it was changed."""

    path: Path
    member: str | None
    size: int
    modified_ns: int

    @classmethod
    def at(cls, path: Path, member: str | None = None) -> CsvFile:
        """The file at `path` in its current state."""
        stat = path.stat()
        return cls(path, member, stat.st_size, stat.st_mtime_ns)

    @property
    def shown(self) -> str:
        """The name to use in messages."""
        return str(self.path) if self.member is None else f"{self.path}!{self.member}"

    def read(self) -> bytes:
        """Read the text, undecoded.

        Raises:
            BadFileError: if it is too large for a point series.
            OSError, zipfile.BadZipFile: if it cannot be read.
        """
        if self.member is None:
            _require_size(self, self.size)
            return self.path.read_bytes()
        with zipfile.ZipFile(self.path) as archive:
            _require_size(self, archive.getinfo(self.member).file_size)
            return archive.read(self.member)


def write_as_netcdf(file: CsvFile, target: Path) -> None:
    """Write the series to `target` as netCDF, in the layout of the same dataset.

    Raises:
        BadFileError: if it is not a complete series of one point.
        LocalDiskError: if there is no room.
    """
    content = _as_netcdf(file)
    with disk_errors(f"unpacking {file.path.name}", target.parent):
        target.write_bytes(content)


@lru_cache(maxsize=_CACHED_FILES)
def _as_netcdf(file: CsvFile) -> bytes:
    series = _read(file)
    # In memory: when the disk is full, the netCDF library only reports an unspecified error.
    dataset = netCDF4.Dataset("series.nc", "w", memory=_FIRST_BYTES)
    series.dump_to_store(xr.backends.NetCDF4DataStore(dataset))  # type: ignore[no-untyped-call]
    return bytes(dataset.close())


def _read(file: CsvFile) -> xr.Dataset:
    content = file.read()
    if not content.endswith((b"\n", b"\r")):
        # A number that was cut off halfway would still be read as a number.
        raise BadFileError(
            file.shown,
            "is cut off: its last line has no line break",
            remedy="Download it again; or add the line break, if the last line is complete.",
        )
    names = names_in(content)
    table = _parse(content, names, file)
    times = table.column(TIME_COLUMN).to_numpy().astype("datetime64[s]").astype(np.int64)
    coordinates = {TIME_COLUMN: (TIME_COLUMN, times, {"units": "seconds since 1970-01-01", "standard_name": "time"})}
    place = {name: ((), _only(table, name, file), {"units": f"degrees_{way}"}) for name, way in _directions()}
    versions = {}
    if _EXPVER in table.column_names:
        versions[_EXPVER] = (TIME_COLUMN, np.array(table.column(_EXPVER).to_pylist(), dtype=object))
    fields: dict[str, tuple[tuple[str, ...], npt.NDArray[np.float32], dict[str, str]]] = {
        name: ((TIME_COLUMN,), table.column(name).to_numpy(), {"units": variable.file_units[0]})
        for name, variable in BY_SHORT_NAME.items()
        if name in table.column_names
    }
    # Only their names: if the file has none of our variables, the message lists what it has.
    others = {name: ((), np.float32(np.nan)) for name in names if name not in _COLUMN_TYPES and name.isidentifier()}
    return xr.Dataset(fields | others, coordinates | place | versions)


def _directions() -> tuple[tuple[str, str], tuple[str, str]]:
    return (_PLACE[0], "north"), (_PLACE[1], "east")


def _require_size(file: CsvFile, size: int) -> None:
    if size > _LARGEST_BYTES:
        raise BadFileError(file.shown, f"has {size:,} bytes, too many for a series of one point", remedy=_AGAIN)


def _parse(content: bytes, names: list[str], file: CsvFile) -> pa.Table:
    """Parse the known columns, with their types."""
    missing = [name for name in (TIME_COLUMN, *_PLACE) if name not in names]
    if missing:
        separator = next((sign for sign in ";\t" if sign in first_line(content)), None)
        said = f"its columns are separated by {separator!r}, not by commas" if separator else ""
        raise BadFileError(
            file.shown,
            said or f"is not a point series: it has no column {' or '.join(missing)}",
            remedy="Use the format of the Climate Data Store: valid_time,<variables>,latitude,longitude.",
        )
    twice = [name for name, count in Counter(names).items() if count > 1 and name in _COLUMN_TYPES]
    if twice:
        raise BadFileError(file.shown, f"has the column {twice[0]} more than once", remedy=_AGAIN)
    read = pa_csv.ReadOptions(
        column_names=names, skip_rows=1, use_threads=False
    )  # with threads, its errors do not name the row
    known = [name for name in names if name in _COLUMN_TYPES]
    convert = pa_csv.ConvertOptions(include_columns=known, column_types=_COLUMN_TYPES)
    try:
        table = pa_csv.read_csv(pa.BufferReader(content), read_options=read, convert_options=convert)
    except pa.ArrowInvalid as error:
        said = " ".join(str(error).split())
        raise BadFileError(file.shown, f"cannot be read, it is cut off or damaged ({said})", remedy=_AGAIN) from error
    for name in (TIME_COLUMN, *_PLACE):
        if table.column(name).null_count:
            raise BadFileError(file.shown, f"has rows without {name}", remedy=_AGAIN)
    return table


def _only(table: pa.Table, name: str, file: CsvFile) -> float:
    """The single value that the column has in all rows; NaN if there are no rows."""
    values = np.unique(table.column(name).to_numpy())
    if values.size > 1:
        raise BadFileError(
            file.shown,
            f"holds several points ({name} {values[0]:g} and {values[1]:g})",
            remedy="Split it into one file per point, or request the area as netCDF.",
        )
    return float(values[0]) if values.size else float("nan")
