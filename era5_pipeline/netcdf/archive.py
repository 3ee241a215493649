"""Provide files to open: netCDF and GRIB in place, ZIP members unpacked, CSV point series converted to netCDF."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
import zipfile
from collections import Counter
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType
from typing import IO, TYPE_CHECKING, Final, Literal

import netCDF4
import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import xarray as xr

from era5_pipeline.model.errors import BadFileError, Era5Error, disk_errors
from era5_pipeline.model.variables import CATALOGUES
from era5_pipeline.netcdf import recognise
from era5_pipeline.netcdf.refusals import MOST_HOURS
from era5_pipeline.runtime.files import require_room, temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import numpy.typing as npt

# --- Convert CSV point series, as served for reanalysis-era5-single-levels-timeseries, to netCDF ---
#
# The columns are `valid_time`, short variable names, `latitude` and `longitude`, in any order. The file does not state
# its units, which are those of the same dataset's netCDF (K, m s**-1, m, 1), and usually states no version.


_EXPVER = "expver"
_PLACE = ("latitude", "longitude")
# Of all data sets: a name means the same in each.
_BY_SHORT_NAME = {name: one for held in CATALOGUES.values() for name, one in held.by_short_name.items()}
_COLUMN_TYPES = {
    recognise.TIME_COLUMN: pa.timestamp("s"),
    **dict.fromkeys(_PLACE, pa.float64()),
    _EXPVER: pa.string(),
    # The service writes the shortest text that parses to the same float32.
    **dict.fromkeys(_BY_SHORT_NAME, pa.float32()),
}
# All 23 variables of the dataset, hourly since 1940: 20 million values, 200 MB.
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
    """The CSV file `path`, or the `member` of the ZIP `path`; `size` and `modified_ns` show whether it changed."""

    path: Path
    member: str | None
    size: int
    modified_ns: int

    @classmethod
    def at(cls, path: Path, member: str | None = None) -> CsvFile:
        """Describe the file at `path` in its current state."""
        stat = path.stat()
        return cls(path, member, stat.st_size, stat.st_mtime_ns)

    @property
    def shown(self) -> str:
        """The name to use in messages."""
        return str(self.path) if self.member is None else f"{self.path}!{self.member}"

    @contextmanager
    def opened(self) -> Iterator[IO[bytes]]:
        """Open the undecoded text for reading in pieces."""
        if self.member is None:
            _require_size(self, self.size)
            with self.path.open("rb") as text:
                yield text
            return
        with zipfile.ZipFile(self.path) as archive:
            _require_size(self, archive.getinfo(self.member).file_size)
            with archive.open(self.member) as text:
                yield text


class _TailKeepingFile:
    """A file that is read in pieces and remembers the last one."""

    def __init__(self, text: IO[bytes]) -> None:
        self._text = text
        self.last = b""

    def read(self, size: int) -> bytes:
        """Read the next piece."""
        piece = self._text.read(size)
        self.last = piece or self.last
        return piece


@lru_cache(maxsize=_CACHED_FILES)
def _as_netcdf(file: CsvFile) -> bytes:
    """The series as netCDF, in the layout of the same dataset."""
    series = _read(file)
    # In memory, because the netCDF library reports a full disk only as an unspecified error.
    dataset = netCDF4.Dataset("series.nc", "w", memory=_FIRST_BYTES)
    series.dump_to_store(xr.backends.NetCDF4DataStore(dataset))  # type: ignore[no-untyped-call]
    return bytes(dataset.close())


def _read(file: CsvFile) -> xr.Dataset:
    with file.opened() as text:
        head = text.read(recognise.HEAD_BYTES)
    names = recognise.names_in(head)
    with file.opened() as text:
        table = _parse(_TailKeepingFile(text), names, recognise.first_line(head), file)
    times = table.column(recognise.TIME_COLUMN).to_numpy().astype("datetime64[s]").astype(np.int64)
    coordinates = {
        recognise.TIME_COLUMN: (
            recognise.TIME_COLUMN,
            times,
            {"units": "seconds since 1970-01-01", "standard_name": "time"},
        )
    }
    place = {
        name: ((), _only(table, name, file), {"units": f"degrees_{way}"})
        for name, way in zip(_PLACE, ("north", "east"), strict=True)
    }
    versions = {}
    if _EXPVER in table.column_names:
        versions[_EXPVER] = (recognise.TIME_COLUMN, np.array(table.column(_EXPVER).to_pylist(), dtype=object))
    fields: dict[str, tuple[tuple[str, ...], npt.NDArray[np.float32], dict[str, str]]] = {
        name: ((recognise.TIME_COLUMN,), table.column(name).to_numpy(), {"units": variable.file_units[0]})
        for name, variable in _BY_SHORT_NAME.items()
        if name in table.column_names
    }
    # Their names only, for the message if the file has none of our variables.
    others = {name: ((), np.float32(np.nan)) for name in names if name not in _COLUMN_TYPES and name.isidentifier()}
    return xr.Dataset(fields | others, coordinates | place | versions)


def _require_size(file: CsvFile, size: int) -> None:
    if size > _LARGEST_BYTES:
        raise BadFileError(file.shown, f"has {size:,} bytes, too many for a series of one point", remedy=_AGAIN)


def _parse(text: _TailKeepingFile, names: list[str], first: str, file: CsvFile) -> pa.Table:
    """Parse the known columns with their types."""
    missing = [name for name in (recognise.TIME_COLUMN, *_PLACE) if name not in names]
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
        # The unreadable row may be one that was cut off.
        while text.read(_PIECE_BYTES):
            pass
        _require_ending(text, file)
        said = " ".join(str(error).split())
        raise BadFileError(file.shown, f"cannot be read, it is cut off or damaged ({said})", remedy=_AGAIN) from error
    _require_ending(text, file)
    for name in (recognise.TIME_COLUMN, *_PLACE):
        if table.column(name).null_count:
            raise BadFileError(file.shown, f"has rows without {name}", remedy=_AGAIN)
    return table


def _read_rows(text: _TailKeepingFile, names: list[str], known: list[str], file: CsvFile) -> pa.Table:
    """Read the rows in pieces, at most as many as a series can have."""
    # Not by `pyarrow.csv.open_csv`: its thread goes on reading a Python file after the reader is closed, beside whoever
    # reads that file next, and aborts a process that ends meanwhile.
    convert = pa_csv.ConvertOptions(include_columns=known, column_types=_COLUMN_TYPES)
    most = min(MOST_HOURS, _MOST_VALUES // len(known))
    pieces: list[pa.Table] = []
    rows = 0
    for lines in _whole_lines(text):
        read = pa_csv.ReadOptions(
            column_names=names, skip_rows=0 if pieces else 1, use_threads=False, block_size=len(lines) + 1
        )
        try:
            piece = pa_csv.read_csv(pa.BufferReader(lines), read_options=read, convert_options=convert)
        except pa.ArrowInvalid as error:
            raise pa.ArrowInvalid(_with_row_of_file(str(error), rows + 1 if pieces else 0)) from error
        pieces.append(piece)
        rows += piece.num_rows
        if rows > most:
            raise BadFileError(
                file.shown, f"has more than {most:,} rows, too many for a series of one point", remedy=_AGAIN
            )
    return pa.concat_tables(pieces)


def _with_row_of_file(said: str, before: int) -> str:
    """Count the row in Arrow's message from the start of the file, `before` rows earlier."""
    return re.sub(r"(?<=Row #)\d+", lambda row: str(int(row[0]) + before), said)


def _whole_lines(text: _TailKeepingFile) -> Iterator[bytes]:
    """Yield the text in pieces that end with a line, the last one as the text ends."""
    rest = b""
    while piece := text.read(_PIECE_BYTES):
        end = max(piece.rfind(b"\n"), piece.rfind(b"\r")) + 1
        if end:
            yield rest + piece[:end]
            rest = piece[end:]
        else:
            rest += piece
        if len(rest) > _PIECE_BYTES:
            raise pa.ArrowInvalid(f"a line has more than {_PIECE_BYTES:,} bytes")
    if rest:
        yield rest


def _require_ending(text: _TailKeepingFile, file: CsvFile) -> None:
    # A number cut off halfway would still parse as a number.
    if not text.last.endswith((b"\n", b"\r")):
        raise BadFileError(
            file.shown,
            "is cut off: its last line has no line break",
            remedy="Download it again; or add the line break, if the last line is complete.",
        )


def _only(table: pa.Table, name: str, file: CsvFile) -> float:
    """The single value of the column in all rows; NaN without rows."""
    values = np.unique(table.column(name).to_numpy())
    if values.size > 1:
        raise BadFileError(
            file.shown,
            f"holds several points ({name} {values[0]:g} and {values[1]:g})",
            remedy="Split it into one file per point, or request the area as netCDF.",
        )
    return float(values[0]) if values.size else float("nan")


# --- Provide files to open: plain ones in place, ZIP members unpacked, CSV point series converted ---
#
# Unpacked and converted files get a generated name in a scratch folder, so that a member's name cannot escape from it.
# Members are streamed, never beyond `_LARGEST_MEMBER_BYTES` or the size stated in the ZIP's directory.


# A global month of six variables is 18.5 GB uncompressed; a member of eight times that size cannot be an ERA5 month.
_LARGEST_MEMBER_BYTES = 150 * 10**9
# Beyond this size, a member compressed further than weather data can be contains only zeros.
_SMALL_MEMBER_BYTES, _MOST_COMPRESSED = 1 << 30, 150
_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class StoredObject:
    """An object in a store with a local copy: its address and SHA-256."""

    address: str
    sha256: str


@dataclass(frozen=True)
class NetcdfFile:
    """A netCDF or GRIB file to open at `path`; messages call it `shown` (for a member: `archive.zip!member.nc`).

    `index_folder` is where the index of a GRIB file is kept. `origin` is the object that `source` is a copy of, if any.
    """

    path: Path
    source: Path
    member: str | None = None
    kind: Literal["netcdf", "grib"] = "netcdf"
    index_folder: Path | None = None
    origin: StoredObject | None = None

    @property
    def shown(self) -> str:
        """The name to use in messages."""
        return str(self.source) if self.member is None else f"{self.source}!{self.member}"


NO_ORIGINS: Final[Mapping[Path, StoredObject]] = MappingProxyType({})


@contextmanager
def scratch_folder(home: Path) -> Iterator[Path]:
    """Create a temporary folder below `home`, removed even after a crash."""
    parent = home / "scratch"
    with disk_errors("creating a scratch folder", parent), ExitStack() as stack:
        folder = stack.enter_context(temporary_folder(parent, "unpacked-"))
        kept = stack.pop_all()
    with kept:
        yield folder


def netcdf_files(
    paths: Iterable[Path], scratch: Path, origins: Mapping[Path, StoredObject] = NO_ORIGINS
) -> Iterator[NetcdfFile]:
    """Yield the netCDF and GRIB files among and inside `paths`; ZIP members and point series go into `scratch`.

    `scratch` is one of `scratch_folder`; indices of GRIB files are kept in the catalogue of the same home. `origins`
    has the objects of which some paths are copies.

    Raises:
        BadFileError: if a file has another type, a ZIP is damaged or has no data, or a CSV is unreadable.
    """
    indices = scratch.parent.parent / "catalogue"
    for path in paths:
        kind, origin = recognise.kind_of(path), origins.get(path)
        if kind == "netcdf":
            yield NetcdfFile(path=path, source=path)
        elif kind == "grib":
            yield NetcdfFile(path, path, None, kind, indices, origin)
        elif kind == "zip":
            for file in _members(path, scratch):
                yield replace(file, index_folder=indices, origin=origin)
        elif kind == "csv":
            yield _converted(CsvFile.at(path), scratch)
        else:
            text, remedy = recognise.describe_other(path)
            raise BadFileError(path, text, remedy=remedy)


def _members(path: Path, scratch: Path) -> Iterator[NetcdfFile]:
    found = False
    try:
        with zipfile.ZipFile(path) as archive:
            counts = Counter(info.filename for info in archive.infolist())
            for info in archive.infolist():
                if info.is_dir():
                    continue
                with archive.open(info) as member:
                    kind = recognise.kind_of_bytes(member.read(recognise.HEAD_BYTES))
                if kind in ("csv", "netcdf", "grib"):
                    _require_one(path, info.filename, counts)
                if kind == "csv":
                    yield _converted(CsvFile.at(path, info.filename), scratch)
                elif kind in ("netcdf", "grib"):
                    yield NetcdfFile(_unpack(archive, info, path, scratch), path, info.filename, kind)
                found = found or kind in ("csv", "netcdf", "grib")
    except Era5Error:
        raise
    except Exception as error:  # zipfile and the decompressors raise nearly anything for damaged files
        raise BadFileError(path, f"is a damaged ZIP ({error})", remedy="Download it again.") from error
    if not found:
        raise BadFileError(path, "is a ZIP without netCDF, GRIB or a point series", remedy="Move it out of the folder.")


def _require_one(path: Path, name: str, counts: Mapping[str, int]) -> None:
    if counts[name] > 1:
        raise BadFileError(
            path,
            f"is a ZIP that contradicts itself: it has {counts[name]} members named {name}",
            remedy="Download it again; or unzip it, and keep the file that is right.",
        )


def _converted(file: CsvFile, scratch: Path) -> NetcdfFile:
    target, content = _new_file(scratch), _as_netcdf(file)
    with disk_errors(f"unpacking {file.path.name}", scratch):
        target.write_bytes(content)
    return NetcdfFile(path=target, source=file.path, member=file.member)


def _new_file(scratch: Path) -> Path:
    with disk_errors("unpacking", scratch):
        descriptor, name = tempfile.mkstemp(dir=scratch, suffix=".nc")
        os.close(descriptor)
    return Path(name)


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, scratch: Path) -> Path:
    if info.file_size > _LARGEST_MEMBER_BYTES:
        raise BadFileError(
            path, f"its member {info.filename} would unpack to {info.file_size:,} bytes", remedy="Download it again."
        )
    if info.file_size > max(_SMALL_MEMBER_BYTES, _MOST_COMPRESSED * info.compress_size):
        text = f"its member {info.filename} is empty: {info.file_size:,} bytes of {info.compress_size:,}"
        raise BadFileError(path, text, remedy="Download it again, or move it out of the folder.")
    why = f"unpacking {path.name}: No space left for {info.filename}: it takes"
    require_room(scratch, info.file_size, why)
    unpacked = _new_file(scratch)
    # zipfile stops at the stated size and checks the CRC, so a false directory cannot fill the disk.
    with (
        disk_errors(f"unpacking {path.name}", scratch),
        unpacked.open("wb") as target,
        archive.open(info) as member,
    ):
        shutil.copyfileobj(member, target, _COPY_BYTES)
    return unpacked
