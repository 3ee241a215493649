"""Catalogue of the contents of files and objects, so that a thousand months do not open a thousand files each."""

from __future__ import annotations

import hashlib
import os
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from pydantic import TypeAdapter, ValidationError

from era5_pipeline.model.dataset import ERA5, Dataset
from era5_pipeline.model.errors import BadFileError
from era5_pipeline.model.times import hour_of
from era5_pipeline.netcdf.archive import StoredObject, netcdf_files, scratch_folder
from era5_pipeline.netcdf.contents import Problem
from era5_pipeline.netcdf.field_reader import contents_of
from era5_pipeline.netcdf.grib import is_installed
from era5_pipeline.netcdf.recognise import claims_to_be_data, describe_other, kind_of, special_kind
from era5_pipeline.runtime.file_store import LOCAL
from era5_pipeline.runtime.files import (
    digest_of,
    one_process_at_a_time,
    read_json,
    replacing,
    require_room,
    sha256_of,
    write_json,
)
from era5_pipeline.runtime.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.model.grid import Grid
    from era5_pipeline.model.months import Month
    from era5_pipeline.netcdf.contents import Field
    from era5_pipeline.runtime.file_store import FileStore
    from era5_pipeline.sources.source import RawFile

# --- The user's files in an S3 bucket: listing them, and copying them to local disk ---
#
# Copies are made when a month needs them, and removed when it is loaded.


@dataclass(frozen=True)
class BucketFile:
    """A user's object: its address, size, and time of last write."""

    address: str
    bytes: int
    modified_ns: int


def files_in(bucket: str) -> Iterator[BucketFile]:
    """The objects below an S3 address, or the one that it names; hidden ones are skipped."""
    for found in open_store(bucket).objects():
        if not any(part.startswith(".") for part in found.key.split("/")):
            address = f"{bucket.rstrip('/')}/{found.key}".rstrip("/")
            yield BucketFile(address, found.bytes, found.modified_ns)


def local_copy(home: Path, month: Month, address: str) -> Path:
    """The path for the month's copy of an object: each month has its own, removed when it is loaded."""
    name = address.rpartition("/")[2]
    return home / "raw" / "files" / str(month) / f"{hashlib.sha256(address.encode()).hexdigest()[:16]}-{name}"


def download(address: str, path: Path, expected_bytes: int) -> str:
    """Copy an object to a path; return its SHA-256."""
    path.parent.mkdir(parents=True, exist_ok=True)
    require_room(path.parent, expected_bytes, f"{address}: a copy of it takes")
    with replacing(path) as temporary:
        digest = open_store(address).download("", temporary)
        if digest is None:
            raise BadFileError(address, "is gone", remedy="Run the month again when the files are there.")
    return digest


def fetch_object(month: Month, file: RawFile) -> None:
    """Make sure an object's copy is on local disk, as the month's raw stage found it."""
    if file.path.is_file() and file.path.stat().st_size == file.bytes and sha256_of(file.path) == file.sha256:
        return
    if download(file.origin or "", file.path, file.bytes) != file.sha256:
        raise BadFileError(
            file.shown,
            "was changed",
            remedy=f"Materialize era5/raw of {month} again.",
        )


# --- Cache of file contents, so that a thousand months do not open a thousand files each ---
#
# An entry is valid while the file's size and modification time are unchanged. Entries are JSON files under the
# pipeline's home, and may be removed at any time.


# Increase the number whenever the form of the entries or the rules for inspecting files change. Changes to the
# catalogue of variables invalidate entries too.
_FORM = 14
# The kinds of problems of files of another data set. In older entries they do not say how these are loaded.
_OF_OTHERS = ("aggregate", "grid")


def _form(dataset: Dataset) -> list[Any]:
    variables = dataset.catalogue.variables
    return [_FORM, digest_of([(*v.names_in_files, v.param_id, *v.file_units) for v in variables])]


_MOVE_AWAY = "Copy the data into a file, or move it out of the folder."
# Fields of a problem that may name the file.
_TEXTS = ("file", "text", "remedy")


@dataclass(frozen=True)
class CatalogueEntry:
    """The contents of one file: its columns per month, and its problems. `sha256` is None until needed.

    `shifted` are the columns per month whose values lie between the grid points, `doubted` those that are not hourly
    ones of the data set by the file's word, `unstated` those of which nothing tells over what amounts run; all also
    have a problem. `left_out` are its other variables, and why the table cannot hold them.
    `hours` are those of all its fields, by column, as runs: the first hour since 1970, and the one after the last.
    `sparse` are the columns with at most one value a day, always at the same hour, that the file does not declare to be
    hourly.
    `area` is the smallest around the places of all its variables; None without any.
    """

    path: str
    bytes: int
    modified_ns: int
    columns: dict[str, tuple[str, ...]]
    problems: tuple[Problem, ...]
    sha256: str | None = None
    hours: dict[str, tuple[tuple[int, int], ...]] = field(default_factory=dict)
    sparse: tuple[str, ...] = ()
    shifted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)
    doubted: dict[str, tuple[str, ...]] = field(default_factory=dict)
    area: str | None = None
    unstated: dict[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def months(self) -> frozenset[str]:
        """Months with data or a problem in the file."""
        return (
            frozenset(self.columns)
            | frozenset(self.shifted)
            | frozenset(self.doubted)
            | frozenset(self.unstated)
            | {month for problem in self.problems for month in problem.months}
        )

    def hours_of(self, column: str, month: Month | None = None) -> npt.NDArray[np.int64]:
        """The hours of the column in the file, or of its part of the month, (n,) ascending, since 1970."""
        runs = self._runs.get(column, np.empty((0, 2), np.int64))
        if month is not None:
            first, end = hour_of(month.start), hour_of(month.end)
            runs = runs[np.searchsorted(runs[:, 1], first, "right") : np.searchsorted(runs[:, 0], end)].clip(first, end)
        lengths = runs[:, 1] - runs[:, 0]
        before = np.cumsum(lengths) - lengths
        return np.repeat(runs[:, 0] - before, lengths) + np.arange(lengths.sum())

    @cached_property
    def _runs(self) -> dict[str, npt.NDArray[np.int64]]:
        return {column: np.array(runs, np.int64).reshape(-1, 2) for column, runs in self.hours.items()}

    @property
    def with_shifted(self) -> Self:
        """The same entry for users who take values between the grid points: they are no problem then."""
        return self._with(self.shifted, tuple(one for one in self.problems if one.shift is None))

    @property
    def with_doubted(self) -> Self:
        """The same entry for users who vouch for values that are not of the data set by the file's word."""
        return self._with(self.doubted, tuple(one for one in self.problems if not one.is_of_origin))

    @property
    def with_unstated(self) -> Self:
        """The same entry for users who say over what amounts run."""
        return self._with(self.unstated, tuple(one for one in self.problems if not one.lacks_accumulation))

    def _with(self, more: dict[str, tuple[str, ...]], problems: tuple[Problem, ...]) -> Self:
        columns = {
            month: tuple(sorted({*self.columns.get(month, ()), *more.get(month, ())}))
            for month in sorted({*self.columns, *more})
        }
        return replace(self, columns=columns, problems=problems)

    def to_json(self, dataset: Dataset = ERA5) -> dict[str, Any]:
        """Convert to a JSON value, kept as what the file holds of the data set; `entry_of` is the inverse."""
        return {"form": _form(dataset), **asdict(self)}


_ENTRY = TypeAdapter(CatalogueEntry)


def entry_of(value: Any, dataset: Dataset = ERA5) -> CatalogueEntry | None:  # noqa: ANN401  # JSON is any
    """The entry in a cache file; None if it is damaged, has another form, or a library was installed since."""
    try:
        if value["form"] != _form(dataset):
            return None
        if any(one["kind"] in _OF_OTHERS and "instead" not in one for one in value["problems"]):
            return None
        entry = _ENTRY.validate_python(value)
    except (TypeError, KeyError, ValidationError):
        return None
    lacks_library = any(problem.kind == "library" for problem in entry.problems)
    return None if lacks_library and is_installed() else entry


class Catalogue:
    """The entries, kept below `home`; those of objects also in the store of `file_store`, if set.

    They say what the files hold of the data set.
    """

    def __init__(self, home: Path, file_store: FileStore = LOCAL, dataset: Dataset = ERA5) -> None:
        self._dataset = dataset
        self._home = home
        self._file_store = file_store

    def entry(self, path: Path, *, with_digest: bool = False) -> CatalogueEntry | None:
        """Return the entry of a file, created if not valid; None if the file does not claim to be data.

        An `OSError` if the file cannot be read at all.
        """
        kept = self._kept(os.fsencode(path))
        stat = path.stat()
        if special := special_kind(path):
            if not claims_to_be_data(path):
                return None
            return CatalogueEntry(str(path), 0, 0, {}, (Problem(str(path), "unreadable", special, _MOVE_AWAY),))
        entry = self._valid_entry(kept, path, stat)
        if entry is None:
            if kind_of(path) == "other" and not claims_to_be_data(path):
                return None
            with one_process_at_a_time(self._home / "catalogue.locks", kept.stem):
                entry = self._valid_entry(kept, path, stat)
                if entry is None:
                    entry = self._inspected(CatalogueEntry(str(path), stat.st_size, stat.st_mtime_ns, {}, ()), path)
                    write_json(kept, entry.to_json(self._dataset))
        if with_digest and entry.sha256 is None:
            entry = replace(entry, sha256=sha256_of(path))
            write_json(kept, entry.to_json(self._dataset))
        return entry

    def _valid_entry(self, kept: Path, path: Path, stat: os.stat_result) -> CatalogueEntry | None:
        entry = entry_of(read_json(kept), self._dataset)
        state = (str(path), stat.st_size, stat.st_mtime_ns)
        return None if entry is None or (entry.path, entry.bytes, entry.modified_ns) != state else entry

    def kept_entry(self, found: BucketFile) -> CatalogueEntry | None:
        """The entry of an object, with its digest; None if not valid."""
        entry = entry_of(self._file_store.read_record(self._kept(found.address.encode())), self._dataset)
        is_valid = entry is not None and (entry.path, entry.bytes, entry.modified_ns, entry.sha256 is None) == (
            *(found.address, found.bytes, found.modified_ns),
            False,
        )
        return entry if is_valid else None

    def entry_by_copy(self, found: BucketFile) -> CatalogueEntry:
        """Create the entry of an object from a temporary copy; without columns if it is not data."""
        with scratch_folder(self._home) as scratch:
            # In its own folder, because the scratch folder is locked.
            copy = scratch / "object" / found.address.rpartition("/")[2]
            digest = download(found.address, copy, found.bytes)
            entry = CatalogueEntry(found.address, found.bytes, found.modified_ns, {}, (), digest)
            if kind_of(copy) != "other" or claims_to_be_data(copy):
                entry = self._inspected(entry, copy)
        named = tuple(
            replace(problem, **{name: getattr(problem, name).replace(str(copy), found.address) for name in _TEXTS})
            for problem in entry.problems
        )
        entry = replace(entry, problems=named)
        self._file_store.write_record(self._kept(found.address.encode()), entry.to_json(self._dataset))
        return entry

    def _kept(self, name: bytes) -> Path:
        name += b"" if self._dataset == ERA5 else f"\0{self._dataset.name}".encode()
        return self._home / "catalogue" / f"{hashlib.sha256(name).hexdigest()[:32]}.json"

    def _inspected(self, entry: CatalogueEntry, path: Path) -> CatalogueEntry:
        """Complete the entry with the contents of the file at `path`."""
        if kind_of(path) == "other":
            text, remedy = describe_other(path)
            return replace(entry, problems=(Problem(str(path), "unreadable", text, remedy),))
        problems: list[Problem] = []
        fields: list[Field] = []
        left_out: dict[str, str] = {}
        with scratch_folder(self._home) as scratch:
            try:
                # Of local files the digest is not known yet.
                origins = {} if entry.sha256 is None else {path: StoredObject(entry.path, entry.sha256)}
                for file in netcdf_files([path], scratch, origins):
                    contents = contents_of(file, self._dataset)
                    problems += contents.problems
                    fields += contents.fields
                    left_out |= dict(contents.left_out)
                    if file.path != file.source:  # unpacked or converted
                        file.path.unlink()
            except BadFileError as error:
                problems.append(Problem(str(path), "unreadable", error.problem, error.remedy))
        return replace(
            entry,
            columns=_columns_by_month(one for one in fields if _is_usable(one)),
            shifted=_columns_by_month(one for one in fields if one.shift is not None),
            doubted=_columns_by_month(one for one in fields if one.origin == "trusted"),
            unstated=_columns_by_month(one for one in fields if one.accumulation is None),
            problems=tuple(problems),
            hours=_hours(fields),
            sparse=_sparse(fields),
            left_out=left_out,
            area=_area(fields, self._dataset.grid),
        )


def _is_usable(one: Field) -> bool:
    return one.shift is None and one.origin != "trusted" and one.accumulation is not None


def _columns_by_month(fields: Iterable[Field]) -> dict[str, tuple[str, ...]]:
    columns: dict[str, set[str]] = {}
    for one in fields:
        for month in one.months:
            columns.setdefault(month, set()).add(one.column)
    return {month: tuple(sorted(held)) for month, held in sorted(columns.items())}


def _area(fields: list[Field], grid: Grid) -> str | None:
    """The smallest area around the places of the fields; None without any."""
    if not fields:
        return None
    rows, columns = (
        np.concatenate([getattr(one, f"{axis}_index") for one in fields]) for axis in ("latitude", "longitude")
    )
    return str(grid.area_of(rows, columns))


def _hours(fields: list[Field]) -> dict[str, tuple[tuple[int, int], ...]]:
    """The hours of the fields as runs, by column."""
    found = {}
    for column in sorted({held.column for held in fields}):
        hours = np.unique(np.concatenate([held.hours for held in fields if held.column == column]))
        starts = hours[np.diff(hours, prepend=hours[:1] - 2) > 1]
        ends = hours[np.diff(hours, append=hours[-1:] + 2) > 1] + 1
        found[column] = tuple(zip(starts.tolist(), ends.tolist(), strict=True))
    return found


def _sparse(fields: list[Field]) -> tuple[str, ...]:
    """The columns with at most one value a day, at a fixed hour, not declared hourly."""
    found = []
    for column in sorted({held.column for held in fields}):
        own = [held for held in fields if held.column == column]
        hours_of_day = np.unique(np.concatenate([held.hours for held in own]) % 24)
        if hours_of_day.size == 1 and not any(held.states_step_type for held in own):
            found.append(column)
    return tuple(found)
