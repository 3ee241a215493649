"""`/v1/archive`: hours and days of places, by Open-Meteo's conventions."""

from __future__ import annotations

import time
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from fastapi import APIRouter, Request, Response

from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month, spans
from era5_pipeline.postgres.dataset_connection import turn_to
from era5_pipeline.read.credit import UNKNOWN_ORIGIN
from era5_pipeline.serving.answers import (
    DAY_HEADER,
    JSON_TYPE,
    AnswerOrigin,
    AnswerVersion,
    encoded_answer,
    read_version,
)
from era5_pipeline.serving.archive import formats
from era5_pipeline.serving.archive.answer import PointAnswer, of_all_models, read_answer, read_elevations
from era5_pipeline.serving.archive.client_requests import posted_form
from era5_pipeline.serving.archive.parameters import ARCHIVE_PARAMETERS, read_question
from era5_pipeline.serving.fetch import fetching
from era5_pipeline.serving.requests import Reader  # noqa: TC001  # FastAPI evaluates it
from era5_pipeline.serving.route_page import EXAMPLES

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.model.grid import Location
    from era5_pipeline.serving.archive.models import Model
    from era5_pipeline.serving.archive.parameters import ArchiveQuestion

archive_routes = APIRouter(tags=["weather"])

ARCHIVE_PATH = "/v1/archive"
# Months without data, for clients that read CSV or ignore further keys of JSON.
MISSING_HEADER = "X-Era5-Missing-Months"
_CSV_TYPE = "text/csv; charset=utf-8"
_FLATBUFFERS_TYPE = "application/octet-stream"
_SHOWN_SPANS = 20
DAY_RULE = (
    "A day has the 24 hours 00:00 to 23:00 of the time zone, as they are labelled: the precipitation of 00:00, which "
    "fell in the hour before, counts to the day that begins then. (/v1/climate counts it to the day before.)"
)


_JULY = "latitude=-6.25&longitude=106.75&start_date=2023-07-01&end_date=2023-07-31"


@archive_routes.get(
    ARCHIVE_PATH,
    responses=formats.ARCHIVE_RESPONSE,
    response_class=Response,
    openapi_extra={
        "parameters": ARCHIVE_PARAMETERS,
        EXAMPLES: [
            f"/v1/archive?{_JULY}&hourly=temperature_2m,precipitation",
            f"/v1/archive?{_JULY}&daily=temperature_2m_mean,precipitation_sum&timezone=auto&format=csv",
        ],
    },
)
def archive(request: Request, reader: Reader) -> Response:
    """Return hours and days of one place or several, as JSON, CSV or FlatBuffers, by Open-Meteo's conventions.

    Months that are not in the table are null in JSON and NaN in the other formats, and listed in
    `missing_months` and a header.
    """
    started = time.perf_counter()
    form = posted_form(request.scope)
    given = [*request.query_params.multi_items(), *(form or ())]
    question = read_question(given, datetime.now(UTC).date(), reader.dataset)
    reader.limits.require_values(question.values)
    with ExitStack() as stack:
        for model in question.models:
            stack.enter_context(fetching(request, reader, _locations(question, model), model.dataset, status=503))
        connection = stack.enter_context(reader.connected("reading the hours"))
        versions: list[AnswerVersion | None] = []
        elevations: dict[Location, float | None] = {}
        for model in question.models:
            turn_to(connection, model.dataset)
            heights, of_model = _version(connection, request, question, model)
            elevations |= heights
            versions.append(of_model)
        known = AnswerVersion.joined(versions)
        # An ETag identifies a URL, which does not contain the request of a POST.
        version = known if form is None else None
        if version is not None and (unchanged := version.unchanged_answer(request)):
            return unchanged
        answers = []
        for point in question.points:
            turn_to(connection, point.model.dataset)
            answers.append(read_answer(connection, question, point, elevations[point.cell.location]))
    origin = known.origin if known else AnswerOrigin({model.dataset: UNKNOWN_ORIGIN for model in question.models})
    day_rule = DAY_RULE if question.daily else None
    headers = {**_missing(answers), **origin.headers, **({DAY_HEADER: day_rule} if day_rule else {})}
    milliseconds = (time.perf_counter() - started) * 1000
    if question.answer_format == "flatbuffers":
        content = formats.answer_as_flatbuffers(answers, question.time_format, milliseconds)
        return encoded_answer(request, content, _FLATBUFFERS_TYPE, version=version, headers=headers)
    answers = of_all_models(answers, len(question.models))
    if question.answer_format == "csv":
        content = formats.answer_as_csv(answers, question.time_format, question.location_information)
        headers["Content-Disposition"] = (
            f'attachment; filename="{formats.csv_name(answers, is_generated=bool(origin.notice))}"'
        )
        return encoded_answer(request, content, _CSV_TYPE, version=version, headers=headers)
    content = formats.answer_as_json(answers, question.time_format, milliseconds, origin, day_rule)
    return encoded_answer(request, content, JSON_TYPE, version=version, headers=headers)


def _locations(question: ArchiveQuestion, model: Model) -> list[Location]:
    return [point.cell.location for point in question.points if point.model == model]


def _version(
    connection: psycopg.Connection[Any], request: Request, question: ArchiveQuestion, model: Model
) -> tuple[dict[Location, float | None], AnswerVersion | None]:
    """The heights of the ground at the places of a model, and the version of its part of the answer."""
    locations = _locations(question, model)
    elevations = read_elevations(connection, locations)
    # A height may come from a month that is not requested.
    besides = str(elevations) if any(height is not None for height in elevations) else ""
    starts = [point.days.start(point.zone) for point in question.points]
    days = (timedelta(hours=point.days.hours) for point in question.points)
    end = max(start + length for start, length in zip(starts, days, strict=True))
    places = LocationSet.of_ids([location.location_id for location in locations], model.dataset.grid)
    columns = question.columns_of(model) or None
    version = read_version(connection, request, places, min(starts), end, columns=columns, besides=besides)
    return dict(zip(locations, elevations, strict=True)), version


def _missing(answers: list[PointAnswer]) -> dict[str, str]:
    """The header that names the months in which a point has no value of a variable."""
    months: set[Any] = {month for answer in answers for month in answer.missing_months}
    return {MISSING_HEADER: spans(map(Month.parse, sorted(months)), shown=_SHOWN_SPANS)} if months else {}
