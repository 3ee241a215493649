"""The yearly quantities of a climate answer: name, label, unit, what they are computed from, and how they are written.

Here: what each is. Not here: how it is computed (`indices`, `yearly_values`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Iterable

# What is measured: completeness is counted for each of these alone.
Element = Literal["temperature", "precipitation", "wind"]
ELEMENTS: tuple[Element, ...] = ("temperature", "precipitation", "wind")


@dataclass(frozen=True)
class YearlyQuantity:
    """One number a year: the column `name` of the yearly table, in `unit`, written with `decimals`.

    `definition` says what it is, as the end of a sentence. `has_trend` is False for extremes of single hours.
    """

    name: str
    label: str
    unit: str
    element: Element
    decimals: int
    definition: str
    has_trend: bool = True

    def rounded(self, value: float) -> str:
        """Write a value of it, without its unit; `-` for NaN."""
        return "-" if value != value else f"{value:,.{self.decimals}f}"  # noqa: PLR0124  # only NaN differs from itself


_T: Element = "temperature"
_P: Element = "precipitation"
QUANTITIES = (
    YearlyQuantity("mean_temperature", "mean temperature", "degC", _T, 2, "mean of the year's hours"),
    YearlyQuantity(
        "temperature_anomaly",
        "temperature anomaly",
        "degC",
        _T,
        2,
        "mean temperature less its mean over the baseline years",
        has_trend=False,
    ),
    YearlyQuantity("max_temperature", "highest hour", "degC", _T, 1, "highest hourly value", has_trend=False),
    YearlyQuantity("min_temperature", "lowest hour", "degC", _T, 1, "lowest hourly value", has_trend=False),
    YearlyQuantity("summer_days", "summer days", "days", _T, 0, "days whose highest hour is above 25 degC"),
    YearlyQuantity("hot_days", "hot days", "days", _T, 0, "days whose highest hour is above 30 degC"),
    YearlyQuantity("very_hot_days", "very hot days", "days", _T, 0, "days whose highest hour is above 35 degC"),
    YearlyQuantity("tropical_nights", "tropical nights", "days", _T, 0, "days whose lowest hour is above 20 degC"),
    YearlyQuantity("frost_days", "frost days", "days", _T, 0, "days whose lowest hour is below 0 degC"),
    YearlyQuantity("precipitation", "precipitation", "mm", _P, 0, "sum of the year's hours"),
    YearlyQuantity("wet_days", "wet days", "days", _P, 0, "days with at least 1 mm"),
    YearlyQuantity("heaviest_day", "heaviest day", "mm", _P, 1, "largest total of a day"),
    YearlyQuantity("longest_dry_spell", "longest dry spell", "days", _P, 0, "most days in a row with less than 1 mm"),
    YearlyQuantity("longest_wet_spell", "longest wet spell", "days", _P, 0, "most days in a row with at least 1 mm"),
    YearlyQuantity("mean_wind_speed", "mean wind speed", "m/s", "wind", 2, "mean of the year's hourly speeds at 10 m"),
)
BY_QUANTITY = {quantity.name: quantity for quantity in QUANTITIES}


def quantities_of(elements: Iterable[Element]) -> tuple[YearlyQuantity, ...]:
    """The quantities of these elements, in the order of the table."""
    wanted = set(elements)
    return tuple(quantity for quantity in QUANTITIES if quantity.element in wanted)
