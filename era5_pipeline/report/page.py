"""The page: one self-contained HTML file, without network access or scripts; its tables, words and SQL."""

from __future__ import annotations

from datetime import timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

from era5_pipeline.climate.answer import Trend
from era5_pipeline.climate.words import decimals_of, p_text, uncertainty_of
from era5_pipeline.draw.climate_axes import signed
from era5_pipeline.maps.styles import unit_text
from era5_pipeline.model.location_set import GridWindow, LocationSet
from era5_pipeline.model.package_version import __version__
from era5_pipeline.model.places import ATTRIBUTION
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.model.words import counted
from era5_pipeline.report import figures, words
from era5_pipeline.report.html import page_environment
from era5_pipeline.runtime.files import replacing
from era5_pipeline.warehouse.layouts.layout import locations_where

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from jinja2 import Environment

    from era5_pipeline.climate.answer import ClimateAnswer, Provenance, Record, YearlyQuantity


def write_page(answer: ClimateAnswer, path: Path, title: str | None = None) -> None:
    """Write the page of an answer, atomically; the same answer gives the same bytes. `title` replaces the heading."""
    text = report_page(answer, title)
    with replacing(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def report_page(answer: ClimateAnswer, title: str | None = None) -> str:
    """The page as text."""
    title = title or words.question(answer)
    data = answer.dataset.short_title
    if answer.provenance.notice:
        data = answer.provenance.notice.partition(":")[0]
        title = f"{data}: {title}"
    short, sentence = words.verdict(answer)
    sources = answer.provenance.sources
    has_temperature = "temperature" in answer.elements
    return (
        _environment()
        .get_template("report.html")
        .render(
            answer=answer,
            title=title,
            data=data,
            short=short,
            sentence=sentence,
            cautions=words.cautions(answer),
            has_temperature=has_temperature,
            **(_of_temperature(answer) if has_temperature else {}),
            details=trend_details(answer),
            trends=trends_table(answer),
            seasons=figures.seasons(answer),
            rain=figures.precipitation(answer),
            records=[
                (
                    words.capital(record.what),
                    words.value_with_unit(record.rounded, record.unit),
                    _when(record),
                )
                for record in answer.records
            ],
            years=years_table(answer),
            cell=figures.cell_map(answer),
            counts=_counts(answer.provenance),
            statements=statements(answer),
            has_era5=not sources or any(not source_kind(name).is_generated for name in sources),
            uncertainty=uncertainty_of(answer.dataset),
            attribution=ATTRIBUTION,
            version=__version__,
        )
    )


@cache
def _environment() -> Environment:
    made = page_environment()
    made.filters |= {
        "capital": words.capital,
        "degrees": words.with_degrees,
        "date": "{:%Y-%m-%d}".format,
        "minute": "{:%Y-%m-%d %H:%M}".format,
    }
    return made


def _of_temperature(answer: ClimateAnswer) -> dict[str, Any]:
    """The figures that only an answer with temperature has."""
    return {
        "stripes": figures.stripes(answer),
        "anomalies": figures.anomalies(answer),
        "this_year": figures.this_year(answer),
        "days": figures.day_counts(answer),
    }


# --- The tables: trends, records, and the numbers of every year ---


def trends_table(answer: ClimateAnswer) -> dict[str, Any]:
    """The trends of all quantities: over the whole record, and since 1979 if that differs; or why they have none."""
    found = [trends for trends in answer.trends if isinstance(trends.whole, Trend)]
    if not found:
        reasons = dict.fromkeys(trends.whole.reason for trends in answer.trends if not isinstance(trends.whole, Trend))
        return {"rows": (), "reasons": "; ".join(reasons)}
    has_since = any(
        isinstance(one.since_1979, Trend) and isinstance(one.whole, Trend) and one.since_1979.years != one.whole.years
        for one in found
    )
    rows = [
        (
            _named(one.quantity),
            words.trend_cell(one.quantity, one.whole),
            *((words.trend_cell(one.quantity, one.since_1979),) if has_since else ()),
        )
        for one in answer.trends
    ]
    caption = "Change per decade, least squares"
    if not answer.provenance.notice:
        caption += "; an interval that excludes zero is significant"
    headings = ("Each year's", "per decade (95 % interval)", *(("since 1979",) if has_since else ()))
    return {"caption": caption, "headings": headings, "rows": rows}


def trend_details(answer: ClimateAnswer) -> str | None:
    """How the trend of the mean temperature was computed, and what other methods give; None without a trend."""
    trend = answer.trend_of("mean_temperature") if "temperature" in answer.elements else None
    if not isinstance(trend, Trend):
        return None
    decimals = decimals_of(trend, 3)
    return (
        f"Over {trend.count} complete years, {trend.years.first} to {trend.years.last}: "
        f"{signed(trend.slope, decimals)} °C per decade by ordinary least squares, 95 % interval "
        f"{words.interval_words(trend, decimals)}, p {p_text(trend.p)}: it allows for the autocorrelation of the years "
        f"({trend.lag1:.2f}, so that they count as {trend.effective_count:.1f}). Theil-Sen's slope: "
        f"{signed(trend.theil_sen, decimals)}."
    )


def years_table(answer: ClimateAnswer) -> dict[str, Any]:
    """The numbers of every year; incomplete years are marked."""
    quantities = answer.quantities
    rows = []
    for year, values in answer.yearly.iterrows():
        complete = all(bool(values[f"{element}_complete"]) for element in answer.elements)
        cells = [_number(quantity, float(values[quantity.name])) for quantity in quantities]
        rows.append((f"{year}" if complete else f"{year}*", *cells))
    headings = ("Year", *(_named(quantity) for quantity in quantities))
    return {"headings": headings, "rows": rows}


def _named(quantity: YearlyQuantity) -> str:
    unit = "" if quantity.unit == "days" else f", {unit_text(quantity.unit)}"
    return f"{words.capital(quantity.label)}{unit}"


def _number(quantity: YearlyQuantity, value: float) -> str:
    return quantity.rounded(value).replace("-", "\u2212" if value == value else "\u2013")  # noqa: PLR0124  # NaN


def _when(record: Record) -> str:
    if not record.others:
        return record.when
    return f"{record.when}, and {record.others:,} more"


_VERSIONS = {"unknown": "not stated in the files", "mixed": "partly final"}


def _counts(provenance: Provenance) -> str:
    """Months and hours, their sources, their versions, and the preliminary share."""
    said = [f"{counted(provenance.months, 'month')}, {counted(provenance.hours, 'hour')}"]
    if provenance.sources:
        said.append(f"loaded from {_counted(provenance.sources)}")
    if provenance.versions:
        named = {_VERSIONS.get(version, version): count for version, count in provenance.versions.items()}
        said.append(f"version {_counted(named)}")
    if provenance.version_words:
        said.append(provenance.version_words)
    return f"{'; '.join(said)}."


def _counted(months: Mapping[str, int]) -> str:
    """Names with their numbers of months, `cds (12), files (65)`; a single name without."""
    if len(months) == 1:
        return next(iter(months))
    return ", ".join(f"{name} ({counted(count, 'month')})" for name, count in sorted(months.items()))


# --- SQL that gives the page's numbers from the table, for readers with access to it ---


# A year with no more hours than this is not in the page's table.
_FEWEST_HOURS = 24


def statements(answer: ClimateAnswer) -> list[tuple[str, str]]:
    """The title and text of each statement, for the variables that the answer has."""
    found = []
    if "temperature" in answer.elements:
        hours = _select_hours(answer, "temperature_2m")
        found += [
            (
                "The mean temperature of each year",
                _statement_of_years("avg(hour) AS mean_temperature", _local_time(answer), hours),
            ),
            (
                "The days that are counted, and this year's days",
                f"SELECT {_local_time(answer)}::date AS day,\n"
                "       avg(hour) AS mean, min(hour) AS lowest, max(hour) AS highest\n"
                f"FROM (\n{hours}\n) AS hours\nGROUP BY day\nHAVING count(*) = 24\nORDER BY day;",
            ),
        ]
    if "precipitation" in answer.elements:
        # The last hour of a year has the next year's time: its total is of the hour before.
        hours = _select_hours(answer, "total_precipitation", hours_after=1)
        statement = _statement_of_years(
            "sum(hour::float8) AS precipitation", _local_time(answer, hours_before=1), hours
        )
        found.append(("The precipitation of each year", statement))
    return found


def _statement_of_years(value: str, time: str, hours: str) -> str:
    return (
        f"SELECT extract(year FROM {time})::int AS year,\n       {value},\n       count(*) AS hours\n"
        f"FROM (\n{hours}\n) AS hours\nGROUP BY year\nHAVING count(*) > {_FEWEST_HOURS}\nORDER BY year;"
    )


def _select_hours(answer: ClimateAnswer, column: str, hours_after: int = 0) -> str:
    """The query for the value of each hour of the answer's days; of an area, where all of its locations have one."""
    offset = timedelta(minutes=answer.days.offset_minutes)
    first, last = ((time + offset).replace(hour=0, minute=0) for time in (answer.first, answer.last))
    shift = timedelta(hours=hours_after) - offset
    start, end = (f"'{time + shift:%Y-%m-%d %H:%M}Z'" for time in (first, last + timedelta(days=1)))
    where = f"{_where_locations(answer)}\n  AND time >= {start} AND time < {end}"
    table = answer.dataset.table
    if answer.place.location is not None:
        query = f"SELECT time, {column} AS hour\nFROM {table}\nWHERE {where}\n  AND {column} IS NOT NULL"
    else:
        # The area of a cell, as in `climate.reading.cell_weights`: at a pole, where the cosine is 0, that of a cap.
        weight = f"greatest(cosd(latitude), tand({answer.dataset.grid.step_degrees / 4:g}) / 2)"
        query = (
            f"SELECT time, sum({column} * {weight}) / sum({weight}) AS hour\nFROM {table}\nWHERE {where}\n"
            f"GROUP BY time\nHAVING count({column}) = {answer.place.points}"
        )
    return "  " + query.replace("\n", "\n  ")


def _local_time(answer: ClimateAnswer, hours_before: int = 0) -> str:
    """The time of a row, or `hours_before` hours earlier, in the offset of the answer's days."""
    minutes = answer.days.offset_minutes - 60 * hours_before
    offset = f" {'+' if minutes > 0 else '-'} interval '{abs(minutes)} minutes'" if minutes else ""
    return f"(time AT TIME ZONE 'UTC'{offset})"


def _where_locations(answer: ClimateAnswer) -> str:
    """The condition for the rows of the place, or of the locations of the area that were read."""
    place = answer.place
    if place.location is not None:
        return f"location_id = {place.location.location_id}"
    if place.area is None or place.locations != LocationSet.of_area(place.area):
        return locations_where(place.locations).as_string(None)
    # Ids run from west to east, then from south to north: every layout finds rows by them.
    rows, window, grid = place.area.latitude_indices(), GridWindow.of_area(place.area), place.area.grid
    first, last = grid.location_ids([rows[0], rows[-1]], [0, grid.columns - 1])
    where = f"location_id BETWEEN {first} AND {last}"
    if window.columns == grid.columns:
        return where
    east_index = (window.west_index + window.columns - 1) % grid.columns
    west, east = map(_real, grid.longitudes_of([window.west_index, east_index]).tolist())
    is_one = window.west_index <= east_index
    both = f"longitude BETWEEN {west} AND {east}" if is_one else f"(longitude >= {west} OR longitude <= {east})"
    return f"{where}\n  AND {both}"


def _real(degrees: float) -> str:
    """Degrees of a column, which are real, as SQL: those that are no binary fraction are no equal number otherwise."""
    return f"{degrees:g}" if float(f"{degrees:g}") == degrees else f"real '{degrees:g}'"
