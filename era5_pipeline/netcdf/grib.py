"""Read GRIB files, the store's own format, with ECMWF's ecCodes (the extra `grib`): contents and values.

An index lists a file's messages, each the field of a variable at one hour, and is kept. From the index the file is
described like a netCDF file, by the same rules. Values are decoded message by message, in several threads, when the
month's first tile is read; tiles are then cut from memory or, for large months, from a temporary file.
"""

from __future__ import annotations

import ctypes
import hashlib
import json
import os
import platform
import sys
import tempfile
import threading
import time
import zlib
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from functools import cache, lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Self
from zipfile import BadZipFile

import numpy as np
import xarray as xr
from dask.delayed import delayed

from era5_pipeline.model.dataset import ERA5, Dataset
from era5_pipeline.model.errors import UsageError, disk_errors
from era5_pipeline.model.times import from_datetime64
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.model.words import pip_install
from era5_pipeline.netcdf.axes import AGAIN, get_hours, times_along
from era5_pipeline.netcdf.contents import TYPES_OF_LEVEL, Contents, Field, Problem, describe_fields, months_of
from era5_pipeline.netcdf.decoding import Decoding
from era5_pipeline.netcdf.refusals import NO_CLASS, is_long_mean, values_of_class
from era5_pipeline.runtime.files import replacing, reserve

if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import ModuleType

    import numpy.typing as npt
    from dask.delayed import Delayed

    from era5_pipeline.netcdf.archive import NetcdfFile

    Floats = npt.NDArray[np.floating[Any]]
    Positions = npt.NDArray[np.intp]


def is_installed() -> bool:
    """Return True if ecCodes is installed."""
    return find_spec("eccodes") is not None


def ec_codes() -> ModuleType:
    """Import ecCodes, and discard what it writes to the terminal: errors that matter are raised."""
    try:
        with _libraries_apart():
            import eccodes  # noqa: PLC0415  # optional
    except (ImportError, RuntimeError) as error:
        raise UsageError(
            f"GRIB files are read by ecCodes, which is not installed ({error})",
            remedy=f"Install it: {pip_install('era5-pipeline[grib]')}; or download the data as netCDF.",
        ) from error
    library: ModuleType = eccodes
    _discard_log(library)
    return library


@cache
def _discard_log(library: ModuleType) -> None:
    library.codes_context_set_logging(_nowhere())


@cache
def _nowhere() -> BinaryIO:
    """An unread file, never closed: ecCodes keeps the C file that belongs to it."""
    return open(os.open(os.devnull, os.O_WRONLY), "wb", closefd=False)


@contextmanager
def _libraries_apart() -> Iterator[None]:
    """Load the libraries of ecCodes' wheel so that other libraries do not see their symbols.

    By itself (findlibs) it makes all of them global on Linux, the only system where libraries look among those of
    others. runtime/shared_libraries.py protects packages that fail then; this protects all.
    """
    wheels = [find_spec(name) for name in ("eccodeslib", "eckitlib")]
    folders = [Path(place) for wheel in wheels if wheel is not None for place in wheel.submodule_search_locations or ()]
    found = [path for folder in folders for path in folder.glob("lib*/libeckit_geo.so")]
    if sys.platform != "linux" or "eccodes" in sys.modules or len(folders) != len(wheels) or not found:
        yield
        return
    ctypes.CDLL(str(found[0]))  # and those that it needs
    settings = {"FINDLIBS_DISABLE_PACKAGE": "yes", "ECCODES_DIR": str(folders[0])}
    before = {name: os.environ.get(name) for name in settings}
    os.environ.update(settings)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


class _QuietC:
    """While any thread is in this context, what C code prints to its stream `stderr` is discarded.

    ecCodes warns of odd dates there when it opens a message, whatever its log is (fprintf in G2Date), hundreds of times
    for a file. Python's own `sys.stderr` and the file descriptor are left alone.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._within = 0
        self._usual: int | None = None

    def __enter__(self) -> None:
        with self._lock:
            self._within += 1
            if self._within == 1 and (stream := _c_stderr()) is not None:
                self._usual, stream.value = stream.value, _c_nowhere()

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._within -= 1
            if self._within == 0 and (stream := _c_stderr()) is not None:
                stream.value = self._usual


_quiet_c = _QuietC()


@cache
def _c_stderr() -> ctypes.c_void_p | None:
    """C's variable `stderr`; None where it is a constant or unknown."""
    name = {"darwin": "__stderrp", "linux": "stderr"}.get(sys.platform)
    if name is None or (sys.platform == "linux" and platform.libc_ver()[0] != "glibc"):
        return None
    return ctypes.c_void_p.in_dll(ctypes.CDLL(None), name)


@cache
def _c_nowhere() -> int:
    opening = ctypes.CDLL(None).fopen
    opening.restype = ctypes.c_void_p
    return int(opening(os.fsencode(os.devnull), b"w"))


# --- The index: positions and headers of all messages ---

# Increase the number whenever the form of a kept index, or the keys that it has, change.
_FORM = 4
_SUFFIX = ".grib.npz"
_UNUSED_SECONDS = 30 * 86_400
# The texts of a parameter, each found by its number.
_NAMES = ("shortName", "name", "units")
# Messages with the same values of these keys are one variable at different hours.
_KEYS = (
    *("paramId", *_NAMES, "class", "stream", "type", "levtype", "typeOfLevel", "level"),
    *("expver", "stepType", "number", "numberOfForecastsInEnsemble", "edition", "centre"),
)
_GRID = (
    *("gridType", "Ni", "Nj", "iScansNegatively", "jScansPositively", "jPointsAreConsecutive"),
    *("alternativeRowScanning", "latitudeOfFirstGridPointInDegrees", "longitudeOfFirstGridPointInDegrees"),
    *("latitudeOfLastGridPointInDegrees", "longitudeOfLastGridPointInDegrees"),
)
# The attributes that cfgrib gives to variables.
_ATTRIBUTES = {
    "paramId": "GRIB_paramId",
    "stepType": "GRIB_stepType",
    "type": "GRIB_dataType",
    "stream": "GRIB_stream",
    "class": "GRIB_class",
    "centre": "GRIB_centre",
    "typeOfLevel": "GRIB_typeOfLevel",
    "gridType": "GRIB_gridType",
    "numberOfForecastsInEnsemble": "GRIB_totalNumber",
    "units": "units",
    "name": "long_name",
}
_WAVES = ("wave", "ewda", "wamo", "wamd", "ewmm", "ewmo")
_MINUTES_A_DAY = 1440


@dataclass(frozen=True)
class Group:
    """Keys of ecCodes that the messages of one variable on one grid share; None where a message lacks the key."""

    keys: tuple[Any, ...]
    grid: tuple[Any, ...]
    step_hours: int

    def key(self, name: str) -> Any:  # noqa: ANN401  # text or number
        """The value of a key."""
        return dict(zip((*_KEYS, *_GRID), (*self.keys, *self.grid), strict=True))[name]


@dataclass(frozen=True)
class IndexedFile:
    """The subject of an index: the path or address of a file or ZIP, the member, and the state of that file.

    The state is size and time of last write; of an object, whose copies are made when they are needed, its SHA-256.
    """

    source: str
    member: str | None
    state: str

    @classmethod
    def at(cls, file: NetcdfFile) -> Self:
        """Describe a file in its present state."""
        if file.origin is not None:
            return cls(file.origin.address, file.member, file.origin.sha256)
        stat = file.source.stat()
        return cls(str(file.source), file.member, f"{stat.st_size} {stat.st_mtime_ns}")

    @property
    def name(self) -> str:
        """The name of the index's file."""
        named = f"{self.source}\n{self.member or ''}"
        return f"{hashlib.sha256(os.fsencode(named)).hexdigest()[:32]}{_SUFFIX}"


@dataclass(frozen=True, eq=False)
class Index:
    """The messages of a file: their group, valid time (minutes since 1970), place in the file, and packing step.

    `places` (n, 4) are byte offset, length, the number of the field in a message with several, and the message's
    CRC-32: GRIB has no checksum of its own, and a disk may give back another bit than it was given.
    """

    groups: tuple[Group, ...]
    group: npt.NDArray[np.int32]
    minutes: npt.NDArray[np.int64]
    places: npt.NDArray[np.int64]
    steps: npt.NDArray[np.float64]

    def save(self, path: Path, of: IndexedFile) -> None:
        """Write the index and its subject to a file."""
        about = json.dumps({"form": _FORM, "of": asdict(of), "groups": [asdict(group) for group in self.groups]})
        arrays = {name: getattr(self, name) for name in ("group", "minutes", "places", "steps")}
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as temporary, temporary.open("wb") as target:
            np.savez(target, about=np.array(about), **arrays)

    @classmethod
    def load(cls, path: Path, of: IndexedFile) -> Self | None:
        """Read the kept index; None if it is absent, damaged, of an older form, or of another state of the file."""
        try:
            with path.open("rb") as file, np.load(file, allow_pickle=False) as kept:
                about = json.loads(str(kept["about"]))
                if (about["form"], about["of"]) != (_FORM, asdict(of)):
                    return None
                groups = tuple(Group(tuple(of["keys"]), tuple(of["grid"]), of["step_hours"]) for of in about["groups"])
                return cls(groups, *(kept[name] for name in ("group", "minutes", "places", "steps")))
        except (OSError, ValueError, KeyError, TypeError, EOFError, BadZipFile):
            return None


def index_of(file: NetcdfFile) -> Index:
    """Return the index of a GRIB file, which is kept below the folder of its catalogue."""
    of = IndexedFile.at(file)
    if file.index_folder is None:
        return read_index(file.path)
    kept = file.index_folder / of.name
    index = Index.load(kept, of)
    if index is None:
        index = read_index(file.path)
        index.save(kept, of)
        _remove_old(file.index_folder)
    else:
        with suppress(OSError):
            kept.touch()  # used
    return index


@lru_cache(maxsize=1)  # once in a process: each index of the folder is looked at
def _remove_old(folder: Path) -> None:
    """Remove indices that were not used for a month: whether their files are still there is not asked."""
    for kept in folder.glob(f"*{_SUFFIX}"):
        with suppress(OSError):
            if time.time() - kept.stat().st_mtime > _UNUSED_SECONDS:
                kept.unlink()


def read_index(path: Path) -> Index:
    """List the messages of a GRIB file, reading all of it.

    It raises a `ValueError` if the file is cut off or damaged, saying where.
    """
    codes = ec_codes()
    groups: dict[Group, int] = {}
    of_headers: dict[bytes, int] = {}
    names: dict[int, tuple[Any, ...]] = {}
    rows: list[tuple[int, int, int, int, int, int, float]] = []
    offset, number, check, header = -1, 0, 0, b""
    with path.open("rb") as source, _fields_one_by_one(codes, source), _quiet_c:
        while True:
            try:
                handle = codes.codes_grib_new_from_file(source)
            except codes.CodesInternalError as error:
                after = rows[-1][2] + rows[-1][3] if rows else 0
                raise ValueError(f"message {len(rows) + 1}, after {after:,} bytes: {error.msg}") from error
            if handle is None:
                break
            try:
                at = int(codes.codes_get_message_offset(handle))
                number = number + 1 if at == offset else 0
                size = int(codes.codes_get(handle, "totalLength"))
                if not number:
                    message = os.pread(source.fileno(), size, at)
                    check, header = zlib.crc32(message), _undated_header(message)
                offset = at
                group = of_headers.get(header, -1)
                if group < 0:
                    group = groups.setdefault(_group_of(codes, handle, names), len(groups))
                    if header:
                        of_headers[header] = group
                step = 2.0 ** codes.codes_get(handle, "binaryScaleFactor")
                step *= 10.0 ** -codes.codes_get(handle, "decimalScaleFactor")
                rows.append((group, _minutes(codes, handle), at, size, number, check, step))
            except codes.CodesInternalError as error:
                raise ValueError(f"message {len(rows) + 1}, at byte {offset:,}: {error.msg}") from error
            finally:
                codes.codes_release(handle)
    if not rows:
        raise ValueError("it has no message")
    table = np.array(rows, dtype=np.float64).reshape(-1, 7)
    integers = table[:, :6].astype(np.int64)
    return Index(tuple(groups), integers[:, 0].astype(np.int32), integers[:, 1], integers[:, 2:], table[:, 6])


_lock = threading.Lock()


@contextmanager
def _fields_one_by_one(codes: ModuleType, source: BinaryIO) -> Iterator[None]:
    """Read the fields of a multi-field message one by one; a setting of the whole process.

    ecCodes keeps the fields that were not read by the address of the C file, which the next file may have, too: without
    the resets, that one would begin with them.
    """
    with _lock:
        codes.codes_grib_multi_support_on()
        codes.codes_grib_multi_support_reset_file(source)
        try:
            yield
        finally:
            codes.codes_grib_multi_support_reset_file(source)
            codes.codes_grib_multi_support_off()


def _undated_header(message: bytes) -> bytes:
    """The headers of a message of edition 1 without its date, from which its group follows; empty for edition 2.

    Reading the keys of its group from each message took half of the time.
    """
    if message[7] != 1:
        return b""
    after = 8 + int.from_bytes(message[8:11], "big")
    product, has_grid = message[8:after], message[15] & 0x80
    grid = message[after : after + int.from_bytes(message[after : after + 3], "big")] if has_grid else b""
    # Year, month, day, hour and minute, and the century.
    return product[:12] + product[17:24] + product[25:] + grid


def _group_of(codes: ModuleType, handle: int, names: dict[int, tuple[Any, ...]]) -> Group:
    """The group of a message; `names`, those of each parameter so far, take as long to find as all else."""
    hours = 0
    if codes.codes_get(handle, "stepType") != "instant":
        start, end = (codes.codes_get(handle, name) for name in ("startStep", "endStep"))
        hours = end - start
    parameter = _key(codes, handle, "paramId")
    if parameter not in names or not parameter:  # all that are unknown have the number 0
        names[parameter] = tuple(_key(codes, handle, name) for name in _NAMES)
    keys = (parameter, *names[parameter], *(_key(codes, handle, name) for name in _KEYS[1 + len(_NAMES) :]))
    return Group(keys, tuple(_key(codes, handle, name) for name in _GRID), hours)


def _key(codes: ModuleType, handle: int, name: str) -> Any:  # noqa: ANN401  # text or number
    try:
        return codes.codes_get(handle, name)
    except codes.KeyValueNotFoundError:
        return None


def _minutes(codes: ModuleType, handle: int) -> int:
    """The valid time in minutes since 1970-01-01 UTC; of a forecast, the end of its step."""
    day, clock = codes.codes_get(handle, "validityDate"), codes.codes_get(handle, "validityTime")
    date = np.datetime64(f"{day // 10000:04d}-{day // 100 % 100:02d}-{day % 100:02d}")
    return int(date.astype(np.int64)) * _MINUTES_A_DAY + int(clock // 100 * 60 + clock % 100)


# --- Contents: the variables of a file, described as those of a netCDF file ---


@dataclass(frozen=True)
class GribField(Field):
    """A field whose hours are messages of a GRIB file; `places` (n, 4) as in `Index`, `grid` as in `Group`."""

    places: npt.NDArray[np.int64] = field(default_factory=lambda: np.empty((0, 4), dtype=np.int64))
    grid: tuple[Any, ...] = ()


def inspect_grib(file: NetcdfFile, dataset: Dataset = ERA5) -> Contents:
    """Find variables of the data set in a GRIB file. An unusable file never raises, but gives a `Problem`."""
    try:
        index = index_of(file)
        arrays = list(_arrays(index))
    except UsageError as error:
        return Contents(fields=(), problems=(Problem(file.shown, "library", error.message, error.remedy),))
    except Exception as error:  # noqa: BLE001  # headers of a damaged file may say anything
        text = f"cannot be read, it is cut off or damaged ({' '.join(str(error).split())})"
        return Contents(fields=(), problems=(Problem(file.shown, "unreadable", text, AGAIN),))
    messages = {id(array): (places, group) for array, places, group in arrays}
    by_number = dataset.catalogue.by_param_id
    ours = [
        (array, by_number[group.key("paramId")])
        for array, _, group in arrays
        if group.key("paramId") in by_number and _foreign(group, dataset) is None
    ]
    described = describe_fields(ours, [array for array, *_ in arrays], file.shown, {}, dataset=dataset)
    fields = []
    for array, of_array in described.by_array:
        places, group = messages[id(array)]
        fields += [GribField(**vars(one), places=places, grid=group.grid) for one in of_array]
    refused = [problem for array, _, group in arrays if (problem := _refusal(file, array, group, dataset))]
    problems = [problem for problem in described.contents.problems if problem.kind != "nothing"]
    problems = [*(problem for problem in refused if problem.columns), *problems]
    if fields or problems:
        others = [(array, group) for array, _, group in arrays if group.key("paramId") not in by_number]
        foreign = ((array, _foreign(group, dataset)) for array, group in others)
        held = ((str(array.name), f"holds {of[0]}, not {of[1]}") for array, of in foreign if of)
        left_out = dict((*described.contents.left_out, *held))
        return Contents(tuple(fields), tuple(problems), tuple(left_out.items()))
    # Naming what the file has instead says more than that it has none of our variables.
    return Contents((), tuple(refused) or described.contents.problems)


def _foreign(group: Group, dataset: Dataset) -> tuple[str, str] | None:
    """Say why values of a group are not hourly values of the data set's single levels; None if they are."""
    name = group.key("class") or NO_CLASS
    # Of our variables, `describe_fields` decides, and the user may know better.
    is_known = group.key("paramId") in dataset.catalogue.by_param_id
    if not is_known and name != NO_CLASS and (what := values_of_class(name, dataset)):
        return f"{what} (class {name})", f"of {dataset.short_title}"
    if (levels := TYPES_OF_LEVEL.get(group.key("typeOfLevel"))) is not None:
        return f"values at {levels}", "of single levels"
    if group.key("stream") in _WAVES:
        return f"values of ocean waves (stream {group.key('stream')})", "of the atmosphere"
    # Monthly means are named as such by `describe_fields`; their steps are of 12 hours.
    if group.step_hours > 1 and not is_long_mean(group.key("stream"), group.key("stepType")):
        return f"values of {group.step_hours} hours at once (steps of forecasts)", "of hours"
    return None


def _refusal(file: NetcdfFile, array: xr.DataArray, group: Group, dataset: Dataset) -> Problem | None:
    foreign = _foreign(group, dataset)
    if foreign is None:
        return None
    what, wanted = foreign
    variable = dataset.catalogue.by_param_id.get(group.key("paramId"))
    return Problem(
        file.shown,
        "aggregate",
        f"{array.name} holds {what}, not {wanted}",
        get_hours(dataset),
        months_of(from_datetime64(times_along(array))),
        () if variable is None else (variable.column,),
    )


def _arrays(index: Index) -> Iterator[tuple[xr.DataArray, npt.NDArray[np.int64], Group]]:
    """Yield each variable as xarray would open it, but without values (axes, attributes, packing), and its messages.

    A variable that is in the file on several grids, in several versions, or otherwise twice, is several.
    """
    for number, group in enumerate(index.groups):
        own = np.flatnonzero(index.group == number)
        own = own[np.argsort(index.minutes[own], kind="stable")]
        attributes = {name: group.key(key) for key, name in _ATTRIBUTES.items()}
        if attributes["GRIB_class"] in (None, "unknown"):
            attributes["GRIB_class"] = NO_CLASS
        axes = _axes(group)
        times = (index.minutes[own] * 60).astype("datetime64[s]").astype("datetime64[ns]")
        version = {} if group.key("expver") in (None, "unknown") else {"expver": ((), group.key("expver"))}
        array = xr.DataArray(
            np.broadcast_to(np.float32(0.0), (own.size, *(degrees.size for _, degrees, _ in axes.values()))),
            {"valid_time": ("valid_time", times), **axes, **version},
            ("valid_time", *axes),
            name=group.key("shortName"),
            attrs={name: value for name, value in attributes.items() if value is not None},
        )
        array.encoding["scale_factor"] = float(index.steps[own].max(initial=0.0))
        yield array, index.places[own], group


def _axes(group: Group) -> dict[str, tuple[str, npt.NDArray[np.float64], dict[str, str]]]:
    """Latitudes and longitudes in degrees, in scanning order; empty unless the grid is a regular one."""
    is_clear = not (group.key("alternativeRowScanning") and group.key("jPointsAreConsecutive"))
    if group.key("gridType") != "regular_ll" or not is_clear:
        return {}
    north, south = (group.key(f"latitudeOf{end}GridPointInDegrees") for end in ("First", "Last"))
    west, east = (group.key(f"longitudeOf{end}GridPointInDegrees") for end in ("First", "Last"))
    if group.key("iScansNegatively"):
        east -= 360.0 * (east > west)
    else:
        east += 360.0 * (east < west)
    latitudes, longitudes = np.linspace(north, south, group.key("Nj")), np.linspace(west, east, group.key("Ni"))
    longitudes = np.where(longitudes >= 360.0, longitudes - 360.0, longitudes)
    longitudes = np.where(longitudes < -180.0, longitudes + 360.0, longitudes)
    return {
        "latitude": ("latitude", latitudes, {"units": "degrees_north"}),
        "longitude": ("longitude", longitudes, {"units": "degrees_east"}),
    }


# --- Values ---

# Of all readers of the process: fields beyond this are decoded into temporary files (256 MB of float32).
_MOST_IN_MEMORY = 64_000_000
_VALUE_BYTES = 4
# ecCodes writes this number, which no value has, where the bitmap marks a value as missing.
_MISSING = 1e34


class _Messages:
    """Decodes messages of one file, from any thread."""

    def __init__(self, file: NetcdfFile) -> None:
        self._codes = ec_codes()
        self._path = file.path
        self._descriptor = os.open(file.path, os.O_RDONLY)

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, place: npt.NDArray[np.int64]) -> npt.NDArray[np.float64]:
        """The values of a message, (n,), in scanning order; `_MISSING` where missing."""
        offset, size, number, check = (int(one) for one in place)
        codes = self._codes
        message = os.pread(self._descriptor, size, offset)
        if zlib.crc32(message) != check:
            raise ValueError(f"the message at byte {offset:,} is not as it was when the file was found")
        try:
            with _quiet_c:
                if number:
                    return self._read_part(offset, number)
                return self._values(codes.codes_new_from_message(message))
        except codes.CodesInternalError as error:
            raise ValueError(f"the message at byte {offset:,}: {error.msg}") from error

    def _read_part(self, offset: int, number: int) -> npt.NDArray[np.float64]:
        """The values of one field of a message with several."""
        codes = self._codes
        with self._path.open("rb") as source, _fields_one_by_one(codes, source), _quiet_c:
            source.seek(offset)
            for _ in range(number):
                codes.codes_release(codes.codes_grib_new_from_file(source))
            return self._values(codes.codes_grib_new_from_file(source))

    def _values(self, handle: int) -> npt.NDArray[np.float64]:
        codes = self._codes
        try:
            if codes.codes_get(handle, "bitmapPresent"):
                codes.codes_set(handle, "missingValue", _MISSING)
            values: npt.NDArray[np.float64] = codes.codes_get_values(handle)
            return values
        finally:
            codes.codes_release(handle)


def temporary_bytes(values: int) -> int:
    """The most bytes of temporary files that decoding this many values of a month needs; 0 if memory suffices."""
    return _VALUE_BYTES * values if values > _MOST_IN_MEMORY else 0


class _Memory:
    """Counts the values that are decoded in memory at a time."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0

    def take(self, values: int) -> int:
        """Reserve room for the values; return the number reserved: all, or 0 if there is not enough room."""
        with self._lock:
            taken = values if self._taken + values <= _MOST_IN_MEMORY else 0
            self._taken += taken
            return taken

    def give_back(self, values: int) -> None:
        """Release reserved room."""
        with self._lock:
            self._taken -= values


_memory = _Memory()


class GribReader:
    """Reads fields of one GRIB file. Close it when done."""

    def __init__(self, file: NetcdfFile) -> None:
        self._file = file
        self._in_memory = 0
        self._messages = _Messages(file)
        self._decoded: dict[tuple[int, bytes, str], _Decoded] = {}

    def close(self) -> None:
        """Close the file, and remove temporary ones."""
        self._messages.close()
        self._decoded.clear()
        _memory.give_back(self._in_memory)
        self._in_memory = 0

    def values(
        self,
        field: Field,
        hours: Positions,
        latitudes: Positions,
        longitudes: Positions,
        dtype: npt.DTypeLike = np.float32,
    ) -> Delayed:
        """The values at these positions, which dask computes: (latitude, longitude, hour), as those of `FieldReader`.

        Positions must ascend along each axis. Missing values are NaN; units are the table's.
        """
        assert isinstance(field, GribField)  # noqa: S101  # made by `inspect_grib`
        stored = np.dtype(dtype)
        key = (id(field), hours.tobytes(), stored.str)
        if key not in self._decoded:
            values = hours.size * field.latitude_index.size * field.longitude_index.size
            room = _memory.take(values * stored.itemsize // _VALUE_BYTES)
            self._in_memory += room
            folder = None if room else self._file.index_folder or self._file.path.parent
            self._decoded[key] = _Decoded(self._messages, field, hours, folder, stored)
        decoded = self._decoded[key]
        cut: Delayed = delayed(decoded.cut, pure=False)(latitudes, longitudes, *decoded.reads())
        return cut


class _Decoded:
    """The values of a field at some of its hours, (hour, latitude, longitude), decoded when first needed.

    They are kept in a temporary file in `folder`; None: in memory.
    """

    def __init__(
        self, messages: _Messages, field: GribField, hours: Positions, folder: Path | None, dtype: np.dtype[Any]
    ) -> None:
        self._messages = messages
        self._field = field
        self._hours = hours
        self._decoding = Decoding.of({"_FillValue": _MISSING}, BY_COLUMN[field.column])
        shape = (hours.size, field.latitude_index.size, field.longitude_index.size)
        if folder is None:
            self._values: Floats = np.empty(shape, dtype=dtype)
        else:
            with disk_errors(f"decoding {field.name}", folder), _temporary_file(folder) as file:
                reserve(file, dtype.itemsize * hours.size * shape[1] * shape[2])
                self._values = np.memmap(file, dtype=dtype, mode="r+", shape=shape)
        self._is_complete = False

    def reads(self) -> list[Delayed]:
        """Dask tasks to compute before `cut`, one for each hour; none if the hours are decoded already."""
        read = delayed(self._read, pure=False)
        return [] if self._is_complete else [read(number) for number in range(self._hours.size)]

    def cut(self, latitudes: Positions, longitudes: Positions, *_: None) -> Floats:
        """The values of a tile: (latitude, longitude, hour)."""
        self._is_complete = True
        rows, columns = _as_slice(latitudes), _as_slice(longitudes)
        step = -1 if self._field.is_from_the_north else 1
        return np.ascontiguousarray(self._values[:, rows][:, ::step, columns].transpose(1, 2, 0))[::step]

    def _read(self, number: int) -> None:
        values = self._messages.read(self._field.places[self._hours[number]])
        key = dict(zip(_GRID, self._field.grid, strict=True))
        if values.size != key["Ni"] * key["Nj"]:
            raise ValueError(f"{values.size:,} values of a grid of {key['Ni']} x {key['Nj']}")
        if key["jPointsAreConsecutive"]:
            values = values.reshape(key["Ni"], key["Nj"]).T
        else:
            values = values.reshape(key["Nj"], key["Ni"])
        if key["alternativeRowScanning"]:
            values[1::2] = values[1::2, ::-1].copy()
        # A value beyond float32 becomes infinite, and is counted as out of bounds.
        with np.errstate(over="ignore"):
            self._decoding.decode(values, out=self._values[number])


def _temporary_file(folder: Path) -> IO[bytes]:
    folder.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryFile(dir=folder)


def _as_slice(positions: Positions) -> slice | Positions:
    """A slice if the ascending positions have no gap: it copies nothing."""
    first, last = int(positions[0]), int(positions[-1])
    return slice(first, last + 1) if last - first + 1 == positions.size else positions
