"""The table of variables: requests, DDL, column schema, bounds of the checks, plots and docs all come from it.

Here: names, units, conversion and bounds of each variable, in files and in the table. A new variable needs an entry
here, and a row in the README.

Source: ECMWF parameter database (paramId) and the ERA5 documentation. Bounds include every value of ERA5
(2 m temperature from about -90 to +58 degC), and half a step of 16-bit packing below zero.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Literal

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterable

StepType = Literal["instant", "accum"]


@dataclass(frozen=True)
class Variable:
    """One variable. `stored = in_file * scale + offset`, computed in float64 and stored as float32."""

    column: str
    cds_name: str
    short_name: str
    param_id: int
    file_units: tuple[str, ...]
    step_type: StepType
    unit: str
    scale: float
    offset: float
    minimum: float
    maximum: float
    description: str
    # The first valid time. Accumulations begin with the first forecast of 1940-01-01, whose first step ends at 07:00.
    first_valid: datetime = datetime(1940, 1, 1, tzinfo=UTC)
    # The name in monthly files of NSF NCAR's archive (dataset d633000), which lacks hourly accumulations.
    ncar_name: str | None = None

    @property
    def checksum_scale(self) -> float:
        """The factor of values before they are rounded down and summed (see `flat_month.checksum_of`), a power of two.

        As large as keeps products within 2**29, of which 2**24 can be summed exactly in float64: below the spacing of
        float32 at the bounds. For bounds of 1 to 512 it is 2**20, as in months that are loaded.
        """
        greatest = max(abs(self.minimum), abs(self.maximum))
        return 2.0**20 if 1 <= greatest <= 512 else 2.0 ** (29 - math.ceil(math.log2(greatest)))


_FIRST_ACCUMULATION = datetime(1940, 1, 1, 7, tzinfo=UTC)

VARIABLES: tuple[Variable, ...] = (
    Variable(
        column="temperature_2m",
        cds_name="2m_temperature",
        short_name="t2m",
        ncar_name="VAR_2T",
        param_id=167,
        file_units=("K",),
        step_type="instant",
        unit="degC",
        scale=1.0,
        offset=-273.15,
        minimum=-100.0,
        maximum=65.0,
        description="Air temperature 2 m above the surface",
    ),
    Variable(
        column="zonal_wind_10m",
        cds_name="10m_u_component_of_wind",
        short_name="u10",
        ncar_name="VAR_10U",
        param_id=165,
        file_units=("m s**-1", "m s-1", "m/s"),
        step_type="instant",
        unit="m/s",
        scale=1.0,
        offset=0.0,
        minimum=-100.0,
        maximum=100.0,
        description="Eastward wind 10 m above the surface",
    ),
    Variable(
        column="meridional_wind_10m",
        cds_name="10m_v_component_of_wind",
        short_name="v10",
        ncar_name="VAR_10V",
        param_id=166,
        file_units=("m s**-1", "m s-1", "m/s"),
        step_type="instant",
        unit="m/s",
        scale=1.0,
        offset=0.0,
        minimum=-100.0,
        maximum=100.0,
        description="Northward wind 10 m above the surface",
    ),
    Variable(
        column="total_cloud_cover",
        cds_name="total_cloud_cover",
        short_name="tcc",
        ncar_name="TCC",
        param_id=164,
        file_units=("(0 - 1)", "1"),
        step_type="instant",
        unit="fraction",
        scale=1.0,
        offset=0.0,
        minimum=-0.001,
        maximum=1.001,
        description="Part of the grid box covered by cloud, 0 to 1",
    ),
    Variable(
        column="total_precipitation",
        cds_name="total_precipitation",
        short_name="tp",
        param_id=228,
        file_units=("m",),
        step_type="accum",
        unit="mm",
        scale=1000.0,
        offset=0.0,
        minimum=-0.01,
        maximum=500.0,
        description="Rain and snow, water equivalent, accumulated over the hour that ends at the time",
        first_valid=_FIRST_ACCUMULATION,
    ),
    Variable(
        column="snowfall",
        cds_name="snowfall",
        short_name="sf",
        param_id=144,
        file_units=("m of water equivalent",),
        step_type="accum",
        unit="mm",
        scale=1000.0,
        offset=0.0,
        minimum=-0.01,
        maximum=500.0,
        description="Snow, water equivalent, accumulated over the hour that ends at the time",
        first_valid=_FIRST_ACCUMULATION,
    ),
)

BY_COLUMN = {variable.column: variable for variable in VARIABLES}
BY_SHORT_NAME = {variable.short_name: variable for variable in VARIABLES}
BY_NAME_IN_FILE = BY_SHORT_NAME | {v.ncar_name: v for v in VARIABLES if v.ncar_name is not None}
_BY_ANY_NAME = BY_COLUMN | BY_SHORT_NAME | {variable.cds_name: variable for variable in VARIABLES}


def find_variable(name: str) -> Variable:
    """Find a variable by its column, its short name in files, or its CDS name.

    Raises:
        UsageError: if there is none; the remedy lists all columns.
    """
    try:
        return _BY_ANY_NAME[name.strip()]
    except KeyError:
        raise UsageError(
            f"{name!r} is not a variable of the table",
            remedy=f"Choose from {', '.join(f'{v.column} ({v.short_name})' for v in VARIABLES)}.",
        ) from None


def in_table_order(columns: Iterable[str]) -> tuple[Variable, ...]:
    """The variables of these columns, in the order of the table."""
    wanted = set(columns)
    return tuple(variable for variable in VARIABLES if variable.column in wanted)
