"""A climate answer as text: a summary and tables for the terminal, CSV of a table, JSON of all."""

import json
import sys
from math import isnan
from typing import TYPE_CHECKING, Any, Literal

import typer

if TYPE_CHECKING:
    import pandas as pd
    from rich.console import Console
    from rich.table import Table

    from era5_pipeline.query.climate.climate_answer import ClimateAnswer, NoTrend, Trend

# Of a long table of years, so many are shown at its start and at its end.
_FIRST_YEARS, _LAST_YEARS = 5, 10
_SIGNIFICANT_DIGITS = 8
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_DECIMALS = {"degC": 2, "mm": 1, "m/s": 2, "days": 0}


def print_answer(answer: "ClimateAnswer", format_: Literal["table", "csv", "json"], table: str | None) -> None:
    """Print the answer in one of the forms; `table` names one of its tables."""
    if format_ == "json":
        value = answer_as_json(answer, with_days=table == "daily")
        sys.stdout.write(json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
        return
    if format_ == "csv":
        typer.echo(f"{answer.place.title}: {answer.place.description}", err=True)
        frame = _tables(answer)[table or "yearly"]
        frame.to_csv(sys.stdout, float_format=f"%.{_SIGNIFICANT_DIGITS}g", date_format="%Y-%m-%d")
        return
    _print_for_terminal(answer, table)


def answer_as_json(answer: "ClimateAnswer", *, with_days: bool = False) -> dict[str, Any]:
    """Make the JSON value of `era5 climate --format json`."""
    place, provenance = answer.place, answer.provenance
    names = [name for name in _tables(answer) if name != "daily" or with_days]
    return {
        "sentence": answer.sentence,
        "is_significant": answer.is_significant,
        "place": {
            "name": place.name,
            "asked": list(place.asked) if place.asked else None,
            "location_id": place.location.location_id if place.location else None,
            "latitude": place.location.latitude if place.location else None,
            "longitude": place.location.longitude if place.location else None,
            "land_share": place.land_share,
            "area": str(place.area) if place.area else None,
            "points": place.points,
            "time_zone": place.zone,
            "description": place.description,
        },
        "period": {"first": f"{answer.first:%Y-%m-%dT%H:%MZ}", "last": f"{answer.last:%Y-%m-%dT%H:%MZ}"},
        "days": {
            "utc_offset_minutes": answer.days.offset_minutes,
            "time_zone": answer.days.zone,
            "rule": answer.days.statement,
            "warnings": list(answer.days.warnings),
        },
        "baseline": {
            "years": str(answer.baseline.years),
            "complete_years": answer.baseline.complete,
            "is_used": answer.baseline.is_used,
            "note": answer.baseline.note,
        },
        "seasons_then": str(answer.seasons.then) if answer.seasons.then else None,
        "seasons_now": str(answer.seasons.now) if answer.seasons.now else None,
        "units": {quantity.name: quantity.unit for quantity in answer.quantities},
        "definitions": {quantity.name: quantity.definition for quantity in answer.quantities},
        **{name: _rows(_tables(answer)[name]) for name in names},
        "months": provenance.months,
        "hours": provenance.hours,
        "missing_months": {
            name: [str(month) for month in months] for name, months in provenance.missing_months.items()
        },
        "missing_hours": dict(provenance.missing_hours),
        "preliminary_share": provenance.preliminary_share,
        "versions": dict(provenance.versions),
        "sources": dict(provenance.sources),
        "notes": [*answer.notes, *provenance.lines],
        "what_era5_is": answer.what_era5_is,
        "credit": provenance.credit,
    }


def _tables(answer: "ClimateAnswer") -> "dict[str, pd.DataFrame]":
    """The tables by the names of the option `--table`."""
    return {
        "yearly": answer.yearly,
        "monthly": answer.monthly,
        "daily": answer.daily,
        "seasons": answer.seasons.table,
        "trends": _trends_table(answer),
        "records": _records_table(answer),
    }


def _trends_table(answer: "ClimateAnswer") -> "pd.DataFrame":
    """A row for each quantity and span, with the reason where there is no trend."""
    import pandas as pd

    from era5_pipeline.query.climate.climate_answer import NoTrend

    rows = []
    for trends in answer.trends:
        for span, trend in (("whole", trends.whole), ("since_1979", trends.since_1979)):
            row: dict[str, Any] = {
                "quantity": trends.quantity.name,
                "span": span,
                "unit": f"{trends.quantity.unit} per decade",
            }
            if isinstance(trend, NoTrend):
                rows.append(row | {"reason": trend.reason})
                continue
            rows.append(
                row
                | {
                    "first_year": trend.years.first,
                    "last_year": trend.years.last,
                    "years": trend.count,
                    "slope": trend.slope,
                    "low": trend.low,
                    "high": trend.high,
                    "is_significant": trend.is_significant,
                    "lag1": trend.lag1,
                    "effective_years": trend.effective_count,
                    "theil_sen": trend.theil_sen,
                    "theil_sen_low": trend.theil_sen_low,
                    "theil_sen_high": trend.theil_sen_high,
                    "kendall_tau": trend.kendall_tau,
                    "kendall_p": trend.kendall_p,
                }
            )
    columns = [
        *("quantity", "span", "unit", "first_year", "last_year", "years", "slope", "low", "high", "is_significant"),
        *("lag1", "effective_years", "theil_sen", "theil_sen_low", "theil_sen_high", "kendall_tau", "kendall_p"),
        "reason",
    ]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    return table.set_index("quantity")


def _records_table(answer: "ClimateAnswer") -> "pd.DataFrame":
    import pandas as pd

    columns = ["record", "value", "unit", "when", "others"]
    rows = [(record.name, record.value, record.unit, record.when, record.others) for record in answer.records]
    return pd.DataFrame(rows, columns=columns).set_index("record")


def _rows(table: "pd.DataFrame") -> list[dict[str, Any]]:
    """The rows of a table as JSON values: NaN is null, numbers have as many digits as in CSV."""
    keys = table.index.name
    columns = {str(name): table[name].tolist() for name in table.columns}
    return [
        {str(keys): _plain(key), **{name: _plain(values[row]) for name, values in columns.items()}}
        for row, key in enumerate(table.index.tolist())
    ]


def _plain(value: Any) -> Any:  # any value of a table  # noqa: ANN401
    if isinstance(value, float):
        return None if isnan(value) else float(f"{value:.{_SIGNIFICANT_DIGITS}g}")
    if hasattr(value, "strftime"):
        return f"{value:%Y-%m-%d}"
    return value


def _print_for_terminal(answer: "ClimateAnswer", table: str | None) -> None:
    from rich.console import Console

    from era5_pipeline.query.climate.climate_answer import Trend

    console = Console(highlight=False, soft_wrap=True)
    console.print(answer.sentence, markup=False, style="bold")
    console.print(_heading(answer), markup=False)
    if table is not None:
        _print_wide(console, _plain_table(answer, table))
    else:
        if any(isinstance(trends.whole, Trend) for trends in answer.trends):
            _print_wide(console, _trends_for_terminal(answer))
        if answer.seasons.then or answer.seasons.now:
            _print_wide(console, _seasons_for_terminal(answer))
        _print_wide(console, _records_for_terminal(answer))
        _print_wide(console, _years_for_terminal(answer))
    lines = (*answer.notes, *(line for line in answer.provenance.lines if line not in answer.provenance.gaps))
    for line in (*lines, answer.what_era5_is, answer.provenance.credit):
        console.print(f"{line[0].upper()}{line[1:]}", markup=False)


def _heading(answer: "ClimateAnswer") -> str:
    """Which points, which period, which baseline."""
    baseline = answer.baseline
    rests = f"{baseline.complete} of {len(baseline.years)} years complete"
    return (
        f"{answer.place.description}; {answer.first:%Y-%m-%d %H:%M} to {answer.last:%Y-%m-%d %H:%M} UTC, "
        f"{answer.provenance.hours:,} hours; baseline {baseline.years} ({rests})"
    )


def _print_wide(console: "Console", table: "Table") -> None:
    """Print a table as wide as it must be, rather than with truncated numbers."""
    from rich.console import Console

    needed = console.measure(table, options=console.options.update(width=1000)).maximum
    Console(width=max(console.width, needed), highlight=False).print(table)


def _new_table(title: str, *columns: str) -> "Table":
    from rich import box
    from rich.table import Table
    from rich.text import Text

    table = Table(
        title=Text(title), title_justify="left", title_style="", box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False
    )
    for number, column in enumerate(columns):
        table.add_column(Text(column), justify="right" if number else "left", no_wrap=True)
    return table


def _trends_for_terminal(answer: "ClimateAnswer") -> "Table":
    """A row for each quantity: both spans, and the tests beside the headline."""
    table = _new_table(
        "\nTrends per decade (least squares, 95 % interval that allows for autocorrelation)",
        "",
        "unit",
        "whole record",
        "since 1979",
        "Theil-Sen",
        "Kendall p",
    )
    from era5_pipeline.query.climate.climate_answer import Trend
    from era5_pipeline.query.climate.climate_words import p_text

    for trends in answer.trends:
        whole = trends.whole
        beside = (f"{whole.theil_sen:+.2f}", p_text(whole.kendall_p)) if isinstance(whole, Trend) else ("", "")
        table.add_row(
            trends.quantity.label, trends.quantity.unit, _trend_text(whole), _trend_text(trends.since_1979), *beside
        )
    return table


def _trend_text(trend: "Trend | NoTrend") -> str:
    from era5_pipeline.query.climate.climate_answer import NoTrend
    from era5_pipeline.query.climate.climate_words import interval_text

    if isinstance(trend, NoTrend):
        return trend.reason.split(":")[0]
    return f"{interval_text(trend)}{' *' if trend.is_significant else '  '}"


def _seasons_for_terminal(answer: "ClimateAnswer") -> "Table":
    """A row for each month of the year."""
    seasons, elements = answer.seasons, answer.elements
    units = {"temperature": "degC", "precipitation": "mm", "wind": "m/s"}
    spans = {"then": seasons.then, "now": seasons.now}
    there = [which for which, years in spans.items() if years is not None]
    columns = [(element, which) for element in elements for which in (*there, *(["change"] if len(there) == 2 else []))]
    table = _new_table(
        f"\nMean of each month of the year: {', '.join(f'{which} is {spans[which]}' for which in there)}",
        "",
        *(f"{element}\n{which}, {units[element]}" for element, which in columns),
    )
    for month, row in enumerate(seasons.table.to_dict("records")):
        cells = [
            _cell(row[f"{element}_{which}"], units[element], signed=which == "change") for element, which in columns
        ]
        table.add_row(_MONTHS[month], *cells)
    return table


def _cell(value: float, unit: str, *, signed: bool = False) -> str:
    return "-" if isnan(value) else f"{value:{'+' if signed else ''}.{_DECIMALS[unit]}f}"


def _records_for_terminal(answer: "ClimateAnswer") -> "Table":
    when = f"when ({answer.days.offset_name})"
    table = _new_table("\nRecords", "", "value", "unit", when)
    for record in answer.records:
        others = f" and {record.others:,} more" if record.others else ""
        table.add_row(record.what, f"{record.value:,.{record.decimals}f}", record.unit, f"{record.when}{others}")
    return table


def _years_for_terminal(answer: "ClimateAnswer") -> "Table":
    """The first and the last years, without quantities that are zero or unknown in every year."""
    yearly = answer.yearly
    shown = [quantity for quantity in answer.quantities if yearly[quantity.name].fillna(0).any()]
    is_long = len(yearly) > _FIRST_YEARS + _LAST_YEARS
    title = f"\nYears{': --table yearly prints all' if is_long else ''}"
    marked = (~yearly[[f"{element}_complete" for element in answer.elements]].all(axis=1)).tolist()
    if any(marked):
        title += f"{',' if is_long else ':'} incomplete ones have a *"
    table = _new_table(title, "", *(f"{_broken(quantity.label)}\n{quantity.unit}" for quantity in shown))
    rows = yearly.to_dict("index")
    for position, (year, row) in enumerate(rows.items()):
        if is_long and _FIRST_YEARS <= position < len(rows) - _LAST_YEARS:
            if position == _FIRST_YEARS:
                table.add_row(*["..."] * (len(shown) + 1))
            continue
        star = "*" if marked[position] else ""
        table.add_row(f"{year}{star}", *(quantity.rounded(row[quantity.name]) for quantity in shown))
    return table


def _broken(label: str) -> str:
    """A label on as many lines as it has words, to keep its column narrow; the last line is the unit's."""
    return label.replace(" ", "\n")


def _plain_table(answer: "ClimateAnswer", name: str) -> "Table":
    """All rows and columns of one of the tables."""
    frame = _tables(answer)[name]
    table = _new_table("", str(frame.index.name), *(str(column).replace("_", "\n") for column in frame.columns))
    for row in _rows(frame):
        table.add_row(*(_shown(value) for value in row.values()))
    return table


def _shown(value: Any) -> str:  # any JSON value of a row  # noqa: ANN401
    if value is None:
        return "-"
    return f"{value:.3f}" if isinstance(value, float) else str(value)
