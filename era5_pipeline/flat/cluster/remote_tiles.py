"""A month's tiles, read by the workers of a Dask cluster and received in order.

Here: how many tiles are under way, and what happens when workers or the scheduler are lost. Not here: reading a tile
(`tile_tasks`), or the connection (`dask_client`).
"""

from __future__ import annotations

import time
import uuid
from collections import deque
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count
from typing import TYPE_CHECKING

from distributed import KilledWorker
from distributed.comm.core import CommClosedError

from era5_pipeline.flat.cluster.dask_client import ANSWER_SECONDS, connected, lost_scheduler, own_versions
from era5_pipeline.flat.cluster.tile_tasks import count_tile
from era5_pipeline.model.errors import TransientError, UsageError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator
    from concurrent.futures import Future

    from distributed import Client
    from distributed import Future as Submitted

    from era5_pipeline.flat.filled_tiles import CountedTile
    from era5_pipeline.flat.tiles import Tile
    from era5_pipeline.sources.source import RawMonth

    Task = Submitted[CountedTile]

# Tiles under way for each thread of a worker: one is read while another waits there to be written.
_TILES_A_THREAD = 2
# How long there may be no worker at all: enough for one that restarts, or a cluster that grows.
NO_WORKERS_SECONDS = 60.0
_LOOK_SECONDS = 1.0


@contextmanager
def remote_tiles(address: str, raw: RawMonth, tiles: Iterator[Tile]) -> Iterator[Iterator[CountedTile]]:
    """Read `tiles` of the month on the cluster; at most two for each of its threads are under way.

    Raises:
        TransientError: if there is no scheduler, it is lost, or there are no workers for a minute.
        UsageError: if the cluster is of another version, does not see the raw files, or lacks memory.
        InputError: if files contradict each other, or one cannot be read.
    """
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="dask-tiles") as receiver, connected(address) as client:
        yield _Cluster(address, client, raw, receiver).in_order(tiles)


class _Cluster:
    def __init__(self, address: str, client: Client, raw: RawMonth, receiver: ThreadPoolExecutor) -> None:
        self._address = address
        self._client = client
        self._raw = raw
        self._receiver = receiver
        self._versions = own_versions()
        self._keys = (f"era5-{raw.month}-{uuid.uuid4().hex[:12]}-{number}" for number in count())

    def in_order(self, tiles: Iterator[Tile]) -> Generator[CountedTile]:
        """The tiles in order; while one is written, the next is received."""
        submitted = deque([self._submit(tile) for tile in self._next(tiles, 0)])
        receiving = self._receive(submitted)
        while receiving is not None:
            counted = self._await(receiving)
            submitted += [self._submit(tile) for tile in self._next(tiles, len(submitted))]
            receiving = self._receive(submitted)
            yield counted
            del counted  # free its memory before the next but one is received

    def _next(self, tiles: Iterator[Tile], under_way: int) -> Iterator[Tile]:
        """The tiles to submit now: workers may join or leave at any time."""
        room = max(_TILES_A_THREAD, _TILES_A_THREAD * sum(self._threads().values())) - under_way
        for _ in range(room):
            tile = next(tiles, None)
            if tile is None:
                return
            yield tile

    def _submit(self, tile: Tile) -> Task:
        return self._client.submit(count_tile, self._raw, tile, self._versions, key=next(self._keys), pure=False)

    def _receive(self, submitted: deque[Task]) -> Future[CountedTile] | None:
        return self._receiver.submit(submitted.popleft().result) if submitted else None

    def _await(self, receiving: Future[CountedTile]) -> CountedTile:
        seen = time.monotonic()
        while True:
            try:
                return receiving.result(timeout=_LOOK_SECONDS)
            except TimeoutError:
                if receiving.done():
                    raise
            except CancelledError as error:
                raise lost_scheduler(self._address) from error
            except OSError as error:
                # Of the connection; those of files are errors of our own.
                if isinstance(error, CommClosedError) or self._client.status != "running":
                    raise lost_scheduler(self._address) from error
                raise
            except KilledWorker as error:
                raise UsageError(
                    f"{self._raw.month}: several Dask workers died, one after another, while they read the same tile",
                    remedy="If their logs name the memory limit: give a worker 2 GB for each thread "
                    "(dask worker --nthreads 1 --memory-limit 2GB). Then run the month again.",
                ) from error
            if self._threads():
                seen = time.monotonic()
            elif time.monotonic() - seen > NO_WORKERS_SECONDS:
                raise TransientError(
                    f"{self._raw.month}: the Dask cluster {self._address} has had no worker for "
                    f"{NO_WORKERS_SECONDS:.0f} s",
                    remedy=f"Start workers (dask worker {self._address} --nthreads 1). Nothing was left half-written: "
                    "run the month again.",
                )

    def _threads(self) -> dict[str, int]:
        """The threads of each worker."""
        try:
            threads: dict[str, int] = self._client.nthreads(callback_timeout=ANSWER_SECONDS)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, RuntimeError, CancelledError) as error:
            raise lost_scheduler(self._address) from error
        return threads
