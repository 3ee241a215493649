"""Flatten on a Dask cluster: its workers read and merge a month's tiles; this process receives them in order."""

from __future__ import annotations

import asyncio
import logging
import socket
import threading
import time
import uuid
import warnings
from collections import deque
from concurrent.futures import CancelledError, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from importlib.metadata import version
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from distributed import Client, KilledWorker, Security, get_worker
from distributed.comm.core import CommClosedError, connect

from era5_pipeline.flat.filled_tiles import CountedTile, counted_tile, fill, month_parts, open_readers
from era5_pipeline.flat.inventory import Inventory, take_inventory
from era5_pipeline.flat.statistics import ColumnRules
from era5_pipeline.model.errors import TransientError, UsageError
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.netcdf.archive import NetcdfFile, scratch_folder

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping
    from concurrent.futures import Future

    from distributed import Future as Submitted
    from distributed import Worker

    from era5_pipeline.flat.filled_tiles import ColumnParts
    from era5_pipeline.flat.tiles import Tile
    from era5_pipeline.netcdf.field_reader import Reader
    from era5_pipeline.sources.source import RawMonth

    Task = Submitted[CountedTile]

CONNECT_SECONDS = 10
# Time limit for a connected scheduler to answer: it or its machine may be busy.
ANSWER_SECONDS = 60
# Must have equal versions on both sides: Dask's own protocol, and the code that reads tiles.
_SAME = ("era5_pipeline", "dask", "distributed")
_LOGGERS = ("distributed", "distributed.client")


def own_versions() -> dict[str, str]:
    """This process's versions of the packages that must match on the cluster."""
    return {name: version(name.replace("_", "-")) for name in _SAME}


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Connect to the scheduler, requiring that it and its workers have this process's versions."""
    with _quiet():
        client = _client(address)
        try:
            _require_same_versions(client, address)
            yield client
        finally:
            client.close(timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]


@contextmanager
def _quiet() -> Iterator[None]:
    """Silence Dask's log about lost connections and versions, which are reported as errors with a remedy."""
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"distributed(\..*)?")
        try:
            for name in _LOGGERS:
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
            yield
        finally:
            for name, level in before.items():
                logging.getLogger(name).setLevel(level)


def _client(address: str) -> Client:
    try:
        asyncio.run(_require_answer(address))
        # Get results directly from the workers: through the scheduler, each would be sent twice.
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False, direct_to_workers=True)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise TransientError(
            f"no Dask scheduler answers at {address} ({_refusal(address) or 'no answer'})",
            remedy="Start it (dask scheduler), correct ERA5_DASK_SCHEDULER, or unset it to flatten in this process.",
        ) from error
    except (TypeError, ValueError, RuntimeError, ImportError) as error:
        raise UsageError(
            f"ERA5_DASK_SCHEDULER={address} cannot be used ({' '.join(str(error).split())})",
            remedy="Write tcp://HOST:8786, or tls://HOST:8786 with the certificates of Dask's own settings "
            "(DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ..__CLIENT__CERT, ..__CLIENT__KEY).",
        ) from error


def _refusal(address: str) -> str:
    """Why no connection is possible: refused, unknown host; empty if one is.

    Try again to find out: Dask retries until its timeout, and reports an interrupted last attempt without a reason.
    """
    url = urlsplit(address)
    try:
        with socket.create_connection((url.hostname or "", url.port or 0), timeout=CONNECT_SECONDS / 2):
            return ""
    except OSError as error:
        return " ".join(str(error).split())


async def _require_answer(address: str) -> None:
    """Connect once: the client would wait forever for a program that listens but does not answer."""
    async with asyncio.timeout(CONNECT_SECONDS):
        security = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
        # Less than the limit above, which covers connections that are made but not answered.
        comm = await connect(address, timeout=CONNECT_SECONDS / 2, **security)  # type: ignore[no-untyped-call]
        comm.abort()


def _require_same_versions(client: Client, address: str) -> None:
    try:
        found: Any = client.get_versions(packages=["era5_pipeline"])
    except (OSError, ValueError) as error:
        raise lost_scheduler(address) from error
    programs = {f"the Dask scheduler {address}": found["scheduler"]}
    programs |= {f"the Dask worker {worker}": of for worker, of in found["workers"].items()}
    for program, info in programs.items():
        require_versions(program, info["packages"], own_versions())


def require_versions(program: str, found: Mapping[str, str | None], wanted: Mapping[str, str]) -> None:
    """Require that a program has the wanted versions."""
    for name, expected in wanted.items():
        if found.get(name) != expected:
            has = "has no" if found.get(name) is None else f"has {found[name]} of"
            raise UsageError(
                f"{program} {has} {name}, and this process {expected}",
                remedy="Start scheduler, workers and era5 from one environment or one image, or unset "
                "ERA5_DASK_SCHEDULER to flatten in this process.",
            )


def lost_scheduler(address: str) -> TransientError:
    """Build the error for a connection lost while the cluster worked."""
    return TransientError(
        f"the connection to the Dask scheduler {address} was lost",
        remedy="Nothing was left half-written: run the month again once the scheduler is back.",
    )


# Time limit without any worker: enough for one to restart, or a cluster to grow.
NO_WORKERS_SECONDS = 60.0


class WorkerWatch:
    """Raises an error if a cluster has had no worker for a minute, as its tasks would then wait forever."""

    def __init__(self, client: Client, address: str, work: str) -> None:
        self._client = client
        self._address = address
        self._work = work
        self._seen = time.monotonic()

    def threads(self) -> dict[str, int]:
        """The number of threads of each worker."""
        try:
            threads: dict[str, int] = self._client.nthreads(callback_timeout=ANSWER_SECONDS)  # type: ignore[no-untyped-call]
        except (OSError, ValueError, RuntimeError, CancelledError) as error:
            raise lost_scheduler(self._address) from error
        return threads

    def look(self) -> None:
        """Look whether there are workers."""
        if self.threads():
            self._seen = time.monotonic()
        elif time.monotonic() - self._seen > NO_WORKERS_SECONDS:
            raise TransientError(
                f"{self._work}: the Dask cluster {self._address} has had no worker for {NO_WORKERS_SECONDS:.0f} s",
                remedy=f"Start workers (dask worker {self._address} --nthreads 1). Nothing was left half-written: run "
                "it again.",
            )


# --- On a Dask worker: open a month's raw files, read and merge one tile, and count it ---
#
# A month stays open between tiles, so that each worker process unpacks its ZIPs and inspects its files once.


# How long a month stays open after its last tile, because a killed client closes nothing.
_IDLE_SECONDS = 30.0


def count_tile(raw: RawMonth, tile: Tile, versions: Mapping[str, str]) -> CountedTile:
    """Read, merge and count one tile of the month; `versions` are the calling process's."""
    worker = get_worker()
    # Check here too: a worker may have joined since the month began.
    require_versions(f"the Dask worker {worker.address}", own_versions(), versions)
    _require_files(raw, worker.address)
    with _OpenMonths.of(worker).opened(raw, Path(worker.local_directory)) as month:
        filled = fill(tile, month.parts, month.readers, month.inventory)
        counted = counted_tile(filled, month.inventory, month.rules)
        return replace(counted, portions=list(counted.portions))


def _require_files(raw: RawMonth, address: str) -> None:
    for file in raw.files:
        try:
            problem = None if file.path.stat().st_size == file.bytes else "it has another size there"
        except OSError as error:
            problem = error.strerror
        if problem is not None:
            raise UsageError(
                f"{raw.month}: the Dask worker {address} does not see the raw file {file.path} ({problem})",
                remedy="Workers need the raw files under the same path: keep ERA5_HOME (or ERA5_FILES_DIR) on a disk "
                "that all of them mount, or unset ERA5_DASK_SCHEDULER to flatten in this process.",
            )


@dataclass(frozen=True)
class _OpenMonth:
    inventory: Inventory
    parts: Mapping[str, ColumnParts]
    rules: Mapping[str, ColumnRules]
    readers: Mapping[NetcdfFile, Reader]


@dataclass(eq=False)
class _Kept:
    """A month, opened by the first tile that needs it; `users` are the tiles being read."""

    month: _OpenMonth | None = None
    stack: ExitStack = field(default_factory=ExitStack)
    users: int = 0
    idle: threading.Timer | None = None


class _OpenMonths:
    """The months that a worker has open; Dask closes it with the worker, as one of its extensions.

    The netCDF library is not thread-safe: one month at a time is opened, and none is closed while another is used.
    """

    def __init__(self) -> None:
        self._kept: dict[RawMonth, _Kept] = {}
        self._lock = threading.Lock()
        self._opening = threading.Lock()

    @classmethod
    def of(cls, worker: Worker) -> _OpenMonths:
        """Return the open months of this worker, the same object at each call."""
        months: _OpenMonths = worker.extensions.setdefault("era5-open-months", cls())
        return months

    @contextmanager
    def opened(self, raw: RawMonth, scratch_parent: Path) -> Iterator[_OpenMonth]:
        """Open the month, or use it as an earlier tile has opened it."""
        with self._lock:
            kept = self._kept.setdefault(raw, _Kept())
            kept.users += 1
            if kept.idle is not None:
                kept.idle.cancel()
        try:
            with self._opening:
                if kept.month is None:
                    kept.month = _opened(raw, scratch_parent, kept.stack)
            yield kept.month
        finally:
            with self._lock:
                kept.users -= 1
                if not kept.users:
                    self._close_later(raw, kept)

    def close(self) -> None:
        """Close all months: no more tiles come."""
        with self._lock:
            months, self._kept = self._kept, {}
        for kept in months.values():
            if kept.idle is not None:
                kept.idle.cancel()
            kept.stack.close()

    def _close_later(self, raw: RawMonth, kept: _Kept) -> None:
        kept.idle = threading.Timer(_IDLE_SECONDS, self._close_idle, (raw, kept))
        kept.idle.daemon = True
        kept.idle.start()

    def _close_idle(self, raw: RawMonth, kept: _Kept) -> None:
        with self._lock:
            if kept.users or self._kept.get(raw) is not kept:
                return
            if any(other.users for other in self._kept.values()):
                self._close_later(raw, kept)
            else:
                del self._kept[raw]
                kept.stack.close()  # with the lock, so that no tile begins meanwhile


def _opened(raw: RawMonth, scratch_parent: Path, stack: ExitStack) -> _OpenMonth:
    with ExitStack() as opening:
        inventory = take_inventory(raw, opening.enter_context(scratch_folder(scratch_parent)))
        month = _OpenMonth(
            inventory,
            month_parts(inventory),
            {column: ColumnRules.of(BY_COLUMN[column], inventory) for column in inventory.columns},
            opening.enter_context(open_readers(inventory)),
        )
        stack.push(opening.pop_all())
    return month


# Tiles under way per worker thread: one is being read while another waits to be written.
_TILES_A_THREAD = 2
_LOOK_SECONDS = 1.0


@contextmanager
def remote_tiles(address: str, raw: RawMonth, tiles: Iterator[Tile]) -> Iterator[Iterator[CountedTile]]:
    """Read `tiles` of the month on the cluster; at most two per thread are under way."""
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="dask-tiles") as receiver, connected(address) as client:
        yield _Cluster(address, client, raw, receiver).in_order(tiles)


class _Cluster:
    def __init__(self, address: str, client: Client, raw: RawMonth, receiver: ThreadPoolExecutor) -> None:
        self._address = address
        self._client = client
        self._raw = raw
        self._receiver = receiver
        self._versions = own_versions()
        self._watch = WorkerWatch(client, address, f"{raw.month}")
        self._keys = (f"era5-{raw.month}-{uuid.uuid4().hex[:12]}-{number}" for number in count())

    def in_order(self, tiles: Iterator[Tile]) -> Generator[CountedTile]:
        """Yield the tiles in order; while one is written, the next is received."""
        submitted = deque([self._submit(tile) for tile in self._next(tiles, 0)])
        receiving = self._receive(submitted)
        while receiving is not None:
            counted = self._await(receiving)
            submitted += [self._submit(tile) for tile in self._next(tiles, len(submitted))]
            receiving = self._receive(submitted)
            yield counted
            del counted  # free its memory before the one after next is received

    def _next(self, tiles: Iterator[Tile], under_way: int) -> Iterator[Tile]:
        """The tiles to submit now, as workers may join or leave at any time."""
        room = max(_TILES_A_THREAD, _TILES_A_THREAD * sum(self._watch.threads().values())) - under_way
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
        while True:
            try:
                return receiving.result(timeout=_LOOK_SECONDS)
            except TimeoutError:
                if receiving.done():
                    raise
            except CancelledError as error:
                raise lost_scheduler(self._address) from error
            except OSError as error:
                # Connection errors; those of files are our own error types.
                if isinstance(error, CommClosedError) or self._client.status != "running":
                    raise lost_scheduler(self._address) from error
                raise
            except KilledWorker as error:
                raise UsageError(
                    f"{self._raw.month}: several Dask workers died, one after another, while they read the same tile",
                    remedy="If their logs name the memory limit: give a worker 2 GB for each thread "
                    "(dask worker --nthreads 1 --memory-limit 2GB). Then run the month again.",
                ) from error
            self._watch.look()
