"""The answer of `era5 climate`: its quantities, the question, tables, trends, records, and the data behind them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Literal, Self

from era5_pipeline.model.cells import land_words
from era5_pipeline.model.dataset import ERA5, Dataset
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import offset_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import pandas as pd

    from era5_pipeline.model.grid import Area, Location
    from era5_pipeline.model.places import AskedPlace
    from era5_pipeline.model.source_kinds import Version

# --- The yearly quantities of a climate answer: name, label, unit, source, and how they are written ---


# The measured elements; completeness is counted for each separately.
Element = Literal["temperature", "precipitation", "wind"]
ELEMENTS: tuple[Element, ...] = ("temperature", "precipitation", "wind")


@dataclass(frozen=True)
class YearlyQuantity:
    """One number per year: the column `name` of the yearly table, in `unit`, written with `decimals`.

    `definition` explains it, as the end of a sentence. `has_trend` is False for extremes of single hours. An index
    (`is_index`) comes from the year's days, and is NaN if too many of these lack an hour; others come from its hours.
    """

    name: str
    label: str
    unit: str
    element: Element
    decimals: int
    definition: str
    has_trend: bool = True
    is_index: bool = False

    def rounded(self, value: float) -> str:
        """Write a value without its unit; `-` for NaN."""
        if value != value:  # noqa: PLR0124  # only NaN differs from itself
            return "-"
        return f"{as_shown(value, self.unit):z,.{self.decimals}f}"


def as_shown(value: float, unit: str) -> float:
    """A value of an answer as people are shown it: amounts in mm are of precipitation, and never below zero."""
    return max(value, 0.0) if unit == "mm" else value


_T: Element = "temperature"
_P: Element = "precipitation"
_index = partial(YearlyQuantity, is_index=True)
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
    _index("summer_days", "summer days", "days", _T, 0, "days whose highest hour is above 25 degC"),
    _index("hot_days", "hot days", "days", _T, 0, "days whose highest hour is above 30 degC"),
    _index("very_hot_days", "very hot days", "days", _T, 0, "days whose highest hour is above 35 degC"),
    _index("tropical_nights", "tropical nights", "days", _T, 0, "days whose lowest hour is above 20 degC"),
    _index("frost_days", "frost days", "days", _T, 0, "days whose lowest hour is below 0 degC"),
    YearlyQuantity("precipitation", "precipitation", "mm", _P, 0, "sum of the year's hours"),
    _index("wet_days", "wet days", "days", _P, 0, "days with at least 1 mm"),
    _index("heaviest_day", "heaviest day", "mm", _P, 1, "largest total of a day"),
    _index(
        "longest_dry_spell",
        "longest dry spell",
        "days",
        _P,
        0,
        "most days in a row with less than 1 mm, of the spells that end in the year",
    ),
    _index(
        "longest_wet_spell",
        "longest wet spell",
        "days",
        _P,
        0,
        "most days in a row with at least 1 mm, of the spells that end in the year",
    ),
    YearlyQuantity("mean_wind_speed", "mean wind speed", "m/s", "wind", 2, "mean of the year's hourly speeds at 10 m"),
)
BY_QUANTITY = {quantity.name: quantity for quantity in QUANTITIES}


def quantities_of(elements: Iterable[Element]) -> tuple[YearlyQuantity, ...]:
    """The quantities of these elements, in the order of the table."""
    wanted = set(elements)
    return tuple(quantity for quantity in QUANTITIES if quantity.element in wanted)


def complete_values(yearly: pd.DataFrame, quantity: YearlyQuantity) -> pd.Series:
    """The values of a quantity in the years that are complete for it, of a yearly table; NaN in the others."""
    values: pd.Series = yearly[quantity.name]
    return values if quantity.is_index else values.where(yearly[f"{quantity.element}_complete"].astype(bool))


# --- The answer of `era5 climate`: the question, tables, trends, records, and the data behind the numbers ---
#
# Units: temperatures and their differences degC, precipitation mm, wind m/s, offsets of time minutes. A missing number
# in a table is NaN.


@dataclass(frozen=True)
class YearSpan:
    """Years from `first` to `last`, both included."""

    first: int
    last: int

    @classmethod
    def parse(cls, text: str) -> Self | None:
        """The years of `1991-2020`, in any order; None if the text is not of this form."""
        match = re.fullmatch(r"(\d{4})\s*[-/]\s*(\d{4})", text.strip(), re.ASCII)
        return cls(int(match[1]), int(match[2])) if match else None

    def __str__(self) -> str:
        return f"{self.first}" if self.first == self.last else f"{self.first}-{self.last}"

    def __len__(self) -> int:
        return self.last - self.first + 1

    @property
    def starts(self) -> tuple[Month, Month]:
        """The first month of the first year, and that of the last."""
        return Month(self.first, 1), Month(self.last, 1)

    def __contains__(self, year: int) -> bool:
        return self.first <= year <= self.last


@dataclass(frozen=True)
class ClimatePlace:
    """The place in question: one grid cell (`location`), or the mean over the grid points of an `area`.

    `name` is the name of the place, with its country, if one was given. `asked` is the latitude and longitude in
    degrees, as given or of the named place; None for an area. `land_share` is the cell's, 0 to 1; None if unknown, and
    for an area. `zone` is the time zone of the place, if known. `locations` are those of an area that were read.
    """

    name: str | None
    asked: tuple[float, float] | None
    location: Location | None
    area: Area | None
    land_share: float | None
    zone: str | None
    locations: LocationSet = field(default_factory=LocationSet)

    @classmethod
    def of_asked(cls, asked: AskedPlace, *, in_its_zone: bool) -> ClimatePlace:
        """The cell of a place. For bare coordinates, the zone is looked up only if days follow local time."""
        return cls(
            name=asked.name,
            asked=(asked.latitude, asked.longitude),
            location=asked.cell.location,
            area=None,
            land_share=asked.cell.land_share,
            zone=asked.time_zone if asked.place is not None or in_its_zone else None,
        )

    @property
    def points(self) -> int:
        """The number of grid points: 1 for a cell."""
        return 1 if self.location is not None else len(self.locations)

    @property
    def title(self) -> str:
        """A short name: the place's, else the cell's degrees, else the area's borders."""
        if self.name:
            return self.name
        if self.location:
            return degrees(self.location.latitude, self.location.longitude)
        return f"area {self.area}"

    @property
    def description(self) -> str:
        """Which grid points the numbers describe."""
        if self.area is not None:
            there = self.area.latitude_indices().size * self.area.longitude_indices().size
            which = f"{self.points:,}" if self.points == there else f"{self.points:,} of {there:,}"
            return f"the mean of {which} grid points of {self.area}, weighted by the area of their cells"
        if self.location is None:
            return ""
        land = "" if self.land_share is None else f", {land_words(self.land_share)}"
        at = degrees(self.location.latitude, self.location.longitude)
        return f"the cell of {self.location.grid.name} at {at} (location_id {self.location.location_id}{land})"


@dataclass(frozen=True)
class DayRule:
    """How hours are grouped into days, months and years: one fixed offset from UTC.

    `offset_minutes` is local time minus UTC: 420 for UTC+07:00, 0 for days in UTC. `zone` is the time zone with this
    standard offset; None for UTC or an offset that was given. `warnings` say in which years of the period the zone had
    another standard offset, and what an offset with a fraction of an hour means.
    """

    offset_minutes: int = 0
    zone: str | None = None
    warnings: tuple[str, ...] = ()

    @property
    def offset_name(self) -> str:
        """`UTC`, `UTC+07:00`, `UTC-03:30`."""
        return offset_text(self.offset_minutes)

    @property
    def statement(self) -> str:
        """A sentence that defines the day, and how totals are assigned to it."""
        zone = f" (standard time of {self.zone}, one offset for all years)" if self.zone else ""
        return (
            f"Days, months and years are in {self.offset_name}{zone}. A value of precipitation is for the hour before "
            "its time: a day's total is the sum from 01:00 to 24:00. (/v1/archive of era5 serve sums 00:00 to 23:00, "
            "as Open-Meteo does.)"
        )


@dataclass(frozen=True)
class Baseline:
    """The reference years of anomalies: `years` requested, `complete` those with all hours of temperature.

    `is_used` is False if too few years are complete: then there are no anomalies. `note` says so, or that the baseline
    has fewer years than it should; None if it has enough.
    """

    years: YearSpan
    complete: int
    is_used: bool
    note: str | None


# A twentieth of the interval: p between about 0.03 and 0.07.
_NARROW = 0.05


@dataclass(frozen=True)
class Trend:
    """A linear trend of yearly values per decade, with its 95 % interval, from `count` complete years within `years`.

    `slope` is by ordinary least squares. `low` and `high`, and the two-sided `p`, allow for the autocorrelation of the
    residuals and for how badly it is known (`climate.regression`): its mean is `lag1`, and `effective_count`
    independent years would determine the slope as well. `theil_sen` is the median of the slopes between all pairs of
    years.
    """

    years: YearSpan
    count: int
    slope: float
    low: float
    high: float
    p: float
    lag1: float
    effective_count: float
    theil_sen: float

    @property
    def is_significant(self) -> bool:
        """True if the 95 % confidence interval of `slope` does not contain zero."""
        return self.low > 0 or self.high < 0

    @property
    def is_narrow(self) -> bool:
        """True if an end of the interval is so near zero that another method or year may turn the conclusion round."""
        return min(abs(self.low), abs(self.high)) < _NARROW * (self.high - self.low)


@dataclass(frozen=True)
class NoTrend:
    """Why there is no trend: too few complete years, or constant values. `reason` is a clause."""

    reason: str


_SECOND_LEVEL = 0.01


@dataclass(frozen=True)
class QuantityTrends:
    """Trends of one yearly quantity: over the whole record, and since 1979, the start of global satellite coverage.

    `curvature_p` is the p-value of a bend in the whole record, for which no single slope stands; None without a trend.
    """

    quantity: YearlyQuantity
    whole: Trend | NoTrend
    since_1979: Trend | NoTrend
    curvature_p: float | None = None

    @property
    def turn(self) -> Literal["since 1979", "curved"] | None:
        """A trend since 1979, or a bend, that the slope of the whole record hides; None without one.

        Looked for where that slope is not significant, at the level of 1 %: the more is tested, the more is found by
        chance.
        """
        if not isinstance(self.whole, Trend) or self.whole.is_significant:
            return None
        since = self.since_1979
        if isinstance(since, Trend) and since.years != self.whole.years and since.p < _SECOND_LEVEL:
            return "since 1979"
        return "curved" if self.curvature_p is not None and self.curvature_p < _SECOND_LEVEL else None


@dataclass(frozen=True)
class Record:
    """An extreme of the record: `what` (`hottest hour`), its value, and its time.

    `when` is text in the answer's offset: `2023-10-15 13:00`, `2023-10-15`, `2023-10` or `2023`. In a tie it is the
    earliest, and `others` is the number of the others.
    """

    name: str
    what: str
    value: float
    unit: str
    decimals: int
    when: str
    others: int = 0

    @property
    def rounded(self) -> str:
        """The value without its unit."""
        return f"{as_shown(self.value, self.unit):z,.{self.decimals}f}"


@dataclass(frozen=True, eq=False)
class SeasonalCycle:
    """The mean of each month of the year, then and now.

    `table`: index `month` (1 to 12); columns `temperature_then`, `temperature_now` (degC), `precipitation_then`,
    `precipitation_now` (mean total of the month, mm), `wind_then`, `wind_now` (m/s), and `<element>_change` (now minus
    then) with its 95 % interval, `<element>_change_low` and `<element>_change_high`. `now` are the last ten complete
    years, `then` those of the baseline before these; each None if there are too few years.
    """

    table: pd.DataFrame
    then: YearSpan | None
    now: YearSpan | None


@dataclass(frozen=True)
class Provenance:
    """The data behind the numbers, from the ledger and the rows that were read.

    `missing_months` are, by element, the months within the period without a value in the table; `missing_hours`
    counts the other missing hours, by element. `months` were read. `preliminary_share` is the share of the hours
    read that are known to be preliminary (`preliminary_title`), 0 to 1, and `unknown_share` the share whose version
    is unknown: their files do not state it, or there is no ledger. If no version is known, `preliminary_share` is
    None. `versions` and `sources` count months; a month with parts of several counts once for each. `lines` say all
    of this in words, `gaps` only what is missing. `notice` says that data are generated, even if only those of the
    baseline (None: none are): it comes first, and no conclusion is drawn.
    """

    months: int
    hours: int
    missing_months: Mapping[Element, tuple[Month, ...]]
    missing_hours: Mapping[Element, int]
    preliminary_share: float | None
    versions: Mapping[Version, int]
    sources: Mapping[str, int]
    lines: tuple[str, ...]
    credit: str
    gaps: tuple[str, ...] = ()
    unknown_share: float = 0.0
    notice: str | None = None
    preliminary_title: str = ERA5.preliminary_title

    @property
    def version_words(self) -> str:
        """The share of preliminary hours, and of hours whose version is unknown: unknown does not mean final."""
        words = []
        if self.preliminary_share is not None:
            words.append(f"{100 * self.preliminary_share:.1f} % of the hours preliminary ({self.preliminary_title})")
        if self.unknown_share:
            words.append(f"version unknown for {100 * self.unknown_share:.1f} % of the hours")
        return ", ".join(words)


@dataclass(frozen=True, eq=False)
class ClimateAnswer:
    """How the weather of a place has changed.

    `elements` are those of "temperature", "precipitation", "wind" that have values; the tables have only their columns.

    `yearly`: index `year`; the columns of `quantities` (see there for units), and for each element `<element>_hours`
    (hours with a value) and `<element>_complete` (at most 24 of the year's hours are missing). The means, totals and
    extremes of an incomplete year are those of its hours held; it has no anomaly, and is in no trend of them.
    `temperature_whole_days` and `precipitation_whole_days` are the days with all of their hours: the indices of a year
    come from these, and are NaN if more than 15 of its days are missing. A spell counts in the year in which it ends;
    NaN in a year that lies within one. Trends have the years with an index, even if `<element>_complete` is False.

    `monthly`: index `month`, a DatetimeIndex of first days; `mean_temperature`, `temperature_anomaly` (against the same
    month of the baseline), `precipitation` (total, mm), `mean_wind_speed`, `<element>_hours`, `<element>_complete`.

    `daily`: index `date`, a DatetimeIndex, every day from the first to the last; `mean_temperature`, `min_temperature`,
    `max_temperature`, `precipitation` (total, mm), `max_wind_speed`; NaN on a day without all of its 24 hours.

    `first` and `last` are the times of the first and last hour read within the period (aware, UTC). `sentence` answers
    in words; `is_significant` says whether the trend of temperature over the whole record is (None: there is no trend,
    or the data are generated, and no conclusion is drawn).
    `notes` are what a reader must know, each a sentence or two.
    """

    place: ClimatePlace
    days: DayRule
    first: datetime
    last: datetime
    baseline: Baseline
    elements: tuple[Element, ...]
    quantities: tuple[YearlyQuantity, ...]
    yearly: pd.DataFrame
    monthly: pd.DataFrame
    daily: pd.DataFrame
    seasons: SeasonalCycle
    trends: tuple[QuantityTrends, ...]
    records: tuple[Record, ...]
    provenance: Provenance
    sentence: str
    is_significant: bool | None
    notes: tuple[str, ...]
    dataset: Dataset

    @property
    def whole_days(self) -> tuple[datetime, datetime]:
        """The first and the last day with all of its hours, in the answer's offset."""
        return self.daily.index[0], self.daily.index[-1]

    def trend_of(self, quantity: str, which: Literal["whole", "since_1979"] = "whole") -> Trend | NoTrend:
        """The trend of a quantity of the yearly table, by its name."""
        for trends in self.trends:
            if trends.quantity.name == quantity:
                return trends.whole if which == "whole" else trends.since_1979
        raise KeyError(quantity)


def degrees(latitude: float, longitude: float) -> str:
    """A point as text: `6.25 S 106.75 E`."""
    north, east = ("N" if latitude >= 0 else "S"), ("E" if longitude >= 0 else "W")
    return f"{abs(latitude):g} {north} {abs(longitude):g} {east}"
