"""The start page: what is loaded, a place to look up, and requests to begin with."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

from era5_pipeline.model.grid import location_of, nearest_location
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.places.place_table import count_cities, place_of
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.query.available import describe_months, months_held, places_held
from era5_pipeline.query.credit import read_credit
from era5_pipeline.query.report.elements import element, table
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.serving.archive.variables.hourly_variables import HOURLY
from era5_pipeline.serving.pages.page_frame import framed

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg

    from era5_pipeline.model.places.place import Place
    from era5_pipeline.query.report.elements import Child

_TITLE = "ERA5 warehouse"


# Of these, one is enough for an answer of `/v1/climate`.
_CLIMATE_COLUMNS = frozenset({"temperature_2m", "total_precipitation"})
_WHOLE_DAY = 24


def start_page(connection: psycopg.Connection[Any], notice: str | None = None) -> bytes:
    """The page, by what the ledger says; `notice`, of generated data, stands first."""
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
    of = "" if notice else " of the ERA5 reanalysis"
    parts: list[Child] = [
        *([element("p", element("strong", notice))] if notice else []),
        element("p", f"Hours{of}, in a table of PostgreSQL. This server only reads it."),
        table("What is loaded", ("", ""), rows),
        element("h2", "A place"),
        element(
            "form",
            element(
                "label",
                "Name of a city, or latitude and longitude ",
                element("input", name="name", required="required", maxlength="100"),
            ),
            " ",
            element("button", "Show its climate"),
            action="/place",
            method="get",
        ),
        element("h2", "Requests to begin with"),
    ]
    if places:
        parts += map(_link, _examples(connection, places))
    parts += [_link("/healthz"), _link("/metrics"), element("p", "All of them: ", element("a", "routes", href="/docs"))]
    parts.append(element("p", f"{read_credit(connection, min(months).start, last.end)}."))
    return framed(_TITLE, *parts)


def _examples(connection: psycopg.Connection[Any], places: LocationSet) -> Iterator[str]:
    """Requests that have an answer on this table: of a day and a variable that it holds, at a place that it holds."""
    city = next((city for city, location_id in _cities() if location_id in places), None)
    ids = places.ids()
    where = location_of(int(ids[len(ids) // 2])) if city is None else nearest_location(city.latitude, city.longitude)
    held = months_held(connection, LocationSet.of_ids([where.location_id]))
    last = max(held)
    range_ = {"location_id": where.location_id, "start": last.start, "end": last.end}
    row = connection.execute(read_sql("fullest_day"), range_).fetchone()
    if row is None:  # the ledger says that there are hours
        return
    day, hours = row
    point = {"latitude": f"{where.latitude:g}", "longitude": f"{where.longitude:g}"}
    columns = set(held[last])
    variable = next((name for name, one in HOURLY.items() if columns.issuperset(one.columns)), None)
    if variable is not None:
        days = {"start_date": f"{day:%Y-%m-%d}", "end_date": f"{day:%Y-%m-%d}"}
        yield f"/v1/archive?{urlencode({**point, **days, 'hourly': variable})}"
    if hours == _WHOLE_DAY and not columns.isdisjoint(_CLIMATE_COLUMNS):
        yield f"/v1/climate?{urlencode(point)}"
        yield f"/place/{point['latitude']},{point['longitude']}" if city is None else f"/place/{city.geoname_id}"


@cache
def _cities() -> list[tuple[Place, int]]:
    """All cities with the location nearest to each, the most populous first."""
    cities = sorted(map(place_of, range(count_cities())), key=lambda city: -city.population)
    return [(city, nearest_location(city.latitude, city.longitude).location_id) for city in cities]


def _link(url: str) -> Child:
    return element("p", element("a", element("code", url), href=url))
