"""An entry of the catalogue of variables: names, number, units in files and in the table, step type, bounds.

Here: the form of an entry, and the quantities that entries share. Not here: the entries (`variable_catalogue`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal, cast, get_args

# Accumulations (totals), means and extremes are of the hour that ends at the time.
StepType = Literal["instant", "accum", "avg", "max", "min"]
STEP_TYPES: tuple[StepType, ...] = get_args(StepType)

# Where ERA5 has values: at every grid point; at the same points at all hours, those of the sea; or where and when there
# is the thing itself (a cloud has a base), so that a missing value says something.
Extent = Literal["everywhere", "sea", "sometimes"]

# Forecasts begin with that of 1940-01-01 06:00, whose first step ends at 07:00. All accumulations, means and extremes
# are theirs, and some instant variables.
_FIRST_VALID = {"analysis": datetime(1940, 1, 1, tzinfo=UTC), "forecast": datetime(1940, 1, 1, 7, tzinfo=UTC)}


@dataclass(frozen=True)
class Quantity:
    """A kind of measure: its units as files write them, the table's unit, and `table = file * scale + offset`."""

    file_units: tuple[str, ...]
    unit: str
    scale: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True)
class Variable:
    """One variable. `stored = in_file * scale + offset`, computed in float64 and stored as float32.

    `minimum` and `maximum` are in the unit of the table. `other_names` are names in files that other services or
    earlier versions of the Climate Data Store gave it; `ncar_name` is that of monthly files of NSF NCAR's archive
    (dataset d633000), which lacks hourly accumulations. `first_valid` is the first valid time of ERA5.
    """

    column: str
    cds_name: str
    short_name: str
    param_id: int
    long_name: str
    file_units: tuple[str, ...]
    step_type: StepType
    unit: str
    scale: float
    offset: float
    minimum: float
    maximum: float
    description: str
    extent: Extent
    first_valid: datetime
    ncar_name: str | None = None
    other_names: tuple[str, ...] = ()

    @property
    def file_step_type(self) -> StepType:
        """The step type by which the Climate Data Store divides variables into files: minima are with the maxima.

        Both are extremes since the last hour, and ERA5's GRIB edition 1 does not tell them apart.
        """
        return "max" if self.step_type == "min" else self.step_type

    def rounded(self, value: float) -> str:
        """A value as text, rounded for reading; -0.00 becomes 0.00. Small amounts, such as rates, have three digits."""
        greatest = max(abs(self.minimum), abs(self.maximum))
        if greatest < 1:
            return f"{value:.3g}"
        digits = 3 if self.unit in ("mm", "m3/m3") else 0 if greatest >= 1e5 else 2
        return f"{round(float(value), digits) + 0.0:.{digits}f}"

    @property
    def names_in_files(self) -> tuple[str, ...]:
        """Every name that it may have in a file, the usual one first."""
        return (self.short_name, *(() if self.ncar_name is None else (self.ncar_name,)), *self.other_names)

    @property
    def checksum_scale(self) -> float:
        """The factor of values before they are rounded down and summed (see `flat_month.checksum_of`), a power of two.

        As large as keeps products within 2**29, of which 2**24 can be summed exactly in float64: below the spacing of
        float32 at the bounds. For bounds of 1 to 512 it is 2**20, as in months that are loaded.
        """
        greatest = max(abs(self.minimum), abs(self.maximum))
        return 2.0**20 if 1 <= greatest <= 512 else 2.0 ** (29 - math.ceil(math.log2(greatest)))


def entry(
    *,
    column: str,
    cds_name: str,
    short_name: str,
    other_names: tuple[str, ...],
    ncar_name: str | None,
    param_id: int,
    step_type: str,
    first_of: str,
    quantity: Quantity,
    bounds: tuple[float, float],
    extent: str,
    long_name: str,
    description: str,
) -> Variable:
    """Make an entry of the catalogue.

    Args:
        column: the column of the table.
        cds_name: the name in requests.
        short_name: the name in today's files of the Climate Data Store (ecCodes' cfVarName).
        other_names: other names that files give it.
        ncar_name: the name in files of NSF NCAR's archive.
        param_id: the number in ECMWF's parameter database.
        step_type: one of `STEP_TYPES`.
        first_of: `analysis`, from 1940-01-01 00:00, or `forecast`, from 07:00.
        quantity: the units, and the conversion.
        bounds: the least and the greatest possible value, in the unit of the table.
        extent: where ERA5 has values, one of `Extent`.
        long_name: ECMWF's name, as files have it.
        description: what a user reads in the table's comments.

    Raises:
        ValueError: if the step type, the extent or the kind of the first time is unknown.
    """
    for value, known in ((step_type, STEP_TYPES), (extent, get_args(Extent)), (first_of, _FIRST_VALID)):
        if value not in known:
            raise ValueError(f"{column}: {value!r} is none of {', '.join(known)}")
    return Variable(
        column=column,
        cds_name=cds_name,
        short_name=short_name,
        param_id=param_id,
        long_name=long_name,
        file_units=quantity.file_units,
        step_type=cast("StepType", step_type),
        unit=quantity.unit,
        scale=quantity.scale,
        offset=quantity.offset,
        minimum=bounds[0],
        maximum=bounds[1],
        description=description,
        extent=cast("Extent", extent),
        first_valid=_FIRST_VALID[first_of],
        ncar_name=ncar_name,
        other_names=other_names,
    )
