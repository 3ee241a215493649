"""A load of HTTP requests to a server on this machine: bounded in number and time, made by a separate process.

With a rate, requests are due at fixed times, whether earlier ones are answered or not, and the latency counts from the
due time: if the server falls behind, the wait is included. Without a rate, each connection sends its next request after
an answer, which finds the most that the server can answer.

    python -m era5_pipeline.bench.http_load < LOAD > RESULT
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

from era5_pipeline.bench.cells import CannotRunError

_HEAD_END = b"\r\n\r\n"
_LOST = "connection lost"
_LATE = "no answer in time"
# Time for Python to start, and to wait after the last answer.
_SPARE_SECONDS = 60.0


@dataclass(frozen=True)
class HttpLoad:
    """Requests for `paths`, in order, over a fixed number of connections that stay open.

    `rate`: requests per second, None: as fast as they are answered. After `seconds`, nothing more is sent or awaited.
    `headers` go with each request.
    """

    port: int
    paths: tuple[str, ...]
    connections: int
    seconds: float
    rate: float | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class HttpLoadResult:
    """The outcome of a load: latencies in seconds, and the number of requests by status, or by error if unanswered.

    `seconds`: from the first request to the last answer. `bytes`: of all bodies. `processor_seconds`: of the sending
    process. `sent_late`: the longest delay of a request after its due time.
    """

    latencies: list[float]
    outcomes: dict[str, int]
    seconds: float
    bytes: int
    processor_seconds: float
    sent_late: float

    @property
    def answered(self) -> int:
        """The number of requests answered with 200 or 304."""
        return self.outcomes.get("200", 0) + self.outcomes.get("304", 0)


def make_load(load: HttpLoad) -> HttpLoadResult:
    """Make the load in a separate process.

    Raises:
        CannotRunError: if it fails, or any request is unanswered.
    """
    done = subprocess.run(  # noqa: S603  # our own command
        (sys.executable, "-m", __name__),
        input=json.dumps(asdict(load)),
        capture_output=True,
        text=True,
        check=False,
        timeout=load.seconds + _SPARE_SECONDS,
    )
    if done.returncode:
        raise CannotRunError(f"the load could not be made: {done.stderr.strip()[-500:]}")
    result = HttpLoadResult(**json.loads(done.stdout))
    if result.answered != len(load.paths):
        raise CannotRunError(f"of {len(load.paths):,} requests, {result.answered:,} were answered: {result.outcomes}")
    return result


class _Connection(asyncio.Protocol):
    """A connection that requests one path at a time and counts the bytes of the answer."""

    def __init__(self) -> None:
        self._transport: asyncio.Transport | None = None
        self._answer: asyncio.Future[str] | None = None
        self._head = b""
        self._left = 0
        self._status = ""
        self.bytes = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)  # noqa: S101
        self._transport = transport

    def ask(self, request: bytes) -> asyncio.Future[str]:
        """Send the request; the result is the status, once the answer is complete."""
        self._answer = asyncio.get_running_loop().create_future()
        self._head, self._left, self._status = b"", 0, ""
        if self._transport is None or self._transport.is_closing():
            self._answer.set_result(_LOST)
        else:
            self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        if not self._status:
            self._head += data
            end = self._head.find(_HEAD_END)
            if end < 0:
                return
            self._status, size = _status_and_size(self._head[:end])
            data = self._head[end + len(_HEAD_END) :]
            self._left = size
        self._left -= len(data)
        self.bytes += len(data)
        if self._left <= 0:
            self._end(self._status)

    def connection_lost(self, exc: Exception | None) -> None:
        self._end(_LOST)

    def _end(self, outcome: str) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_result(outcome)


def _status_and_size(head: bytes) -> tuple[str, int]:
    first, *lines = head.split(b"\r\n")
    status = first.split(b" ", 2)[1].decode()
    sizes = [line for line in lines if line[:15].lower() == b"content-length:"]
    return status, int(sizes[0][15:]) if sizes and status != "304" else 0


async def _run(load: HttpLoad) -> HttpLoadResult:
    loop = asyncio.get_running_loop()
    fields = {"Host": f"127.0.0.1:{load.port}", **load.headers}
    head = "".join(f"{name}: {value}\r\n" for name, value in fields.items())
    requests = [f"GET {path} HTTP/1.1\r\n{head}\r\n".encode() for path in load.paths]
    opened = [await loop.create_connection(_Connection, "127.0.0.1", load.port) for _ in range(load.connections)]
    latencies, outcomes = [0.0] * len(requests), [_LATE] * len(requests)
    late = 0.0
    waiting: asyncio.Queue[tuple[int, float | None]] = asyncio.Queue()
    used = os.times()
    started = loop.time()

    async def answer(connection: _Connection) -> None:
        nonlocal late
        while True:
            index, due = await waiting.get()
            sent = loop.time()
            late = max(late, sent - (due or sent))
            outcomes[index] = await connection.ask(requests[index])
            latencies[index] = loop.time() - (due or sent)
            waiting.task_done()

    async def send_all() -> None:
        for index in range(len(requests)):
            if load.rate is None:
                waiting.put_nowait((index, None))
                continue
            due = started + index / load.rate
            await asyncio.sleep(max(0.0, due - loop.time()))
            waiting.put_nowait((index, due))
        await waiting.join()

    workers = [asyncio.create_task(answer(connection)) for _, connection in opened]
    try:
        async with asyncio.timeout(load.seconds):
            await send_all()
    except TimeoutError:
        pass  # unanswered requests are reported as such
    seconds, now = loop.time() - started, os.times()
    for worker in workers:
        worker.cancel()
    for transport, _ in opened:
        transport.abort()
    return HttpLoadResult(
        latencies=[latency for latency, outcome in zip(latencies, outcomes, strict=True) if outcome != _LATE],
        outcomes=dict(Counter(outcomes)),
        seconds=seconds,
        bytes=sum(connection.bytes for _, connection in opened),
        processor_seconds=now.user - used.user + now.system - used.system,
        sent_late=late,
    )


def _main() -> None:
    given: dict[str, Any] = json.load(sys.stdin)
    result = asyncio.run(_run(HttpLoad(**given | {"paths": tuple(given["paths"])})))
    json.dump(asdict(result), sys.stdout)


if __name__ == "__main__":
    _main()
