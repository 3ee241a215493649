"""Variables computed from columns at query time: wind speed and direction.

They are not stored, and no file contains them. Each has a single definition, an SQL formula, used by series, maps,
exports and Python alike.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

from era5_pipeline.model.variables import BY_COLUMN, ERA5_CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from era5_pipeline.model.variables import Catalogue, Variable

# {u} and {v} are the eastward and northward components, real, in m/s. Squares are summed in double precision.
_SPEED = "sqrt({u}::double precision ^ 2 + {v}::double precision ^ 2)::real"
# The direction the wind comes from: east is 90, north 360. Calm air has no direction. Adding zero turns -0.0 into 0.0;
# for -0.0 atan2 would give 0 instead of 360.
_DIRECTION = (
    "CASE WHEN {u} <> 0 OR {v} <> 0 "
    "THEN (180 + degrees(atan2({u}::double precision + 0, {v}::double precision)))::real END"
)


@dataclass(frozen=True)
class Derived:
    """A variable, the eastward and northward wind columns it is computed from, and its SQL formula."""

    variable: Variable
    parts: tuple[str, str]
    formula: str


def _wind_at_height(metres: int) -> tuple[Derived, Derived]:
    parts = (f"zonal_wind_{metres}m", f"meridional_wind_{metres}m")
    speed = replace(
        BY_COLUMN[parts[0]],
        column=f"wind_speed_{metres}m",
        cds_name=f"wind_speed_{metres}m",
        short_name=f"si{metres}",
        long_name=f"{metres} metre wind speed",
        minimum=0.0,
        description=f"Wind speed at {metres} m above the surface, computed from its components",
        other_names=(),
        ncar_name=None,
    )
    direction = replace(
        speed,
        column=f"wind_direction_{metres}m",
        cds_name=f"wind_direction_{metres}m",
        short_name=f"wdir{metres}",
        long_name=f"{metres} metre wind direction",
        unit="degrees",
        maximum=360.0,
        description=f"Direction that the wind at {metres} m above the surface comes from, clockwise from north: "
        "east is 90, north 360; calm air has none",
        extent="sometimes",
    )
    return Derived(speed, parts, _SPEED), Derived(direction, parts, _DIRECTION)


DERIVED = {one.variable.column: one for metres in (10, 100) for one in _wind_at_height(metres)}


def is_direction(variable: Variable) -> bool:
    """Return True if values are angles, which have no mean, minimum or maximum."""
    return variable.unit == "degrees" and variable.column in DERIVED


@cache
def derived_of(catalogue: Catalogue) -> Mapping[str, Variable]:
    """The derived variables of a catalogue that has their columns, by column."""
    known = catalogue.by_column
    return {
        column: replace(one.variable, first_valid=known[one.parts[0]].first_valid)
        for column, one in DERIVED.items()
        if holds(known, one.variable)
    }


def find_column(name: str, catalogue: Catalogue = ERA5_CATALOGUE) -> Variable:
    """Find a readable variable: a catalogue entry by any of its names, or a derived variable by its column."""
    return derived_of(catalogue).get(name.strip().casefold()) or catalogue.find(name)


def find_columns(names: str, catalogue: Catalogue = ERA5_CATALOGUE) -> tuple[Variable, ...]:
    """Parse a comma-separated list of variables, as `Catalogue.find_all` does, but accept derived ones too."""
    asked, known = [name.strip() for name in names.split(",")], derived_of(catalogue)
    derived = [name.casefold() for name in asked if name.casefold() in known]
    others = catalogue.find_all(",".join(name for name in asked if name.casefold() not in known))
    return ordered([*(variable.column for variable in others), *derived], catalogue)


def ordered(columns: Iterable[str], catalogue: Catalogue = ERA5_CATALOGUE) -> tuple[Variable, ...]:
    """The variables of these columns in catalogue order; derived ones last."""
    wanted = set(columns)
    known = (*catalogue.variables, *derived_of(catalogue).values())
    return tuple(variable for variable in known if variable.column in wanted)


def stored_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The stored columns needed to read these columns, without duplicates."""
    parts = (DERIVED[column].parts if column in DERIVED else (column,) for column in columns)
    return tuple(dict.fromkeys(column for some in parts for column in some))


def holds(columns: Collection[str], variable: Variable) -> bool:
    """Return True if the table stores a variable, or the columns to compute it from."""
    return all(column in columns for column in stored_columns([variable.column]))
