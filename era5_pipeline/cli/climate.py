"""`era5 climate`: how the weather of a place has changed, as tables, CSV, JSON or a picture.

Options, the choice of output, and texts for the terminal. The answer is in `era5_pipeline.climate`, its tables in
`climate.tables`, the picture in `era5_pipeline.draw.climate_years`.
"""

import json
import sys
from dataclasses import dataclass
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from era5_pipeline.cli import climate_options, options
from era5_pipeline.cli.fetch import Fetch, fetch_if_absent
from era5_pipeline.cli.output import print_table, terminal
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.times import NORMAL_PERIOD

if TYPE_CHECKING:
    import psycopg
    from rich.console import Console
    from rich.table import Table

    from era5_pipeline.climate.answer import ClimateAnswer, NoTrend, Trend
    from era5_pipeline.climate.everywhere import Engine, EverywhereQuestion
    from era5_pipeline.climate.question import YearPart
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.settings import Settings


Format = Literal["table", "csv", "json"]
EVERYWHERE = "With --everywhere"
TableName = Literal["yearly", "monthly", "daily", "seasons", "trends", "records"]


def climate(
    *,
    place: options.Place = None,
    lat: options.Latitude = None,
    lon: options.Longitude = None,
    cell: options.Cell = "nearest",
    area: climate_options.Area = None,
    from_: climate_options.From = None,
    to: climate_options.To = None,
    baseline: climate_options.Baseline = NORMAL_PERIOD,
    days: climate_options.Days = None,
    utc_offset: climate_options.Offset = None,
    table: Annotated[
        TableName | None,
        typer.Option(
            "--table", help="Print this table, all rows of it.", show_default="a summary; with --format csv: yearly"
        ),
    ] = None,
    format_: Annotated[
        Format | None,
        typer.Option(
            "--format", help="How to print: csv is one table, json all but the daily one.", show_default="table"
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", metavar="FILE", help="Draw stripes, anomalies and trend to this file: PNG, PDF or SVG."),
    ] = None,
    title: Annotated[
        str | None, typer.Option("--title", metavar="TEXT", help="Title of the picture.", show_default="the place")
    ] = None,
    fetch: Fetch = False,
    strict: options.Strict = False,
    dataset: options.Dataset = None,
    everywhere: Annotated[
        bool, typer.Option("--everywhere", help="Trend and normal at every place, or at those of --area.")
    ] = False,
    column: Annotated[
        str, typer.Option("--column", metavar="NAME", help="With --everywhere: the column.", rich_help_panel=EVERYWHERE)
    ] = "temperature_2m",
    season: Annotated[
        str | None,
        typer.Option(
            "--season",
            metavar="NAME",
            help="DJF, MAM, JJA or SON of each year.",
            show_default="the year",
            rich_help_panel=EVERYWHERE,
        ),
    ] = None,
    calendar_month: Annotated[
        int | None,
        typer.Option(
            "--calendar-month",
            metavar="1-12",
            help="This month of each year.",
            show_default="the year",
            rich_help_panel=EVERYWHERE,
        ),
    ] = None,
    all_parts: Annotated[
        bool, typer.Option("--all-parts", help="The year, its seasons and its months.", rich_help_panel=EVERYWHERE)
    ] = False,
    engine: Annotated[
        Literal["warehouse", "dask", "spark"],
        typer.Option(
            "--engine",
            help="From the warehouse's monthly summaries, or from the hours of the lake (ERA5_LAKE) by Dask or Spark.",
            rich_help_panel=EVERYWHERE,
        ),
    ] = "warehouse",
    save: Annotated[
        bool,
        typer.Option(
            "--save", help="Write the table weather_trend, of ERA5-Land weather_land_trend.", rich_help_panel=EVERYWHERE
        ),
    ] = False,
) -> None:
    """Print how the weather of a place has changed: warmer or not, by how much, how certain.

    Trends, anomalies, hot and wet days, the seasons then and now, and records, from all hours of the table at the
    place. What a number means, and what ERA5 cannot tell: docs/climate.md.

    \b
    Examples:
      era5 climate --place Jakarta
      era5 climate --lat 10.75 --lon 106.25 --days local --format json
      era5 climate --place Bremen --from 1979 --baseline 1961-1990 --table yearly
      era5 climate --area -5.5/106/-7/108 --format csv --table monthly > java.csv
      era5 climate --place Jakarta --out jakarta.png
      era5 climate --everywhere --area 72/-12/34/40 --out europe.png --save
      era5 climate --everywhere --engine dask --column tp --season JJA --out rain.parquet
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.settings import read_settings

    settings = read_settings(dataset=dataset)
    if everywhere:
        of_places = {"--place": place, "--lat": lat, "--lon": lon, "--days": days, "--utc-offset": utc_offset}
        for name, value in {**of_places, "--table": table, "--format": format_, "--strict": strict or None}.items():
            if value is not None:
                raise UsageError(f"{name} does not go with --everywhere", remedy="Leave one of them out.")
        climate_everywhere(
            settings,
            EverywhereOptions(
                column, area, from_, to, baseline, season, calendar_month, all_parts, engine, out, title, save
            ),
        )
        return
    for name, is_given in {
        "--column": column != "temperature_2m",
        "--season": season is not None,
        "--calendar-month": calendar_month is not None,
        "--all-parts": all_parts,
        "--engine": engine != "warehouse",
        "--save": save,
    }.items():
        if is_given:
            raise UsageError(f"{name} needs --everywhere", remedy="Add --everywhere, or leave it out.")
    from era5_pipeline.cli.series import surviving_closed_pipe
    from era5_pipeline.climate.reading import read_climate
    from era5_pipeline.postgres.connect import open_connection

    if out:
        options.require_picture(out, "--out")
        title = options.require_title(title)
    elif title is not None:
        raise UsageError("--title needs a picture", remedy="Add --out FILE, or leave --title out.")
    question = climate_options.asked_climate(
        *(place, lat, lon, cell, area, from_, to, baseline, days, utc_offset), settings.wanted_dataset
    )
    if fetch and question.place.location is not None:
        fetch_if_absent(settings, question.place.location)
    with open_connection(settings, "reading the climate") as connection:
        answer = read_climate(connection, question)
    if out:
        from era5_pipeline.draw.climate_years import climate_picture
        from era5_pipeline.draw.figures import save_figure

        save_figure(climate_picture(answer, title), out)
        typer.echo(f"wrote {out}: {answer.place.title} ({answer.provenance.credit})", err=True)
    if out is None or format_ is not None or table is not None:
        with surviving_closed_pipe():
            print_answer(answer, format_ or "table", table)
    options.warn_of_gaps(list(answer.provenance.gaps), strict=strict)


# --- The answer for a place or an area: a summary for the terminal, one of its tables, CSV or JSON ---


# The numbers of years shown at the start and at the end of a long table.
_FIRST_YEARS, _LAST_YEARS = 5, 10
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DECIMALS = {"degC": 2, "mm": 1, "m/s": 2}
_TRENDS = "Trends per decade: least squares with a 95 % interval that allows for autocorrelation; * it excludes zero"
_GENERATED_TRENDS = "Trends per decade of generated numbers: least squares with a 95 % interval"


def print_answer(answer: "ClimateAnswer", format_: Literal["table", "csv", "json"], table: str | None) -> None:
    """Print the answer in one of the forms; `table` names one of its tables."""
    from era5_pipeline.climate.tables import SIGNIFICANT_DIGITS, answer_as_json, tables_of

    if format_ == "json":
        value = answer_as_json(answer, with_days=table == "daily")
        sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        return
    if format_ == "csv":
        if answer.provenance.notice:
            typer.echo(answer.provenance.notice, err=True)
        typer.echo(f"{answer.place.title}: {answer.place.description}", err=True)
        frame = tables_of(answer)[table or "yearly"]
        frame.to_csv(sys.stdout, float_format=f"%.{SIGNIFICANT_DIGITS}g", date_format="%Y-%m-%d")
        return
    _print_for_terminal(answer, table)


def _print_for_terminal(answer: "ClimateAnswer", table: str | None) -> None:
    from era5_pipeline.climate.answer import Trend
    from era5_pipeline.climate.words import uncertainty_of

    console = terminal(highlight=False, soft_wrap=True)
    console.print(answer.sentence, markup=False, style="bold")
    baseline = answer.baseline
    rests = f"{baseline.complete} of {len(baseline.years)} years complete"
    console.print(
        f"{answer.place.description}; {answer.first:%Y-%m-%d %H:%M} to {answer.last:%Y-%m-%d %H:%M} UTC, "
        f"{answer.provenance.hours:,} hours; baseline {baseline.years} ({rests})",
        markup=False,
    )
    if table is not None:
        _print_wide(console, "", _plain_table(answer, table))
    else:
        if any(isinstance(trends.whole, Trend) for trends in answer.trends):
            title = _GENERATED_TRENDS if answer.provenance.notice else _TRENDS
            _print_wide(console, title, _trends_for_terminal(answer))
        if answer.seasons.then or answer.seasons.now:
            _print_wide(console, *_seasons_for_terminal(answer))
        records = _new_table("", "value", "unit", f"when ({answer.days.offset_name})")
        for record in answer.records:
            others = f" and {record.others:,} more" if record.others else ""
            records.add_row(record.what, record.rounded, record.unit, f"{record.when}{others}")
        _print_wide(console, "Records", records)
        _print_wide(console, *_years_for_terminal(answer))
    lines = (*answer.notes, *(line for line in answer.provenance.lines if line not in answer.provenance.gaps))
    console.print()
    about = () if answer.provenance.notice else (answer.dataset.what_it_is, uncertainty_of(answer.dataset))
    for line in (*lines, *about, answer.provenance.credit):
        console.print(f"{line[0].upper()}{line[1:]}", markup=False)


def _print_wide(console: "Console", title: str, table: "Table") -> None:
    """Print a title and a table, folded where it is too wide."""
    console.print(f"\n{title}" if title else "", markup=False)
    print_table(console, table)


def _new_table(*columns: str) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for number, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if number else "left")
    return table


def _trends_for_terminal(answer: "ClimateAnswer") -> "Table":
    """A row for each quantity, with both spans, and the tests beside the headline."""
    from era5_pipeline.climate.answer import Trend
    from era5_pipeline.climate.words import decimals_of, p_text

    table = _new_table("", "unit", "whole record", "since 1979", "p", "Theil-Sen")
    is_marked = answer.provenance.notice is None
    for trends in answer.trends:
        whole = trends.whole
        since = "" if trends.since_1979 == whole else _trend_text(trends.since_1979, is_marked=is_marked)
        beside = ("", "")
        if isinstance(whole, Trend):
            beside = (p_text(whole.p) if is_marked else "", f"{whole.theil_sen:+z.{decimals_of(whole)}f}")
        table.add_row(
            trends.quantity.label, trends.quantity.unit, _trend_text(whole, is_marked=is_marked), since, *beside
        )
    return table


def _trend_text(trend: "Trend | NoTrend", *, is_marked: bool) -> str:
    from era5_pipeline.climate.answer import NoTrend
    from era5_pipeline.climate.words import interval_text

    if isinstance(trend, NoTrend):
        return trend.reason.split(":")[0]
    return f"{interval_text(trend)}{' *' if trend.is_significant and is_marked else '  '}"


def _seasons_for_terminal(answer: "ClimateAnswer") -> "tuple[str, Table]":
    """The title, and a row for each month of the year."""
    seasons, elements = answer.seasons, answer.elements
    units = {"temperature": "degC", "precipitation": "mm", "wind": "m/s"}
    spans = {"then": seasons.then, "now": seasons.now}
    there = [which for which, years in spans.items() if years is not None]
    columns = [(element, which) for element in elements for which in (*there, *(["change"] if len(there) == 2 else []))]
    title = f"Mean of each month of the year: {', '.join(f'{which} is {spans[which]}' for which in there)}"
    if len(there) == 2:
        title += "; ± is half of the 95 % interval"
    table = _new_table(
        "",
        *(f"{element}\n{which}, {units[element]}" for element, which in columns),
    )
    for month, row in enumerate(seasons.table.to_dict("records")):
        cells = [
            _cell(row[f"{element}_{which}"], units[element])
            if which != "change"
            else _change_cell(row[f"{element}_change"], row[f"{element}_change_high"], units[element])
            for element, which in columns
        ]
        table.add_row(_MONTHS[month], *cells)
    return title, table


def _cell(value: float, unit: str) -> str:
    from era5_pipeline.climate.answer import as_shown

    return "-" if isnan(value) else f"{as_shown(value, unit):z.{_DECIMALS[unit]}f}"


def _change_cell(change: float, high: float, unit: str) -> str:
    """A change with half of its 95 % interval: `+0.8 ±0.4`."""
    if isnan(change):
        return "-"
    half = "" if isnan(high) else f" ±{high - change:.{_DECIMALS[unit]}f}"
    return f"{change:+z.{_DECIMALS[unit]}f}{half}"


def _years_for_terminal(answer: "ClimateAnswer") -> "tuple[str, Table]":
    """The title, with the first and last years, without quantities that are zero or unknown in every year."""
    yearly = answer.yearly
    shown = [quantity for quantity in answer.quantities if yearly[quantity.name].fillna(0).any()]
    # A label and its unit, unless the label names that, with one word per line, to keep the column narrow.
    units = ("" if one.label.endswith(one.unit) else f" ({one.unit})" for one in shown)
    headers = [f"{one.label}{unit}".replace(" ", "\n") for one, unit in zip(shown, units, strict=True)]
    is_long = len(yearly) > _FIRST_YEARS + _LAST_YEARS
    title = f"Years{': --table yearly prints all' if is_long else ''}"
    marked = (~yearly[[f"{element}_complete" for element in answer.elements]].all(axis=1)).tolist()
    if any(marked):
        title += f"{',' if is_long else ':'} incomplete ones have a *"
    table = _new_table("", *headers)
    rows = yearly.to_dict("index")
    for position, (year, row) in enumerate(rows.items()):
        if is_long and _FIRST_YEARS <= position < len(rows) - _LAST_YEARS:
            if position == _FIRST_YEARS:
                table.add_row(*["..."] * (len(shown) + 1))
            continue
        star = "*" if marked[position] else ""
        table.add_row(f"{year}{star}", *(quantity.rounded(row[quantity.name]) for quantity in shown))
    return title, table


def _plain_table(answer: "ClimateAnswer", name: str) -> "Table":
    """All rows and columns of one of the tables."""
    from era5_pipeline.climate.answer import as_shown
    from era5_pipeline.climate.tables import json_rows, tables_of, unit_of

    frame = tables_of(answer)[name]
    table = _new_table(str(frame.index.name), *(str(column).replace("_", "\n") for column in frame.columns))
    for row in json_rows(frame):
        values = ((value, row.get("unit", unit_of(column))) for column, value in row.items())
        texts = (f"{as_shown(value, unit):z.3f}" if isinstance(value, float) else str(value) for value, unit in values)
        table.add_row(*("-" if text == "None" else text for text in texts))
    return table


# --- `--everywhere`: trends and normals at every place, as a map, a file, or the table `weather_trend` ---


_TABLES = (".csv", ".parquet")


@dataclass(frozen=True)
class EverywhereOptions:
    """The options of `era5 climate` that `--everywhere` uses, as they were given."""

    column: str
    area: str | None
    first: str | None
    last: str | None
    baseline: str
    season: str | None
    calendar_month: int | None
    all_parts: bool
    engine: "Engine"
    out: Path | None
    title: str | None
    save: bool


def climate_everywhere(settings: "Settings", asked: EverywhereOptions) -> None:
    """Compute, show the progress, write what was asked for, and say what it is."""
    from era5_pipeline.cli.bars import stage_bars
    from era5_pipeline.climate.everywhere import csv_of, save
    from era5_pipeline.maps.everywhere import read_everywhere
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors
    from era5_pipeline.runtime.files import replacing

    out = asked.out
    if out is None and not asked.save:
        raise UsageError(
            "--everywhere needs to know where its answer goes",
            remedy="Add --out trend.png (a map), --out trend.parquet or .csv, or --save (the table weather_trend).",
        )
    if out is not None and out.suffix.lower() not in _TABLES:
        options.require_picture(out, "--out")
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        with server_errors("reading which months there are"):
            question = _question(connection, settings.wanted_dataset, asked)
        with server_errors("computing trends"), stage_bars(terminal(stderr=True), question.variable.column, "read"):
            answer = read_everywhere(connection, settings, question, asked.engine)
            if asked.save:
                save(connection, question, answer.rows)
        if out is not None and out.suffix.lower() == ".csv":
            with replacing(out) as temporary:
                temporary.write_bytes(csv_of(answer.rows, header=True))
        elif out is not None and out.suffix.lower() == ".parquet":
            import pyarrow.parquet as pq

            with replacing(out) as temporary:
                pq.write_table(answer.rows, temporary, compression="zstd")
        elif out is not None:
            from era5_pipeline.draw.figures import save_figure
            from era5_pipeline.draw.maps import draw_map

            field, notes = answer.field()
            save_figure(draw_map(field, credit=answer.origin.credit, notes=notes, title=asked.title).figure, out)
    for line in answer.lines:
        typer.echo(line)
    if asked.save:
        typer.echo(f"wrote {answer.rows.num_rows:,} rows into the table {question.table}")
    if out is not None:
        typer.echo(f"wrote {out}")


def _question(connection: "psycopg.Connection", dataset: "Dataset", asked: EverywhereOptions) -> "EverywhereQuestion":
    from era5_pipeline.climate.anomalies import parse_baseline
    from era5_pipeline.climate.everywhere import EverywhereQuestion
    from era5_pipeline.maps.everywhere import years_between
    from era5_pipeline.maps.question import require_summaries, statistic_for
    from era5_pipeline.model.question import asked_area, asked_column

    variable, baseline = asked_column(asked.column, dataset.catalogue), parse_baseline(asked.baseline)
    require_summaries(variable)
    dataset.require_months(baseline.starts)
    return EverywhereQuestion(
        variable=variable,
        statistic=statistic_for(variable),
        parts=_parts(asked),
        years=years_between(connection, asked.first, asked.last),
        baseline=baseline,
        area=asked_area(asked.area, dataset.grid),
        dataset=dataset,
    )


def _parts(asked: EverywhereOptions) -> "tuple[YearPart, ...]":
    from era5_pipeline.climate.question import all_parts

    if not asked.all_parts:
        return (climate_options.asked_part(asked.season, asked.calendar_month),)
    if (asked.season, asked.calendar_month) != (None, None):
        raise UsageError("--season, --calendar-month and --all-parts cannot be combined", remedy="Give one of them.")
    if asked.out is not None and asked.out.suffix.lower() not in _TABLES:
        raise UsageError("a map shows one part of the year", remedy="Leave --all-parts out, or --out of the map.")
    return all_parts()
