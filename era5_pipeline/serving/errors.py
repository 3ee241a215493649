"""Errors as JSON, with a status that says whose fault it is; and the reasons for refusing a request now."""

from __future__ import annotations

import logging
from enum import Enum
from typing import TYPE_CHECKING, Any

import orjson
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from era5_pipeline.model.errors import (
    Era5Error,
    InputError,
    MonthLockedError,
    ServerUnreachableError,
    TransientError,
    UsageError,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

CLIENT_LEFT_STATUS = 499


class Refusal(Enum):
    """A reason: the status, when the client may retry, in seconds (None: it would be refused again), and the text."""

    DATABASE_AWAY = 503, 5, "The database cannot be reached right now. Try again in a few seconds."
    OTHER_SCHEMA = 503, None, "The database has another schema version than this server needs. Its log says what to do."
    BUSY = 503, 1, "The server is busy: the request waited {:g} s for its turn. Try again in a few seconds."
    QUEUE_FULL = 503, 1, "The server is busy: too many requests wait for their turn. Try again in a few seconds."
    SHUTTING_DOWN = 503, 5, "The server is being stopped. Try again in a few seconds."
    SLOW_STATEMENT = (
        504,
        None,
        "Reading took longer than {:g} s, the limit of a statement. Ask for less at once, such as fewer years.",
    )
    # Never sent: the connection is closed.
    CLIENT_LEFT = CLIENT_LEFT_STATUS, None, "The client closed the connection."


class RefusalError(Exception):
    """A request that is refused although it is valid; `reason` is shown to the client."""

    def __init__(self, refusal: Refusal, *numbers: float) -> None:
        """Take the status from the refusal, and the reason, its text with these numbers."""
        self.status, self.retry_seconds, text = refusal.value
        self.reason = text.format(*numbers)
        super().__init__(self.reason)


# --- Errors as JSON: `{"error": true, "reason": "..."}`, with a status that says whose fault it is ---


_log = logging.getLogger("uvicorn.error")
_UNEXPECTED = "The server could not answer, because of an error of its own. Its log has the details."


class ErrorAnswer(BaseModel):
    """An error: nothing was answered, for this reason."""

    error: bool = True
    reason: str


# For the description of the routes (OpenAPI).
ERROR_RESPONSES: dict[int | str, dict[str, Any]] = {
    400: {"model": ErrorAnswer, "description": "A parameter is wrong, or the warehouse has no data for it"},
    500: {"model": ErrorAnswer, "description": "Server error"},
    503: {
        "model": ErrorAnswer,
        "description": "Busy, or the database is unreachable: try again after Retry-After seconds",
    },
    504: {"model": ErrorAnswer, "description": "Reading took longer than the limit"},
}

_BODY_ERRORS = (
    (408, "The body did not arrive in time"),
    (413, "The body is too large"),
    (415, "The body has an unsupported type"),
)


def error_answer(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """The answer for an error."""
    content = orjson.dumps({"error": True, "reason": reason})
    return Response(content, status, media_type="application/json; charset=utf-8", headers=dict(headers or {}))


def describe_routes(app: FastAPI, bodies: Mapping[str, Mapping[str, Any]]) -> None:
    """Make the OpenAPI description show errors as they are, without 422, and the routes that accept POST.

    `bodies` are the bodies of those routes, by path; a POST is answered like a GET, except for errors of its body.
    """
    describe = app.openapi

    def described() -> dict[str, Any]:
        if app.openapi_schema is None:
            found = describe()
            for operation in (operation for path in found["paths"].values() for operation in path.values()):
                operation["responses"].pop("422", None)
            for path, body in bodies.items():
                get = found["paths"][path]["get"]
                refused = {str(status): get["responses"]["400"] | {"description": why} for status, why in _BODY_ERRORS}
                found["paths"][path]["post"] = {
                    **{name: get[name] for name in ("tags", "summary", "description")},
                    "operationId": f"{get['operationId']}_post",
                    "requestBody": body,
                    "responses": get["responses"] | refused,
                }
            for name in ("HTTPValidationError", "ValidationError"):
                found["components"]["schemas"].pop(name, None)
        return app.openapi_schema or describe()

    app.openapi = described  # type: ignore[method-assign]


def add_error_handlers(app: FastAPI) -> None:
    """Make the app answer every error in this form."""
    app.add_exception_handler(RequestValidationError, _invalid)
    app.add_exception_handler(HTTPException, _http_error)
    app.add_exception_handler(Era5Error, _era5_error)
    app.add_exception_handler(RefusalError, _refusal)


def unexpected_error(request: str, error: BaseException) -> Response:
    """The answer to an unexpected error: the log has the details, the client does not."""
    _log.error("%s failed", request, exc_info=error)
    return error_answer(500, _UNEXPECTED)


def reason_of(error: Era5Error) -> str:
    """One text for what failed and what to do."""
    message = error.message[:1].upper() + error.message[1:]
    if not error.remedy:
        return message
    return f"{message.rstrip('.')}. {error.remedy}"


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)  # noqa: S101
    return error_answer(400, "; ".join(map(_problem, error.errors())))


def _problem(found: Mapping[str, Any]) -> str:
    name = str(found["loc"][-1]) if found["loc"] else "the request"
    if found["type"] == "missing":
        return f"Parameter '{name}' is missing"
    return f"Parameter '{name}': {found['msg']}"


async def _http_error(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)  # noqa: S101
    return error_answer(error.status_code, str(error.detail), error.headers)


async def _refusal(request: Request, error: Exception) -> Response:
    assert isinstance(error, RefusalError)  # noqa: S101
    if error.__cause__ is not None and error.status != CLIENT_LEFT_STATUS:
        _log.warning("%s: %s", request.url.path, " ".join(str(error.__cause__).split()))
    return refusal_answer(error)


def refusal_answer(error: RefusalError) -> Response:
    """The answer to a refused request."""
    headers = {} if error.retry_seconds is None else {"Retry-After": str(error.retry_seconds)}
    return error_answer(error.status, error.reason, headers)


async def _era5_error(request: Request, error: Exception) -> Response:
    assert isinstance(error, Era5Error)  # noqa: S101
    match error:
        case UsageError() | InputError():
            return error_answer(400, reason_of(error))
        case TransientError() | ServerUnreachableError() | MonthLockedError():
            # The message may name the server and its user: log it instead.
            _log.warning("%s: %s", request.url.path, error.message)
            return refusal_answer(RefusalError(Refusal.DATABASE_AWAY))
        case _:
            _log.error("%s: %s %s", request.url.path, error.message, error.remedy)
            return error_answer(500, _UNEXPECTED)
