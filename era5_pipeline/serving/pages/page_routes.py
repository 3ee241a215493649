"""The routes of the pages: `/`, `/docs`, `/place` and `/place/{name}`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.query.available import places_held
from era5_pipeline.serving.answer_versions import read_version
from era5_pipeline.serving.encoded_answers import encoded_answer
from era5_pipeline.serving.error_answers import reason_of
from era5_pipeline.serving.pages.page_frame import HTML_TYPE, POLICY
from era5_pipeline.serving.pages.place_page import (
    PageCache,
    asked_place,
    choice_page,
    failure_page,
    nearest_link,
    path_of,
    read_place,
)
from era5_pipeline.serving.pages.route_page import EXAMPLES, route_page
from era5_pipeline.serving.pages.start_page import start_page
from era5_pipeline.serving.refusals import RefusalError
from era5_pipeline.serving.request_reader import Reader  # noqa: TC001  # FastAPI evaluates it

if TYPE_CHECKING:
    from xml.etree import ElementTree as ET

    from era5_pipeline.model.places.place import AskedPlace
    from era5_pipeline.query.climate.climate_answer import ClimateAnswer

page_routes = APIRouter(tags=["pages"])
_HEADERS = {"Content-Security-Policy": POLICY}
_HTML: dict[str, Any] = {"content": {"text/html": {"schema": {"type": "string"}}}}


def _page(request: Request, content: bytes, status: int = 200, **headers: str) -> Response:
    sent = {**_HEADERS, "Cache-Control": "no-cache", **{name.replace("_", "-"): text for name, text in headers.items()}}
    return encoded_answer(request, content, HTML_TYPE, status=status, headers=sent)


@page_routes.get("/", response_class=Response, responses={200: {**_HTML, "description": "The page"}})
def start(request: Request, reader: Reader) -> Response:
    """Show what is loaded, and requests to begin with."""
    with reader.connected("reading the ledger") as connection:
        version = read_version(connection, request)
        if version is not None and (unchanged := version.unchanged_answer(request)):
            return unchanged
        content = start_page(connection, version.origin.notice if version else None)
    return encoded_answer(request, content, HTML_TYPE, version=version, headers=_HEADERS)


@page_routes.get("/docs", response_class=Response, responses={200: {**_HTML, "description": "The page"}})
def docs(request: Request) -> Response:
    """List the routes, with their parameters and examples."""
    return _page(request, route_page(request.app.openapi()))


@page_routes.get(
    "/place",
    response_class=Response,
    status_code=303,
    responses={303: {"description": "To the page of the place"}},
    openapi_extra={EXAMPLES: ["/place?name=jakarta"]},
)
def place_by_form(
    name: Annotated[str, Query(description="Name of a city, or latitude and longitude", max_length=100)],
) -> Response:
    """Find the page of a city by its name, or of coordinates, as the form of the start page asks."""
    return Response(status_code=303, headers={"Location": path_of(name)})


@page_routes.get(
    "/place/{name}",
    response_class=Response,
    responses={
        200: {**_HTML, "description": "The page"},
        300: {**_HTML, "description": "Several cities have the name: which they are"},
        304: {"description": "The client has it already"},
        404: {**_HTML, "description": "No city has the name, or the table has no whole day of it"},
        503: {**_HTML, "description": "Busy, or without database: try again after Retry-After seconds"},
        504: {**_HTML, "description": "Reading took longer than the limit"},
    },
    openapi_extra={EXAMPLES: ["/place/jakarta", "/place/Paris, Texas", "/place/-6.25,106.75"]},
)
def place(
    request: Request,
    reader: Reader,
    name: Annotated[
        str, Path(description="City: `jakarta`, `Paris, Texas`, its number of GeoNames; or `-6.25,106.75`")
    ],
) -> Response:
    """Show how the weather of a city or of a point has changed, as `era5 report` does.

    The page needs no network and runs no script. The first of a place takes seconds, the next are kept.
    """
    try:
        return _place(request, reader, name)
    except UsageError as error:
        return _page(request, failure_page("No such place", reason_of(error)), 404)
    except NoDataError as error:
        return _page(request, failure_page(f"{name}: not loaded", reason_of(error), _nearest(reader, name)), 404)
    except RefusalError as error:
        retry = {} if error.retry_seconds is None else {"Retry_After": str(error.retry_seconds)}
        return _page(request, failure_page("Not now", error.reason), error.status, **retry)


def _nearest(reader: Reader, name: str) -> ET.Element | None:
    """A link to the page of the loaded place that is nearest to one that is not; None if nothing is loaded."""
    asked = asked_place(name)
    if isinstance(asked, list):
        return None
    with reader.connected("reading the ledger") as connection:
        places = places_held(connection)
    return nearest_link(places, asked) if places else None


def _answer(reader: Reader, asked: AskedPlace) -> ClimateAnswer:
    with reader.connected("reading the climate") as connection:
        return read_place(connection, asked)


def _place(request: Request, reader: Reader, name: str) -> Response:
    asked = asked_place(name)
    if isinstance(asked, list):
        return _page(request, choice_page(name, asked), 300)
    cache: PageCache = request.app.state.pages
    where = asked.cell.location.location_id
    with reader.connected("reading the climate") as connection:
        version = read_version(connection, request, LocationSet(((where, where + 1),)))
        if version is not None and (unchanged := version.unchanged_answer(request)):
            return unchanged
    content = cache.page(asked, version.contents if version else None, lambda: _answer(reader, asked))
    return encoded_answer(request, content, HTML_TYPE, version=version, headers=_HEADERS)
