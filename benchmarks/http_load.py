"""A load of HTTP requests to a server on this machine: bounded in number and time, made by a separate process.

With a rate, requests are due at fixed times, whether earlier ones are answered or not, and the latency counts from the
due time: if the server falls behind, the wait is included. Without a rate, each connection sends its next request after
an answer, which finds the most that the server can answer. The clients share the machine with the server, so their own
cost matters: measured on 2026-11-23 with bodies of 211 kB, aiohttp takes 0.2 to 0.5 ms of processor time a request, and
httpx 1.5 to 3, with which 200 requests a second could not be sent on two busy cores.

    python -m benchmarks.http_load < LOAD > RESULT
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import aiohttp

from benchmarks.cells import CannotRunError

_LATE = "no answer in time"
# Time for Python to start, and to wait after the last answer.
_SPARE_SECONDS = 60.0


@dataclass(frozen=True)
class HttpLoad:
    """Requests for `paths`, in order, over at most `connections` that stay open.

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

    `seconds`: from the first request to the last answer. `bytes`: of all bodies, as sent. `processor_seconds`: of the
    sending process. `sent_late`: the longest delay of a request after its due time.
    """

    latencies: list[float]
    outcomes: dict[str, int]
    seconds: float
    bytes: int
    processor_seconds: float
    sent_late: float


def make_load(load: HttpLoad) -> HttpLoadResult:
    """Make the load in a separate process."""
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
    answered = result.outcomes.get("200", 0) + result.outcomes.get("304", 0)
    if answered != len(load.paths):
        raise CannotRunError(f"of {len(load.paths):,} requests, {answered:,} were answered: {result.outcomes}")
    return result


async def _run(load: HttpLoad) -> HttpLoadResult:
    loop = asyncio.get_running_loop()
    latencies, outcomes = [0.0] * len(load.paths), [_LATE] * len(load.paths)
    received, late = 0, 0.0
    waiting: asyncio.Queue[tuple[int, float | None]] = asyncio.Queue()
    client = aiohttp.ClientSession(
        f"http://127.0.0.1:{load.port}",
        headers={"Accept-Encoding": "identity"} | load.headers,
        connector=aiohttp.TCPConnector(limit=load.connections),
        timeout=aiohttp.ClientTimeout(),  # the load as a whole has one
        auto_decompress=False,
    )

    async def answer() -> None:
        nonlocal received, late
        while True:
            index, due = await waiting.get()
            sent = loop.time()
            late = max(late, sent - (due or sent))
            try:
                async with client.get(load.paths[index]) as response:
                    received += len(await response.read())
                outcomes[index] = str(response.status)
            except aiohttp.ClientError as error:
                outcomes[index] = type(error).__name__
            latencies[index] = loop.time() - (due or sent)
            waiting.task_done()

    used, started = os.times(), loop.time()
    async with client:
        workers = [asyncio.create_task(answer()) for _ in range(load.connections)]
        with suppress(TimeoutError):  # unanswered requests are reported as such
            async with asyncio.timeout(load.seconds):
                for index in range(len(load.paths)):
                    due = None if load.rate is None else started + index / load.rate
                    if due is not None:
                        await asyncio.sleep(max(0.0, due - loop.time()))
                    waiting.put_nowait((index, due))
                await waiting.join()
        seconds, now = loop.time() - started, os.times()
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
    return HttpLoadResult(
        latencies=[latency for latency, outcome in zip(latencies, outcomes, strict=True) if outcome != _LATE],
        outcomes=dict(Counter(outcomes)),
        seconds=seconds,
        bytes=received,
        processor_seconds=now.user - used.user + now.system - used.system,
        sent_late=late,
    )


if __name__ == "__main__":
    given: dict[str, Any] = json.load(sys.stdin)
    json.dump(asdict(asyncio.run(_run(HttpLoad(**given | {"paths": tuple(given["paths"])})))), sys.stdout)
