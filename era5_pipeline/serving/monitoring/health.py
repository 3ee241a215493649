"""`/healthz`: whether the server answers, and whether its database does."""

from __future__ import annotations

from typing import Literal

from fastapi import APIRouter, Response
from pydantic import BaseModel

from era5_pipeline.serving.error_answers import ErrorAnswer
from era5_pipeline.serving.request_reader import Reader  # noqa: TC001  # FastAPI evaluates it

health_routes = APIRouter(tags=["server"])


class HealthAnswer(BaseModel):
    """The process answers, and so does its database."""

    status: Literal["ok"] = "ok"
    database: Literal["ok", "not asked"]


@health_routes.get("/healthz", responses={503: {"model": ErrorAnswer}})
def healthz(reader: Reader, response: Response, live: bool = False) -> HealthAnswer:
    """Say whether the server can answer: 503 if its database cannot be reached.

    With `live=true` the database is not asked: whether the process is alive.
    """
    response.headers["Cache-Control"] = "no-store"
    if live:
        return HealthAnswer(database="not asked")
    with reader.connected("asking the database") as connection:
        connection.execute("SELECT 1")
    return HealthAnswer(database="ok")
