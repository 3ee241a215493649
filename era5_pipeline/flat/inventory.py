"""Inventory of one month's raw files: variables, hours and places; kept from `raw` to `flat`."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.completeness import first_hour, missing_hours
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import BadFileError, NoDataError
from era5_pipeline.model.grid import Area, is_same_shift
from era5_pipeline.model.land_mask import mask_of
from era5_pipeline.model.source_kinds import FINAL, PRELIMINARY, most_doubtful, source_kind
from era5_pipeline.model.times import describe_hours, hour_of
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.netcdf.archive import NetcdfFile, StoredObject, netcdf_files, scratch_folder
from era5_pipeline.netcdf.contents import UNKNOWN_EXPVER, Field, Problem, distinct_texts, hours_of
from era5_pipeline.netcdf.field_reader import contents_of, temporary_bytes
from era5_pipeline.netcdf.recognise import special_kind
from era5_pipeline.runtime.compiled import pays_off

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.model.dataset import Accumulation, Dataset
    from era5_pipeline.model.grid import Grid, Shift
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.source_kinds import Origin
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.sources.source import RawFile, RawMonth

    States = tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class Piece:
    """A field and the netCDF file to read it from."""

    file: NetcdfFile
    field: Field


@dataclass(frozen=True)
class Inventory:
    """All pieces of a month and the problems of its files.

    `latitude_index`, `longitude_index` are those of the requested area, or of the whole grid.
    `is_series`: the files are a point series, which may miss accumulations of ERA5's first day. `shift` is that of all
    its values, if they lie between the grid points. `before` are pieces of sums since 00 UTC with the hour before the
    month, of whose values those of the first hour are left. `is_accumulation_given`: the user has said over what
    amounts of files run that do not tell.
    """

    month: Month
    pieces: tuple[Piece, ...]
    problems: tuple[Problem, ...]
    latitude_index: npt.NDArray[np.int32]
    longitude_index: npt.NDArray[np.int32]
    is_series: bool = False
    shift: Shift | None = None
    dataset: Dataset = ERA5
    before: tuple[Piece, ...] = ()
    is_accumulation_given: bool = False

    @property
    def grid(self) -> Grid:
        """The grid of its points."""
        return self.dataset.grid

    @cached_property
    def columns(self) -> tuple[str, ...]:
        """Columns found in at least one piece, in table order."""
        held = {piece.field.column for piece in self.pieces}
        return tuple(variable.column for variable in in_table_order(held))

    @cached_property
    def hours(self) -> npt.NDArray[np.int64]:
        """Hours of the month found in at least one piece, (n,) ascending, since 1970-01-01 UTC."""
        return self._hours(self.pieces)

    @cached_property
    def coverage(self) -> npt.NDArray[np.bool_]:
        """Grid points of the area found in at least one piece, (rows, columns) by latitude and longitude index.

        Of a data set of land, those on land.
        """
        return self._coverage(self.pieces)

    @cached_property
    def locations(self) -> int:
        """Number of grid points in `coverage`, which takes longer to count than a place's month to sum up."""
        return int(self.coverage.sum())

    @cached_property
    def is_large(self) -> bool:
        """Return True if the month is so large that compiled functions save more time than their loading takes.

        They save 12 ns a value: 8.8 million rows of six variables a second (of 21 million) instead of 5.4 (of
        6 million; NUMBA_DISABLE_JIT=1), by `era5 bench run pipeline` on 2026-11-24.
        """
        return pays_off(12e-9 * self.locations * self.hours.size * len(self.columns))

    def column_origin(self, column: str) -> Origin:
        """Whose word it is that the column's values are hourly ones of ERA5; the most doubtful of its pieces."""
        return most_doubtful(piece.field.origin for piece in self.column_pieces(column)) or "stated"

    @property
    def temporary_bytes(self) -> int:
        """The bytes of temporary files, at most, that reading the pieces needs: of large months in GRIB."""
        return temporary_bytes(((piece.file, piece.field) for piece in self.pieces), self.month)

    def column_pieces(self, column: str) -> tuple[Piece, ...]:
        """The pieces that hold `column`."""
        return tuple(piece for piece in self.pieces if piece.field.column == column)

    def is_summed(self, column: str) -> bool:
        """Return True if values of `column` in files are sums since 00 UTC."""
        return any(piece.field.accumulation == "day" for piece in self.column_pieces(column))

    @property
    def packing_steps(self) -> Mapping[str, float]:
        """The largest step of packed values by column, in the table's unit; 0 where no file states one."""
        steps: dict[str, float] = {}
        for piece in (*self.pieces, *self.before):
            steps[piece.field.column] = max(steps.get(piece.field.column, 0.0), 2 * piece.field.half_step)
        return steps

    def column_hours(self, column: str) -> npt.NDArray[np.int64]:
        """Hours of the month with `column`, (n,) ascending."""
        return self._hours(self.column_pieces(column))

    def column_locations(self, column: str) -> int:
        """Number of grid points with `column`."""
        covered = self.column_coverage(column)
        return self.locations if covered is self.coverage else int(covered.sum())

    def column_coverage(self, column: str) -> npt.NDArray[np.bool_]:
        """Grid points with `column`, (rows, columns) by latitude and longitude index."""
        return self._coverage(self.column_pieces(column))

    @cached_property
    def expver(self) -> dict[str, dict[str, int]]:
        """Hour counts per column and version, as stated in files; an expver dimension counts under all its versions."""
        counts: dict[str, dict[str, int]] = {}
        for column in self.columns:
            held: dict[str, set[int]] = {}
            for piece in self.column_pieces(column):
                hours, versions = self._within(piece)
                for version in distinct_texts(versions):
                    held.setdefault(version, set()).update(hours[versions == version].tolist())
            counts[column] = {version: len(hours) for version, hours in sorted(held.items())}
        return counts

    @cached_property
    def preliminary_hours(self) -> dict[str, tuple[str, ...]]:
        """Runs of hours found only in preliminary pieces, per column with such hours.

        Empty for files with an expver dimension, where each version has all hours, and only the values tell.
        """
        found = {}
        for column in self.columns:
            within = [self._within(piece) for piece in self.column_pieces(column)]
            hours = np.concatenate([of_piece for of_piece, _ in within])
            preliminary = np.concatenate([versions for _, versions in within]) == PRELIMINARY
            if preliminary.any() and (only := np.setdiff1d(hours[preliminary], hours[~preliminary])).size:
                found[column] = describe_hours(only)
        return found

    def first_hour(self, variable: Variable) -> int:
        """The first hour at which the variable must have values."""
        return first_hour(self.dataset.catalogue.by_column[variable.column], is_series=self.is_series)

    def missing_hours(self, variable: Variable) -> npt.NDArray[np.int64]:
        """Required hours of the month, (n,) ascending, of `variable` that are missing from the files."""
        own = self.dataset.catalogue.by_column[variable.column]
        return missing_hours(self.month, own, self.column_hours(variable.column), is_series=self.is_series)

    def _hours(self, pieces: tuple[Piece, ...]) -> npt.NDArray[np.int64]:
        # Usually all columns have the same hours, in one array.
        of_pieces = frozenset(id(piece.field.hours) for piece in pieces)
        if of_pieces not in self._hours_of_pieces:
            of_month = hours_of(self.month)
            is_held = np.zeros(of_month.size, dtype=np.bool_)
            for piece in pieces:
                is_held[self._within(piece)[0] - of_month[0]] = True
            self._hours_of_pieces[of_pieces] = of_month[is_held]
        return self._hours_of_pieces[of_pieces]

    def _within(self, piece: Piece) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.str_]]:
        """The piece's hours in the month, (n,) in the order of the file, and the version of each."""
        positions = piece.field.positions_in(self.month)
        return piece.field.hours[positions], piece.field.expver[positions]

    def _coverage(self, pieces: tuple[Piece, ...]) -> npt.NDArray[np.bool_]:
        # Usually all columns have the same points. A mask takes a millisecond, and is requested many times.
        axes = frozenset(
            (piece.field.latitude_index.tobytes(), piece.field.longitude_index.tobytes()) for piece in pieces
        )
        if axes not in self._coverages:
            covered = np.zeros((self.grid.rows, self.grid.columns), dtype=np.bool_)
            for piece in pieces:
                covered[np.ix_(piece.field.latitude_index, piece.field.longitude_index)] = True
            if self.latitude_index.size * self.longitude_index.size < covered.size:
                in_area = np.zeros_like(covered)
                in_area[np.ix_(self.latitude_index, self.longitude_index)] = True
                covered &= in_area
            if (mask := mask_of(self.dataset)) is not None:
                covered &= mask
            covered.flags.writeable = False
            self._coverages[axes] = covered
        return self._coverages[axes]

    @cached_property
    def _hours_of_pieces(self) -> dict[frozenset[int], npt.NDArray[np.int64]]:
        return {}

    @cached_property
    def _coverages(self) -> dict[frozenset[tuple[bytes, bytes]], npt.NDArray[np.bool_]]:
        return {}


def take_inventory(raw: RawMonth, scratch: Path) -> Inventory:
    """Open the month's files (unpacking ZIP members into `scratch`) and list their contents for the month."""
    grid = raw.dataset.grid
    area = Area.parse(raw.area or "global", grid)
    latitudes, longitudes = area.latitude_indices(), area.longitude_indices()
    kind = source_kind(raw.source)
    pieces: list[Piece] = []
    before: list[Piece] = []
    problems: list[Problem] = []
    for raw_file in raw.files:
        _require_unchanged(raw_file)
    origins = {file.path: StoredObject(file.origin, file.sha256) for file in raw.files if file.origin is not None}
    for file in netcdf_files((file.path for file in raw.files), scratch, origins):
        contents = contents_of(file, raw.dataset)
        problems += (
            problem
            for problem in contents.problems
            if problem.concerns(raw.month, raw.wanted_columns)
            and not raw.permits(problem)
            and (kind.has_own_files or not problem.lacks_accumulation)
        )
        for piece in _relevant(file, contents.fields, raw, latitudes, longitudes):
            if str(raw.month) in piece.field.months:
                pieces.append(piece)
            if piece.field.accumulation == "day":
                before += [piece] if (piece.field.hours == hour_of(raw.month.start) - 1).any() else []
    for problem in problems:
        if problem.kind not in ("grid", "nothing"):
            raise BadFileError(problem.file, problem.text, remedy=problem.remedy)
    if not pieces and not problems:
        if raw.area is None:
            raise NoDataError(
                f"{raw.month}: none of its files has the wanted variables",
                remedy="Choose --variables that the files have, or all.",
            )
        raise NoDataError(
            f"{raw.month}: none of its files has the wanted variables in area {raw.area}",
            remedy="Choose an area and --variables that the files have, or no area for all that they hold.",
        )
    shift = _only_shift(raw.month, [*pieces, *before])
    _require_one_accumulation(raw.month, [*pieces, *before])
    return Inventory(
        *(raw.month, tuple(pieces), tuple(problems), latitudes, longitudes, kind.is_series, shift, raw.dataset),
        tuple(before),
        raw.accumulation is not None,
    )


def _only_shift(month: Month, pieces: list[Piece]) -> Shift | None:
    """The shift of all pieces; None if they are on the grid."""
    for piece in pieces[1:]:
        one, other = pieces[0], piece
        if not is_same_shift(one.field.shift, other.field.shift):
            said = [
                f"{of.file.shown} is {of.field.shift.text if of.field.shift else 'on the grid'}" for of in (one, other)
            ]
            raise BadFileError(
                other.file.shown,
                f"cannot be loaded together with other files of {month}: {said[0]}, {said[1]}",
                remedy="Load their folders one after another, those on the grid last.",
            )
    return pieces[0].field.shift if pieces else None


def _require_one_accumulation(month: Month, pieces: list[Piece]) -> None:
    """Refuse a column of which one file has sums since 00 UTC, and another the amounts of hours."""
    first: dict[str, Piece] = {}
    for piece in pieces:
        one = first.setdefault(piece.field.column, piece)
        if one.field.accumulation != piece.field.accumulation:
            rules = {"day": "sums since 00 UTC", "hour": "amounts of hours"}
            said = [f"{of.file.shown} has {rules[of.field.accumulation or 'hour']}" for of in (one, piece)]
            raise BadFileError(
                piece.file.shown,
                f"{piece.field.column} cannot be loaded together with other files of {month}: {', '.join(said)}",
                remedy="Load their folders one after another.",
            )


def _accumulation_of(field: Field, raw: RawMonth) -> Accumulation:
    """Over what the amounts of a month's file run, by the file or, where it does not tell, by its source or the user.

    Point series are amounts of hours on the grid of any data set.
    """
    if source_kind(raw.source).is_series:
        return "hour"
    return field.accumulation or raw.accumulation or raw.dataset.accumulation


def _require_unchanged(file: RawFile) -> None:
    try:
        size, special = file.path.stat().st_size, special_kind(file.path)
    except OSError as error:
        raise BadFileError(
            file.path, f"cannot be opened ({error.strerror})", remedy="Put it back, or materialize era5/raw again."
        ) from error
    if special is not None:
        raise BadFileError(file.path, special, remedy="Put it back, or materialize era5/raw again.")
    if size != file.bytes:
        raise BadFileError(
            file.path, "has changed since the raw stage", remedy="Materialize era5/raw of the month again."
        )


def _relevant(
    file: NetcdfFile,
    fields: tuple[Field, ...],
    raw: RawMonth,
    latitudes: npt.NDArray[np.int32],
    longitudes: npt.NDArray[np.int32],
) -> Iterator[Piece]:
    # Services say themselves what they have.
    says_itself = not source_kind(raw.source).has_own_files
    for one in fields:
        if (
            one.column in raw.wanted_columns
            and (one.shift is None or raw.off_grid == "nearest")
            and (one.origin != "trusted" or raw.trusts_files)
            and np.isin(one.latitude_index, latitudes).any()
            and np.isin(one.longitude_index, longitudes).any()
        ):
            if says_itself:
                known = replace(one, origin="stated")
            elif one.origin == "stated" or not (one.expver == FINAL).any():
                known = one
            else:
                # One whose file does not show that it is of ERA5 is not its final version either.
                known = replace(one, expver=np.where(one.expver == FINAL, UNKNOWN_EXPVER, one.expver))
            yield Piece(file, replace(known, accumulation=_accumulation_of(one, raw)))


# --- Keep a month's inventory from `raw` to `flat`, so that ZIPs are unpacked and files inspected once ---
#
# Within one process only, for one month at a time: nothing stays on disk when the process ends, even if killed. `flat`
# alone (in another process, or on another day) takes the inventory itself.


@dataclass(frozen=True)
class KeptInventory:
    """The inventory of `raw` and its unpacked files, until closed; empty if nothing was kept."""

    raw: RawMonth | None = None
    inventory: Inventory | None = None
    states: States = ()
    scratch: ExitStack = field(default_factory=ExitStack)

    def of(self, raw: RawMonth) -> Inventory | None:
        """The inventory, if it matches this month and request and its files are unchanged; None: take it again."""
        if self.inventory is None or self.raw != raw or self.states != _states(raw):
            return None
        return self.inventory if all(piece.file.path.is_file() for piece in self.inventory.pieces) else None

    def close(self) -> None:
        """Remove the unpacked files."""
        self.scratch.close()


class InventoryKeeper:
    """Holds the inventory that `raw` took until `flat` claims it; at most one. Its owner discards it at the end."""

    def __init__(self) -> None:
        self._kept = KeptInventory()

    def take(self, raw: RawMonth, home: Path) -> Inventory:
        """Take the inventory of a month and keep it, replacing the previous one."""
        self.discard()
        with ExitStack() as stack:
            scratch = stack.enter_context(scratch_folder(home))
            states = _states(raw)
            inventory = take_inventory(raw, scratch)
            self._kept = KeptInventory(raw, inventory, states, stack.pop_all())
        return inventory

    def claim(self) -> KeptInventory:
        """Hand over the kept inventory; the caller must close it."""
        kept, self._kept = self._kept, KeptInventory()
        return kept

    def discard(self) -> None:
        """Remove the kept inventory."""
        self.claim().close()


def _states(raw: RawMonth) -> States:
    return tuple(_state(file.path) for file in raw.files)


def _state(path: Path) -> tuple[int, int] | None:
    try:
        stat = path.stat()
    except OSError:
        return None
    return stat.st_size, stat.st_mtime_ns
