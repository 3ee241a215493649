"""A place since 1940 without a key: `era5 load` from an Icechunk repository, by the whole command and by its stages.

The repository has the layout of Earthmover's (chunks of 8,736 hours x 12 x 12 places), generated values, and is served
over HTTP on this machine, where each request takes 50 ms longer: a stand-in for a store that is far away.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

import numpy as np
import requests

from benchmarks.cells import CannotRunError, Laps, Measured, missing_library, planned, rate_ratios
from benchmarks.generated import fresh_folder
from benchmarks.processes import ERA5, free_port, own_environment, require_soon, running
from benchmarks.suite import BenchContext, Suite, disk
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.stages import run_flat, run_load, run_raw
from era5_pipeline.warehouse.load_month import load_session

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    import xarray as xr
    import zarr

    from benchmarks.cells import Numbers, PlannedCell

# --- The repository: 2 x 2 tiles, of which the first has all hours, the others those of the box's months ---


_HOURS, _PLACES = 8736, 12
_NORTH, _WEST = -6.0, 105.0
# Jakarta; the tile around it; and as much as a small country.
_PLACE = ERA5_GRID.nearest_location(-6.25, 106.75)
_BOX = "-6/105/-11.75/110.75"
_FIRST, _LAST = np.datetime64("1940-01-01T00", "h"), Month(2026, 3)
# The tile and the box have months of this share of the place's hours: 14 of 1,035.
_BOX_SHARE = 72
_DELAY_SECONDS = 0.05
_READY_SECONDS = 60.0
# Units, mean, range and step of the values: a float32 from GRIB is a multiple of a power of two.
_FIELDS = {
    "t2m": ("K", 300.0, 5.0, 2.0**-9),
    "u10": ("m s**-1", 1.0, 3.0, 2.0**-11),
    "v10": ("m s**-1", -1.0, 3.0, 2.0**-11),
    "tp": ("m", 0.0, 0.001, 2.0**-20),
    "sf": ("m of water equivalent", 0.0, 0.0, 1.0),
    "tcc": ("(0 - 1)", 0.5, 0.3, 2.0**-16),
}


def _write_repository(folder: Path, first_hour: int, box_hour: int) -> None:
    """Write the hours since `first_hour` (of 1940) of the first tile, and those since `box_hour` of the others."""
    import icechunk
    import zarr
    from zarr.codecs.numcodecs import PCodec

    icechunk.set_logs_filter("error")
    session = icechunk.Repository.create(icechunk.local_filesystem_storage(str(folder))).writable_session("main")
    group = zarr.open_group(session.store, path="single/temporal", mode="w", zarr_format=3)
    hours = int((np.datetime64(str(_LAST), "M") + 1).astype("datetime64[h]").astype(int) - _FIRST.astype(int))
    side = np.arange(2 * _PLACES) * 0.25
    for name, values, units in (
        ("valid_time", np.arange(hours), f"hours since {_FIRST}"),
        ("latitude", _NORTH - side, "degrees_north"),
        ("longitude", _WEST + side, "degrees_east"),
    ):
        group.create_array(name, data=values, chunks=values.shape, dimension_names=(name,), attributes={"units": units})
    arrays = {}
    for name, (units, *_) in _FIELDS.items():
        arrays[name] = group.create_array(
            name,
            shape=(hours, side.size, side.size),
            chunks=(_HOURS, _PLACES, _PLACES),
            dtype="f4",
            serializer=PCodec(level=8),
            compressors=None,
            fill_value=np.nan,
            dimension_names=("valid_time", "latitude", "longitude"),
            attributes={"units": units},
        )
    chunks = [
        (arrays[name], name, start, row, column)
        for start in range(0, hours, _HOURS)
        for row, column in ((0, 0), (0, 1), (1, 0), (1, 1))
        for name in _FIELDS
        if start + _HOURS > (box_hour if row or column else first_hour)
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for written in [pool.submit(_write_chunk, *chunk) for chunk in chunks]:
            written.result()
    session.commit("generated hours")


def _write_chunk(array: zarr.Array[Any], name: str, start: int, row: int, column: int) -> None:
    hours = np.arange(start, min(start + _HOURS, array.shape[0]))
    _, mean, span, step = _FIELDS[name]
    random = np.random.default_rng([start, row, column, len(name)])
    shape = (hours.size, _PLACES, _PLACES)
    if name == "tp":
        values = random.gamma(0.1, span, shape) * (random.random((hours.size, 1, 1)) < 0.2)
    else:
        cycles = np.sin(2 * np.pi * hours / 24) + np.cos(2 * np.pi * hours / 8766)
        values = mean + span / 2 * cycles[:, None, None] + random.normal(0, span / 20, shape)
    if name == "tcc":
        values = values.clip(0, 1)
    rows, columns = slice(row * _PLACES, (row + 1) * _PLACES), slice(column * _PLACES, (column + 1) * _PLACES)
    array[start : start + hours.size, rows, columns] = (np.round(values / step) * step).astype(np.float32)


def serve_files(folder: str, port: int) -> None:
    """Serve the folder over HTTP on this machine, with parts of files; each request waits."""
    import anyio
    import uvicorn
    from starlette.applications import Starlette
    from starlette.routing import Mount
    from starlette.staticfiles import StaticFiles

    files = Starlette(routes=[Mount("/", StaticFiles(directory=folder))])

    async def late(scope: Any, receive: Any, send: Any) -> None:  # noqa: ANN401  # of ASGI
        await anyio.sleep(_DELAY_SECONDS)
        await files(scope, receive, send)

    uvicorn.run(late, host="127.0.0.1", port=port, log_level="error", lifespan="off")


# --- Loads from it ---


class _Anywhere:
    """The served repository, made on first use, and what is loaded from it."""

    def __init__(self, context: BenchContext) -> None:
        self._context = context
        self.months = _last_months(context.rows)
        self.box_months = _last_months(context.rows // _BOX_SHARE)

    def place(self) -> Measured:
        """All months of the place, by the command, into a new database."""
        return self._load(self._home, self.months, ("--lat", str(_PLACE.latitude), "--lon", str(_PLACE.longitude)))

    def place_again(self) -> Measured:
        """The same, once the months' raw files are on this machine."""
        if not (self._home / "raw").is_dir():
            self.place()
        kept = self._context.folder / "anywhere-raw"
        (self._home / "raw").rename(kept)
        home = fresh_folder(self._home)
        kept.rename(home / "raw")
        return self._load(
            home, self.months, ("--lat", str(_PLACE.latitude), "--lon", str(_PLACE.longitude)), fresh=False
        )

    def tile(self) -> Measured:
        """The place with its 143 neighbours in the same chunks."""
        words = ("--lat", str(_PLACE.latitude), "--lon", str(_PLACE.longitude), "--tile")
        return self._load(self._home, self.box_months, words)

    def box(self) -> Measured:
        """576 places in four tiles."""
        return self._load(self._home, self.box_months, ("--source", "earthmover", "--area", _BOX))

    def xarray(self) -> Measured:
        """The place's hours by xarray and icechunk, in memory: no checks, no rows, no records."""
        _ = self._url
        clock, used = Laps(), time.process_time()
        values = self._read_by_xarray()
        figures = {"seconds": clock.lap(), "processor_seconds": round(time.process_time() - used, 1)}
        return Measured(values.sizes["valid_time"], figures)

    def point_series(self) -> Measured:
        """The same hours from one CSV file, as the CDS has them for a point, without its queue; it has no snowfall."""
        place = self._read_by_xarray().drop_vars("sf").to_dataframe().reset_index()
        folder = fresh_folder(self._context.folder / "anywhere-series")
        columns = ["valid_time", *(name for name in _FIELDS if name in place), "latitude", "longitude"]
        path = folder / "reanalysis-era5-single-levels-timeseries-sfc.csv"
        place[columns].to_csv(path, index=False, date_format="%Y-%m-%d %H:%M:%S")
        return self._load(self._home, self.months, ("--source", "files", "--files-dir", str(folder)))

    def _read_by_xarray(self) -> xr.Dataset:
        import icechunk
        import xarray as xr

        icechunk.set_logs_filter("error")
        session = icechunk.Repository.open(icechunk.http_storage(self._url)).readonly_session("main")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # as when it was written
            with xr.open_zarr(session.store, group="single/temporal", consolidated=False, chunks=None) as dataset:
                place = dataset[list(_FIELDS)].sel(latitude=_PLACE.latitude, longitude=_PLACE.longitude)
                wanted = slice(f"{self.months[0]}", f"{self.months[-1]}")
                values: xr.Dataset = place.sel(valid_time=wanted).load()
        return values

    def stages(self) -> Measured:
        """Months of the place by the stages that a load calls: the processor seconds of each, and of other threads.

        Those are the threads that read and decode chunks, and write flat files. Dagster's records are not in it. A load
        has raw and flat of many months in a process of their own.
        """
        home = fresh_folder(self._context.folder / "anywhere-stages")
        settings = Settings(
            home=home, source="earthmover", earthmover_url=f"icechunk+{self._url}", area=f"{_PLACE.latitude}/"
            f"{_PLACE.longitude}/{_PLACE.latitude}/{_PLACE.longitude}",
        )  # fmt: skip
        months = self.box_months
        figures: Numbers = dict.fromkeys(("raw", "flat", "load"), 0.0)
        clock = Laps()
        with (
            open_warehouse(settings, create=True) as warehouse,
            load_session(warehouse, settings.lock_timeout_seconds) as session,
            source_of(settings).in_turn() as source,
        ):
            clock.lap()
            used, rows = time.process_time(), 0
            for month in months:
                for name, stage in (
                    ("raw", partial(run_raw, settings, month, source=source, together=months)),
                    ("flat", partial(run_flat, settings, month, source=source)),
                    ("load", partial(run_load, settings, warehouse, month, session=session)),
                ):
                    before = time.thread_time()
                    stage()
                    figures[name] += time.thread_time() - before
                rows += month.hours
            figures["other threads"] = time.process_time() - used - sum(figures.values())
            seconds = clock.lap()
        per_month = {
            f"processor_ms_per_month, {name}": round(1000 * of / len(months), 1) for name, of in figures.items()
        }
        return Measured(rows, {"seconds": seconds, **per_month})

    def _load(self, home: Path, months: tuple[Month, ...], words: tuple[str, ...], *, fresh: bool = True) -> Measured:
        _ = self._url
        if fresh:
            fresh_folder(home)
        env = own_environment(home, {"ERA5_EARTHMOVER_URL": f"icechunk+{self._url}"})
        span = ("--from", str(months[0]), "--to", str(months[-1]), "--yes")
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        clock = Laps()
        options: dict[str, Any] = {"env": env, "cwd": home, "capture_output": True, "text": True}
        done = subprocess.run([*ERA5, "load", *words, *span], check=False, **options)  # noqa: S603  # our own command
        seconds = clock.lap()
        if done.returncode:
            raise CannotRunError(f"era5 load ended with {done.returncode}: {done.stderr.strip()[-500:]}")
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return Measured(
            _rows_in(home),
            {
                "seconds": seconds,
                "seconds_per_month": round(seconds / len(months), 3),
                "processor_seconds": round(used, 1),
                "processor_ms_per_month": round(1000 * used / len(months), 1),
            },
        )

    @property
    def _home(self) -> Path:
        return self._context.folder / "anywhere"

    @cached_property
    def _url(self) -> str:
        folder = self._context.folder / "anywhere-store"
        shutil.rmtree(folder, ignore_errors=True)
        first_hours = [
            int((np.datetime64(str(of[0]), "h") - _FIRST).astype(int)) for of in (self.months, self.box_months)
        ]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # zarr's, of a codec that its specification lacks, as in Earthmover's
            _write_repository(folder, *first_hours)
        return self._context.stack.enter_context(_served(folder))


def _last_months(hours: int) -> tuple[Month, ...]:
    """The last months of the repository that have so many hours, at most all."""
    count = max(1, round(hours / 730.5))
    first = max(Month(1940, 1).number, _LAST.number - count + 1)
    return tuple(map(Month.from_number, range(first, _LAST.number + 1)))


def _rows_in(home: Path) -> int:
    with open_warehouse(Settings(home=home)) as warehouse, warehouse.connect() as connection:
        row = connection.execute("SELECT count(*) FROM weather").fetchone()
        return int(row[0]) if row else 0


@contextmanager
def _served(folder: Path) -> Iterator[str]:
    port = free_port()
    program = f"from benchmarks.anywhere import serve_files; serve_files({str(folder)!r}, {port})"
    with running((sys.executable, "-c", program), signal.SIGTERM):
        url = f"http://127.0.0.1:{port}"
        require_soon(
            partial(requests.get, f"{url}/repo", timeout=_READY_SECONDS), _READY_SECONDS, "the server did not start"
        )
        yield url


PLACE, AGAIN, XARRAY = "place", "place, raw files here", "place, xarray in memory"
SERIES = "place, a point series of the CDS in a file"


def _cells(context: BenchContext) -> list[PlannedCell]:
    suite = _Anywhere(context)

    def lacks(why: str) -> Callable[[], Measured]:
        def measure() -> Measured:
            raise CannotRunError(why)

        return measure

    lacking = partial(missing_library, ("icechunk", "pcodec"))
    of_place: dict[str, Callable[[], Measured]] = {
        PLACE: suite.place,
        AGAIN: suite.place_again,
        XARRAY: suite.xarray,
        SERIES: suite.point_series,
    }
    of_box: dict[str, Callable[[], Measured]] = {
        "tile": suite.tile,
        "box of four tiles": suite.box,
        "stages": suite.stages,
    }
    return [
        *planned(of_place, context.rows, lacking, months=len(suite.months)),
        *planned(of_box, context.rows, lacking, months=len(suite.box_months)),
        *planned(
            {"place, ARCO": lacks("a chunk is an hour of the globe: 4.5 million requests for a place since 1940")}, 0
        ),
    ]


ANYWHERE = Suite(
    name="anywhere",
    summary="a place from a store that is far away: the whole command, its stages, and xarray",
    load="a place since 1940; 14 months of a tile and of 576 places",
    plan=_cells,
    rows=756_048,
    repeats=1,
    # The repository, and the tables with their files.
    bytes=lambda context: disk(9, 9)(context) + 3_000_000_000 * context.rows // 756_048,
    own_server=True,
    ratios=rate_ratios({"place, raw files here / place": (AGAIN, PLACE), "place / xarray in memory": (PLACE, XARRAY)}),
)
