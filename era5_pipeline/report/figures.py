"""The figures of the page: each as SVG in two sizes, for desktop and phone, with a caption that describes it."""

from __future__ import annotations

import io
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING
from xml.etree import ElementTree as ET

import matplotlib as mpl

from era5_pipeline.climate.answer import BY_QUANTITY, Trend
from era5_pipeline.climate.words import decimals_of
from era5_pipeline.draw import climate_axes as panels
from era5_pipeline.draw import climate_years
from era5_pipeline.draw.climate_cell import cell_bounds, cell_figure
from era5_pipeline.draw.climate_days import band_figure, cycles_of, normal_band, seasonal_figure
from era5_pipeline.maps.styles import FAINT, INK, unit_text
from era5_pipeline.report.words import count_word, interval_words, years_words

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from matplotlib.figure import Figure

    from era5_pipeline.climate.answer import ClimateAnswer


@dataclass(frozen=True)
class Picture:
    """A figure of the page: its SVGs, each with the class of its size, and the caption."""

    pictures: tuple[tuple[str, str], ...]
    caption: str


_NO_YEAR = "No year is complete, so there is nothing to draw."


def stripes(answer: ClimateAnswer) -> Picture | str:
    """The warming stripes, with a tooltip for each."""
    means = panels.complete_years(answer, "mean_temperature")
    if means is None:
        return _NO_YEAR
    if not panels.has_stripes(means):
        are = "year is" if means.count == 1 else "years are"
        return (
            f"{count_word(means.count).capitalize()} complete {are} too few to be compared with each other: stripes "
            f"need at least {count_word(panels.FEWEST_YEARS_OF_STRIPES)}."
        )
    reference = panels.reference_of(answer, means)
    gaps = len(means.years) - means.count
    caption = (
        f"A stripe for each year, {years_words(int(means.years[0]), int(means.years[-1]))}: blue if it was colder than "
        f"the mean of {reference.words}, red if it was warmer; darkest from "
        f"{climate_years.stripes_limit(means):.1f} °C on."
    )
    if gaps:
        caption += f" {count_word(gaps).capitalize()} incomplete {'year is a gap' if gaps == 1 else 'years are gaps'}."
    return _figure(
        answer,
        "stripes",
        lambda width: climate_years.stripes_figure(answer, width),
        "Warming stripes",
        caption,
        _year_tips(answer),
    )


def anomalies(answer: ClimateAnswer) -> Picture | str | None:
    """The anomalies with their trends; None if the years are too few, as is said in place of the stripes."""
    means = panels.complete_years(answer, "mean_temperature")
    if means is None:
        return _NO_YEAR
    if not panels.has_anomalies(answer, means):
        return None
    reference = panels.reference_of(answer, means)
    caption = (
        f"Each complete year's mean temperature less that of {reference.words}, which is {reference.value:.2f} °C."
    )
    for number, trend in enumerate(climate_years.trends_drawn(answer)):
        shown = "The line is the trend" if number == 0 else "The dashed line is the trend"
        slope = panels.signed(trend.slope, decimals_of(trend, 3))
        caption += (
            f" {shown} {years_words(trend.years.first, trend.years.last)}: {slope} °C per decade"
            f" (95 % interval {interval_words(trend, 3)})."
        )
        if number == 0:
            caption += f" Grey is the {panels.BAND_WORDS}."
    if not isinstance(answer.trend_of("mean_temperature"), Trend):
        caption += " There are too few years for a trend."
    return _figure(
        answer,
        "anomalies",
        lambda width: climate_years.anomaly_figure(answer, width),
        "Yearly anomalies",
        caption,
        _year_tips(answer),
    )


def this_year(answer: ClimateAnswer) -> tuple[str, Picture | str]:
    """The last year's days against the normal: a heading and the figure."""
    band = normal_band(answer)
    if band is None:
        return "The last year, day by day", (
            "There are fewer than three other years to compare the last year's days with."
        )
    years = years_words(band.years[0], band.years[-1])
    normal = f"the baseline {years}" if band.is_baseline else f"the {count_word(len(band.years))} years {years}"
    if band.is_of_extremes:
        behind, usual = "is the range from the lowest to the highest", "that range"
    else:
        behind, usual = "are the middle 80 %, and the lowest and highest,", "the middle 80 %"
    caption = (
        f"The line is the mean temperature of each day of {band.year}; behind it {behind} of all days within a week of "
        f"it in {normal}. Of {band.count} days {band.above} were above {usual} (red), {band.below} below (blue). 29 "
        "February is left out."
    )
    if not band.is_baseline:
        caption += " These years are not a normal, which needs 30 years."
    return f"{band.year}, day by day", _figure(
        answer, "band", lambda width: band_figure(band, width), f"{band.year} against other years", caption
    )


def day_counts(answer: ClimateAnswer) -> Picture | str:
    """Hot days, tropical nights, frost days."""
    names = climate_years.counted_days(answer)
    if not names:
        return _NO_YEAR
    tips: dict[str, str] = {}
    means, has_mean = [], False
    for name in names:
        drawn = panels.complete_years(answer, name)
        if drawn is not None:
            has_mean = drawn.count > 1
            means.append(f"{BY_QUANTITY[name].label} {drawn.mean:.1f}")
            tips |= {f"{name}-{year}": f"{year}: {value:.0f} days" for year, value in drawn.pairs()}
    shown = "each complete year; the dashed line is their mean" if has_mean else "the only complete year"
    caption = f"Days of {shown}: {', '.join(means)}."
    return _figure(
        answer,
        "days",
        lambda width: climate_years.day_count_figure(answer, width),
        "Hot days and nights",
        caption,
        tips,
    )


def seasons(answer: ClimateAnswer) -> Picture | str:
    """The months of the year, then and now."""
    cycles = cycles_of(answer)
    if not cycles:
        return "No month is complete, so there is nothing to draw."
    rain = ", and its mean total of precipitation (bars)" if any(c.precipitation is not None for c in cycles) else ""
    caption = f"The mean temperature of each month (lines){rain}: {' and '.join(cycle.label for cycle in cycles)}."
    return _figure(answer, "seasons", lambda width: seasonal_figure(answer, width), "The seasons", caption)


def precipitation(answer: ClimateAnswer) -> Picture | str | None:
    """Precipitation of each year; None if the answer has none."""
    if "precipitation" not in answer.elements:
        return None
    drawn = panels.complete_years(answer, "precipitation")
    if drawn is None:
        return _NO_YEAR
    quantity = BY_QUANTITY["precipitation"]
    unit = unit_text(quantity.unit)
    tips = {f"year-{year}": f"{year}: {quantity.rounded(value)} {unit}" for year, value in drawn.pairs()}
    shown = "each complete year; their mean is" if drawn.count > 1 else "the only complete year:"
    caption = f"Rain and snow (as water) of {shown} {quantity.rounded(drawn.mean)} {unit}."
    trend = answer.trend_of("precipitation")
    if isinstance(trend, Trend):
        slope = panels.signed(trend.slope, decimals_of(trend, 1))
        caption += (
            f" Trend: {slope} {unit} per decade (95 % interval {interval_words(trend, 1)}"
            f"{'; it includes zero' if not trend.is_significant and not answer.provenance.notice else ''})."
        )
    return _figure(
        answer, "rain", lambda width: climate_years.precipitation_figure(answer, width), "Precipitation", caption, tips
    )


def cell_map(answer: ClimateAnswer) -> Picture | str:
    """The cell or the area on a map, in one size for desktop and phone."""
    place = answer.place
    if place.location is not None:
        bounds = cell_bounds(place.location)
        what = "the cell"
    elif place.area is not None:
        west = place.area.west
        east = place.area.east + (360.0 if place.area.east < west else 0.0)
        bounds, what = (west, east, place.area.south, place.area.north), "the area"
    else:
        return "The place has no coordinates."
    drawn = inline_svg(cell_figure(bounds, place.asked, panels.NARROW), "cell", f"Map of {what}")
    dot = "; the dot is the requested point" if place.asked else ""
    caption = f"The red rectangle is {what}{dot}. Below: where that is on Earth. Dashed: borders where control changes."
    return Picture((("cell", _markup(drawn)),), caption)


def _figure(
    answer: ClimateAnswer,
    name: str,
    draw: Callable[[float], Figure | None],
    title: str,
    caption: str,
    tips: Mapping[str, str] | None = None,
) -> Picture | str:
    """A figure in both sizes (the page shows one), with its caption; both first say if data are generated."""
    pictures = []
    generated = answer.provenance.notice.partition(":")[0] if answer.provenance.notice else None
    if generated:
        title, caption = f"{generated}: {title}", f"{generated}. {caption}"
    for size, width in (("desk", panels.WIDE), ("phone", panels.NARROW)):
        figure = draw(width)
        if figure is not None:
            if generated:
                panels.mark_generated(figure)
            pictures.append((size, _markup(inline_svg(figure, f"{name}-{size}", title, caption, tips))))
    return Picture(tuple(pictures), caption)


def _markup(drawn: ET.Element) -> str:
    return ET.tostring(drawn, encoding="unicode", method="html")


def _year_tips(answer: ClimateAnswer) -> dict[str, str]:
    """A tooltip for each complete year: its mean, and the difference from the reference."""
    means = panels.complete_years(answer, "mean_temperature")
    if means is None:
        return {}
    reference = panels.reference_of(answer, means).value
    return {
        f"year-{year}": f"{year}: {value:.2f} °C ({panels.signed(value - reference)})".replace("-", "\u2212")
        for year, value in means.pairs()
    }


# --- A figure as an SVG element of the page: small, named, with tooltips, in the colours of the page ---
#
# Text stays text, in the page's font. Colours of text and bands become variables such as `var(--ink)`, which the page
# sets for light and dark. All ids begin with the name of the figure, so that a page can hold several.


_SVG = "{http://www.w3.org/2000/svg}"
_HREF = "{http://www.w3.org/1999/xlink}href"
_REFERENCE = re.compile(r"url\(#([^)]+)\)")
_LONG_NUMBER = re.compile(r"-?\d+\.\d{3,}")
_FONT = re.compile(r"font-family: [^;]+;? ?")
_NO_TURN = re.compile(r"rotate\(-?0 [^)]*\)")
# Colours of the drawing, and their names in the page.
PAGE_COLOURS = {
    INK: "var(--ink)",
    FAINT: "var(--faint)",
    "#ffffff": "var(--paper)",
    panels.BAND: "var(--band)",
    panels.EXTREMES: "var(--extremes)",
}


def inline_svg(
    figure: Figure, name: str, title: str, description: str = "", tips: Mapping[str, str] | None = None
) -> ET.Element:
    """The figure as an `svg` element, with a title for screen readers.

    `name` begins all of its ids. `tips` are tooltips, by the gid of their parts of the figure.
    """
    root = _parsed(figure)
    for parent in root.iter():
        for child in [child for child in parent if child.tag in {"metadata", "style"}]:
            parent.remove(child)
    for part in root.iter():
        tip = (tips or {}).get(part.get("id", ""))
        _rename(part, name)
        if tip is not None:
            part.insert(0, _text("title", tip))
    for size in ("width", "height", "version"):
        root.attrib.pop(size, None)
    root.set("role", "img")
    root.set("class", "drawn")
    root.set("aria-labelledby", f"{name}-title" + (f" {name}-description" if description else ""))
    if description:
        root.insert(0, _text("desc", description, id=f"{name}-description"))
    root.insert(0, _text("title", title, id=f"{name}-title"))
    return root


def _parsed(figure: Figure) -> ET.Element:
    """The figure's SVG without namespaces, which HTML does not have."""
    file = io.StringIO()
    # Transparent: the page's background shows through.
    figure.patch.set_alpha(0.0)
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(file, format="svg", metadata={"Date": None, "Creator": None})
    root = ET.fromstring(file.getvalue())  # noqa: S314  # written a few lines above
    for part in root.iter():
        part.tag = part.tag.removeprefix(_SVG)
        if _HREF in part.attrib:
            part.set("href", part.attrib.pop(_HREF))
        part.tail = None
        if part.tag != "text":
            part.text = None
    return root


def _rename(part: ET.Element, name: str) -> None:
    """Begin ids and references to them with `name`, name colours as the page does, and shorten numbers."""
    for key, value in part.attrib.items():
        if key == "id":
            part.set(key, f"{name}-{value}")
        elif key == "href":
            part.set(key, f"#{name}-{value.removeprefix('#')}")
        else:
            for colour, variable in PAGE_COLOURS.items():
                value = value.replace(colour, variable)  # noqa: PLW2901
            part.set(key, _REFERENCE.sub(rf"url(#{name}-\1)", value))
        if key in {"d", "transform", "x", "y", "width", "height"}:
            short = _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.2f}", part.attrib[key])
            part.set(key, " ".join(_NO_TURN.sub("", short).split()))
        if key == "style":
            part.set(key, _FONT.sub("", part.attrib[key]))


def _text(tag: str, text: str, **attributes: str) -> ET.Element:
    made = ET.Element(tag, attributes)
    made.text = text
    return made
