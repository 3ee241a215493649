"""The start page: what is loaded, a place to look up, and requests to begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from era5_pipeline.model.grid import location_of
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.query.available import describe_months, months_held, places_held
from era5_pipeline.query.credit import read_credit
from era5_pipeline.query.report.elements import element, table
from era5_pipeline.serving.pages.page_frame import framed

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.query.report.elements import Child

_TITLE = "ERA5 warehouse"


def start_page(connection: psycopg.Connection[Any]) -> bytes:
    """The page, by what the ledger says."""
    months = months_held(connection)
    if not months:
        nothing = element("p", "No month is loaded yet: ", element("code", "era5 load --from 2023-01"), ".")
        return framed(_TITLE, nothing)
    places = places_held(connection)
    variables = in_table_order({column for held in months.values() for column in held})
    rows: list[tuple[Child, ...]] = [
        ("Months", f"{len(months):,}: {describe_months(months)}"),
        ("Places", f"{len(places):,} point{'' if len(places) == 1 else 's'} of ERA5's grid of 0.25 degrees"),
        ("Columns", ", ".join(variable.column for variable in variables)),
    ]
    last = max(months)
    where = location_of(int(places.ids()[0])) if places else None
    parts: list[Child] = [
        element("p", "Hours of the ERA5 reanalysis, in a table of PostgreSQL. This server only reads it."),
        table("What is loaded", ("", ""), rows),
        element("h2", "A place"),
        element(
            "form",
            element("label", "Name of a city ", element("input", name="name", required="required", maxlength="100")),
            " ",
            element("button", "Show its climate"),
            action="/place",
            method="get",
        ),
        element("h2", "Requests to begin with"),
    ]
    if where is not None:
        day = f"{last.start:%Y-%m-%d}"
        point = {"latitude": f"{where.latitude:g}", "longitude": f"{where.longitude:g}"}
        hours = urlencode({**point, "start_date": day, "end_date": day, "hourly": "temperature_2m"})
        parts += [_link(f"/v1/archive?{hours}"), _link(f"/v1/climate?{urlencode(point)}")]
    parts += [_link("/healthz"), _link("/metrics"), element("p", "All of them: ", element("a", "routes", href="/docs"))]
    parts.append(element("p", f"{read_credit(connection, min(months).start, last.end)}."))
    return framed(_TITLE, *parts)


def _link(url: str) -> Child:
    return element("p", element("a", element("code", url), href=url))
