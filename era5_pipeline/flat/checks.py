"""Checks of a month before it is loaded (raw, flat) and of the table afterwards, with messages and remedies."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Literal

from era5_pipeline.model.completeness import ALLOW_INCOMPLETE, why_incomplete
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.times import describe_hours, hour_of
from era5_pipeline.model.variables import BY_COLUMN, in_table_order
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from decimal import Decimal

    from era5_pipeline.flat.flat_month import ColumnFacts, FlatMonth
    from era5_pipeline.flat.inventory import Inventory
    from era5_pipeline.sources.source import RawMonth

    Number = int | float | Decimal | None

DifferenceKind = Literal["rows", "sum of location_id", "values", "minimum", "maximum", "checksum", "summaries"]


@dataclass(frozen=True)
class Difference:
    """A measure that differs between table and file; `column` is None for measures of whole rows."""

    kind: DifferenceKind
    column: str | None
    table: Number
    file: Number

    def __str__(self) -> str:
        """Name the measure and both numbers."""
        measure = self.kind if self.column is None else f"{self.kind} of {self.column}"
        return f"{measure}: {self.table} in the table, {self.file} in the file"


CheckName = Literal[
    "grid_aligned",
    "variables_present",
    "hours_complete",
    "values_within_bounds",
    "no_missing_values",
    "rows_equal",
    "columns_equal",
]
RAW_CHECKS: tuple[CheckName, ...] = ("grid_aligned", "variables_present", "hours_complete")
FLAT_CHECKS: tuple[CheckName, ...] = ("values_within_bounds", "no_missing_values")
TABLE_CHECKS: tuple[CheckName, ...] = ("rows_equal", "columns_equal")

CHECK_DESCRIPTIONS: dict[CheckName, str] = {
    "grid_aligned": f"All coordinates are on {ERA5_GRID}, or were taken to it as asked (--off-grid).",
    "variables_present": "Every requested variable is present, at every location.",
    "hours_complete": "Every variable has all hours of the month (1940-01: accumulations from 07:00).",
    "values_within_bounds": "All values are physically possible.",
    "no_missing_values": "No value is missing at the locations and hours that the files cover.",
    "rows_equal": "The table holds as many rows of the month as the flat file, for the same locations.",
    "columns_equal": "Count, range and checksum of every column are the same in table and flat file.",
}


@dataclass(frozen=True)
class CheckResult:
    """The result of one check; for a failed one, `remedy` says what to do."""

    name: CheckName
    passed: bool
    description: str
    remedy: str = ""


def raw_outcomes(raw: RawMonth, inventory: Inventory, *, allow_incomplete: bool) -> tuple[CheckResult, ...]:
    """Run `RAW_CHECKS` on the inventory of the month's files."""
    held = {column: inventory.column_hours(column) for column in inventory.columns}
    short = why_incomplete(inventory.month, held, raw.dataset.catalogue, is_series=inventory.is_series)
    return (
        _grid_aligned(inventory),
        _variables_present(raw, inventory, allow_incomplete=allow_incomplete),
        CheckResult("hours_complete", allow_incomplete, *short)
        if short
        else CheckResult("hours_complete", passed=True, description=f"all {inventory.month.hours} hours"),
    )


def is_complete(inventory: Inventory) -> bool:
    """Return True if every variable in the files has all hours of the month available in ERA5."""
    return not any(inventory.missing_hours(variable).size for variable in in_table_order(inventory.columns))


def _grid_aligned(inventory: Inventory) -> CheckResult:
    off = [problem for problem in inventory.problems if problem.kind == "grid"]
    if off:
        return CheckResult(
            "grid_aligned", passed=False, description=f"{inventory.month}: {off[0]}", remedy=off[0].remedy
        )
    points = inventory.locations
    where = "on the grid" if inventory.shift is None else f"nearest to values {inventory.shift.text}"
    return CheckResult("grid_aligned", passed=True, description=f"{counted(points, 'location')} {where}")


def _variables_present(raw: RawMonth, inventory: Inventory, *, allow_incomplete: bool) -> CheckResult:
    held = inventory.columns
    lacking = [] if raw.is_open else [column for column in raw.variables or () if column not in held]
    if lacking:
        text = f"{inventory.month}: its files lack {', '.join(lacking)} (they hold {', '.join(held) or 'nothing'})"
        remedy = (
            "Add the files that hold them, or leave them out of --variables (their columns are then NULL); a list with "
            "default in it takes what each month has, without --strict-variables."
        )
        return CheckResult("variables_present", passed=False, description=text, remedy=remedy)
    points = inventory.locations
    partial = {column: inventory.column_locations(column) for column in held}
    short = [f"{column} has {count} of {points} locations" for column, count in partial.items() if count < points]
    if short:
        text = f"{inventory.month}: {'; '.join(short)}"
        remedy = (
            "Add the missing files, choose --area or --variables that all of it covers, or load areas with different "
            f"variables one after another; or {ALLOW_INCOMPLETE}"
        )
        return CheckResult("variables_present", passed=allow_incomplete, description=text, remedy=remedy)
    null = [column for column in raw.dataset.catalogue.default_columns if column not in held]
    places = "the location" if points == 1 else f"all {points:,} locations"
    text = f"{', '.join(held)} at {places}" + (f"; NULL: {', '.join(null)}" if null else "")
    return CheckResult("variables_present", passed=True, description=text)


def flat_outcomes(flat: FlatMonth, *, allow_incomplete: bool) -> tuple[CheckResult, ...]:
    """Run `FLAT_CHECKS` on the facts of the flat month."""
    return _within_bounds(flat), _no_missing(flat, allow_incomplete=allow_incomplete)


def _within_bounds(flat: FlatMonth) -> CheckResult:
    outside = [
        f"{facts.column} has {facts.out_of_bounds} values outside {BY_COLUMN[facts.column].minimum:g} to "
        f"{BY_COLUMN[facts.column].maximum:g} {BY_COLUMN[facts.column].unit}, first at {facts.first_out_of_bounds}"
        for facts in flat.columns
        if facts.out_of_bounds
    ]
    if outside:
        remedy = "The file is damaged, or not in the units that it states: download it again."
        return CheckResult(
            "values_within_bounds",
            passed=False,
            description=f"{flat.month}: {'; '.join(outside)}",
            remedy=remedy,
        )
    ranges = (f"{f.column} {f.minimum:g} to {f.maximum:g}" for f in flat.columns if f.minimum is not None)
    return CheckResult("values_within_bounds", passed=True, description=", ".join(ranges))


def _no_missing(flat: FlatMonth, *, allow_incomplete: bool) -> CheckResult:
    holes = [
        f"{facts.column}: {facts.missing} values are missing, first at {facts.first_missing}"
        for facts in flat.columns
        if facts.missing
    ]
    if not holes:
        return CheckResult("no_missing_values", passed=True, description=f"{flat.rows} rows without a missing value")
    remedy = (
        f"Download the month again (a service may list hours before their values are available), {ALLOW_INCOMPLETE}"
    )
    if all(_lacks_first_amounts(flat, facts) for facts in flat.columns if facts.missing):
        before = flat.month.start - timedelta(hours=1)
        remedy = (
            f"Add the file with {before:%Y-%m-%dT%H}:00Z, the hour before the month: files have sums since 00 UTC, so "
            f"the amounts of the month's first hour are what is added to that; {ALLOW_INCOMPLETE}"
        )
    return CheckResult(
        "no_missing_values",
        passed=allow_incomplete,
        description=f"{flat.month}: {'; '.join(holes)}",
        remedy=remedy,
    )


def _lacks_first_amounts(flat: FlatMonth, facts: ColumnFacts) -> bool:
    """Return True if only the month's first amounts are missing, for want of the sums since 00 UTC before them."""
    first = describe_hours([hour_of(flat.month.start)])
    return (
        flat.raw.dataset.is_summed(facts.column)
        and facts.missing == len(flat.location_ids)
        and facts.missing_hours == first
    )


def table_outcomes(
    flat: FlatMonth, differences: tuple[Difference, ...], *, within_quantum: bool = False
) -> tuple[CheckResult, ...]:
    """Run `TABLE_CHECKS` on the differences found by `warehouse.verify`.

    `within_quantum`: the load has compared all values, and they are those of the file within each variable's quantum.
    """
    equal = "within the quantum of each variable" if within_quantum else "in count, range and checksum"
    in_rows = [str(difference) for difference in differences if difference.column is None]
    in_columns = [str(difference) for difference in differences if difference.column is not None]
    remedy = "The table was changed outside the pipeline: run the month again with --force."
    return (
        CheckResult(
            "rows_equal",
            passed=not in_rows,
            description=f"{flat.month}: {'; '.join(in_rows)}" if in_rows else f"{flat.rows} rows in table and file",
            remedy=remedy,
        ),
        CheckResult(
            "columns_equal",
            passed=not in_columns,
            description=f"{flat.month}: {'; '.join(in_columns)}"
            if in_columns
            else f"{counted(len(flat.columns), 'column')} equal {equal}",
            remedy=remedy,
        ),
    )
