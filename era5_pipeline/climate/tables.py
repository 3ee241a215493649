"""The tables of a climate answer, by the names of the option `--table`, and the whole answer as a JSON value.

The summary for a terminal is in `cli/climate`.
"""

from __future__ import annotations

from math import isnan
from typing import TYPE_CHECKING, Any

import pandas as pd

from era5_pipeline.climate.answer import BY_QUANTITY, NoTrend
from era5_pipeline.climate.regression import METHOD
from era5_pipeline.climate.years import MOST_MISSING_DAYS

if TYPE_CHECKING:
    from era5_pipeline.climate.answer import ClimateAnswer

# For numbers in CSV and JSON.
SIGNIFICANT_DIGITS = 8


# Of the definition of an index: the years that have none.
_NONE_IF = f"; none if more than {MOST_MISSING_DAYS} days of the year lack an hour"


def answer_as_json(answer: ClimateAnswer, *, with_days: bool = False) -> dict[str, Any]:
    """The JSON value of `era5 climate --format json`."""
    place, provenance = answer.place, answer.provenance
    names = [name for name in tables_of(answer) if name != "daily" or with_days]
    return {
        **({"notice": provenance.notice} if provenance.notice else {}),
        "sentence": answer.sentence,
        "is_significant": answer.is_significant,
        "method": METHOD,
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
        "definitions": {
            quantity.name: quantity.definition + (_NONE_IF if quantity.is_index else "")
            for quantity in answer.quantities
        },
        **{name: json_rows(tables_of(answer)[name]) for name in names},
        "months": provenance.months,
        "hours": provenance.hours,
        "missing_months": {
            name: [str(month) for month in months] for name, months in provenance.missing_months.items()
        },
        "missing_hours": dict(provenance.missing_hours),
        "preliminary_share": provenance.preliminary_share,
        "unknown_share": provenance.unknown_share,
        "versions": dict(provenance.versions),
        "sources": dict(provenance.sources),
        "notes": [*answer.notes, *provenance.lines],
        "what_era5_is": answer.dataset.what_it_is,
        "credit": provenance.credit,
    }


def tables_of(answer: ClimateAnswer) -> dict[str, pd.DataFrame]:
    """The tables by the names of the option `--table`."""
    records = [(one.name, one.value, one.unit, one.when, one.others) for one in answer.records]
    return {
        "yearly": answer.yearly,
        "monthly": answer.monthly,
        "daily": answer.daily,
        "seasons": answer.seasons.table,
        "trends": _trends_table(answer),
        "records": pd.DataFrame(records, columns=["record", "value", "unit", "when", "others"]).set_index("record"),
    }


def unit_of(column: str) -> str:
    """The unit of a column of the tables of days, months, years and seasons; empty for a change, and for others."""
    known = BY_QUANTITY.get(column.removesuffix("_then").removesuffix("_now"))
    return known.unit if known is not None else ""


def _trends_table(answer: ClimateAnswer) -> pd.DataFrame:
    """A row for each quantity and span; if there is no trend, it has the reason."""
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
                    "p": trend.p,
                    "lag1": trend.lag1,
                    "effective_years": trend.effective_count,
                    "theil_sen": trend.theil_sen,
                    "curvature_p": trends.curvature_p if span == "whole" else None,
                    "method": METHOD,
                }
            )
    columns = [
        *("quantity", "span", "unit", "first_year", "last_year", "years", "slope", "low", "high", "is_significant"),
        *("p", "lag1", "effective_years", "theil_sen", "curvature_p", "method", "reason"),
    ]
    table = pd.DataFrame(rows, columns=columns, dtype=object)
    return table.set_index("quantity")


def json_rows(table: pd.DataFrame) -> list[dict[str, Any]]:
    """The rows of a table as JSON values: NaN is null, numbers have as many digits as in CSV."""
    keys = table.index.name
    columns = {str(name): table[name].tolist() for name in table.columns}
    return [
        {str(keys): _plain(key), **{name: _plain(values[row]) for name, values in columns.items()}}
        for row, key in enumerate(table.index.tolist())
    ]


def _plain(value: Any) -> Any:  # any value of a table  # noqa: ANN401
    if isinstance(value, float):
        return None if isnan(value) else float(f"{value:.{SIGNIFICANT_DIGITS}g}")
    if hasattr(value, "strftime"):
        return f"{value:%Y-%m-%d}"
    return value
