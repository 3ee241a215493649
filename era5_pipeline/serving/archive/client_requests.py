"""Requests and answers as Open-Meteo's official clients expect them: parameters in a POST body, and statuses.

ASGI middleware outside the app and its guard, which only know GET and discard bodies.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import parse_qsl

import orjson

from era5_pipeline.serving.errors import error_answer

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

_FORM = "era5.form"
# 4,000 places with five decimals.
_BODY_BYTES = 131_072
FORM_TYPE, JSON_TYPE = "application/x-www-form-urlencoded", "application/json"
# The clients read the reason of 400 and 429 only, and take other answers, such as 503, for FlatBuffers.
_UNDERSTOOD = {503: 429, 413: 400, 414: 400, 415: 400, 408: 400}


def posted_form(scope: Scope) -> list[tuple[str, str]] | None:
    """The parameters in the body of a POST, as pairs of name and value; None if the request is a GET."""
    found: list[tuple[str, str]] | None = scope.get(_FORM)
    return found


class ClientRequests:
    """Turns each POST to `path` into a GET with a form; its body must arrive within `seconds`."""

    def __init__(self, app: ASGIApp, path: str, seconds: float) -> None:
        self._app = app
        self._path = path
        self._seconds = seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["path"] != self._path:
            await self._app(scope, receive, send)
            return
        form = None
        refusal: _RefusedBodyError | None = None
        if scope["method"] == "POST":
            try:
                async with asyncio.timeout(self._seconds):
                    form = _pairs(scope, await _body(receive))
            except TimeoutError:
                refusal = _RefusedBodyError(408, f"The body of the request did not arrive within {self._seconds:g} s.")
            except _RefusedBodyError as error:
                refusal = error
        pairs = [*parse_qsl(scope["query_string"].decode("latin-1")), *(form or ())]
        if ("format", "flatbuffers") in pairs:
            send = _understood(send)
        if refusal is not None:
            # The rest of the body stays unread.
            await error_answer(refusal.status, str(refusal), {"Connection": "close"})(scope, receive, send)
            return
        if form is not None:
            scope = {**scope, "method": "GET", _FORM: form}
        await self._app(scope, receive, send)


class _RefusedBodyError(Exception):
    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status


def _understood(send: Send) -> Send:
    """Send an answer with a status that the clients understand."""

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "status": _UNDERSTOOD.get(message["status"], message["status"])}
        await send(message)

    return sending


async def _body(receive: Receive) -> bytes:
    parts = bytearray()
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise _RefusedBodyError(400, "The client left before its request was complete.")
        parts += message.get("body", b"")
        if len(parts) > _BODY_BYTES:
            raise _RefusedBodyError(413, f"The body has more than {_BODY_BYTES:,} bytes, which is the limit.")
        if not message.get("more_body", False):
            return bytes(parts)


def _pairs(scope: Scope, body: bytes) -> list[tuple[str, str]]:
    kinds = [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-type"]
    kind = kinds[0].partition(";")[0].strip().lower() if kinds else FORM_TYPE
    if kind == FORM_TYPE:
        return parse_qsl(body.decode("utf-8", "replace"), keep_blank_values=True)
    if kind == JSON_TYPE:
        return _json_pairs(body)
    raise _RefusedBodyError(415, f"A body of {kind} is not read. Send a form ({FORM_TYPE}), or {JSON_TYPE}.")


def _json_pairs(body: bytes) -> list[tuple[str, str]]:
    try:
        found: Any = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise _RefusedBodyError(400, f"The body is not JSON: {error}.") from None
    if not isinstance(found, dict):
        _refuse_json("it is not an object")
    pairs = []
    for name, given in found.items():
        for value in given if isinstance(given, list) else [given]:
            if isinstance(value, dict | list):
                _refuse_json(f"{name} is neither a value nor a list of values")
            if value is not None:
                pairs.append((name, str(value).lower() if isinstance(value, bool) else str(value)))
    return pairs


def _refuse_json(why: str) -> NoReturn:
    raise _RefusedBodyError(400, f"The body does not hold parameters: {why}.")
