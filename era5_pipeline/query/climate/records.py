"""Records: the extremes of hours, days, months and years, with when they were."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from era5_pipeline.query.climate.climate_answer import Record

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from era5_pipeline.query.climate.daily_values import DayHours
    from era5_pipeline.query.climate.quantities import Element


def records_of(days: DayHours, daily: pd.DataFrame, monthly: pd.DataFrame, yearly: pd.DataFrame) -> tuple[Record, ...]:
    """The records of these days, and of the complete months and years of the tables made of them."""
    return tuple(_records(days, daily, monthly, yearly))


def _records(days: DayHours, daily: pd.DataFrame, monthly: pd.DataFrame, yearly: pd.DataFrame) -> Iterator[Record]:
    if "temperature" in days.values:
        yield _hour("hottest_hour", "hottest hour", days, "temperature", 1, highest=True)
        yield _hour("coldest_hour", "coldest hour", days, "temperature", 1, highest=False)
        yield from _row("hottest_day", "hottest day (mean)", daily["mean_temperature"], "degC", 1, highest=True)
        yield from _row("coldest_day", "coldest day (mean)", daily["mean_temperature"], "degC", 1, highest=False)
        yield from _row("warmest_night", "warmest night (minimum)", daily["min_temperature"], "degC", 1, highest=True)
        months = monthly["mean_temperature"][monthly["temperature_complete"]]
        yield from _row("warmest_month", "warmest month", months, "degC", 2, highest=True)
        yield from _row("coldest_month", "coldest month", months, "degC", 2, highest=False)
        years = yearly["mean_temperature"][yearly["temperature_complete"]]
        yield from _row("warmest_year", "warmest year", years, "degC", 2, highest=True)
        yield from _row("coldest_year", "coldest year", years, "degC", 2, highest=False)
    if "precipitation" in days.values:
        yield _hour("wettest_hour", "wettest hour (ends at)", days, "precipitation", 1, highest=True)
        yield from _row("wettest_day", "wettest day", daily["precipitation"], "mm", 1, highest=True)
        months = monthly["precipitation"][monthly["precipitation_complete"]]
        yield from _row("wettest_month", "wettest month", months, "mm", 0, highest=True)
        years = yearly["precipitation"][yearly["precipitation_complete"]]
        yield from _row("wettest_year", "wettest year", years, "mm", 0, highest=True)
        yield from _row("driest_year", "driest year", years, "mm", 0, highest=False)
    if "wind" in days.values:
        yield _hour("windiest_hour", "strongest wind (hour)", days, "wind", 1, highest=True)


_UNITS: dict[Element, str] = {"temperature": "degC", "precipitation": "mm", "wind": "m/s"}


def _hour(name: str, what: str, days: DayHours, element: Element, decimals: int, *, highest: bool) -> Record:
    of_hours = days.values[element].reshape(-1)
    position, value, others = _extreme(of_hours, highest=highest)
    # A total is named by the time at which its hour ends, as in the table.
    ends_after = 1 if element == "precipitation" else 0
    time = days.dates[0] + pd.Timedelta(hours=position + ends_after, minutes=days.offset_minutes % 60)
    return Record(name, what, value, _UNITS[element], decimals, f"{time:%Y-%m-%d %H:%M}", others)


def _row(name: str, what: str, values: pd.Series, unit: str, decimals: int, *, highest: bool) -> Iterator[Record]:
    """The extreme of a column, if it has any value."""
    numbers = values.to_numpy(dtype=np.float64)
    if not np.isfinite(numbers).any():
        return
    position, value, others = _extreme(numbers, highest=highest)
    key = values.index[position]
    if isinstance(key, pd.Timestamp):
        when = f"{key:%Y-%m}" if values.index.name == "month" else f"{key:%Y-%m-%d}"
    else:
        when = str(key)
    yield Record(name, what, value, unit, decimals, when, others)


def _extreme(values: npt.NDArray[np.float64], *, highest: bool) -> tuple[int, float, int]:
    """Position and value of the first extreme of values (n,), and how many others equal it."""
    position = int(np.nanargmax(values) if highest else np.nanargmin(values))
    value = float(values[position])
    return position, value, int((values == value).sum()) - 1
