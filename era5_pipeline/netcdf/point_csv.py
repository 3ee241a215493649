"""Convert point series in CSV, as served for reanalysis-era5-single-levels-timeseries, to netCDF.

The columns are `valid_time`, short names of variables, `latitude` and `longitude`, in any order. The file states no
units, which are those of the same dataset's netCDF (K, m s**-1, m, 1), and usually no version. Here: reading the text
with pyarrow, and writing netCDF in the layout of the same dataset, so that grid, times and months are checked in one
place (`contents`). Not here: telling whether a file is a point series (`recognise`).
"""

from __future__ import annotations

import zipfile
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from typing import IO, TYPE_CHECKING

import netCDF4
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import xarray as xr

from era5_pipeline.model.errors import BadFileError, disk_errors
from era5_pipeline.model.variables import BY_SHORT_NAME
from era5_pipeline.netcdf.declared import MOST_HOURS
from era5_pipeline.netcdf.recognise import HEAD_BYTES, TIME_COLUMN, first_line, names_in

if TYPE_CHECKING:
    from collections.abc import Iterator
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
# All 23 variables of the dataset, hourly since 1940, take 200 MB, 20 million values.
_LARGEST_BYTES = 10**9
_MOST_VALUES = 40_000_000
_PIECE_BYTES = 1 << 20
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

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the text, undecoded, to read it in pieces.

        Raises:
            BadFileError: if it is too large for a point series.
            OSError, zipfile.BadZipFile: if it cannot be read.
        """
        if self.member is None:
            _require_size(self, self.size)
            with self.path.open("rb") as text:
                yield text
            return
        with zipfile.ZipFile(self.path) as archive:
            _require_size(self, archive.getinfo(self.member).file_size)
            with archive.open(self.member) as text:
                yield text


class _Ending:
    """A file that is read in pieces, and remembers the last one."""

    def __init__(self, text: IO[bytes]) -> None:
        self._text = text
        self.last = b""
        self.closed = False

    def read(self, size: int = -1) -> bytes:
        """Read the next piece."""
        piece = self._text.read(size)
        self.last = piece or self.last
        return piece

    def read_to_end(self) -> None:
        """Read what is left, and keep only the last piece."""
        while self.read(_PIECE_BYTES):
            pass


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
    with file.opened() as text:
        head = text.read(HEAD_BYTES)
    names = names_in(head)
    with file.opened() as text:
        table = _parse(_Ending(text), names, first_line(head), file)
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


def _parse(text: _Ending, names: list[str], first: str, file: CsvFile) -> pa.Table:
    """Parse the known columns, with their types."""
    missing = [name for name in (TIME_COLUMN, *_PLACE) if name not in names]
    if missing:
        separator = next((sign for sign in ";\t" if sign in first), None)
        said = f"its columns are separated by {separator!r}, not by commas" if separator else ""
        raise BadFileError(
            file.shown,
            said or f"is not a point series: it has no column {' or '.join(missing)}",
            remedy="Use the format of the Climate Data Store: valid_time,<variables>,latitude,longitude.",
        )
    twice = [name for name, count in Counter(names).items() if count > 1 and name in _COLUMN_TYPES]
    if twice:
        raise BadFileError(file.shown, f"has the column {twice[0]} more than once", remedy=_AGAIN)
    known = [name for name in names if name in _COLUMN_TYPES]
    try:
        table = _read_rows(text, names, known, file)
    except pa.ArrowInvalid as error:
        # The row that was cut off may be the one that cannot be read.
        text.read_to_end()
        _require_ending(text, file)
        said = " ".join(str(error).split())
        raise BadFileError(file.shown, f"cannot be read, it is cut off or damaged ({said})", remedy=_AGAIN) from error
    _require_ending(text, file)
    for name in (TIME_COLUMN, *_PLACE):
        if table.column(name).null_count:
            raise BadFileError(file.shown, f"has rows without {name}", remedy=_AGAIN)
    return table


def _read_rows(text: _Ending, names: list[str], known: list[str], file: CsvFile) -> pa.Table:
    """Read the rows in pieces, no more of them than a series can have."""
    read = pa_csv.ReadOptions(column_names=names, skip_rows=1, use_threads=False, block_size=_PIECE_BYTES)
    convert = pa_csv.ConvertOptions(include_columns=known, column_types=_COLUMN_TYPES)
    most = min(MOST_HOURS, _MOST_VALUES // len(known))
    pieces, rows = [], 0
    with pa_csv.open_csv(pa.PythonFile(text, "r"), read_options=read, convert_options=convert) as reader:
        for piece in reader:
            pieces.append(piece)
            rows += piece.num_rows
            if rows > most:
                raise BadFileError(
                    file.shown, f"has more than {most:,} rows, too many for a series of one point", remedy=_AGAIN
                )
        return pa.Table.from_batches(pieces, reader.schema)


def _require_ending(text: _Ending, file: CsvFile) -> None:
    # A number that was cut off halfway would still be read as a number.
    if not text.last.endswith((b"\n", b"\r")):
        raise BadFileError(
            file.shown,
            "is cut off: its last line has no line break",
            remedy="Download it again; or add the line break, if the last line is complete.",
        )


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
