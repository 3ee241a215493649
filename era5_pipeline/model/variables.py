"""Variables by name: those of the catalogue, the default ones, and the order of columns.

Here: finding entries, and why others cannot be loaded. Not here: the entries, from which requests, DDL, checks, plots
and docs come (`variable_catalogue`), or their form (`variable_type`).
"""

from __future__ import annotations

import csv
import difflib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.variable_catalogue import VARIABLES
from era5_pipeline.model.variable_type import STEP_TYPES, StepType, Variable

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = [
    "ALL_NAME",
    "BY_COLUMN",
    "BY_LONG_NAME",
    "BY_NAME_IN_FILE",
    "BY_PARAM_ID",
    "BY_SHORT_NAME",
    "DEFAULT_COLUMNS",
    "DEFAULT_NAME",
    "DEFAULT_VARIABLES",
    "STEP_TYPES",
    "VARIABLES",
    "StepType",
    "Variable",
    "VariableChoice",
    "choose_variables",
    "find_variable",
    "find_variables",
    "in_table_order",
    "named_columns",
    "variable_names",
    "why_unsupported",
]

# The variables of the study, in every table; they are loaded if none are named.
DEFAULT_VARIABLES = VARIABLES[:6]
DEFAULT_COLUMNS = tuple(variable.column for variable in DEFAULT_VARIABLES)
# Stands for all of them in a list of variables: `default,d2m`.
DEFAULT_NAME = "default"
# Stands for everything of the catalogue that the user's files hold.
ALL_NAME = "all"

BY_COLUMN = {variable.column: variable for variable in VARIABLES}
BY_SHORT_NAME = {variable.short_name: variable for variable in VARIABLES}
BY_LONG_NAME = {variable.long_name.casefold(): variable for variable in VARIABLES}
BY_PARAM_ID = {variable.param_id: variable for variable in VARIABLES}
BY_NAME_IN_FILE = {name: variable for variable in VARIABLES for name in variable.names_in_files}
_BY_ANY_NAME = (
    {name.casefold(): variable for name, variable in BY_NAME_IN_FILE.items()}
    | {variable.cds_name: variable for variable in VARIABLES}
    | BY_COLUMN
)
_SHOWN_NAMES = 5
_SHOWN_COLUMNS = 6

# Why the table cannot hold other variables of ERA5; `unsupported_variables.csv` has their names. Sources: the pages of
# reanalysis-era5-single-levels (ocean waves are on a grid of 0.5 degrees) and reanalysis-era5-pressure-levels.
_REASONS = {
    "waves": "is of ocean waves, which ERA5 has on another grid, of 0.5 degrees: the table holds the grid of 0.25 "
    "degrees of all other single-level variables",
    "pressure_levels": "is at pressure levels (dataset reanalysis-era5-pressure-levels): the table holds single "
    "levels, one value for each place and hour",
}


def find_variable(name: str) -> Variable:
    """Find a variable by its column, its CDS name, or any name that files give it.

    Raises:
        UsageError: if the catalogue has none; the remedy lists the nearest names.
    """
    wanted = name.strip().casefold()
    try:
        return _BY_ANY_NAME[wanted]
    except KeyError:
        pass
    if (why := why_unsupported(wanted)) is not None:
        meant = _meant(_named(variable) for variable in _with_words(_written(wanted)))
        raise UsageError(f"{name!r} {why}", remedy=f"{meant}era5 variables lists those that can be loaded.")
    meant = _meant(_nearest(wanted))
    raise UsageError(
        f"{name!r} is not in the catalogue of variables",
        remedy=f"{meant}era5 variables lists all {len(VARIABLES)}; CONTRIBUTING.md says how to add one.",
    ) from None


def find_variables(names: str) -> tuple[Variable, ...]:
    """The variables of a list with commas between their names, in table order; `default` stands for the default ones.

    Raises:
        UsageError: if one is unknown.
    """
    columns: list[str] = []
    for name in (part.strip() for part in names.split(",")):
        if name == DEFAULT_NAME:
            columns += DEFAULT_COLUMNS
        elif name:
            columns.append(find_variable(name).column)
    return in_table_order(columns)


@dataclass(frozen=True)
class VariableChoice:
    """A list of variables that was asked for, and how strictly (the table in docs/variables.md).

    `named` are the columns named by themselves, not by `default` or `all`. `is_open`: a month gets those of the list
    that its files have; otherwise it must have all of them.
    """

    variables: tuple[Variable, ...]
    named: frozenset[str] = frozenset()
    is_open: bool = False


def choose_variables(names: str | None, *, strict: bool = False) -> VariableChoice | None:
    """Read a list of variables, None: there is none; return None if nothing in particular is asked for.

    With `strict`, no list is open; without a list, the default variables are then asked for.

    Raises:
        UsageError: if one is unknown.
    """
    parts = [part for part in map(str.strip, (names or "").split(",")) if part]
    if not parts:
        return VariableChoice(DEFAULT_VARIABLES) if strict else None
    sets = {DEFAULT_NAME, ALL_NAME} & set(parts)
    listed = find_variables(",".join(part for part in parts if part not in sets))
    variables = listed
    if sets:
        columns = BY_COLUMN if ALL_NAME in sets else DEFAULT_COLUMNS
        variables = in_table_order([*columns, *(variable.column for variable in listed)])
    return VariableChoice(variables, frozenset(v.column for v in listed), is_open=bool(sets) and not strict)


def in_table_order(columns: Iterable[str]) -> tuple[Variable, ...]:
    """The variables of these columns, in the order of the catalogue."""
    wanted = set(columns)
    return tuple(variable for variable in VARIABLES if variable.column in wanted)


def named_columns(columns: Iterable[str]) -> str:
    """Name columns in a few words; if all default ones are among them, as a list of variables: `default, d2m`."""
    names = list(columns)
    if set(DEFAULT_COLUMNS) <= set(names):
        others = (column for column in names if column not in DEFAULT_COLUMNS)
        names = [DEFAULT_NAME, *(BY_COLUMN[one].short_name if one in BY_COLUMN else one for one in others)]
    more = [f"{len(names) - _SHOWN_COLUMNS} more"] if len(names) > _SHOWN_COLUMNS + 1 else []
    return ", ".join([*(names[:_SHOWN_COLUMNS] if more else names), *more])


def variable_names(columns: Iterable[str]) -> str:
    """The list of variables that stands for these columns, as `find_variables` reads it: `default,d2m`."""
    wanted = in_table_order(columns)
    has_default = set(DEFAULT_VARIABLES) <= set(wanted)
    others = (variable.short_name for variable in wanted if not (has_default and variable in DEFAULT_VARIABLES))
    return ",".join([*([DEFAULT_NAME] if has_default else []), *others])


def _nearest(wanted: str) -> list[str]:
    """Variables with a name like `wanted`, or with its words in name or description: `dewpoint_2m (d2m)`."""
    written = _written(wanted)
    close = difflib.get_close_matches(written, _BY_ANY_NAME, n=3 * _SHOWN_NAMES, cutoff=0.6)
    found = dict.fromkeys((*(_BY_ANY_NAME[name] for name in close), *_with_words(written)))
    return [_named(variable) for variable in found]


def _with_words(written: str) -> list[Variable]:
    """Variables with all of these words in name or description."""
    words = [word for word in written.split("_") if len(word) > 2]
    described = {variable: f"{' '.join(_names(variable))} {variable.description}".casefold() for variable in VARIABLES}
    return [variable for variable, text in described.items() if words and all(word in text for word in words)]


def _named(variable: Variable) -> str:
    return f"{variable.column} ({variable.short_name})"


def _meant(names: Iterable[str]) -> str:
    """Offer the first of these names, `Did you mean snowfall (sf)? `; nothing if there are none."""
    shown = list(names)[:_SHOWN_NAMES]
    return f"Did you mean {' or '.join(shown)}? " if shown else ""


def _names(variable: Variable) -> tuple[str, ...]:
    return (variable.column, variable.cds_name, variable.long_name, *variable.names_in_files)


def why_unsupported(name: str) -> str | None:
    """Say why the table cannot hold the variable of this name; None if it is no other variable of ERA5."""
    kind = _unsupported_kinds().get(_written(name))
    return None if kind is None else _REASONS[kind]


@cache
def _unsupported_kinds() -> dict[str, str]:
    with Path(__file__).with_name("unsupported_variables.csv").open(encoding="utf-8", newline="") as lines:
        return {line[name]: line["kind"] for line in csv.DictReader(lines) for name in ("cds_name", "short_name")}


def _written(name: str) -> str:
    return name.strip().casefold().replace(" ", "_").replace("-", "_")
