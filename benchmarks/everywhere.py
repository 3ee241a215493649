"""How fast `era5 climate --everywhere` reads the lake: a folder, and S3 whose every answer comes late.

On S3 it reads what it would of the globe: blocks of a file of a whole band of locations, on versitygw, through a proxy
that counts requests and bytes and holds each request back for a while.
"""

from __future__ import annotations

import asyncio
import calendar
import multiprocessing
import os
import shutil
import signal
import socket
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.cells import CannotRunError, Laps, Measured
from benchmarks.others import COLUMN, files_below, forget_cached
from benchmarks.processes import free_port, require_soon, running
from era5_pipeline.climate import everywhere
from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.everywhere import BLOCK_LOCATIONS, EverywhereQuestion, LakeTask, blocks_of
from era5_pipeline.climate.question import WHOLE_YEAR, calendar_month
from era5_pipeline.flat.bands import BAND_LOCATIONS, BandSink
from era5_pipeline.flat.formats import KEYS, row_group_rows, schema_of
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_COLUMNS

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import numpy.typing as npt

    from benchmarks.servers import Target
    from era5_pipeline.lake.months import Lake

# One process reads all of the lake as a worker of Dask or an executor of Spark would; and one for each core do.
ONE_WORKER, ALL_CORES = (
    "era5 climate --everywhere, one worker",
    "era5 climate --everywhere, Dask on all cores, with its start",
)
ON_S3, ON_FAR_S3 = (
    "era5 climate --everywhere, blocks of a band on S3",
    "era5 climate --everywhere, blocks of a band on S3, 20 ms a request",
)
DELAY_SECONDS = {ON_S3: 0.0, ON_FAR_S3: 0.02}


def of_folder(target: Target, lake: Lake, folder: Path, year: int, *, on_dask: bool) -> Measured:
    """Compute the trends at all places from the lake's hours; a year gives none, but is read as any other."""
    years = YearSpan(year, year)
    question = EverywhereQuestion(BY_COLUMN[COLUMN], "mean", (WHOLE_YEAR,), years, years)
    with target.connect() as connection:
        tasks = everywhere.lake_tasks(connection, lake, question)
    forget_cached(files_below(folder))
    clock = Laps()
    blocks = everywhere.answers_of_dask(tasks, None) if on_dask else map(everywhere.compute, tasks)
    places, seconds = everywhere.all_rows(question, blocks).num_rows, clock.lap()
    rows = places * (8_784 if calendar.isleap(year) else 8_760)
    figures = {"seconds": seconds, "blocks": float(len(tasks)), "bytes_per_row": _bytes_read(folder) / rows}
    return Measured(rows, figures, notes={"cold": "files dropped from the page cache"})


def _bytes_read(folder: Path) -> int:
    """The compressed bytes of the columns that a trend needs, and of the footers."""
    size = 0
    for path in folder.rglob("*.parquet"):
        metadata = pq.read_metadata(path)
        size += metadata.serialized_size
        for number in range(metadata.num_row_groups):
            columns = metadata.row_group(number).to_dict()["columns"]
            size += sum(
                of["total_compressed_size"] for of in columns if of["path_in_schema"] in ("location_id", COLUMN)
            )
    return size


# --- Of a band of the globe, on S3 ---

_MONTH = Month(2023, 7)
# From the 62nd parallel north of the pole to the 123rd: nearly all of the second band, and a little of the third.
_FIRST_PARALLEL, _PARALLELS = 61, 62
# Each file is read once for each of several months, because a block opens a file for each month.
_MONTHS = 4
_KEY, _SECRET, _REGION, _BUCKET = "bench", "bench-secret", "us-east-1", "lake"
_START_SECONDS = 30.0
_VERBS = (b"GET ", b"HEAD ", b"PUT ", b"POST ", b"DELETE ")


@dataclass(frozen=True)
class Band:
    """A month of up to 62 parallels, two for each block; made in `folder` on first use, and served from there."""

    folder: Path
    rows: int

    @property
    def parallels(self) -> int:
        """As many as the suite's rows allow, and an even number of them."""
        return min(_PARALLELS, max(1, _PARALLELS * self.rows // 2_000_000) * 2)

    @property
    def asked_rows(self) -> int:
        """The rows that the blocks have in all months."""
        return self.parallels * ERA5_GRID.columns * _MONTH.hours * _MONTHS

    def measure(self, name: str) -> Measured:
        """Compute the blocks one after another, as one worker does."""
        program = os.environ.get("ERA5_TEST_VERSITYGW") or shutil.which("versitygw")
        if program is None:
            raise CannotRunError("versitygw is not installed: .ci/versitygw/build FILE, then ERA5_TEST_VERSITYGW=FILE")
        files = self._files()  # made before the server starts
        with _versitygw(program, self.folder) as upstream, _proxy(upstream, DELAY_SECONDS[name]) as counted:
            tasks = self._tasks(files)
            before, load = [number.value for number in counted], os.getloadavg()[0]
            clock, cpu = Laps(), time.process_time()
            places = sum(block.num_rows for block in map(everywhere.compute, tasks))
            seconds, cpu = clock.lap(), time.process_time() - cpu
            requests, size = (int(number.value - of) for number, of in zip(counted, before, strict=True))
        if places != self.parallels * ERA5_GRID.columns:
            raise CannotRunError(f"it has {places:,} places of {self.parallels * ERA5_GRID.columns:,}")
        visits = sum(len(task.files) for task in tasks)
        return Measured(
            self.asked_rows,
            {
                "seconds": seconds,
                "load_average": load,
                "blocks": float(len(tasks)),
                "visits": float(visits),
                "seconds_per_visit": seconds / visits,
                "cpu_seconds_per_visit": cpu / visits,
                "requests_per_visit": requests / visits,
                "bytes_per_row": size / self.asked_rows,
                "rows_read_per_row": _MONTHS * _rows_read(files, tasks) / self.asked_rows,
            },
            notes={"S3": f"versitygw on this machine, each request {1000 * DELAY_SECONDS[name]:.0f} ms later"},
        )

    def _files(self) -> list[Path]:
        """The files of the band as the flat stage writes them, in the folder that the server has as its bucket."""
        folder = self.folder / "buckets" / _BUCKET
        if not folder.is_dir():
            schema = schema_of(DEFAULT_COLUMNS)
            first = _FIRST_PARALLEL * ERA5_GRID.columns + 1
            end = first + self.parallels * ERA5_GRID.columns
            step = row_group_rows(len(DEFAULT_COLUMNS)) // _MONTH.hours
            with BandSink(lambda band: folder / f"band{band:02d}.parquet", schema) as sink:
                for start in range(first, end, step):
                    sink.write(_portion(np.arange(start, min(start + step, end)), schema))
        return sorted(folder.glob("*.parquet"))

    def _tasks(self, paths: list[Path]) -> list[LakeTask]:
        from era5_pipeline.lake.read import LakeFile  # pyiceberg is optional

        address = f"s3://{_BUCKET}"
        files = [
            LakeFile(f"{address}/{path.name}", _MONTH, groups[0][0], groups[-1][1], sum(rows for _, _, rows in groups))
            for path in paths
            for groups in [_groups(path)]
            for _ in range(_MONTHS)
        ]
        years = YearSpan(_MONTH.year, _MONTH.year)
        question = EverywhereQuestion(BY_COLUMN[COLUMN], "mean", (calendar_month(_MONTH.month),), years, years)
        ids = LocationSet.of_ids(np.arange(files[0].first_id, files[-1].last_id + 1))
        return [
            LakeTask(
                question,
                address,
                block,
                tuple(of for of in files if of.last_id >= block[0] and of.first_id <= block[-1]),
            )
            for block in blocks_of(ids)
        ]


def _groups(path: Path) -> list[tuple[int, int, int]]:
    """The first and the last location of each row group, and its rows."""
    metadata = pq.read_metadata(path)
    groups = [metadata.row_group(number) for number in range(metadata.num_row_groups)]
    bounds = [group.column(KEYS.index("location_id")).statistics for group in groups]
    return [(of.min, of.max, group.num_rows) for of, group in zip(bounds, groups, strict=True)]


def _rows_read(paths: list[Path], tasks: list[LakeTask]) -> int:
    """The rows that the blocks read of a month: groups at a block's ends are read by its neighbour, too."""
    groups = [group for path in paths for group in _groups(path)]
    return sum(rows for task in tasks for first, last, rows in groups if last >= task.ids[0] and first <= task.ids[-1])


def visits_of_the_globe(months: int) -> int:
    """Count how often blocks open files, for all blocks of the globe and this number of months."""
    blocks = [
        (first, min(first + BLOCK_LOCATIONS - 1, ERA5_GRID.locations))
        for first in range(1, ERA5_GRID.locations + 1, BLOCK_LOCATIONS)
    ]
    return months * sum(last // BAND_LOCATIONS - first // BAND_LOCATIONS + 1 for first, last in blocks)


def _portion(ids: npt.NDArray[np.int64], schema: pa.Schema) -> pa.Table:
    """A month at these places: a daily course, and noise in hundredths, which compress somewhat as ERA5 does."""
    random = np.random.default_rng(int(ids[0]))
    row_index, column_index = np.divmod(ids - 1, ERA5_GRID.columns)
    hours = np.arange(_MONTH.hours)
    start = np.datetime64(_MONTH.start.replace(tzinfo=None), "us")
    course = row_index[:, None] / 24 + 5 * np.sin((hours / 24 + column_index[:, None] / ERA5_GRID.columns) * 2 * np.pi)
    values = np.round(course + random.normal(0, 0.5, course.shape), 2).astype(np.float32).reshape(-1)
    keys = {
        "time": np.tile(start + hours.astype("timedelta64[h]"), ids.size),
        "location_id": np.repeat(ids.astype(np.int32), hours.size),
        "latitude": np.repeat(ERA5_GRID.latitudes_of(row_index), hours.size),
        "longitude": np.repeat(ERA5_GRID.longitudes_of(column_index), hours.size),
    }
    # Other columns are the same values in another order: as large, and so as far from each other in the file.
    arrays = [pa.array(keys.get(field.name, np.roll(values, 97 * at)), field.type) for at, field in enumerate(schema)]
    return pa.table(arrays, schema=schema)


@contextmanager
def _versitygw(program: str, folder: Path) -> Iterator[int]:
    """An S3 server on this machine, whose buckets are folders; yields its port."""
    port = free_port()
    command = [program, "--port", f"127.0.0.1:{port}", "--region", _REGION, "posix", str(folder / "buckets")]
    env = {**os.environ, "ROOT_ACCESS_KEY": _KEY, "ROOT_SECRET_KEY": _SECRET}
    quiet: Any = subprocess.DEVNULL
    with running(command, signal.SIGKILL, env=env, stdout=quiet, stderr=quiet):
        _await(port)
        yield port


@contextmanager
def _proxy(upstream: int, delay: float) -> Iterator[tuple[Any, Any]]:
    """Hold requests back on their way to the server; the environment names the proxy as the place of S3.

    Gives the shared numbers of requests, and of bytes of answers.
    """
    spawning = multiprocessing.get_context("spawn")
    counted, port = (spawning.Value("q"), spawning.Value("q")), free_port()
    process = spawning.Process(target=_serve, args=(port, upstream, delay, *counted), daemon=True)
    process.start()
    own = {
        "AWS_ENDPOINT_URL": f"http://127.0.0.1:{port}",
        "AWS_REGION": _REGION,
        "AWS_EC2_METADATA_DISABLED": "true",
        "AWS_ACCESS_KEY_ID": _KEY,
        "AWS_SECRET_ACCESS_KEY": _SECRET,
    }
    try:
        with patch.dict(os.environ, own):
            _await(port)
            yield counted
    finally:
        process.kill()
        process.join()


def _serve(port: int, upstream: int, delay: float, requests: Any, size: Any) -> None:  # noqa: ANN401  # shared numbers
    async def pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, *, asks: bool) -> None:
        """Pass on what is asked, counting requests, or what is answered, counting bytes."""
        with suppress(OSError):
            while data := await reader.read(2**20):
                if not asks:
                    size.value += len(data)
                elif data.startswith(_VERBS):  # what follows the start of a request, of an upload, is not held back
                    requests.value += 1
                    await asyncio.sleep(delay)
                writer.write(data)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            from_server, to_server = await asyncio.open_connection("127.0.0.1", upstream, limit=2**22)
            await asyncio.gather(pass_on(reader, to_server, asks=True), pass_on(from_server, writer, asks=False))

    async def serve() -> None:
        server = await asyncio.start_server(connected, "127.0.0.1", port, limit=2**22)
        await server.serve_forever()

    asyncio.run(serve())


def _await(port: int) -> None:
    require_soon(
        lambda: socket.create_connection(("127.0.0.1", port), 5).close(),
        _START_SECONDS,
        "the S3 server or its proxy does not answer",
    )
