"""`/v1/climate`: how the weather of a place has changed, as `era5 climate --format json` says it."""

from __future__ import annotations

from typing import Annotated, Any, Literal

import orjson
from fastapi import APIRouter, Query, Request, Response

from era5_pipeline.api.question import asked_place
from era5_pipeline.model.cells import CellChoice  # noqa: TC001  # FastAPI evaluates it
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.serving.answers import DAY_HEADER, AnswerOrigin, encoded_answer, read_version
from era5_pipeline.serving.requests import Reader  # noqa: TC001  # FastAPI evaluates it
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
    baseline: Annotated[str, Query(description="The years that anomalies are against.")] = "1991-2020",
    days: Annotated[
        Literal["utc", "local"], Query(description="Days in UTC, or at the place's standard time.")
    ] = "utc",
    cell: Annotated[CellChoice, Query(description="The nearest cell, or the nearest that is half land.")] = "nearest",
    table: Annotated[Literal["daily"] | None, Query(description="daily: with the table of all days.")] = None,
) -> Response:
    """Say whether it has become warmer or wetter, by how much and how certain, from all hours of a place."""
    # These import pandas and scipy, which other routes do not need.
    from era5_pipeline.climate.anomalies import parse_baseline  # noqa: PLC0415
    from era5_pipeline.climate.answer import ClimatePlace  # noqa: PLC0415
    from era5_pipeline.climate.reading import DayChoice, Period, read_climate  # noqa: PLC0415
    from era5_pipeline.climate.tables import answer_as_json  # noqa: PLC0415

    asked = asked_place(place, latitude, longitude, cell)
    period, years = Period.parse(start, end), parse_baseline(baseline)
    subject = ClimatePlace.of_asked(asked, in_its_zone=days == "local")
    choice = DayChoice(zone=subject.zone) if days == "local" else DayChoice()
    locations = LocationSet.of_ids([asked.cell.location.location_id])
    with reader.connected("reading the climate") as connection:
        version = read_version(connection, request, locations)
        if version is not None and (unchanged := version.unchanged_answer(request)):
            return unchanged
        answer = read_climate(connection, subject, period, years, choice)
    content = orjson.dumps(answer_as_json(answer, with_days=table == "daily"), option=orjson.OPT_SERIALIZE_NUMPY)
    headers = {DAY_HEADER: answer.days.statement, **({} if version else AnswerOrigin().headers)}
    return encoded_answer(request, content, version=version, headers=headers)
