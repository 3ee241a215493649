"""Point series as CSV, as the dataset reanalysis-era5-single-levels-timeseries gives them: made into netCDF to be read.

The file has `valid_time`, short names of variables, `latitude` and `longitude`, in any order; it states no units, which
are those of the same dataset's netCDF (K, m s**-1, m, 1), and usually no version. Here: reading the text, with pyarrow,
and writing a netCDF file of the same layout as the served one, so that grid, times and months are judged in one place
(`inspect`). Not here: whether a file is one (`recognise`).
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
    # The served text is the shortest one that reads back as the same float32.
    **dict.fromkeys(BY_SHORT_NAME, pa.float32()),
}
# Every hour since 1940 of all 23 variables that the dataset has takes 200 MB.
_LARGEST_BYTES = 10**9
# The months of a load follow one another in one process, and each needs every file that covers it. A series since 1940
# of all our variables takes 21 MB here.
_REMEMBERED = 16
# What the netCDF is begun with in memory; it grows as it must.
_FIRST_BYTES = 1 << 20
_AGAIN = "Download it again, or move it out of the folder."


@dataclass(frozen=True)
class CsvFile:
    """The CSV file `path`, or the `member` of the ZIP `path`; `size` and `modified_ns` tell its versions apart."""

    path: Path
    member: str | None
    size: int
    modified_ns: int

    @classmethod
    def at(cls, path: Path, member: str | None = None) -> CsvFile:
        """The file as it is now."""
        stat = path.stat()
        return cls(path, member, stat.st_size, stat.st_mtime_ns)

    @property
    def shown(self) -> str:
        """What to call it in messages."""
        return str(self.path) if self.member is None else f"{self.path}!{self.member}"

    def read(self) -> bytes:
        """The text, undecoded.

        Raises:
            BadFileError: if it is too large to be a series.
            OSError, zipfile.BadZipFile: if it cannot be read.
        """
        if self.member is None:
            _require_size(self, self.size)
            return self.path.read_bytes()
        with zipfile.ZipFile(self.path) as archive:
            _require_size(self, archive.getinfo(self.member).file_size)
            return archive.read(self.member)


def write_as_netcdf(file: CsvFile, target: Path) -> None:
    """Write the series to `target`, in the layout of the same dataset's netCDF.

    Raises:
        BadFileError: if it is no whole series of one point.
        LocalDiskError: if there is no room.
    """
    content = _as_netcdf(file)
    with disk_errors(f"unpacking {file.path.name}", target.parent):
        target.write_bytes(content)


@lru_cache(maxsize=_REMEMBERED)
def _as_netcdf(file: CsvFile) -> bytes:
    series = _read(file)
    # In memory: of a disk that is full, the netCDF library says only that there was an error.
    dataset = netCDF4.Dataset("series.nc", "w", memory=_FIRST_BYTES)
    series.dump_to_store(xr.backends.NetCDF4DataStore(dataset))  # type: ignore[no-untyped-call]
    return bytes(dataset.close())


def _read(file: CsvFile) -> xr.Dataset:
    content = file.read()
    if not content.endswith((b"\n", b"\r")):
        # A number that was cut off in its middle is a number, too.
        raise BadFileError(
            file.shown,
            "its last line has no end, it is cut off",
            remedy="Download it again; or end its last line, if that is whole.",
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
    # Only their names count: those of a file with none of our variables are listed in what is said of it.
    others = {name: ((), np.float32(np.nan)) for name in names if name not in _COLUMN_TYPES and name.isidentifier()}
    return xr.Dataset(fields | others, coordinates | place | versions)


def _directions() -> tuple[tuple[str, str], tuple[str, str]]:
    return (_PLACE[0], "north"), (_PLACE[1], "east")


def _require_size(file: CsvFile, size: int) -> None:
    if size > _LARGEST_BYTES:
        raise BadFileError(file.shown, f"has {size:,} bytes, which no series of one point has", remedy=_AGAIN)


def _parse(content: bytes, names: list[str], file: CsvFile) -> pa.Table:
    """The columns that we know, in their types."""
    missing = [name for name in (TIME_COLUMN, *_PLACE) if name not in names]
    if missing:
        separator = next((sign for sign in ";\t" if sign in first_line(content)), None)
        said = f"its columns are separated by {separator!r}, not by commas" if separator else ""
        raise BadFileError(
            file.shown,
            said or f"is no point series: it has no column {' or '.join(missing)}",
            remedy="Give it as the Climate Data Store does: valid_time,<variables>,latitude,longitude.",
        )
    twice = [name for name, count in Counter(names).items() if count > 1 and name in _COLUMN_TYPES]
    if twice:
        raise BadFileError(file.shown, f"has the column {twice[0]} more than once", remedy=_AGAIN)
    read = pa_csv.ReadOptions(column_names=names, skip_rows=1, use_threads=False)  # with threads it names no row
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
    """The one value that the column has in every row; NaN where there is no row."""
    values = np.unique(table.column(name).to_numpy())
    if values.size > 1:
        raise BadFileError(
            file.shown,
            f"holds several points ({name} {values[0]:g} and {values[1]:g})",
            remedy="Make a file of each point, or ask for the area as netCDF.",
        )
    return float(values[0]) if values.size else float("nan")
