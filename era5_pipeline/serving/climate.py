"""`/v1/climate`: how the weather of a place has changed, as `era5 climate --format json` says it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response

from era5_pipeline.climate.question import climate_question
from era5_pipeline.climate.reading import read_climate
from era5_pipeline.climate.tables import answer_as_json
from era5_pipeline.model.cells import CellChoice  # noqa: TC001  # FastAPI evaluates it
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.question import HTTP, asked_place
from era5_pipeline.model.times import NORMAL_PERIOD
from era5_pipeline.read.credit import UNKNOWN_ORIGIN
from era5_pipeline.serving.answers import DAY_HEADER, AnswerOrigin, encoded_answer, read_version
from era5_pipeline.serving.fetch import fetching
from era5_pipeline.serving.requests import AskedDataset, Reader  # noqa: TC001  # FastAPI evaluates them
from era5_pipeline.serving.route_page import EXAMPLES

climate_routes = APIRouter(tags=["climate"])

_ANSWER: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Tables, trends, records, and the answer in a sentence",
        "content": {"application/json": {"schema": {"type": "object", "required": ["sentence", "place", "yearly"]}}},
    }
}


@climate_routes.get(
    "/v1/climate",
    responses=_ANSWER,
    response_class=Response,
    openapi_extra={EXAMPLES: ["/v1/climate?place=jakarta", "/v1/climate?latitude=-6.25&longitude=106.75&start=1979"]},
)
def climate(
    request: Request,
    reader: Reader,
    place: Annotated[str | None, Query(description="A city by its name, Jakarta or Paris, US.")] = None,
    latitude: Annotated[float | None, Query(description="Degrees north, with longitude instead of a place.")] = None,
    longitude: Annotated[float | None, Query(description="Degrees east.")] = None,
    start: Annotated[str | None, Query(description="The first year, month or day.")] = None,
    end: Annotated[str | None, Query(description="The last year, month or day.")] = None,
    baseline: Annotated[str, Query(description="The years that anomalies are relative to.")] = NORMAL_PERIOD,
    days: Annotated[
        Literal["utc", "local"], Query(description="Days in UTC, or at the place's standard time.")
    ] = "utc",
    cell: Annotated[CellChoice, Query(description="The nearest cell, or the nearest that is half land.")] = "nearest",
    table: Annotated[Literal["daily"] | None, Query(description="daily: with the table of all days.")] = None,
    dataset: AskedDataset = None,
) -> Response:
    """The climate of a place: trends with their intervals, anomalies, counts of days, and records."""
    of = reader.dataset_named(dataset)
    asked = asked_place(HTTP, place, latitude, longitude, cell, of.grid)
    question = climate_question(asked, start, end, baseline, local_time=days == "local")
    location = asked.cell.location
    locations = LocationSet.of_location(location)
    with fetching(request, reader, [location], of), reader.connected("reading the climate", of) as connection:
        version = read_version(connection, request, locations)
        if version is not None and (unchanged := version.unchanged_answer(request)):
            return unchanged
        answer = read_climate(connection, question)
    content = orjson.dumps(answer_as_json(answer, with_days=table == "daily"), option=orjson.OPT_SERIALIZE_NUMPY)
    unknown = {} if version else AnswerOrigin({of: UNKNOWN_ORIGIN}).headers
    headers = {DAY_HEADER: answer.days.statement, **unknown}
    return encoded_answer(request, content, version=version, headers=headers)
