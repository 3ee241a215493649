"""Variables that are computed from columns of the table when they are asked for: speed and direction of the wind.

They are not stored, and no file is read for them. Each has one definition, a formula in SQL, which series, maps,
exports and Python read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from era5_pipeline.model.variables import BY_COLUMN, VARIABLES, find_variable, find_variables

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from era5_pipeline.model.variables import Variable

# {u} and {v} are the components eastward and northward, real, in m/s. Squares are added up in double precision.
_SPEED = "sqrt({u}::double precision ^ 2 + {v}::double precision ^ 2)::real"
# Where the wind comes from: east is 90, north 360. Calm air has no direction. Adding zero makes -0.0 positive, for
# which atan2 would give 0 instead of 360.
_DIRECTION = (
    "CASE WHEN {u} <> 0 OR {v} <> 0 "
    "THEN (180 + degrees(atan2({u}::double precision + 0, {v}::double precision)))::real END"
)


@dataclass(frozen=True)
class Derived:
    """A variable with the columns that it is computed from, eastward and northward wind, and its formula in SQL."""

    variable: Variable
    parts: tuple[str, str]
    formula: str


def _of_height(metres: int) -> tuple[Derived, Derived]:
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


DERIVED = {one.variable.column: one for metres in (10, 100) for one in _of_height(metres)}


def is_direction(variable: Variable) -> bool:
    """Return whether values are angles, which have no mean, minimum or maximum."""
    return variable.unit == "degrees" and variable.column in DERIVED


def find_column(name: str) -> Variable:
    """Find a variable that can be read: of the catalogue by any of its names, or derived by its column.

    Raises:
        UsageError: if there is none.
    """
    derived = DERIVED.get(name.strip().casefold())
    return derived.variable if derived else find_variable(name)


def find_columns(names: str) -> tuple[Variable, ...]:
    """The variables of a list with commas between their names, as `find_variables` reads it, derived ones too.

    Raises:
        UsageError: if one is unknown.
    """
    asked = [name.strip() for name in names.split(",")]
    derived = [name.casefold() for name in asked if name.casefold() in DERIVED]
    others = find_variables(",".join(name for name in asked if name.casefold() not in DERIVED))
    return ordered([*(variable.column for variable in others), *derived])


def ordered(columns: Iterable[str]) -> tuple[Variable, ...]:
    """The variables of these columns, in the order of the catalogue; derived ones last."""
    wanted = set(columns)
    return tuple(
        variable for variable in (*VARIABLES, *(one.variable for one in DERIVED.values())) if variable.column in wanted
    )


def stored_columns(columns: Iterable[str]) -> tuple[str, ...]:
    """The columns of the table that these are or are computed from, each once."""
    parts = (DERIVED[column].parts if column in DERIVED else (column,) for column in columns)
    return tuple(dict.fromkeys(column for some in parts for column in some))


def holds(columns: Collection[str], variable: Variable) -> bool:
    """Return whether the table has a variable as a column, or the columns to compute it from."""
    return all(column in columns for column in stored_columns([variable.column]))
