"""Middleware around every request: its turn, its client that may leave, HEAD, and unexpected errors."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import anyio.to_thread
from starlette.datastructures import Headers

from era5_pipeline.serving import errors
from era5_pipeline.serving.requests import HEAD, WORK, RequestWork

if TYPE_CHECKING:
    from starlette.responses import Response
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from era5_pipeline.serving.browser_guard import AllowedHosts
    from era5_pipeline.serving.requests import ServingLimits, ServingMetrics

# Answered at once, however many requests wait: these read nothing, or matter most when nothing else is answered.
_WITHOUT_TURN = frozenset({"/healthz", "/metrics", "/openapi.json", "/docs"})
_HEADERS = (
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"x-frame-options", b"SAMEORIGIN"),
)


_LEAVING_SECONDS = 3.0
_LEAVING_STEP_SECONDS = 0.02


class RequestGuard:
    """ASGI middleware that limits the requests in progress to the number of connections to the database."""

    def __init__(self, app: ASGIApp, limits: ServingLimits, metrics: ServingMetrics, hosts: AllowedHosts) -> None:
        self._app = app
        self._hosts = hosts
        self._limits = limits
        self._metrics = metrics
        self._turns = asyncio.Semaphore(limits.connections)
        self._waiting = 0
        self._under_way: set[RequestWork] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            await self._app(scope, lambda: self._received_of_process(receive), send)
            return
        answer = _SentAnswer(scope["method"] == "HEAD", send)
        # A route for GET also answers HEAD, without the body.
        inner: Scope = {**scope, "method": "GET", HEAD: True} if answer.is_head else scope
        work = inner[WORK] = RequestWork()
        self._under_way.add(work)
        started = time.perf_counter()
        with self._metrics.under_way.track_inprogress():
            try:
                await self._answer(inner, receive, answer, work)
            except asyncio.CancelledError:
                # The server is ending and waits no longer; the route's thread would wait for its statement. This blocks
                # the event loop, which has nothing else to do.
                work.leave()
                if not answer.status:
                    await errors.refusal_answer(errors.RefusalError(errors.Refusal.SHUTTING_DOWN))(
                        inner, receive, answer.send
                    )
            except Exception as error:  # noqa: BLE001  # the client gets an answer in the common form
                response = errors.unexpected_error(f"{scope['method']} {scope['path']}", error)
                if not answer.status:
                    await response(inner, receive, answer.send)
            finally:
                answer.release()
                self._under_way.discard(work)
                route = getattr(inner.get("route"), "path", None)
                has_left = work.has_left and not answer.is_complete
                status = errors.CLIENT_LEFT_STATUS if has_left else answer.status
                self._metrics.answered(route, status, time.perf_counter() - started, answer.sent_bytes)

    async def _received_of_process(self, receive: Receive) -> Message:
        """Messages of the server to the app; shutdown is passed on after the abandoned answers have been cancelled."""
        message = await receive()
        if message["type"] == "lifespan.shutdown":
            # The process ends as soon as the app has.
            with suppress(TimeoutError):
                async with asyncio.timeout(_LEAVING_SECONDS):
                    while self._under_way:
                        await asyncio.sleep(_LEAVING_STEP_SECONDS)
        return message

    async def _answer(self, scope: Scope, receive: Receive, answer: _SentAnswer, work: RequestWork) -> None:
        if refused := self._refusal_of_request(scope):
            await refused(scope, receive, answer.send)
            return
        gone = asyncio.Event()
        watch = asyncio.create_task(_watch(receive, gone, work))
        try:
            if scope["path"] not in _WITHOUT_TURN:
                try:
                    await self._take_turn()
                except errors.RefusalError as error:
                    await errors.refusal_answer(error)(scope, receive, answer.send)
                    return
                answer.turn = self._turns
            await self._app(scope, _Received(gone), answer.send)
        finally:
            watch.cancel()
            with suppress(asyncio.CancelledError):
                await watch

    def _refusal_of_request(self, scope: Scope) -> Response | None:
        """The answer to a request refused for its headers or its length; None if it is acceptable."""
        if refusal := self._hosts.refusal(Headers(scope=scope)):
            return errors.error_answer(refusal.status, refusal.reason)
        size = len(scope.get("raw_path") or b"") + len(scope["query_string"])
        if size <= self._limits.url_bytes:
            return None
        return errors.error_answer(414, f"The URL has {size:,} bytes, and the limit is {self._limits.url_bytes:,}.")

    async def _take_turn(self) -> None:
        if not self._turns.locked():
            await self._turns.acquire()
            return
        if self._waiting >= self._limits.waiting_requests:
            raise errors.RefusalError(errors.Refusal.QUEUE_FULL)
        self._waiting += 1
        try:
            async with asyncio.timeout(self._limits.wait_seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise errors.RefusalError(errors.Refusal.BUSY, self._limits.wait_seconds) from None
        finally:
            self._waiting -= 1


class _SentAnswer:
    """One answer on its way to the client; its turn ends when it begins, so that a slow client delays no other."""

    def __init__(self, is_head: bool, send: Send) -> None:
        self.is_head = is_head
        self.status = 0
        self.sent_bytes = 0
        self.is_complete = False
        self.turn: asyncio.Semaphore | None = None
        self._send = send

    async def send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self.release()
            message["headers"] = [*message.get("headers", ()), *_HEADERS]
        elif self.is_head:
            message = {**message, "body": b""}
        self.sent_bytes += len(message.get("body", b""))
        await self._send(message)
        self.is_complete = message["type"] == "http.response.body" and not message.get("more_body", False)

    def release(self) -> None:
        if self.turn is not None:
            self.turn.release()
            self.turn = None


class _Received:
    """The messages that a route receives: no body, and then the client's disconnect."""

    def __init__(self, gone: asyncio.Event) -> None:
        self._gone = gone
        self._had_body = False

    async def __call__(self) -> Message:
        if not self._had_body:
            self._had_body = True
            return {"type": "http.request", "body": b"", "more_body": False}
        await self._gone.wait()
        return {"type": "http.disconnect"}


async def _watch(receive: Receive, gone: asyncio.Event, work: RequestWork) -> None:
    """Wait until the client leaves, then cancel what is read for it; discard any body."""
    message: dict[str, Any] = {}
    while message.get("type") != "http.disconnect":
        message = dict(await receive())
    gone.set()
    await anyio.to_thread.run_sync(work.leave)
