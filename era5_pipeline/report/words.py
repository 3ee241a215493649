"""Words and numbers of the page, in the same form everywhere: the answer, trends, counts, units."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.climate.answer import NoTrend, Trend
from era5_pipeline.climate.trends import FEWEST_YEARS
from era5_pipeline.climate.words import decimals_of, in_all_text, narrow_words, turn_words
from era5_pipeline.draw.climate_axes import signed
from era5_pipeline.maps.styles import unit_text

if TYPE_CHECKING:
    from era5_pipeline.climate.answer import ClimateAnswer, YearlyQuantity

# WMO defines climate by 30 years.
YEARS_OF_CLIMATE = 30
_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")


def question(answer: ClimateAnswer) -> str:
    """The question that the page answers; generated data answer none, and are named instead."""
    place = answer.place
    if answer.provenance.notice:
        return f"Made-up weather for {place_words(answer)}"
    if place.name:
        return f"Is {place.name} getting warmer?"
    return f"Is it getting warmer {'in' if place.location is None else 'at'} {place_words(answer)}?"


def place_words(answer: ClimateAnswer) -> str:
    """The place's name, or its degrees with degree signs: `10.75° N 106.25° E`."""
    place = answer.place
    if place.name or place.location is None:
        return place.title
    latitude, longitude = place.location.latitude, place.location.longitude
    north, east = ("N" if latitude >= 0 else "S"), ("E" if longitude >= 0 else "W")
    return f"{abs(latitude):g}° {north} {abs(longitude):g}° {east}"


def verdict(answer: ClimateAnswer) -> tuple[str, str]:
    """The answer: a word or two, and the sentence with its interval; or why there is no answer."""
    if answer.provenance.notice:
        begin, _, rest = answer.provenance.notice.partition(": ")
        return f"{begin}.", f"{rest[:1].upper()}{rest[1:]} No conclusion is drawn from them."
    found = next((trends for trends in answer.trends if trends.quantity.name == "mean_temperature"), None)
    trend = found.whole if found is not None else None
    if found is None or not isinstance(trend, Trend):
        sentence = answer.sentence.removeprefix(f"{answer.place.title}: ")
        return "No answer yet.", with_degrees(f"{sentence[:1].upper()}{sentence[1:]}")
    years = f"from {trend.years.first} to {trend.years.last}"
    decimals = decimals_of(trend)
    interval = f"95 % interval {interval_words(trend)}"
    if not trend.is_significant:
        return (
            "Not clearly.",
            f"The yearly mean temperature at {place_words(answer)} changed by {signed(trend.slope, decimals)} °C per "
            f"decade {years} ({interval}). The interval includes zero{narrow_words(trend)}"
            + (f".{with_degrees(turn_words(found))}" if found.turn else ": neither warming nor cooling is shown."),
        )
    in_all = abs(trend.slope) * (len(trend.years) - 1) / 10.0
    word, short = ("warmer", "Yes.") if trend.slope > 0 else ("colder", "No, colder.")
    return (
        short,
        f"{place_words(answer)} became {word} by {abs(trend.slope):.{decimals}f} °C per decade {years} ({interval}), "
        f"{in_all_text(in_all, decimals)} °C in all. The interval excludes zero{narrow_words(trend)}.",
    )


def cautions(answer: ClimateAnswer) -> list[str]:
    """Cautions before any figure: too few years for a climate."""
    said = []
    element = "temperature" if "temperature" in answer.elements else answer.elements[0]
    complete = int(answer.yearly[f"{element}_complete"].sum())
    if not complete:
        said.append(f"No year is complete; a climate is the mean of at least {YEARS_OF_CLIMATE} years.")
    elif complete < FEWEST_YEARS:
        are = "year is" if complete == 1 else "years are"
        said.append(
            f"{count_word(complete).capitalize()} complete {are} not a climate, which is the mean of at least "
            f"{YEARS_OF_CLIMATE} years. What follows shows these years as they were; differences between them are "
            "weather as much as change."
        )
    elif complete < YEARS_OF_CLIMATE:
        said.append(
            f"{complete} complete years are fewer than the {YEARS_OF_CLIMATE} of a climate: single years weigh heavily "
            "in the trend."
        )
    return said


def count_word(number: int) -> str:
    """A number up to twelve as a word."""
    return _NUMBERS[number] if number < len(_NUMBERS) else f"{number}"


def interval_words(trend: Trend, fewest: int = 0) -> str:
    """The interval of a trend: `+0.004 to +0.388`."""
    decimals = decimals_of(trend, fewest)
    return f"{signed(trend.low, decimals)} to {signed(trend.high, decimals)}"


def trend_cell(quantity: YearlyQuantity, trend: Trend | NoTrend) -> str:
    """A trend in a table, `+0.196 °C (+0.004 to +0.388)`, or why it is missing."""
    if isinstance(trend, NoTrend):
        return f"no trend: {trend.reason}"
    slope = signed(trend.slope, decimals_of(trend))
    return f"{slope} {unit_text(quantity.unit)} ({interval_words(trend)})"


def value_with_unit(number: str, unit: str) -> str:
    """A number with its unit: `38.2 °C`."""
    return number.replace("-", "\u2212") + f"\u00a0{unit_text(unit)}"


def with_degrees(text: str) -> str:
    """A text of the answer, with units as on a page."""
    return text.replace("degC", "°C")


def years_words(first: int, last: int) -> str:
    """A span of years: `1994 to 2023`."""
    return f"{first}" if first == last else f"{first} to {last}"


def capital(text: str) -> str:
    """The text with a capital at its beginning."""
    return f"{text[:1].upper()}{text[1:]}"
