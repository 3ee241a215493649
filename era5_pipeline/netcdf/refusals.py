"""Refuse files before reading values: other data, means and sums, external data, impossible sizes, cut-off netCDF-3.

Also tells which files show that they are of the data set.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass
from math import ceil, prod
from typing import TYPE_CHECKING, Any, BinaryIO, Literal

import netCDF4
import numpy as np

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.grid import TOLERANCE_DEGREES
from era5_pipeline.netcdf.axes import GRIDS, ProblemError, get_hours
from era5_pipeline.netcdf.heaps import require_readable_heaps, require_texts_within
from era5_pipeline.netcdf.signs import GRID_STEPS, class_of, named_in

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import h5py
    import xarray as xr

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Grid
    from era5_pipeline.model.variables import Variable

# --- Refuse files with external data, or that declare more than ERA5 can have, before any value is read ---
#
# The values of an HDF5 file may lie in other files, even pipes and devices; and a file of a few kilobytes may declare
# axes of a hundred gigabytes.


# Hours of 160 years: ERA5 begins in 1940.
MOST_HOURS = 160 * 366 * 24
# Most versions in one file: final, preliminary, and experiments.
MOST_VERSIONS = 10
# HDF5 reads whole chunks; the largest possible is a global month in float32 (of ERA5, 3.1 GB).
_LARGEST_CHUNK_BYTES_A_PLACE = 744 * 4
# HDF5's own overhead is far less; smaller files need no check.
_OTHER_BYTES = 64 << 20
# A smaller share on disk means holes: compressing file systems reach a tenth, not a thousandth.
_LEAST_ON_DISK = 0.001
_BLOCK_BYTES = 512


class ForeignDataError(Exception):
    """The file's values are not in the file, or cannot be; the text follows `<file>: `."""


def require_own_data(path: Path, grid: Grid, *, is_hdf5: bool) -> frozenset[str]:
    """Check that all values are in the file itself, and not more than ERA5 can have (`ForeignDataError`).

    Returns the names of variables whose values are declared but were never written.
    """
    stat = path.stat()
    on_disk = stat.st_blocks * _BLOCK_BYTES
    if stat.st_size > _OTHER_BYTES and 0 < on_disk < stat.st_size * _LEAST_ON_DISK:
        raise ForeignDataError(f"is nearly empty: of its {stat.st_size:,} bytes {on_disk:,} were ever written")
    unwritten = _require_own_datasets(path) if is_hdf5 else frozenset()
    with netCDF4.Dataset(path) as dataset:
        held = 0
        for name, variable in dataset.variables.items():
            # Axes are read whole; a one-dimensional variable is a series.
            if variable.ndim == 1 and variable.size > MOST_HOURS:
                raise ForeignDataError(
                    f"declares {variable.size:,} values of {name}, where ERA5 has at most {MOST_HOURS:,}"
                )
            held += _bytes_of(variable, _LARGEST_CHUNK_BYTES_A_PLACE * grid.locations)
    if stat.st_size > 2 * held + _OTHER_BYTES:
        raise ForeignDataError(f"has {stat.st_size:,} bytes, and its variables take {held:,}")
    return unwritten


def _bytes_of(variable: netCDF4.Variable[Any], largest_chunk: int) -> int:
    """The maximum bytes of the variable, with whole chunks, which must not have more than `largest_chunk`."""
    width = 64 if variable.dtype is str else variable.dtype.itemsize
    chunks = variable.chunking()
    if not isinstance(chunks, list):
        return int(variable.size) * width
    chunk = prod(chunks) * width
    if chunk > largest_chunk:
        raise ForeignDataError(
            f"keeps {variable.name} in chunks of {chunk:,} bytes, which are read whole; at most "
            f"{largest_chunk:,} can be (rewrite it with smaller ones: nccopy -c)"
        )
    return chunk * prod(ceil(size / part) for size, part in zip(variable.shape, chunks, strict=True))


def _require_own_datasets(path: Path) -> frozenset[str]:
    import h5py  # noqa: PLC0415  # takes a third of a second, and most commands open no files

    require_readable_heaps(path)
    unwritten = set()
    with h5py.File(path, "r", locking=False) as file:
        for name, item in _items(file):
            if item.external:
                raise ForeignDataError(f"does not hold the values of {name} itself: they are in {item.external[0][0]}")
            if item.is_virtual:
                raise ForeignDataError(f"does not hold the values of {name} itself: it is a view of other files")
            if (texts := h5py.check_string_dtype(item.dtype)) is not None and texts.length is None:
                require_texts_within(item, path)
            if item.size and not item.id.get_storage_size():
                unwritten.add(name)
    return frozenset(unwritten)


def _items(group: h5py.Group) -> Iterator[tuple[str, h5py.Dataset]]:
    """The data sets of a file by name; refuses links, and groups inside themselves, which hang or abort netCDF."""
    import h5py  # noqa: PLC0415  # see above

    groups, seen = [group], {h5py.h5o.get_info(group.id).addr}
    while groups:
        folder = groups.pop()
        for name in folder:
            link = folder.get(name, getlink=True)
            shown = f"{folder.name.rstrip('/')}/{name}".lstrip("/")
            if isinstance(link, h5py.ExternalLink):
                raise ForeignDataError(f"does not hold {shown} itself: it is a link to the file {link.filename}")
            if isinstance(link, h5py.SoftLink):
                raise ForeignDataError(f"does not hold {shown} itself: it is a link to {link.path}")
            item = folder[name]
            if isinstance(item, h5py.Dataset):
                yield shown, item
            elif isinstance(item, h5py.Group):
                address = h5py.h5o.get_info(item.id).addr
                if address in seen:
                    raise ForeignDataError(f"holds the group {shown} more than once")
                seen.add(address)
                groups.append(item)


# --- Detect truncated netCDF-3 files, where the netCDF library silently reads zeros beyond the end ---
#
# The header determines the file's length. Source: NetCDF Classic Format Specification (CDF-1, CDF-2, CDF-5).
# netCDF-4 needs no such check: HDF5 stores the file's length and refuses to open a shorter one.


_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
# Far more dimensions or variables than any file has. Without a limit, a damaged count before zeros takes minutes.
_MOST_IN_LIST = 1 << 16
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}


class _Header:
    """Reads the header's numbers in order: big-endian, with a width that depends on the format version."""

    def __init__(self, file: BinaryIO, version: int) -> None:
        self._file = file
        self._count_bytes = 8 if version == 5 else 4
        self.offset_bytes = 4 if version == 1 else 8

    def number(self, size: int = 4) -> int:
        """Read a tag or type; or a position in the file, of `offset_bytes`."""
        return int(struct.unpack(">Q" if size == 8 else ">I", self._file.read(size))[0])

    def count(self) -> int:
        """Read a count or length."""
        return self.number(self._count_bytes)

    def items(self) -> range:
        """Read a count; return a range as long as it is."""
        if (size := self.count()) > _MOST_IN_LIST:
            raise ValueError(f"header: a list of {size:,}")
        return range(size)

    def list_of(self, tag: int) -> range:
        """Read the head of a list; return a range as long as the list."""
        found, items = self.number(), self.items()
        if found != tag and (found, len(items)) != (0, 0):
            raise ValueError(f"tag {found} instead of {tag}")
        return items

    def skip(self, size: int) -> None:
        """Skip `size` bytes and their padding to a multiple of four."""
        self._file.seek(size + -size % 4, 1)

    def skip_attributes(self) -> None:
        for _ in self.list_of(_ATTRIBUTES):
            self.skip(self.count())  # the name
            kind = self.number()
            self.skip(self.count() * _TYPE_BYTES[kind])


def required_bytes(path: Path) -> int | None:
    """The length in bytes that the netCDF-3 file at `path` needs for all its values.

    None if it is not netCDF-3, or its header leaves the number of records open.
    """
    with path.open("rb") as file:
        magic = file.read(4)
        if magic[:3] != b"CDF" or magic[3] not in (1, 2, 5):
            return None
        header = _Header(file, magic[3])
        try:
            return _required(header)
        except (struct.error, KeyError, IndexError, OSError, OverflowError) as error:
            raise ValueError(f"header: {error}") from error


def _required(header: _Header) -> int | None:
    records = header.count()
    lengths = []
    for _ in header.list_of(_DIMENSIONS):
        header.skip(header.count())
        lengths.append(header.count())
    header.skip_attributes()
    ends = [0]
    record_variables = []
    for _ in header.list_of(_VARIABLES):
        header.skip(header.count())
        shape = [lengths[header.count()] for _ in header.items()]
        header.skip_attributes()
        width = _TYPE_BYTES[header.number()]
        header.count()  # the padded size: unusable, it overflows 32 bits for large variables
        begin = header.number(header.offset_bytes)
        if shape and shape[0] == 0:  # the length of the record dimension
            record_variables.append((begin, width * prod(shape[1:])))
        else:
            ends.append(begin + width * prod(shape))
    if record_variables:
        if records in (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
            return None
        # Each variable's part of a record is padded to four bytes, unless there is only one variable.
        only = len(record_variables) == 1
        record = sum(part if only else part + -part % 4 for _, part in record_variables)
        if records:
            ends += [begin + (records - 1) * record + part for begin, part in record_variables]
    return max(ends)


# --- Refuse values of other data sets, and means and sums over days, months, regions or ensembles ---
#
# Decided by what a file states: ecCodes' step type, data type, stream, class, centre, edition and steps of the grid
# (written by cfgrib), steps of forecasts, `cell_methods` (CF 7.3), the title, names of data sets, and commands of CDO,
# NCO and earthkit in `history`. The user may know better (--trust-files), which the ledger then records.


STEP_TYPE = "GRIB_stepType"
# What `GRIB_class` is for a GRIB message without a class.
NO_CLASS = "none"
# The aggregated axis, or `data set` if the values are not ERA5's. Latitude and longitude count only if a single value
# is left along the axis.
Scope = Literal["time", "ensemble", "latitude", "longitude", "cell", "data set"]

# ecCodes' step types for averages over many hours; its other types cover one step.
_LONG_MEANS = {
    "avgua": "monthly means",
    "avgad": "monthly means",
    "avgid": "daily or monthly means",
    "avgas": "daily or monthly means",
}
_DATA_TYPES = {"em": "means of an ensemble", "es": "the spread of an ensemble"}
# ECMWF's streams, including waves (w) and the ensemble of data assimilations (e).
_STREAMS = {
    **dict.fromkeys(("moda", "mnth", "wamo", "wamd"), "monthly means"),
    **dict.fromkeys(("edmo", "edmm", "ewmo", "ewmm"), "monthly means of an ensemble"),
    **dict.fromkeys(("enda", "ewda"), "values of an ensemble"),
    "wave": "values of ocean waves",
}
_STREAM = re.compile(rf"stream\W{{1,6}}({'|'.join(_STREAMS)})(?![a-z0-9])")
# Of MARS, ECMWF's archive.
_CLASSES = {
    "ea": "ERA5",
    "l5": "ERA5-Land",
    "od": "ECMWF's operational forecasts",
    "ei": "ERA-Interim",
    "e4": "ERA-40",
    "ep": "CERA-20C",
    "s2": "forecasts of weeks (S2S)",
    "c3": "seasonal forecasts (C3S)",
    "mc": "CAMS",
    "ti": "TIGGE",
}
_CLASS = re.compile(rf"\bclass[\"']?\s*[=:]\s*[\[\"']*({'|'.join(_CLASSES)})(?![a-z0-9])")
_DATASET = re.compile(r"era5[\w-]*?-(monthly-means|daily-statistics)")
_CENTRE, _CENTRES = "GRIB_centre", ("ecmf", "98")
# ERA5's types: analyses, and forecasts for what analyses do not have.
_ANALYSIS, _FORECAST = "an", "fc"
# ERA5's forecasts start at 06 and 18 UTC and last 18 hours; a run of ERA5-Land has all values of a day.
_LAST_STEP_HOURS = {"hour": 18.0, "day": 24.0}
_HOURS_PER_UNIT = {"nanoseconds": 1 / 3.6e12, "seconds": 1 / 3600, "minutes": 1 / 60, "hours": 1.0, "days": 24.0}
# ERA5 is GRIB 1, in which the level of a variable such as t2m is `surface`.
_EDITION_OF_ERA5 = 1
_EDITION_2 = "values of GRIB edition 2, which ERA5's are not"
_LEVEL_OF_EDITION_2 = "heightAboveGround"
# As of the product types of the Climate Data Store and the folders of NCI's copy.
_MONTHLY = re.compile(r"monthly[-_ ]averaged|(?<![a-z0-9])era5_moda(?![a-z0-9])", re.IGNORECASE)
_TITLE_OF_MEANS = re.compile(
    r"\b(daily|weekly|monthly|seasonal|annual|yearly)[-_ ]"
    r"(mean|average|averaged|minimum|maximum|sum|total|statistic)s?\b",
    re.IGNORECASE,
)
# Of CMIP and ACDD: `mon`, `day`, `P1M`, `P1D`.
_FREQUENCY = re.compile(r"(day|mon|monthly|daily|yr|year|P\d+[YMWD])", re.IGNORECASE)
_FREQUENCIES = ("frequency", "time_coverage_resolution")
# Global attributes that NCO (ncremap) and xESMF write when they interpolate to another grid.
_REGRIDDED = ("remap_script", "map_file", "regrid_method")
_REGRIDDED_TITLE = re.compile(r"\bregridded\b", re.IGNORECASE)
# Programs of those who serve ERA5, by which a file is known as theirs: the Climate Data Store's until 2024, NCI's and
# NCAR's.
_STORE_PROGRAMS = re.compile(r"/opt/ecmwf/|adaptor\.mars|era5_replication_tools|CISL RDA: Conversion from ECMWF GRIB")
# Whole words only: a part of a path says nothing about the processing.
_DAILY = re.compile(
    r"(?<![\w/-])((daily|monthly)_(?:reduce|mean|median|max[a-z]*|min[a-z]*|sum|std[a-z]*))(?![\w/-]|\.\w)"
)
_EARTHKIT = re.compile(r"\bearthkit\.transforms\.(?:aggregate\.)?(temporal|spatial)\.\w*reduce\b")

_INTERPOLATED = "values of another grid, interpolated"
_STATISTIC = r"(mean|avg|sum|min|max|range|std1?|var1?|median|pctl)"
# Without hourmean and the like, which leave hourly data unchanged.
_CDO: tuple[tuple[re.Pattern[str], str, Scope], ...] = (
    (
        re.compile(rf"(tim|timsel|run|y?day|y?mon|year|yearmon|y?seas|[dmy]hour|ydrun){_STATISTIC}"),
        "statistics",
        "time",
    ),
    (re.compile(r"int(n?time|year)"), "interpolated values", "time"),
    (re.compile(rf"ens{_STATISTIC}"), "statistics of an ensemble", "ensemble"),
    (re.compile(rf"zon{_STATISTIC}"), "statistics along parallels", "longitude"),
    (re.compile(rf"mer{_STATISTIC}"), "statistics along meridians", "latitude"),
    (re.compile(rf"(fld|gridbox){_STATISTIC}"), "statistics of a region", "cell"),
    # remapnn copies the value of one cell, a common way to extract a place; remapeta is vertical.
    (re.compile(r"remap(?!nn$|eta$)\w+"), _INTERPOLATED, "data set"),
)
_NCO: dict[str, tuple[str, Scope]] = {
    "ncra": ("averages of records", "time"),
    "ncea": ("averages of files", "ensemble"),
    "nces": ("averages of files", "ensemble"),
    "ncremap": (_INTERPOLATED, "data set"),
}
# Options by which NCO's ncks interpolates to another grid.
_NCKS_MAPS = ("--map", "--rgr", "--regrid")
_AXES: dict[str, Scope] = {
    **dict.fromkeys(("time", "valid_time"), "time"),
    **dict.fromkeys(("lat", "latitude"), "latitude"),
    **dict.fromkeys(("lon", "longitude"), "longitude"),
    "area": "cell",
}
# By `step_type` in the catalogue: the `cell_methods` of hourly values.
_OF_HOUR = {"accum": "sum", "avg": "mean", "max": "maximum", "min": "minimum"}
# `time: mean`, `latitude: longitude: mean`, each with an optional comment such as `(interval: 1 hour)`; `point` means
# that nothing was aggregated.
_CELL_METHOD = re.compile(
    r"((?:\w+:\s+)+)(?!point\b)(\w+)\b(?!:)((?:\s+(?:within|over|where)\s+\w+)*)(?:\s+\(([^)]*)\))?"
)
_ONE_HOUR = re.compile(r"interval:\s*(1|1\.0|one)\s*(h|hr|hour)\b")


@dataclass(frozen=True)
class Aggregate:
    """An aggregation found in a file: its name (`what`), the aggregated axis, and the text that states it."""

    what: str
    over: Scope
    evidence: str


def aggregates_stated_by(attributes: Mapping[str, Any], dataset: Dataset = ERA5) -> tuple[Aggregate, ...]:
    """Find what the file's global attributes state against hourly values of the data set; it applies to all values."""
    texts = [(str(name), str(text)) for name, text in attributes.items() if isinstance(text, str)]
    found = [*_other_centre(attributes), *_other_edition(attributes)]
    for name, text in texts:
        if match := _DATASET.search(text):
            found.append(Aggregate(f"values of {match[0]}", "time", f"in its {name}"))
        elif (sign := named_in(text)) is not None and sign.dataset != dataset:
            found.append(Aggregate(f"values of {sign.dataset.grid.name}", "data set", f"{sign.evidence} in its {name}"))
        others = (match for match in _CLASS.finditer(text) if match[1] != class_of(dataset))
        if match := next(others, None):
            found.append(Aggregate(f"values of {_CLASSES[match[1]]}", "data set", f"{match[0]} in its {name}"))
        if match := _MONTHLY.search(text):
            found.append(Aggregate("monthly means", "time", f"{match[0]} in its {name}"))
        if name in _FREQUENCIES and _FREQUENCY.fullmatch(text.strip()):
            found.append(Aggregate("statistics", "time", f"{name} {text.strip()}"))
        if name in _REGRIDDED:
            found.append(Aggregate(_INTERPOLATED, "data set", f"{name} {text}"))
    title = str(attributes.get("title", ""))
    if match := _TITLE_OF_MEANS.search(title):
        found.append(Aggregate(f"{match[1].lower()} statistics", "time", f"{match[0]} in its title"))
    if match := _REGRIDDED_TITLE.search(title):
        found.append(Aggregate(_INTERPOLATED, "data set", f"{match[0]} in its title"))
    for line in str(attributes.get("history", "")).splitlines():
        found += _in_history(line)
    return tuple(found)


def _other_centre(attributes: Mapping[str, Any]) -> Iterator[Aggregate]:
    if (centre := str(attributes.get(_CENTRE, _CENTRES[0]))) not in _CENTRES:
        yield Aggregate("values of another centre than ECMWF", "data set", f"{_CENTRE} {centre}")


def _other_edition(attributes: Mapping[str, Any]) -> Iterator[Aggregate]:
    edition = attributes.get("GRIB_edition", _EDITION_OF_ERA5)
    level = attributes.get("GRIB_typeOfLevel")
    if str(edition) != str(_EDITION_OF_ERA5):
        yield Aggregate(_EDITION_2, "data set", f"GRIB_edition {edition}")
    elif level == _LEVEL_OF_EDITION_2:
        yield Aggregate(_EDITION_2, "data set", f"GRIB_typeOfLevel {level}")


def states_dataset(attributes: Mapping[str, Any], shown: str, dataset: Dataset) -> bool:
    """Return True if the file shows that it comes from those who serve the data set: by history, or by its id.

    The id may be in its name, as that of a series in CSV is. What single variables state: `variable_states_dataset`.
    """
    texts = [str(text) for text in attributes.values() if isinstance(text, str)]
    return any(map(_STORE_PROGRAMS.search, texts)) or any(_names(dataset, text) for text in (*texts, shown))


def _names(dataset: Dataset, text: str) -> bool:
    return (sign := named_in(text)) is not None and sign.dataset == dataset


def variable_states_dataset(attributes: Mapping[str, Any]) -> bool:
    """Return True if a variable has the attributes that the store's own files have, from GRIB; none may contradict."""
    return any(str(name).startswith("GRIB_") for name in attributes)


def values_of_class(name: str, dataset: Dataset = ERA5) -> str | None:
    """Name the data set of a class of ECMWF's archive; None for this one itself and for unknown classes."""
    if name in (class_of(dataset), "unknown"):
        return None
    if name == NO_CLASS:
        own = f"{dataset.short_title}'s are of class {class_of(dataset)}"
        return f"values without a class of ECMWF's archive, while {own}"
    return f"values of {_CLASSES.get(name, 'another data set')}"


def _trust(dataset: Dataset) -> str:
    return (
        f"If you know that they are hourly values of {dataset.short_title}, --trust-files (ERA5_TRUST_FILES=true) "
        "takes your word for it, and the ledger, era5 status and exports say so."
    )


def other_dataset(found: Dataset, evidence: str, dataset: Dataset) -> ProblemError:
    """The problem of a file that is of another data set than is asked for, by a sign in it."""
    text = f"holds values of {found.short_title} ({evidence}), not values of {_described(dataset)}"
    return ProblemError("aggregate", text, f"{get_hours(dataset)} {_trust(dataset)}", is_of_origin=True)


def _described(dataset: Dataset) -> str:
    name = "ERA5's single levels" if dataset == ERA5 else dataset.short_title
    return f"{name}, {dataset.grid.step_degrees:g} degrees apart"


def contradiction(
    array: xr.DataArray,
    variable: Variable,
    stated: tuple[Aggregate, ...],
    latitude: xr.DataArray,
    longitude: xr.DataArray,
    dataset: Dataset,
) -> ProblemError | None:
    """The problem of a file that says that its values are not hourly ones of the data set at grid points.

    None if nothing in it says so. The user may contradict in turn.
    """
    has_one = {"latitude": latitude.size == 1, "longitude": longitude.size == 1}
    has_one["cell"] = all(has_one.values())
    # Anyone may convert values to edition 2, and their class stays.
    is_converted = array.attrs.get("GRIB_class", "") == class_of(dataset)
    all_found = (*_stated_by_variable(array, variable, dataset), *stated, *_other_type(array, variable, dataset))
    # What it is says more than in which edition.
    for found in sorted((*all_found, *_other_edition(array.attrs)), key=lambda one: one.what == _EDITION_2):
        if is_converted and found.what == _EDITION_2:
            continue
        if has_one.get(found.over, True):
            name, of = f"{array.name} ", "grid points" if found.over in has_one else "hours"
            if found.over == "data set":
                # Of all variables, so that they are one problem.
                name, of = "", _described(dataset)
            text = f"{name}holds {found.what} ({found.evidence}), not values of {of}"
            return ProblemError("aggregate", text, f"{get_hours(dataset)} {_trust(dataset)}", is_of_origin=True)
    return None


def _stated_by_variable(array: xr.DataArray, variable: Variable, dataset: Dataset) -> Iterator[Aggregate]:
    attributes = array.attrs
    yield from _other_centre(attributes)
    if what := values_of_class(str(attributes.get("GRIB_class", "unknown")), dataset):
        yield Aggregate(what, "data set", f"GRIB_class {attributes['GRIB_class']}")
    data_type, members = attributes.get("GRIB_dataType"), attributes.get("GRIB_totalNumber", 0)
    if data_type in _DATA_TYPES:
        yield Aggregate(_DATA_TYPES[data_type], "ensemble", f"GRIB_dataType {data_type}")
    if (stream := str(attributes.get("GRIB_stream"))) in _STREAMS:
        yield _of_stream(stream, f"GRIB_stream {stream}")
    if str(members).isdigit() and int(members) > 1:
        yield Aggregate("values of an ensemble", "ensemble", f"GRIB_totalNumber {members}")
    step_type = attributes.get(STEP_TYPE)
    if step_type not in (None, variable.step_type, variable.file_step_type):
        what = _LONG_MEANS.get(str(step_type), "other values")
        yield Aggregate(what, "time", f"{STEP_TYPE} {step_type}, of hours it is {variable.step_type}")
    yield from _in_cell_methods(str(attributes.get("cell_methods", "")), variable)
    yield from _other_grids(attributes, dataset.grid)


def is_long_mean(stream: object, step_type: object) -> bool:
    """Return True if ecCodes' stream or step type is one of means over days or months."""
    return step_type in _LONG_MEANS or _STREAMS.get(str(stream), "").startswith("monthly means")


def _other_type(array: xr.DataArray, variable: Variable, dataset: Dataset) -> Iterator[Aggregate]:
    """Values of another type than the data set's: forecasts of what it has as an analysis, or of other hours.

    ERA5-Land's runs of a day give forecasts of all its variables.
    """
    name, is_of_runs = dataset.short_title, dataset.accumulation == "day"
    is_analysis = variable.first_valid.hour == 0
    data_type = array.attrs.get("GRIB_dataType")
    if data_type not in (None, _ANALYSIS, _FORECAST, *_DATA_TYPES):
        yield Aggregate("values of another type", "data set", f"GRIB_dataType {data_type}")
    elif data_type == _FORECAST and is_analysis and not is_of_runs:
        yield Aggregate(
            f"forecasts of a variable that {name} has as an analysis", "data set", f"GRIB_dataType {data_type}"
        )
    elif (last := _last_step_hours(array)) > (
        0.0 if is_analysis and not is_of_runs else _LAST_STEP_HOURS[dataset.accumulation]
    ):
        yield Aggregate(f"forecasts, and {name} has none of such steps", "data set", f"a step of {last:g} hours")


def _last_step_hours(array: xr.DataArray) -> float:
    """The longest step of forecasts in the coordinate that cfgrib writes; 0 without one, or in an unknown unit."""
    step = array.coords.get("step")
    if step is None or not step.size:
        return 0.0
    if np.issubdtype(step.dtype, np.timedelta64):
        return float((step.values / np.timedelta64(1, "h")).max())
    hours = _HOURS_PER_UNIT.get(str(step.attrs.get("units", "hours")), 0.0)
    return float(step.values.max()) * hours if np.issubdtype(step.dtype, np.number) else 0.0


def _of_stream(stream: str, evidence: str) -> Aggregate:
    return Aggregate(_STREAMS[stream], "data set" if stream == "wave" else "time", evidence)


def is_stated(attributes: Mapping[str, Any], dataset: Dataset) -> bool:
    """Return True if a variable's attributes show that it is of this data set, of no other, and none contradicts."""
    return any(name in attributes for name in GRID_STEPS) or attributes.get("GRIB_class", "") == class_of(dataset)


def _other_grids(attributes: Mapping[str, Any], grid: Grid) -> Iterator[Aggregate]:
    """A step between grid points that the file states and the grid does not have; some such points are also its own."""
    for name in GRID_STEPS:
        try:
            step = float(attributes.get(name, grid.step_degrees))
        except (TypeError, ValueError):
            continue
        if step > 0 and abs(step - grid.step_degrees) > TOLERANCE_DEGREES:
            of = next((one.name for one in GRIDS if abs(step - one.step_degrees) <= TOLERANCE_DEGREES), "another grid")
            yield Aggregate(f"values of {of}", "data set", f"{name} {step:g}")


def _in_cell_methods(text: str, variable: Variable) -> Iterator[Aggregate]:
    for match in _CELL_METHOD.finditer(text):
        names, method, comment = match[1].replace(":", " ").split(), match[2], match[4] or ""
        for name in names:
            over = _AXES.get(name)
            if over is None:
                continue
            of_hour = method == _OF_HOUR.get(variable.step_type) or _ONE_HOUR.search(comment)
            if over != "time" or not of_hour or match[3]:
                yield Aggregate(f"a {method} over {name}", over, f"cell_methods: {match[0].strip()}")


def _in_history(line: str) -> Iterator[Aggregate]:
    if match := _STREAM.search(line):
        yield _of_stream(match[1], f"stream {match[1]} in its history")
    if match := _DAILY.search(line):
        yield Aggregate(f"{match[2]} statistics", "time", f"{match[1]} in its history")
    elif match := _EARTHKIT.search(line):
        over: Scope = "time" if match[1] == "temporal" else "cell"
        yield Aggregate("statistics", over, f"{match[0]} in its history")
    words = line.split()
    for position, word in enumerate(words):
        # A command starts its line, or follows its timestamp.
        if position == 0 or words[position - 1].endswith(":"):
            yield from _command_aggregates(word.rpartition("/")[2], words[position + 1 :])


def _command_aggregates(command: str, arguments: list[str]) -> Iterator[Aggregate]:
    """The aggregations of a CDO or NCO command; operators are whole words, unlike parts of file names."""
    if command == "cdo":
        for word in arguments:
            operator = word.lstrip("-[").partition(",")[0]
            for pattern, what, over in _CDO:
                if pattern.fullmatch(operator):
                    yield Aggregate(what, over, f"cdo {operator} in its history")
    elif command == "ncks":
        if mapped := next((word for word in arguments if word.startswith(_NCKS_MAPS)), None):
            yield Aggregate(_INTERPOLATED, "data set", f"ncks {mapped} in its history")
    elif command in _NCO:
        what, over = _NCO[command]
        yield Aggregate(what, over, f"{command} in its history")
    elif command == "ncwa":
        # Without -a, over all dimensions. Over expver or number, it only drops a dimension of size one.
        text = " ".join(arguments)
        named = re.search(r"(?:^|\s)(?:-a|--average(?:=|\s)|--avg(?:=|\s))\s*([\w,]+)", text)
        axes: list[Scope] = [_AXES[name] for name in named[1].split(",") if name in _AXES] if named else ["time"]
        for over in axes:
            yield Aggregate("averages", over, f"ncwa{f' -a {named[1]}' if named else ''} in its history")
