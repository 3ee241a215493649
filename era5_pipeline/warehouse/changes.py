"""Compare a flat month with parts in the table: same content, changed columns, losses, revisions, confirmations.

Compares facts only. For reading the table itself see `verify`, for writing `ledger` and `load_month`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.model.grid import is_same_shift
from era5_pipeline.model.source_kinds import FINAL, ORIGIN_TEXTS, ORIGINS, PRELIMINARY, source_kind, version_of
from era5_pipeline.model.times import describe_hours, hours_in
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_COLUMNS, ROUNDINGS, named_columns
from era5_pipeline.model.words import counted
from era5_pipeline.warehouse.ledger_entry import Revision

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import ColumnFacts, FlatMonth
    from era5_pipeline.model.grid import Shift
    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.source_kinds import Origin, Snapshot, Version
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry

# Runs of hours named in a message.
_SHOWN_RUNS = 2


@dataclass(frozen=True)
class ReplacedPart:
    """Rows that a load or drop removes from a part: `locations` places, with hours, columns, source and version.

    `place` describes them, as a rectangle if they are one. `is_whole` is False if the part keeps other locations.
    """

    part: int
    place: str
    locations: int
    rows: int
    hours: int
    columns: tuple[str, ...]
    source: str
    version: Version
    is_whole: bool
    interpolated: Shift | None = None

    @property
    def _variables(self) -> str:
        return "the default variables" if self.columns == DEFAULT_COLUMNS else named_columns(self.columns)

    def __str__(self) -> str:
        places = counted(self.locations, "place")
        where = self.place if self.place.startswith(places) else f"{places} ({self.place})"
        shift = "" if self.interpolated is None else f", {self.interpolated.text}"
        return f"{where}, {counted(self.hours, 'hour')} of {self._variables}, from {self.source}, {self.version}{shift}"


def taken_from(part: LedgerEntry, locations: LocationSet) -> ReplacedPart:
    """Describe the rows that leave the part with these locations."""
    taken = part.location_ids & locations
    return ReplacedPart(
        part=part.part,
        place=str(taken),
        locations=len(taken),
        # Exact unless the part's locations have different hours.
        rows=round(part.rows * len(taken) / max(1, part.locations)),
        hours=part.hours,
        columns=part.column_names,
        source=part.source,
        version=part.version,
        is_whole=len(taken) == part.locations,
        interpolated=part.interpolated,
    )


def kept_columns(before: LedgerEntry, flat: FlatMonth) -> tuple[str, ...]:
    """The columns of the part that stay beside those of the flat month; () if whole rows are replaced.

    They stay if the flat month only has columns that are not in the part, or exactly those that one load brought: only
    these columns then get new values. It must not have more hours; the rest is compared row by row. Generated values
    are never put beside real ones, nor values between the grid points beside those on it.
    """
    own = set(flat.column_names)
    kept = tuple(column for column in before.column_names if column not in own)
    together = (before.first_columns, *(addition.columns for addition in before.additions))
    is_fitting = (
        not before.is_cut
        and before.location_ids == flat.location_ids
        and flat.rows <= before.rows
        and len(kept) > 0
        and is_same_shift(before.interpolated, flat.shift)
        and source_kind(before.source).is_generated == source_kind(flat.raw.source).is_generated
        and (len(kept) == len(before.columns) or own in map(set, together))
    )
    return kept if is_fitting else ()


def has_same_content(before: LedgerEntry, flat: FlatMonth) -> bool:
    """Return True if the part holds exactly these rows, bit by bit, from whatever files.

    False for a part that was cut: its digests cover more rows. As the digests also depend on each row's location and
    hour (see `flat.statistics`), comparing them and the counts is enough.
    """
    return (
        not before.is_cut
        and before.rows == flat.rows
        and before.location_ids == flat.location_ids
        and before.hours == flat.hours
        and before.missing_hours == missing_hours_of(flat)
        and _values(before) == {facts.column: facts.values for facts in flat.columns}
        and columns_changed(before, flat) == ()
    )


def may_confirm(before: LedgerEntry, flat: FlatMonth) -> bool:
    """Return True if the flat month, of another source, may have the part's values within a quantum.

    Both have the same columns, rows and missing hours, and as many values of each column; nothing would be lost.
    """
    new = {facts.column: facts for facts in flat.columns}
    return (
        not before.is_cut
        and before.location_ids == flat.location_ids
        and flat.raw.source not in before.sources
        and all(source_kind(source).is_service for source in (*before.sources, flat.raw.source))
        and (before.rows, before.hours) == (flat.rows, flat.hours)
        and before.missing_hours == missing_hours_of(flat)
        and _values(before) == {facts.column: facts.values for facts in flat.columns}
        and is_same_shift(before.interpolated, flat.shift)
        and not losses(before, flat)
        and all(_may_be_alike(facts, new[facts.column]) for facts in before.columns)
    )


def _may_be_alike(one: ColumnFacts, other: ColumnFacts) -> bool:
    """Return False if extremes or means differ by more than they can if each value is within the quantum.

    Then the rows need not be compared, which takes longer than replacing them.
    """
    pairs = ((one.minimum, other.minimum), (one.maximum, other.maximum), (one.mean, other.mean))
    largest = max((abs(value) for pair in pairs for value in pair if value is not None), default=0.0)
    allowed = BY_COLUMN[one.column].quantum + 2 * ROUNDINGS * largest
    return all(a is None or b is None or abs(a - b) <= allowed for a, b in pairs)


def columns_changed(before: LedgerEntry, flat: FlatMonth) -> tuple[str, ...]:
    """Name the columns whose values differ, or that exist on one side only."""
    old = {facts.column: facts.digest for facts in before.columns}
    new = {facts.column: facts.digest for facts in flat.columns}
    return tuple(column for column in {**new, **old} if new.get(column) != old.get(column))


def missing_hours_of(flat: FlatMonth) -> dict[str, tuple[str, ...]]:
    """Runs of missing hours, by incomplete column, as recorded in the ledger."""
    return {facts.column: facts.missing_hours for facts in flat.columns if facts.missing_hours}


def losses(before: LedgerEntry, flat: FlatMonth) -> tuple[str, ...]:
    """Describe what the common locations would lose: variables, hours, values, the grid, the origin or the version.

    Hours count as missing if any location misses them, so a flat month with gaps at some of its locations counts as
    having them everywhere.
    """
    new = {facts.column: facts for facts in flat.columns}
    held = {facts.column: facts for facts in before.columns if facts.values}
    common = [column for column in held if column in new]
    gone = [column for column in held if column not in new]
    lost = [f"{'the variable' if len(gone) == 1 else 'the variables'} {', '.join(gone)}"] if gone else []
    lost += _lost_hours({c: hours_in(new[c].missing_hours) - hours_in(before.missing_hours.get(c, ())) for c in common})
    if not lost and before.location_ids == flat.location_ids and not before.is_cut:
        fewer = {column: held[column].values - new[column].values for column in common}
        lost += [f"{count:,} values of {column}" for column, count in fewer.items() if count > 0]
    return (
        *lost,
        *_lost_points(before, flat),
        *_lost_origins(before, flat, common),
        *_lost_versions(before, flat, common),
    )


def _lost_points(before: LedgerEntry, flat: FlatMonth) -> tuple[str, ...]:
    """Describe values on the grid, or shifted in one way, that values between the grid points would replace."""
    if flat.shift is None or is_same_shift(before.interpolated, flat.shift):
        return ()
    held = "on the grid" if before.interpolated is None else f"shifted by {before.interpolated}"
    return (f"values {held}: the new ones are {flat.shift.text}",)


def _lost_origins(before: LedgerEntry, flat: FlatMonth, columns: list[str]) -> tuple[str, ...]:
    """Describe values known to be of ERA5 that values of less certain origin would replace."""
    held = {facts.column: facts.origin for facts in before.columns}
    new = {facts.column: facts.origin for facts in flat.columns}
    worse = [column for column in columns if _doubt(new[column]) > _doubt(held[column]) and held[column] is not None]
    if not worse:
        return ()
    said = dict.fromkeys(ORIGIN_TEXTS[origin] for column in worse if (origin := new[column]) is not None)
    return (f"the origin of {', '.join(worse)}: that of the new ones is {' or '.join(said)}",)


def _doubt(origin: Origin | None) -> int:
    return 0 if origin is None else ORIGINS.index(origin)


def _lost_hours(by_column: dict[str, frozenset[int]]) -> list[str]:
    """Describe lost hours: once, if they are the same for all columns."""
    hours = {column: describe_hours(sorted(lost)) for column, lost in by_column.items() if lost}
    if not hours:
        return []
    counts = {column: len(by_column[column]) for column in hours}
    if len(hours) == len(by_column) and len(set(hours.values())) == 1:
        column, runs = next(iter(hours.items()))
        return [f"{counted(counts[column], 'hour')} ({_shortened(runs)})"]
    return [f"{counted(counts[column], 'hour')} of {column} ({_shortened(runs)})" for column, runs in hours.items()]


def _shortened(runs: tuple[str, ...]) -> str:
    return ", ".join(runs[:_SHOWN_RUNS]) + (f" and {len(runs) - _SHOWN_RUNS} more" if len(runs) > _SHOWN_RUNS else "")


def _lost_versions(before: LedgerEntry, flat: FlatMonth, columns: list[str]) -> tuple[str, ...]:
    """Describe final hours that would become preliminary, and versions that would become unknown."""
    if before.version == "generated":
        return ()
    is_stated = version_of(before.expver) != "unknown" and _is_of_known_age(before.source, before.snapshot)
    unknown = [c for c in columns if version_of({c: before.expver[c]}) != "unknown" and not _states_version(flat, c)]
    if is_stated and unknown:
        return (f"the version ({before.version}) of {', '.join(unknown)}: the new files do not state theirs",)
    final = {c: counts for c, counts in before.expver.items() if FINAL in counts}
    lost = {
        column: hours_in(flat.preliminary_hours.get(column, ()))
        - hours_in(before.preliminary_hours.get(column, ()))
        - hours_in(before.missing_hours.get(column, ()))
        for column in columns
        if column in final
    }
    return tuple(f"final data: preliminary ones for {text}" for text in _lost_hours(lost))


def _states_version(flat: FlatMonth, column: str) -> bool:
    """Return True if the column's version is known, and not only inferred from the month's age when it was fetched."""
    is_known = version_of({column: flat.expver[column]}) != "unknown"
    return is_known and _is_of_known_age(flat.raw.source, flat.raw.snapshot)


def _is_of_known_age(source: str, snapshot: Snapshot | None) -> bool:
    """Return True if the source states versions, or the day is known when its store had these values."""
    return snapshot is not None or not source_kind(source).states_no_version


def revision_by(before: LedgerEntry, flat: FlatMonth) -> Revision | None:
    """Describe the revision if final data replace preliminary data; None if they do not.

    They do if the flat month has the same source (all services count as one), area, points and variables, no fewer
    values than before, and fewer preliminary hours.
    """
    if (
        not before.is_preliminary
        or source_kind(flat.raw.source).is_generated
        or not _is_same_data(before.source, flat.raw.source)
        or before.area != flat.raw.area
        or not is_same_shift(before.interpolated, flat.shift)
        or _values(before).keys() != {facts.column for facts in flat.columns}
        or any(facts.values < _values(before)[facts.column] for facts in flat.columns)
        or _preliminary(flat.expver) >= _preliminary(before.expver)
    ):
        return None
    changed = columns_changed(before, flat)
    return Revision(
        preliminary_hours_before=before.preliminary_hours,
        columns_changed=changed,
        columns_unchanged=tuple(column for column in flat.expver if column not in changed),
        files_before=tuple(file.sha256 for file in before.files),
        loaded_at_before=before.loaded_at.isoformat(),
    )


def _is_same_data(source: str | None, other: str) -> bool:
    """Return True if both sources provide the same data, as all services do."""
    return source == other or (source_kind(source).is_service and source_kind(other).is_service)


def _values(entry: LedgerEntry) -> dict[str, int]:
    return {facts.column: facts.values for facts in entry.columns}


def _preliminary(expver: dict[str, dict[str, int]]) -> int:
    """Count the preliminary hours of all columns together."""
    return sum(counts.get(PRELIMINARY, 0) for counts in expver.values())
