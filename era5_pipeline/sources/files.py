"""The source `files`: folders and buckets of files that the user already has, in any layout, with any names."""

from __future__ import annotations

import os
import shlex
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from era5_pipeline.model.completeness import why_incomplete
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import BadFileError, InputError, NoDataError, RefusedError, UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month, spans
from era5_pipeline.model.times import as_datetime64, hour_of
from era5_pipeline.netcdf.contents import FOLDER, Problem, months_of, together
from era5_pipeline.netcdf.recognise import counts_text, describe_other, other_format, special_kind
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.file_store import LOCAL, FileStore
from era5_pipeline.runtime.object_store import is_s3
from era5_pipeline.sources.files_catalogue import Catalogue, CatalogueEntry, fetch_object, files_in, local_copy
from era5_pipeline.sources.source import (
    FolderUse,
    RawFile,
    RawMonth,
    Refusal,
    Request,
    Source,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from era5_pipeline.model.dataset import Accumulation
    from era5_pipeline.model.settings import OffGrid, Settings
    from era5_pipeline.model.variables import Catalogue as Variables

_NAME_FOLDER = "Name the folder of your ERA5 files: --files-dir DIR, or ERA5_FILES_DIR in the environment or .env."
# How warnings of variables that are left out begin.
LEFT_OUT = "left out: "
# Objects read at once from a bucket, whose latency exceeds the transfer.
_READ_AT_ONCE = 16
# Fewer values may be hand-picked hours; this many days or months, always at the same hour, may be means.
_SPARSE_VALUES = 3


@dataclass(frozen=True)
class FilesSource(Source):
    """Files of the data set below `folders` (or single files), read in place, not copied.

    Objects below `buckets` (S3 addresses) are copied while their month is loaded. The catalogue of the files is kept in
    `home`; that of objects also in the store of `file_store`, if set. The folders are listed once, on first use: a
    source object serves one command.

    `sparse_hours`: treat one value per day or month, always at the same hour, as hourly, though the files do not say.
    `off_grid`: what is done with values between the grid points, `trust_files`: whether files that say that their
    values are not of the data set are taken nevertheless, `accumulation` what is taken of amounts where files do not
    tell, see `RawMonth`. `allow_incomplete`: months that lack hours are not refused.
    """

    folders: tuple[Path, ...]
    home: Path
    request: Request = field(default_factory=Request)
    buckets: tuple[str, ...] = ()
    file_store: FileStore = LOCAL
    sparse_hours: bool = False
    off_grid: OffGrid = "refuse"
    trust_files: bool = False
    allow_incomplete: bool = False
    accumulation: Accumulation | None = None
    name: str = "files"

    def __post_init__(self) -> None:
        if not self.folders and not self.buckets:
            raise UsageError("the source `files` needs a folder", remedy=_NAME_FOLDER)
        for folder in self.folders:
            if not folder.exists():
                raise UsageError(f"{folder} does not exist", remedy=_NAME_FOLDER)
            if special := special_kind(folder):
                raise UsageError(f"{folder} {special}", remedy=_NAME_FOLDER)

    @override
    def fetch(self, month: Month, together: Collection[Month] = ()) -> RawMonth:
        """Find the month's files; objects are copied to local disk.

        An unreadable file may belong to any month: it is skipped with a warning if other files have data for
        the month.
        """
        raw = self._find(month)
        for file in raw.files:
            if file.origin is not None:
                fetch_object(month, file)
        return raw

    def _find(self, month: Month) -> RawMonth:
        self._require_named()
        wanted, serving = self._wanted, self._serving(month)
        for entry in serving:
            # Points off the grid are left to the check `grid`, which refuses the month with the same text.
            if (problem := self._refusing(entry, month)) is not None and problem.kind != "grid":
                raise BadFileError(problem.file, problem.text, remedy=problem.remedy)
        if not serving:
            raise self._no_data_error(month)
        files, needed = [], (*serving, *self._with_hour_before(month, serving))
        for done, entry in enumerate(needed):
            progress.report("raw", done, len(needed), "files")
            files.append(self._raw_file(entry, month))
        progress.report("raw", len(needed), len(needed), "files")
        return RawMonth(
            month=month,
            source=self.name,
            files=tuple(files),
            variables=self._variables_of(month, serving),
            area=self.request.area_text,
            dataset=self.request.dataset,
            warnings=(
                *(f"passed over: {problem}" for problem in together(self._passed_over_by(month))),
                *self._left_out(serving),
            ),
            is_open=self.request.is_open,
            # Where no file needs them, the months are the same without the settings.
            off_grid=self.off_grid
            if any(wanted & set(entry.shifted.get(str(month), ())) for entry in serving)
            else "refuse",
            trusts_files=self.trust_files and any(wanted & set(entry.doubted.get(str(month), ())) for entry in serving),
            accumulation=self.accumulation
            if any(wanted & set(entry.unstated.get(str(month), ())) for entry in serving)
            else None,
        )

    def _with_hour_before(self, month: Month, serving: Collection[CatalogueEntry]) -> tuple[CatalogueEntry, ...]:
        """The other files with sums of the hour before the month, which the amounts of its first hour need."""
        dataset = self.request.dataset
        if dataset.accumulation == "hour" or month == dataset.first_month:
            return ()
        previous, last = Month.from_number(month.number - 1), hour_of(month.start) - 1
        summed = [
            column
            for column in _columns_of(serving, month) & self._wanted
            if dataset.catalogue.by_column[column].step_type == "accum"
        ]
        return tuple(
            entry
            for entry in self._by_month.get(str(previous), ())
            if entry not in serving
            and self._has_wanted(entry, previous)
            and any(last in entry.hours_of(column, previous)[-1:] for column in summed)
        )

    def _left_out(self, entries: Iterable[CatalogueEntry]) -> Iterator[str]:
        """Say which variables are left out although all were asked for, and why."""
        if self.request.wanted != self._variables.variables:
            return
        for entry in entries:
            for why in dict.fromkeys(entry.left_out.values()):
                names = ", ".join(sorted(name for name, own in entry.left_out.items() if own == why))
                yield f"{LEFT_OUT}{entry.path}: {names} {why}"

    def _variables_of(self, month: Month, entries: Iterable[CatalogueEntry]) -> tuple[str, ...] | None:
        """The columns that the month should have; for an open list and `all`, those in its files."""
        if self.request.columns is None or not (
            self.request.is_open or self.request.wanted == self._variables.variables
        ):
            return self.request.columns
        # With --strict-variables, a month must have every variable found in any file.
        held = _columns_of(entries, month) if self.request.is_open else set(self._all_columns)
        # Also those off the grid, so that the check `grid` refuses the month.
        held |= {
            column
            for entry in entries
            for problem in entry.problems
            if problem.kind == "grid" and str(month) in problem.months
            for column in problem.columns
        }
        return tuple(column for column in self.request.columns if column in held)

    def _require_named(self) -> None:
        """Refuse a list that names a variable found in no file of any month."""
        held = self._all_columns
        # Of variables that are there and cannot be used, the months say why.
        there = {*held, *self._unusable_columns}
        lacking = [v for v in self.request.wanted if v.column in self.request.named and v.column not in there]
        if lacking and held:
            raise NoDataError(
                f"no file in {self._where} has data for {', '.join(v.column for v in lacking)}",
                remedy=f"The files there hold {', '.join(held)}: --variables all loads all of that, "
                f"--variables {self._variables.variable_names(held)} names it.",
            )

    @override
    def known(self, month: Month) -> RawMonth | None:
        """Return what `fetch` would, without copying: objects are known from the catalogue."""
        try:
            return self._find(month)
        except InputError:
            return None

    def _raw_file(self, entry: CatalogueEntry, month: Month) -> RawFile:
        if is_s3(entry.path):
            return RawFile(local_copy(self.home, month, entry.path), entry.sha256 or "", entry.bytes, entry.path)
        try:
            now = self._with_digest(entry)
        except OSError as error:
            text = f"cannot be opened ({error.strerror or error})"
            raise BadFileError(entry.path, text, remedy="Make it readable, or move it away.") from error
        if now is None or now.sha256 is None or now.months != entry.months:
            raise BadFileError(
                entry.path, "is being changed right now", remedy="Run the month again when that is done."
            )
        return RawFile(Path(now.path), now.sha256, now.bytes)

    def _with_digest(self, entry: CatalogueEntry) -> CatalogueEntry | None:
        """The entry of the file as it is now; read again from the catalogue only if the file has changed."""
        path = Path(entry.path)
        stat, known = path.stat(), self._digests.get(entry.path, entry)
        if known.sha256 is not None and (known.bytes, known.modified_ns) == (stat.st_size, stat.st_mtime_ns):
            return known
        now = self._catalogue.entry(path, with_digest=True)
        if now is not None:
            self._digests[entry.path] = now
        return now

    @cached_property
    def _digests(self) -> dict[str, CatalogueEntry]:
        return {}

    def problems(self) -> tuple[Problem, ...]:
        """Unusable data files in the folders, of any month; only problems of wanted variables."""
        return tuple(problem for problem in self._all_problems if self._is_wanted(problem))

    @cached_property
    def _all_problems(self) -> tuple[Problem, ...]:
        return tuple(problem for entry in self._entries for problem in entry.problems)

    @cached_property
    def _unusable_columns(self) -> frozenset[str]:
        return frozenset(column for problem in self._all_problems for column in problem.columns)

    def _is_wanted(self, problem: Problem) -> bool:
        return not problem.columns or not self._wanted.isdisjoint(problem.columns)

    @cached_property
    def _unreadable(self) -> list[Problem]:
        """Problems of files whose months are unknown; of variables not asked for, only without a list."""
        problems = self.problems() if self._has_list else self._all_problems
        return [problem for problem in problems if not problem.months]

    def _serving(self, month: Month) -> list[CatalogueEntry]:
        """The files that the month is loaded from, or refused for; those of another data set only without others."""
        serving = [entry for entry in self._by_month.get(str(month), ()) if self._serves(entry, month)]
        own = [entry for entry in serving if not self._is_of_other(entry, month)]
        return own or serving

    def _is_of_other(self, entry: CatalogueEntry, month: Month) -> bool:
        """Return True if the file has the month's variables of another data set only, which could be loaded as that."""
        problem = self._refusing(entry, month)
        return problem is not None and problem.instead is not None and not self._has_wanted(entry, month)

    def _passed_over_by(self, month: Month) -> list[Problem]:
        """Why files that may be of the month are not used for it; of variables not asked for, only without a list."""
        of_month, serving = self._by_month.get(str(month), ()), self._serving(month)
        others = [
            problem
            for entry in of_month
            for problem in entry.problems
            if str(month) in problem.months and entry not in serving
            if not self._has_list or (problem.instead is not None and self._is_wanted(problem))
        ]
        return [*self._unreadable, *others]

    @property
    def _has_list(self) -> bool:
        """Whether variables are named, and no others are taken."""
        return self.request.columns is not None and not self.request.is_open

    def _serves(self, entry: CatalogueEntry, month: Month) -> bool:
        """Whether the month is loaded from the file, or refused for it."""
        return self._has_wanted(entry, month) or self._refusing(entry, month) is not None

    def _has_wanted(self, entry: CatalogueEntry, month: Month) -> bool:
        return not self._wanted.isdisjoint(entry.columns.get(str(month), ()))

    def _refusing(self, entry: CatalogueEntry, month: Month) -> Problem | None:
        """The first problem of the file for which the month is refused."""
        concerning = [one for one in entry.problems if one.kind != "nothing" and one.concerns(month, self._wanted)]
        # A damaged member of a ZIP may be of any month that the others have.
        may_be_of_month = self._has_wanted(entry, month)
        return next((one for one in concerning if one.months or may_be_of_month), None)

    @cached_property
    def _wanted(self) -> frozenset[str]:
        return frozenset(variable.column for variable in self.request.wanted)

    def months(self) -> tuple[Month, ...]:
        """The months with data in the folders, ascending."""
        return tuple(
            sorted(
                Month.parse(month)
                for month, entries in self._by_month.items()
                if any(not self._wanted.isdisjoint(entry.columns.get(month, ())) for entry in entries)
            )
        )

    def months_of_files(self) -> tuple[Month, ...]:
        """All months of the files, usable or not, ascending."""
        months = set()
        for text in self._by_month:
            with suppress(UsageError):  # a damaged time, after the year 2261
                months.add(Month.parse(text))
        return tuple(sorted(months))

    def refusals(self, month: Month) -> tuple[Refusal, ...]:
        """Why the month cannot be loaded, as far as that is known without reading values; empty: nothing is known."""
        try:
            self._require_named()
            serving = self._serving(month)
            if not serving:
                raise self._no_data_error(month)
        except InputError as error:
            return (Refusal(error),)
        problems = (self._refusing(entry, month) for entry in serving)
        return tuple(
            Refusal(BadFileError(problem.file, problem.text, remedy=problem.remedy), problem)
            for problem in problems
            if problem is not None
        )

    def lacking_hours(self, month: Month) -> RefusedError | None:
        """Why the check of hours will refuse the month, as far as that is known without reading values."""
        if self.allow_incomplete:
            return None
        serving = self._serving(month)
        held = {
            variable.column: np.unique(np.concatenate([entry.hours_of(variable.column, month) for entry in entries]))
            for variable in self.request.wanted
            if (entries := [one for one in serving if variable.column in one.columns.get(str(month), ())])
        }
        short = why_incomplete(month, held, self._variables)
        return None if short is None else RefusedError(short[0], remedy=short[1])

    def use(self, asked: Collection[Month], tried: Collection[Month]) -> FolderUse:
        """Return what a load does with each file: of the months `asked` for, those `tried` have usable data."""
        by_month = {month: [one for one in self._serving(month) if self._is_within_area(one)] for month in tried}
        serving = {entry.path for entries in by_month.values() for entry in entries}
        of_asked, of_tried = set(map(str, asked)), set(map(str, tried))

        def is_passed_over(entry: CatalogueEntry, problem: Problem) -> bool:
            if not problem.months:
                return self._is_wanted(problem) or not self._has_list
            if of_asked.isdisjoint(problem.months):
                return False
            if self._is_wanted(problem):
                # Else the months that are tried are refused for it, unless it is of another data set.
                is_of_other = problem.instead is not None and entry.path not in serving
                return is_of_other or of_tried.isdisjoint(problem.months)
            return not self._has_list and entry.path not in serving

        return FolderUse(
            files=tuple(entry.path for entry in self._entries if entry.months or entry.problems),
            by_month={month: tuple(entry.path for entry in entries) for month, entries in by_month.items()},
            passed_over=tuple(
                (entry.path, problem)
                for entry in self._entries
                for problem in entry.problems
                if is_passed_over(entry, problem)
            ),
            others=self._formats,
        )

    def _is_within_area(self, entry: CatalogueEntry) -> bool:
        """Whether the file may have places that were asked for."""
        asked = self.request.area
        return asked is None or entry.area is None or asked.meets(Area.parse(entry.area, asked.grid))

    def no_months(self) -> InputError:
        """The error for files without any month: what they hold instead, or their problem."""
        self._require_named()
        if others := self._unrequested_columns():
            return self._other_variables(others)
        for problem in together(self._all_problems):
            return InputError(str(problem), remedy=problem.remedy)
        formats = self._formats
        besides = f"; it has files in formats that are not read: {counts_text(formats)}" if formats else ""
        return InputError(
            f"{self._where}: there is no {self._dataset_title} file in it{besides}",
            remedy=f"Give --files-dir the folder of your {self._dataset_title} files.",
        )

    @property
    def _where(self) -> str:
        return ", ".join([*map(str, self.folders), *self.buckets])

    def _other_variables(self, others: tuple[str, ...], month: Month | None = None) -> NoDataError:
        wanted = ", ".join(self.request.columns or ()) or "the default variables"
        return NoDataError(
            f"{f'{month}: ' if month else ''}no file in {self._where} has data for {wanted}",
            remedy=f"The files there hold {self._variables.named_columns(others)}: add --variables "
            f"{self._variables.variable_names(others)}.",
        )

    def _unrequested_columns(self) -> tuple[str, ...]:
        """Catalogue columns in the files that are not wanted, in table order."""
        return tuple(column for column in self._all_columns if column not in self._wanted)

    def columns(self, months: Collection[Month] | None = None) -> tuple[str, ...]:
        """Catalogue columns, wanted or not, in the files of these months (None: of any), in table order."""
        if not months:
            return self._all_columns
        held = set().union(*(_columns_of(self._by_month.get(str(month), ()), month) for month in months))
        return tuple(variable.column for variable in self._variables.in_table_order(held))

    @cached_property
    def _all_columns(self) -> tuple[str, ...]:
        """The catalogue columns in any file, in table order."""
        held = {column for entry in self._entries for columns in entry.columns.values() for column in columns}
        return tuple(variable.column for variable in self._variables.in_table_order(held))

    @property
    def _dataset_title(self) -> str:
        return self.request.dataset.short_title

    @property
    def _variables(self) -> Variables:
        return self.request.dataset.catalogue

    @property
    def _catalogue(self) -> Catalogue:
        return Catalogue(self.home, self.file_store, self.request.dataset)

    @cached_property
    def _entries(self) -> tuple[CatalogueEntry, ...]:
        entries = tuple(self._with_folder(entry) for entry in self._listed if isinstance(entry, CatalogueEntry))
        if self.off_grid == "nearest":
            entries = tuple(entry.with_shifted for entry in entries)
        if self.trust_files:
            entries = tuple(entry.with_doubted for entry in entries)
        if self.accumulation is not None:
            entries = tuple(entry.with_unstated for entry in entries)
        cds_name = self.request.dataset.cds_name
        return entries if self.sparse_hours else tuple(_with_sparse_problems(entries, cds_name))

    def _with_folder(self, entry: CatalogueEntry) -> CatalogueEntry:
        """The entry with these folders in the command that loads files of another data set."""
        if all(problem.instead is None for problem in entry.problems):
            return entry
        command = f"--files-dir {shlex.quote(os.pathsep.join(map(str, (*self.folders, *self.buckets))))}"
        problems = (
            replace(
                one,
                remedy=one.remedy.replace(f"--files-dir {FOLDER}", command, 1),
                instead=one.instead.replace(f"--files-dir {FOLDER}", command),
            )
            if one.instead
            else one
            for one in entry.problems
        )
        return replace(entry, problems=tuple(problems))

    @cached_property
    def _by_month(self) -> dict[str, tuple[CatalogueEntry, ...]]:
        """The entries with data or a problem of each month: a thousand months do not look at a thousand files each."""
        found: dict[str, list[CatalogueEntry]] = {}
        for entry in self._entries:
            for month in entry.months:
                found.setdefault(month, []).append(entry)
        return {month: tuple(entries) for month, entries in found.items()}

    @cached_property
    def _formats(self) -> Counter[str]:
        """The number of files in each of the formats that are not read."""
        names = [one for one in self._listed if isinstance(one, str)]
        # Objects have entries even if they are no data.
        names += [one.path for one in self._entries if not (one.months or one.problems)]
        return Counter(sorted(filter(None, map(other_format, names))))

    @cached_property
    def _listed(self) -> tuple[CatalogueEntry | str, ...]:
        """All files, listed once, so that a thousand months do not list a thousand files each: entries, or names."""
        return tuple(self._list())

    def _list(self) -> Iterator[CatalogueEntry | str]:
        paths = list(self._paths())
        # Processes that start together begin with different files, and so share the work of opening new ones.
        first = os.getpid() % max(1, len(paths))
        found = {path: self._entry_of_path(path) for path in (*paths[first:], *paths[:first])}
        yield from (found[path] or path.name for path in paths)
        yield from self._entries_of_objects()

    def _entry_of_path(self, path: Path) -> CatalogueEntry | None:
        try:
            entry = self._catalogue.entry(path)
            if entry is None and path in self.folders:
                # Who names a file says that it is data.
                return CatalogueEntry(str(path), 0, 0, {}, (Problem(str(path), "unreadable", *describe_other(path)),))
        except FileNotFoundError:
            return None  # removed since the folder was listed
        except OSError as error:
            # Not added to the catalogue: the file may be readable next time.
            text = f"cannot be opened ({error.strerror or error})"
            problem = Problem(str(path), "unreadable", text, "Make it readable, or move it away.")
            return CatalogueEntry(str(path), 0, 0, {}, (problem,))
        return entry

    def _entries_of_objects(self) -> Iterator[CatalogueEntry]:
        objects = [found for bucket in self.buckets for found in files_in(bucket)]
        with ThreadPoolExecutor(_READ_AT_ONCE) as threads:
            kept = list(threads.map(self._catalogue.kept_entry, objects))
        for done, (found, entry) in enumerate(zip(objects, kept, strict=True)):
            if entry is None:
                # One at a time: the netCDF library is not thread-safe.
                progress.report("raw", done, len(objects), "files")
            yield entry or self._catalogue.entry_by_copy(found)

    def _paths(self) -> Iterator[Path]:
        seen = set()
        for folder in self.folders:
            found = [folder] if folder.is_file() else sorted(folder.rglob("*"))
            for path in found:
                hidden = any(part.startswith(".") for part in path.relative_to(folder).parts)
                if not hidden and path not in seen and path.exists() and not path.is_dir():
                    seen.add(path)
                    yield path

    def _no_data_error(self, month: Month) -> InputError:
        """The error for a month that no file serves: what may be of it and cannot be used, or what there is instead."""
        unusable = self._passed_over_by(month)
        if unusable:
            first = together(unusable)[0]
            others = len({problem.file for problem in unusable if problem.text != first.text})
            more = f" (and {others} more files that cannot be used)" if others else ""
            return NoDataError(f"{month}: {first}{more}", remedy=first.remedy)
        held, besides = self.months(), self._unrequested_columns()
        if besides and not held:
            return self._other_variables(besides, month)
        wanted = ", ".join(self.request.columns) if self.request.columns else "it"
        has = f"The files there hold {spans(held)}." if held else f"No {self._dataset_title} file was found there."
        if self._all_problems and not held:
            first, *_ = together(self._all_problems)
            has = f"What is there cannot be used: {first}. {first.remedy}"
        return NoDataError(f"{month}: no file in {self._where} has data for {wanted}", remedy=has)


def _with_sparse_problems(entries: tuple[CatalogueEntry, ...], cds_name: str) -> Iterator[CatalogueEntry]:
    """Add a problem to entries with one value per day or month, which may be means, in place of these columns.

    Looks at all files together, because each file may hold a single mean.
    """
    days: dict[tuple[str, int], set[int]] = {}
    of_month: dict[tuple[str, str], set[int]] = {}
    dense: set[tuple[str, str]] = set()
    for entry in entries:
        for column, hours in _sparse_hours(entry):
            days.setdefault((column, hours[0] % 24), set()).update(hour // 24 for hour in hours)
            for hour, month in zip(hours, _months_of_each(hours), strict=True):
                of_month.setdefault((column, month), set()).add(hour)
        dense |= {(c, month) for month, columns in entry.columns.items() for c in columns if c not in entry.sparse}
    many = {of for of, found in days.items() if len(found) >= _SPARSE_VALUES}
    only_first = {
        of for of, found in of_month.items() if of not in dense and found == {hour_of(Month.parse(of[1]).start)}
    }
    for entry in entries:
        suspect = {
            column: hours
            for column, hours in _sparse_hours(entry)
            if (column, hours[0] % 24) in many or any((column, month) in only_first for month in _months_of_each(hours))
        }
        if suspect:
            columns = {month: tuple(one for one in held if one not in suspect) for month, held in entry.columns.items()}
            yield replace(
                entry, columns=columns, problems=(*entry.problems, _sparse_problem(entry.path, suspect, cds_name))
            )
        else:
            yield entry


def _sparse_hours(entry: CatalogueEntry) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The hours of each column of the file with at most one value a day, which it does not declare to be hourly."""
    for column in entry.sparse:
        yield column, tuple(entry.hours_of(column).tolist())


def _months_of_each(hours: tuple[int, ...]) -> list[str]:
    """The month of each of these hours since 1970, `YYYY-MM`."""
    return [str(month) for month in as_datetime64(np.array(hours)).astype("datetime64[M]")]


def _sparse_problem(path: str, suspect: dict[str, tuple[int, ...]], cds_name: str) -> Problem:
    hours = next(iter(suspect.values()))
    if len(hours) == len(set(_months_of_each(hours))) and hours == tuple(
        hour_of(Month.parse(month).start) for month in _months_of_each(hours)
    ):
        text = (
            "has one value a month, always at 00:00 UTC of its first day, and does not say that it is an hour "
            f"({', '.join(suspect)}): it may be the mean of the month"
        )
    else:
        text = (
            f"has at most one value a day, always at {hours[0] % 24:02d}:00 UTC, and does not say that these are hours "
            f"({', '.join(suspect)}): they may be means of days or months"
        )
    remedy = (
        f"If they are hours, add --sparse-hours (ERA5_SPARSE_HOURS=true). Hours come from dataset {cds_name} of the "
        f"Climate Data Store{', product type reanalysis' if cds_name == ERA5.cds_name else ''}."
    )
    months = sorted({month for own in suspect.values() for month in months_of(np.array(own))})
    return Problem(path, "aggregate", text, remedy, tuple(months), tuple(suspect))


def _columns_of(entries: Iterable[CatalogueEntry], month: Month) -> set[str]:
    """The columns of the month in these files."""
    return {column for entry in entries for column in entry.columns.get(str(month), ())}


def open_source(settings: Settings, request: Request, _: Callable[[str], None]) -> FilesSource:
    """Open the source described by the settings."""
    return FilesSource(
        settings.files_dirs,
        settings.files_home,
        request,
        settings.files_buckets,
        FileStore.of(settings),
        sparse_hours=settings.sparse_hours,
        off_grid=settings.off_grid,
        trust_files=settings.trust_files,
        allow_incomplete=settings.allow_incomplete,
        accumulation=settings.accumulation,
    )
