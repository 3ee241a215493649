"""The words of a climate answer: the sentence that answers, the notes, and where uncertainty is described."""

from __future__ import annotations

from math import floor, log10
from typing import TYPE_CHECKING

from era5_pipeline.climate.answer import NoTrend, Trend
from era5_pipeline.climate.trends import describe_years
from era5_pipeline.climate.years import MOST_MISSING_DAYS, lacks_days

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import pandas as pd

    from era5_pipeline.climate.answer import Baseline, ClimatePlace, DayRule, Element, QuantityTrends
    from era5_pipeline.model.dataset import Dataset

_MOST_DECIMALS = 6


def uncertainty_of(dataset: Dataset) -> str:
    """Where to read what the data set itself is uncertain of."""
    return f"What {dataset.short_title} itself is uncertain of: docs/climate.md#what-era5-itself-is-uncertain-of"


def sentence_of(
    place: ClimatePlace, trends: Sequence[QuantityTrends], elements: Sequence[Element], notice: str | None = None
) -> str:
    """Answer in a sentence or two: how temperature has changed, or why that is unknown.

    With a notice that data are generated, no change is stated.
    """
    if notice is not None:
        return f"{notice} {place.title}: whether it is getting warmer cannot be told from them."
    found = next((trends_of for trends_of in trends if trends_of.quantity.name == "mean_temperature"), None)
    if found is None:
        have = " and ".join(elements)
        return f"{place.title}: the table has no temperature there, only {have}; whether it is warmer cannot be told."
    whole, since = found.whole, found.since_1979
    if isinstance(whole, NoTrend):
        reason = whole.reason.replace(": a trend", ", since a trend")
        few = "; a few years are weather, not climate" if "needs at least" in whole.reason else ""
        return f"{place.title}: whether it is getting warmer cannot be told from {reason}{few}."
    sentence = f"{_change(place.title, whole)}; {_verdict(whole)}.{turn_words(found)}"
    if found.turn is None and isinstance(since, Trend) and since.years.first > whole.years.first:
        sentence += f" Since {since.years.first}: {interval_text(since)} degC per decade."
    return sentence


def _change(title: str, trend: Trend) -> str:
    size, decimals = abs(trend.slope), decimals_of(trend)
    years = f"over {trend.years}"
    low, high = (f"{value:+z.{decimals}f}" for value in (trend.low, trend.high))
    interval = f"(95 % interval {low} to {high})"
    if not trend.is_significant:
        return f"{title} shows no significant trend {years}: {trend.slope:+z.{decimals}f} degC per decade {interval}"
    in_all = size * (len(trend.years) - 1) / 10
    word = "warmer" if trend.slope > 0 else "colder"
    return (
        f"{title} is {size:.{decimals}f} degC per decade {word} {years}, {in_all_text(in_all, decimals)} degC in all "
        f"{interval}"
    )


def turn_words(trends: QuantityTrends) -> str:
    """A sentence, after a space, on the trend since 1979 or the bend that the whole slope hides; empty without one."""
    since = trends.since_1979
    if trends.turn == "since 1979" and isinstance(since, Trend):
        word = "warmer" if since.slope > 0 else "colder"
        return (
            f" But since {since.years.first} it has become {word}: {interval_text(since)} degC per decade, "
            f"p {p_text(since.p)}."
        )
    if trends.turn == "curved":
        return f" But a line does not describe the years: they are bent (p {p_text(trends.curvature_p or 0.0)})."
    return ""


def decimals_of(trend: Trend, fewest: int = 0) -> int:
    """The decimals to write a trend with: two digits of the interval's width, and enough to tell its ends from zero.

    Differences from the seventh decimal on are ignored.
    """
    width = trend.high - trend.low
    least = max(fewest, 1 - floor(log10(width)) if width > 0.0 else 2)
    ends = (trend.low, trend.high)
    for decimals in range(min(least, _MOST_DECIMALS), _MOST_DECIMALS):
        if all(bool(round(end, decimals)) == bool(end) for end in ends):
            return decimals
    return _MOST_DECIMALS


def interval_text(trend: Trend) -> str:
    """Write a slope with its interval: `+0.196 (+0.004 to +0.388)`."""
    decimals = decimals_of(trend)
    slope, low, high = (f"{value:+z.{decimals}f}" for value in (trend.slope, trend.low, trend.high))
    return f"{slope} ({low} to {high})"


def in_all_text(change: float, decimals: int) -> str:
    """Write the change over the whole period of a trend that is written with `decimals`."""
    return f"{change:.{max(decimals - 2, 1)}f}"


def _verdict(trend: Trend) -> str:
    which = "excludes zero: significant" if trend.is_significant else "includes zero"
    return f"the interval {which} (p {p_text(trend.p)}){narrow_words(trend)}"


def narrow_words(trend: Trend) -> str:
    """A caution, as a clause with a comma before it, where the conclusion hangs on the last decimal."""
    return ", but only just: another year or method may decide otherwise" if trend.is_narrow else ""


def p_text(p: float) -> str:
    """Write a p-value: `0.041`, `< 0.001`."""
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def notes_of(
    yearly: pd.DataFrame,
    baseline: Baseline,
    days: DayRule,
    elements: Sequence[Element],
) -> tuple[str, ...]:
    """Notes below the tables: how days are defined, which years are incomplete, what the baseline covers."""
    notes = [days.statement, *days.warnings]
    notes += incomplete_lines(yearly, elements)
    if baseline.note:
        notes.append(f"{baseline.note[0].upper()}{baseline.note[1:]}")
    return tuple(notes)


def incomplete_lines(yearly: pd.DataFrame, elements: Sequence[Element]) -> list[str]:
    """Name the incomplete years of each element, and those without indices; those with the same years share a line."""
    incomplete = {element: ~yearly[f"{element}_complete"] for element in elements}
    without = {element: lacks_days(yearly, element) for element in elements if f"{element}_whole_days" in yearly}
    return [
        f"{describe_years(years)} {'is' if len(years) == 1 else 'are'} incomplete ({', '.join(lacking)}): left out of "
        "anomalies, normals, and trends of means and totals."
        for years, lacking in _by_years(incomplete)
    ] + [
        f"{describe_years(years)} {'has' if len(years) == 1 else 'have'} no indices, such as counts of days "
        f"({', '.join(lacking)}): more than {MOST_MISSING_DAYS} days of the year lack an hour."
        for years, lacking in _by_years(without)
    ]


def _by_years(years_of: Mapping[Element, pd.Series]) -> Iterable[tuple[tuple[int, ...], list[Element]]]:
    """The years of which something is true for an element, with all elements of just these years."""
    by_years: dict[tuple[int, ...], list[Element]] = {}
    for element, is_such in years_of.items():
        years = tuple(is_such.index[is_such].tolist())
        if years:
            by_years.setdefault(years, []).append(element)
    return by_years.items()
