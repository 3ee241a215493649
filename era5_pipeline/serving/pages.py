"""Pages for people: what is loaded, and a place's climate as in `era5 report`; none loads anything from a network."""

from __future__ import annotations

import re
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Query, Request, Response
from fastapi import Path as PathPart

from era5_pipeline.climate.question import climate_question
from era5_pipeline.climate.reading import read_climate
from era5_pipeline.model.dataset import dataset_named
from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.places import (
    UnknownPlaceError,
    count_cities,
    describe,
    find_candidates,
    place_meant,
    place_of,
    unknown_place,
)
from era5_pipeline.model.question import HTTP, place_with_cell
from era5_pipeline.model.question import asked_place as asked_point
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.postgres.dataset_connection import dataset_of, datasets_in, turn_to
from era5_pipeline.read.credit import read_credit
from era5_pipeline.read.held import describe_months, fullest_part, months_held, places_held
from era5_pipeline.read.missing import nearest_place, point_name
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.serving.answers import AnswerVersion, encoded_answer, read_version
from era5_pipeline.serving.archive.hourly import HOURLY
from era5_pipeline.serving.archive.models import model_name
from era5_pipeline.serving.errors import Refusal, RefusalError, reason_of
from era5_pipeline.serving.fetch import PlacePendingError, fetching
from era5_pipeline.serving.requests import AskedDataset, Reader  # noqa: TC001  # FastAPI evaluates them
from era5_pipeline.serving.route_page import EXAMPLES, HTML_TYPE, POLICY, page_of, route_page

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import psycopg

    from era5_pipeline.climate.answer import ClimateAnswer
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Grid, Location
    from era5_pipeline.model.places import AskedPlace, Place


_TITLE = "ERA5 warehouse"
# A text and the path that it leads to.
_Link = tuple[str, str]


# One of these columns suffices for an answer of `/v1/climate`.
_CLIMATE_COLUMNS = frozenset({"temperature_2m", "total_precipitation"})
_WHOLE_DAY = 24


def start_page(
    connection: psycopg.Connection[Any],
    datasets: Sequence[Dataset],
    notice: str | None = None,
    *,
    fetches: bool = False,
) -> bytes:
    """The start page, from the ledgers of data sets, that of the server first; `notice` of generated data precedes.

    If the server `fetches`, places may be asked for although nothing is loaded.
    """
    shown = [held for dataset in datasets if (held := _held(connection, dataset, datasets[0])) is not None]
    return page_of("start.html", title=_TITLE, notice=notice, sets=shown, datasets=_choices(datasets), fetches=fetches)


def _choices(datasets: Sequence[Dataset]) -> list[str]:
    """The data sets that a form asks about; none if there is only one."""
    return [dataset.name for dataset in datasets] if len(datasets) > 1 else []


@dataclass(frozen=True)
class _Held:
    """The loaded contents of a data set, for the start page: table, a place with a page, example requests, credit."""

    dataset: Dataset
    rows: tuple[tuple[str, str], ...]
    place: _Link | None
    examples: list[str]
    credit: str


def _held(connection: psycopg.Connection[Any], dataset: Dataset, default: Dataset) -> _Held | None:
    """Read the loaded contents of the data set; None if nothing is loaded. Links name it if it is not the default."""
    turn_to(connection, dataset)
    months = months_held(connection)
    if not months:
        return None
    places = places_held(connection)
    grid, step = places.grid, f"{places.grid.step_degrees:g} degrees"
    variables = in_table_order({column for held in months.values() for column in held})
    rows = (
        ("Data set", f"{dataset.title}, doi:{dataset.doi}"),
        ("Months", f"{len(months):,}: {describe_months(months)}"),
        ("Places", f"{len(places):,} point{'' if len(places) == 1 else 's'} of {grid.name}'s grid of {step}"),
        ("Columns", ", ".join(variable.column for variable in variables)),
    )
    place, examples = _examples(connection, default)
    credit = read_credit(connection, min(months).start, max(months).end)
    return _Held(dataset, rows, place, examples, credit)


def _examples(connection: psycopg.Connection[Any], default: Dataset) -> tuple[_Link | None, list[str]]:
    """A place with a page, and requests that this table can answer, from the fullest month: a whole day if it has one.

    The newest month may be a few hours, and the largest one hour of the globe.
    """
    part = fullest_part(connection)
    if part is None:
        return None, []
    month, places, columns = part
    city = next((city for city, location_id in _cities(places.grid) if location_id in places), None)
    ids, grid = places.ids(), places.grid
    where = (
        grid.location(int(ids[len(ids) // 2])) if city is None else grid.nearest_location(city.latitude, city.longitude)
    )
    range_ = {"location_id": where.location_id, "start": month.start, "end": month.end}
    row = connection.execute(read_sql("fullest_day", dataset_of(connection)), range_).fetchone()
    if row is None:  # the ledger claims hours
        return None, []
    day, hours = row
    point = {"latitude": f"{where.latitude:g}", "longitude": f"{where.longitude:g}"}
    variable = next((name for name, one in HOURLY.items() if columns.issuperset(one.columns)), None)
    requests, dataset = [], dataset_of(connection)
    if variable is not None:
        days = {"start_date": f"{day:%Y-%m-%d}", "end_date": f"{day:%Y-%m-%d}"}
        models = {} if dataset == default else {"models": model_name(dataset)}
        requests.append(f"/v1/archive?{urlencode({**point, **days, 'hourly': variable, **models})}")
    if hours != _WHOLE_DAY or columns.isdisjoint(_CLIMATE_COLUMNS):
        return None, requests
    named = _named(dataset, default)
    requests.append(f"/v1/climate?{urlencode(point | named)}")
    if city is None:
        return _link_to_point(where, named), requests
    return (str(city), path_of(str(city.geoname_id), named)), requests


def _named(dataset: Dataset, default: Dataset) -> dict[str, str]:
    """The parameter of a link to answers from the data set."""
    return {} if dataset == default else {"dataset": dataset.name}


@cache
def _cities(grid: Grid) -> list[tuple[Place, int]]:
    """All cities with their nearest locations on the grid, the most populous first."""
    cities = sorted(map(place_of, range(count_cities())), key=lambda city: -city.population)
    return [(city, grid.nearest_location(city.latitude, city.longitude).location_id) for city in cities]


# Pages cached in one process, the last that were made: each has about a megabyte.
_KEPT_PAGES = 32
_COORDINATES = re.compile(r"([+-]?\d{1,3}(?:\.\d{1,12})?)\s*[,\s]\s*([+-]?\d{1,3}(?:\.\d{1,12})?)")
_guessing = threading.Lock()


class PageCache:
    """Pages by place and by the contents they were made from; one is made at a time.

    Drawing is not thread-safe, and its figures take much memory.
    """

    def __init__(self, wait_seconds: float) -> None:
        self._pages: dict[tuple[object, ...], bytes] = {}
        self._making = threading.Lock()
        self._wait_seconds = wait_seconds

    def page(self, asked: AskedPlace, contents: str | None, read: Callable[[], ClimateAnswer]) -> bytes:
        """The page of a place: from the cache, else from the result of `read`; `contents` None: do not cache."""
        key = (asked.cell.location, asked.place, asked.latitude, asked.longitude, contents or "")
        if (kept := self._pages.get(key)) is not None:
            return kept
        if not self._making.acquire(timeout=self._wait_seconds):
            raise RefusalError(Refusal.BUSY, self._wait_seconds)
        try:
            if (kept := self._pages.get(key)) is not None:  # made while this request waited
                return kept
            # Drawing imports matplotlib and scipy, which only pages need.
            from era5_pipeline.report.page import report_page  # noqa: PLC0415

            page = report_page(read()).encode()
            if contents is not None:
                if len(self._pages) >= _KEPT_PAGES:
                    del self._pages[next(iter(self._pages))]
                self._pages[key] = page
            return page
        finally:
            self._making.release()


def asked_place(name: str, grid: Grid = ERA5_GRID) -> AskedPlace | list[Place]:
    """The city of this name, or the point `LAT,LON`, with its cell; or all cities that the name may mean."""
    if match := _COORDINATES.fullmatch(name.strip()):
        return asked_point(HTTP, None, float(match[1]), float(match[2]), grid=grid)
    candidates = find_candidates(name)
    if not candidates:
        raise _unknown(name)
    meant = place_meant(candidates)
    if meant is None:
        return [one.place for one in candidates]
    return place_with_cell(meant, grid=grid)


def _unknown(name: str) -> UnknownPlaceError:
    """The error for an unknown city; with similar names, unless another request is searching for some."""
    # Comparing a name with all others takes a tenth of a second or two, during which other answers wait.
    if not _guessing.acquire(blocking=False):
        return UnknownPlaceError("no city in the table has this name", remedy="Check the spelling.")
    try:
        return unknown_place(name)
    finally:
        _guessing.release()


def _path_to(place: Place, named: Mapping[str, str]) -> str:
    """The path of a city's page: by its name, if that means this city, else by its number."""
    by_name = "," not in place.name and place_meant(find_candidates(place.name)) == place
    return path_of(place.name if by_name else str(place.geoname_id), named)


def path_of(name: str, named: Mapping[str, str] | None = None) -> str:
    """The path of a place's page; `named` is the parameter that names the data set, if one does."""
    if not name.strip():
        raise UsageError("the name of the place is empty", remedy="Give the name of a city, such as Jakarta.")
    return _with_parameter(f"/place/{quote(name.strip(), safe='')}", named)


def _with_parameter(path: str, named: Mapping[str, str] | None) -> str:
    return f"{path}?{urlencode(named)}" if named else path


# --- The routes of the pages: `/`, `/docs`, `/place` and `/place/{name}` ---


page_routes = APIRouter(tags=["pages"])
_HEADERS = {"Content-Security-Policy": POLICY}
_UNKEPT = {"Cache-Control": "no-cache"}
_HTML: dict[str, Any] = {"content": {"text/html": {"schema": {"type": "string"}}}}


def _page(
    request: Request, status: int, template: str, retry_seconds: int | None = None, **contents: object
) -> Response:
    """The page of a template, for one that has no version."""
    retry = {} if retry_seconds is None else {"Retry-After": str(retry_seconds)}
    headers = {**_HEADERS, **_UNKEPT, **retry}
    return encoded_answer(request, page_of(template, **contents), HTML_TYPE, status=status, headers=headers)


@page_routes.get("/", response_class=Response, responses={200: {**_HTML, "description": "The page"}})
def start(request: Request, reader: Reader) -> Response:
    """Show what is loaded, and requests to start with."""
    with reader.connected("reading the ledger") as connection:
        datasets = tuple(dict.fromkeys((reader.dataset, *datasets_in(connection))))
        versions = []
        for dataset in datasets:
            turn_to(connection, dataset)
            versions.append(read_version(connection, request))
        version = AnswerVersion.joined([one for one in versions if one is not None])
        if version is not None and (unchanged := version.unchanged_answer(request)):
            return unchanged
        notice, fetches = version.origin.notice if version else None, request.app.state.fetches is not None
        content = start_page(connection, datasets, notice, fetches=fetches)
    return encoded_answer(request, content, HTML_TYPE, version=version, headers=_HEADERS)


@page_routes.get("/docs", response_class=Response, responses={200: {**_HTML, "description": "The page"}})
def docs(request: Request) -> Response:
    """List the routes, with their parameters and examples."""
    return encoded_answer(request, route_page(request.app.openapi()), HTML_TYPE, headers={**_HEADERS, **_UNKEPT})


@page_routes.get(
    "/place",
    response_class=Response,
    status_code=303,
    responses={303: {"description": "To the page of the place"}},
    openapi_extra={EXAMPLES: ["/place?name=jakarta"]},
)
def place_by_form(
    name: Annotated[str, Query(description="Name of a city, or latitude and longitude", max_length=100)],
    dataset: AskedDataset = None,
) -> Response:
    """Redirect from the form on the start page to the page of a city or of coordinates."""
    named = {} if dataset is None else {"dataset": dataset_named(dataset).name}
    return Response(status_code=303, headers={"Location": path_of(name, named)})


@page_routes.get(
    "/place/{name}",
    response_class=Response,
    responses={
        200: {**_HTML, "description": "The page"},
        300: {**_HTML, "description": "Several cities have this name; the page lists them"},
        304: {"description": "The client already has this version"},
        404: {**_HTML, "description": "No city has this name, or the table has no complete day for it"},
        503: {**_HTML, "description": "Busy, or the database is unreachable: try again after Retry-After seconds"},
        504: {**_HTML, "description": "Reading took longer than the limit"},
    },
    openapi_extra={EXAMPLES: ["/place/jakarta", "/place/Paris, Texas", "/place/-6.25,106.75"]},
)
def place(
    request: Request,
    reader: Reader,
    name: Annotated[
        str, PathPart(description="City: `jakarta`, `Paris, Texas`, its number of GeoNames; or `-6.25,106.75`")
    ],
    dataset: AskedDataset = None,
) -> Response:
    """Show how the weather of a city or of a point has changed, as `era5 report` does.

    The page needs no network and runs no script. The first request for a place takes seconds; later ones come
    from a cache.
    """
    try:
        of = reader.dataset_named(dataset)
    except UsageError as error:
        return _page(request, 404, "failure.html", title="No such data set", reason=reason_of(error))
    named = _named(of, reader.dataset)
    try:
        return _place(request, reader, name, of)
    except UnknownPlaceError as error:
        reason = f"{error.message[:1].upper()}{error.message[1:]}."
        similar = [(str(place), _path_to(place, named)) for place in error.similar]
        return _page(request, 404, "unknown.html", title="No such place", reason=reason, similar=similar)
    except UsageError as error:
        return _page(request, 404, "failure.html", title="No such place", reason=reason_of(error))
    except NoDataError as error:
        nearest = _nearest(reader, name, of)
        return _page(
            request, 404, "failure.html", title=f"{name}: not loaded", reason=reason_of(error), nearest=nearest
        )
    except PlacePendingError as error:
        seconds, (progress,) = error.retry_seconds, error.places
        contents = {"title": f"{name}: being loaded", "progress": progress, "seconds": seconds, "dataset": of}
        answer = _page(request, error.status, "fetching.html", seconds, **contents)
        # Instead of a script, which pages may not run.
        answer.headers["Refresh"] = str(seconds)
        return answer
    except RefusalError as error:
        retry, reason = error.retry_seconds, error.reason
        return _page(request, error.status, "failure.html", retry, title="Not now", reason=reason)


def _nearest(reader: Reader, name: str, dataset: Dataset) -> _Link | None:
    """The name and path of the loaded place nearest to one that is not; None if nothing is loaded.

    The reason beside it tells its distance.
    """
    asked = asked_place(name, dataset.grid)
    if isinstance(asked, list):
        return None
    with reader.connected("reading the ledger", dataset) as connection:
        places = places_held(connection)
    if not places:
        return None
    place, _ = nearest_place(places, asked.latitude, asked.longitude)
    return _link_to_point(place, _named(dataset, reader.dataset))


def _link_to_point(where: Location, named: Mapping[str, str]) -> _Link:
    return point_name(where), _with_parameter(f"/place/{where.latitude:g},{where.longitude:g}", named)


def _answer(reader: Reader, asked: AskedPlace, dataset: Dataset) -> ClimateAnswer:
    with reader.connected("reading the climate", dataset) as connection:
        return read_climate(connection, climate_question(asked))


def _place(request: Request, reader: Reader, name: str, dataset: Dataset) -> Response:
    asked = asked_place(name, dataset.grid)
    if isinstance(asked, list):
        named = _named(dataset, reader.dataset)
        places = [(describe(place), path_of(str(place.geoname_id), named)) for place in asked]
        return _page(request, 300, "choice.html", title=f"{name}: which one?", places=places)
    cache: PageCache = request.app.state.pages
    location = asked.cell.location
    with fetching(request, reader, [location], dataset):
        with reader.connected("reading the climate", dataset) as connection:
            version = read_version(connection, request, LocationSet.of_location(location))
            if version is not None and (unchanged := version.unchanged_answer(request)):
                return unchanged
        content = cache.page(asked, version.contents if version else None, lambda: _answer(reader, asked, dataset))
    return encoded_answer(request, content, HTML_TYPE, version=version, headers=_HEADERS)
