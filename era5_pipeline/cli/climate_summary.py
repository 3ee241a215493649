"""A climate answer as `era5 climate` prints it: a summary for the terminal, one of its tables, CSV or JSON.

The contents of the tables are defined in `era5_pipeline.climate.tables`.
"""

import json
import sys
from math import isnan
from typing import TYPE_CHECKING, Any, Literal

import typer

from era5_pipeline.climate.tables import SIGNIFICANT_DIGITS, answer_as_json, json_rows, tables_of

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from era5_pipeline.climate.answer import ClimateAnswer, NoTrend, Trend

# The numbers of years shown at the start and at the end of a long table.
_FIRST_YEARS, _LAST_YEARS = 5, 10
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DECIMALS = {"degC": 2, "mm": 1, "m/s": 2}
_TRENDS = "Trends per decade: least squares with a 95 % interval that allows for autocorrelation; * it excludes zero"
_GENERATED_TRENDS = "Trends per decade of generated numbers: least squares with a 95 % interval"


def print_answer(answer: "ClimateAnswer", format_: Literal["table", "csv", "json"], table: str | None) -> None:
    """Print the answer in one of the forms; `table` names one of its tables."""
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
    from rich.console import Console

    from era5_pipeline.climate.answer import Trend

    console = Console(highlight=False, soft_wrap=True)
    console.print(answer.sentence, markup=False, style="bold")
    console.print(_heading(answer), markup=False)
    if table is not None:
        _print_wide(console, "", _plain_table(answer, table))
    else:
        if any(isinstance(trends.whole, Trend) for trends in answer.trends):
            title = _GENERATED_TRENDS if answer.provenance.notice else _TRENDS
            _print_wide(console, title, _trends_for_terminal(answer))
        if answer.seasons.then or answer.seasons.now:
            _print_wide(console, *_seasons_for_terminal(answer))
        _print_wide(console, "Records", _records_for_terminal(answer))
        _print_wide(console, *_years_for_terminal(answer))
    lines = (*answer.notes, *(line for line in answer.provenance.lines if line not in answer.provenance.gaps))
    console.print()
    about = () if answer.provenance.notice else (answer.what_era5_is,)
    for line in (*lines, *about, answer.provenance.credit):
        console.print(f"{line[0].upper()}{line[1:]}", markup=False)


def _heading(answer: "ClimateAnswer") -> str:
    """The points, the period and the baseline."""
    baseline = answer.baseline
    rests = f"{baseline.complete} of {len(baseline.years)} years complete"
    return (
        f"{answer.place.description}; {answer.first:%Y-%m-%d %H:%M} to {answer.last:%Y-%m-%d %H:%M} UTC, "
        f"{answer.provenance.hours:,} hours; baseline {baseline.years} ({rests})"
    )


def _print_wide(console: "Console", title: str, table: "Table") -> None:
    """Print a title and a table: folded in a terminal, otherwise as wide as necessary."""
    from rich.console import Console

    from era5_pipeline.cli.output import print_table

    console.print(f"\n{title}" if title else "", markup=False)
    if console.is_terminal:
        print_table(console, table)
        return
    needed = console.measure(table, options=console.options.update(width=1000)).maximum
    Console(width=max(console.width, needed), highlight=False).print(table)


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

    table = _new_table("", "unit", "whole record", "since 1979", "Theil-Sen", "Kendall p")
    is_marked = answer.provenance.notice is None
    for trends in answer.trends:
        whole = trends.whole
        since = "" if trends.since_1979 == whole else _trend_text(trends.since_1979, is_marked=is_marked)
        beside = ("", "")
        if isinstance(whole, Trend):
            beside = (f"{whole.theil_sen:+z.{decimals_of(whole)}f}", p_text(whole.kendall_p))
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
    table = _new_table(
        "",
        *(f"{element}\n{which}, {units[element]}" for element, which in columns),
    )
    for month, row in enumerate(seasons.table.to_dict("records")):
        cells = [
            _cell(row[f"{element}_{which}"], units[element], signed=which == "change") for element, which in columns
        ]
        table.add_row(_MONTHS[month], *cells)
    return title, table


def _cell(value: float, unit: str, *, signed: bool = False) -> str:
    if isnan(value):
        return "-"
    rounded = round(value, _DECIMALS[unit]) + 0.0  # turns -0.0 into 0.0
    return f"{rounded:{'+' if signed else ''}.{_DECIMALS[unit]}f}"


def _records_for_terminal(answer: "ClimateAnswer") -> "Table":
    when = f"when ({answer.days.offset_name})"
    table = _new_table("", "value", "unit", when)
    for record in answer.records:
        others = f" and {record.others:,} more" if record.others else ""
        table.add_row(record.what, f"{record.value:,.{record.decimals}f}", record.unit, f"{record.when}{others}")
    return table


def _years_for_terminal(answer: "ClimateAnswer") -> "tuple[str, Table]":
    """The title, with the first and last years, without quantities that are zero or unknown in every year."""
    yearly = answer.yearly
    shown = [quantity for quantity in answer.quantities if yearly[quantity.name].fillna(0).any()]
    is_long = len(yearly) > _FIRST_YEARS + _LAST_YEARS
    title = f"Years{': --table yearly prints all' if is_long else ''}"
    marked = (~yearly[[f"{element}_complete" for element in answer.elements]].all(axis=1)).tolist()
    if any(marked):
        title += f"{',' if is_long else ':'} incomplete ones have a *"
    table = _new_table("", *(f"{_broken(quantity.label)}\n{quantity.unit}" for quantity in shown))
    rows = yearly.to_dict("index")
    for position, (year, row) in enumerate(rows.items()):
        if is_long and _FIRST_YEARS <= position < len(rows) - _LAST_YEARS:
            if position == _FIRST_YEARS:
                table.add_row(*["..."] * (len(shown) + 1))
            continue
        star = "*" if marked[position] else ""
        table.add_row(f"{year}{star}", *(quantity.rounded(row[quantity.name]) for quantity in shown))
    return title, table


def _broken(label: str) -> str:
    """A label with one word per line, to keep its column narrow; the last line is the unit."""
    return label.replace(" ", "\n")


def _plain_table(answer: "ClimateAnswer", name: str) -> "Table":
    """All rows and columns of one of the tables."""
    frame = tables_of(answer)[name]
    table = _new_table(str(frame.index.name), *(str(column).replace("_", "\n") for column in frame.columns))
    for row in json_rows(frame):
        table.add_row(*(_shown(value) for value in row.values()))
    return table


def _shown(value: Any) -> str:  # any JSON value of a row  # noqa: ANN401
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
