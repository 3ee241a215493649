"""The columns of monthly summaries: of each variable its mean, range and hours, of totals their sums, and the wind.

The file of a month's summaries, the table `era5.monthly_summary` and the view `weather_monthly` have these names.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from era5_pipeline.model.variables import in_table_order

if TYPE_CHECKING:
    from collections.abc import Iterable

    from era5_pipeline.model.variables import Variable

Statistic = Literal["mean", "min", "max", "hours", "sum", "sum_hours", "first"]
_OF_ALL: tuple[Statistic, ...] = ("mean", "min", "max", "hours")
_OF_TOTALS: tuple[Statistic, ...] = ("sum", "sum_hours", "first")

# Eastward and northward wind, of which there is a mean speed.
WIND = ("zonal_wind_10m", "meridional_wind_10m")
WIND_SPEED = "wind_speed_10m_mean"


@dataclass(frozen=True)
class SummaryColumn:
    """A column of monthly summaries: a statistic of a variable."""

    variable: Variable
    statistic: Statistic

    @property
    def name(self) -> str:
        """Its name, such as `temperature_2m_mean`."""
        return f"{self.variable.column}_{self.statistic}"


def is_total(variable: Variable) -> bool:
    """Whether the values of the variable can be added up: they are totals of the hour that ends at the time."""
    return variable.step_type == "accum"


def summary_columns(columns: Iterable[str]) -> tuple[SummaryColumn, ...]:
    """The columns for these variables, in table order; without that of the wind speed."""
    return tuple(
        SummaryColumn(variable, statistic)
        for variable in in_table_order(columns)
        for statistic in (*_OF_ALL, *(_OF_TOTALS if is_total(variable) else ()))
    )


def has_wind(columns: Iterable[str]) -> bool:
    """Whether both components of the wind are among these columns of variables."""
    return set(WIND) <= set(columns)
