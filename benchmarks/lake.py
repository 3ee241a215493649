"""The suite `lake`: what the lake's files cost beside the warehouse, and the same questions to engines on both.

The questions are asked of a year at many places, and of 85 years at a few, which are what each is best at.
"""

from __future__ import annotations

import shutil
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from statistics import median
from typing import TYPE_CHECKING

import numpy as np
from typing_extensions import override

from benchmarks.cells import CannotRunError, Measured, PlannedCell, median_of, rate_ratio, ratio
from benchmarks.engines import ENGINES, QUESTIONS, OfWarehouse, Subject
from benchmarks.everywhere import ALL_CORES, ON_FAR_S3, ON_S3, ONE_WORKER, Band, of_folder
from benchmarks.others import GeneratedYear, database_files, forget_cached, fresh_folder
from benchmarks.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.lake.open_lake import ORPHAN_HOURS, open_lake
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.warehouse.layouts import LAYOUTS
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from benchmarks.cells import Entries, Numbers
    from benchmarks.engines import Engine
    from benchmarks.suite import BenchContext
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.lake.months import Lake

    Answer = npt.NDArray[np.float64]

ONE_FILE, BANDS = "flatten, one file a month", "flatten, the lake's files"
ALONE, BOTH = "load, warehouse alone", "load, warehouse and lake"
# The same of few places, month after month.
MANY_ALONE, MANY_BOTH = f"{ALONE}, few places", f"{BOTH}, few places"
# Months whose median is compared: the first ones and the last ones.
_ENDS = 20
_WARM = 3
_TOLERANCE = 1e-6
_LAST = Month(2024, 12)
_FEW_PLACES = 8


def of_decades(engine: type[Engine]) -> str:
    """The name of the cell of an engine that is asked about few places and many months."""
    return f"{engine.name}, few places"


# --- The warehouse and the lake, with a year or with decades ---


@dataclass(frozen=True)
class _Decades(GeneratedYear):
    """The last `count` months until 2024, at few places."""

    count: int = 1020

    @property
    @override
    def months(self) -> tuple[Month, ...]:
        return tuple(Month.from_number(_LAST.number - back) for back in reversed(range(self.count)))


@dataclass
class _Table:
    """The table of the run's database, which has the months of one of these at a time."""

    held: _Loaded | None = None


@dataclass(eq=False)
class _Loaded:
    """Generated months, loaded into table and lake when they are needed and the table has others."""

    context: BenchContext
    year: GeneratedYear
    table: _Table
    folder: Path
    rows: int = 0
    place: int = 0

    @property
    def lake(self) -> Lake:
        """The lake with the months, which the table has too."""
        if self.table.held is not self:
            self.load(for_lake=True)
        return self._open()

    @property
    def subject(self) -> Subject:
        """Select the data of the questions; the month is July."""
        lake, months = self.lake, self.year.months
        return Subject(self.context.target.warehouse, lake, self.place, months[-min(6, len(months))])

    def files_of(self, engine: Engine) -> Iterable[Path]:
        """The files that the engine reads, to drop them from the page cache."""
        if isinstance(engine, OfWarehouse):
            return database_files(self.context.target)
        return [path for path in self.folder.rglob("*") if path.is_file()]

    def load(self, *, for_lake: bool) -> Measured:
        """Load the months into a new table, and into a new lake; the flat files are made before."""
        target = self.context.target
        self.table.held = None
        flats = self.flatten(for_lake=for_lake)[0]
        target.make_table(LAYOUTS[target.offered[0]])
        with target.connect() as connection:
            connection.execute("TRUNCATE era5.ledger, era5.load_attempt")
            connection.execute("DROP TABLE IF EXISTS public.iceberg_tables, public.iceberg_namespace_properties")
        fresh_folder(self.folder)
        lake = self._open() if for_lake else None
        target.calm()
        of_months = []
        for flat in flats:
            started = time.monotonic()
            alongside = None if lake is None else lake.prepared(target.warehouse, flat)
            load_month(target.warehouse, flat, alongside=alongside)
            if lake is not None:
                lake.after_commit(target.warehouse, ORPHAN_HOURS)
            of_months.append(time.monotonic() - started)
        if for_lake:
            self.table.held = self
        with target.connect() as connection:
            size = read_space(connection).bytes
        if lake is not None:
            size += sum(of.bytes for of in lake.store.objects())
        self.rows = sum(flat.rows for flat in flats)
        ids = flats[0].location_ids.ids()
        self.place = int(ids[ids.size // 2])
        return Measured(
            self.rows,
            {
                "seconds": sum(of_months),
                "bytes_per_row": size / self.rows,
                "first_months_ms": 1000 * median(of_months[:_ENDS]),
                "last_months_ms": 1000 * median(of_months[-_ENDS:]),
            },
        )

    def flatten(self, *, for_lake: bool) -> tuple[list[FlatMonth], Measured]:
        """Flatten the months into one file each, or into the lake's files."""
        raws, folder = self.year.raw, fresh_folder(self.year.folder / ("bands" if for_lake else "flat"))
        started = time.monotonic()
        flats = [
            flatten_month(raw, folder, home=self.year.folder, flat_format="parquet", for_lake=for_lake) for raw in raws
        ]
        seconds = time.monotonic() - started
        rows = sum(flat.rows for flat in flats)
        return flats, Measured(
            rows, {"seconds": seconds, "bytes_per_row": sum(flat.row_bytes for flat in flats) / rows}
        )

    def _open(self) -> Lake:
        return open_lake(Settings(_env_file=None, home=self.context.folder / "home", lake=str(self.folder)))


# --- The suite ---


@contextmanager
def lake_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """Cells for writing with and without a lake, for trends at every place, and for each engine on both kinds."""
    folder, table = context.folder, _Table()
    year = _Loaded(context, GeneratedYear(folder / "year", context.rows), table, folder / "lake")
    count = max(context.options.held)
    few = _Decades(folder / "few", _FEW_PLACES * 744, count)
    decades = _Loaded(context, few, table, folder / "few-lake")
    band = Band(folder / "band", context.rows)
    ways: dict[str, Callable[[], Measured]] = {
        ONE_FILE: lambda: year.flatten(for_lake=False)[1],
        BANDS: lambda: year.flatten(for_lake=True)[1],
        ALONE: lambda: year.load(for_lake=False),
        BOTH: lambda: year.load(for_lake=True),
        ONE_WORKER: lambda: _everywhere(year, on_dask=False),
        ALL_CORES: lambda: _everywhere(year, on_dask=True),
    }
    answers: dict[str, Answer] = {}
    of_few: dict[str, Answer] = {}
    rows = 12 * context.rows
    yield [
        *(PlannedCell(name, rows, {}, _Needing(("pyiceberg",), measure).measure) for name, measure in ways.items()),
        *(PlannedCell(engine.name, rows, {}, _Asked(engine, year, answers).measure) for engine in ENGINES),
        *(
            PlannedCell(name, band.asked_rows, {}, _Needing(("pyiceberg",), partial(band.measure, name)).measure)
            for name in (ON_S3, ON_FAR_S3)
        ),
        # Loading a thousand months takes minutes.
        *(
            PlannedCell(
                name,
                few.rows * count,
                {"months": count},
                _Needing(("pyiceberg",), partial(decades.load, for_lake=name == MANY_BOTH)).measure,
                most_repeats=1,
            )
            for name in (MANY_ALONE, MANY_BOTH)
        ),
        *(
            PlannedCell(
                of_decades(engine),
                few.rows * count,
                {"months": count},
                _Asked(engine, decades, of_few).measure,
                most_repeats=1,
            )
            for engine in ENGINES
        ),
    ]
    for loaded in (year, decades):
        shutil.rmtree(loaded.folder, ignore_errors=True)


def _everywhere(loaded: _Loaded, *, on_dask: bool) -> Measured:
    lake = loaded.lake
    return of_folder(loaded.context.target, lake, loaded.folder, loaded.year.months[0].year, on_dask=on_dask)


def lake_ratios(entries: Entries) -> dict[str, float | None]:
    """How fast the lake's files are written and loaded, relative to a warehouse alone, and how its cost grows."""
    return {
        "lake_files_to_one_file": rate_ratio(entries, BANDS, ONE_FILE),
        "both_to_warehouse_alone": rate_ratio(entries, BOTH, ALONE),
        "last_months_to_first": ratio(
            median_of(entries, MANY_BOTH, "last_months_ms"), median_of(entries, MANY_BOTH, "first_months_ms")
        ),
    }


def lake_bytes(context: BenchContext) -> int:
    """Bytes on disk for the year in each form, and for a band of the globe."""
    year = 12 * context.rows * (2 * TABLE_ROW_BYTES + 4 * FILE_ROW_BYTES)
    return year + Band(context.folder, context.rows).asked_rows * FILE_ROW_BYTES


@dataclass(frozen=True)
class _Needing:
    libraries: tuple[str, ...]
    run: Callable[[], Measured]

    def measure(self) -> Measured:
        lacking = [name for name in self.libraries if find_spec(name) is None]
        if lacking:
            raise CannotRunError(f"the library {lacking[0]} is not installed")
        return self.run()


@dataclass(frozen=True)
class _Asked:
    make: type[Engine]
    loaded: _Loaded
    answers: dict[str, Answer] = field(repr=False)

    def measure(self) -> Measured:
        """Ask each question first with an empty page cache and then several times."""
        if (lacking := self.make.why_missing()) is not None:
            raise CannotRunError(lacking)
        engine = self.make(self.loaded.subject)  # loaded before the clock starts
        if self.make.reopens:
            figures = self._opened_again(engine)
        else:
            with _opened(engine):
                figures = {f"{question}_warm_ms": self._warm(engine, question) for question in QUESTIONS}
        figures["seconds"] = sum(figures[f"{name}_warm_ms"] for name in QUESTIONS) / 1000
        return Measured(
            self.loaded.rows, figures, notes={"cold": "opened again, its files dropped from the page cache"}
        )

    def _opened_again(self, engine: Engine) -> Numbers:
        figures: Numbers = {}
        for question in QUESTIONS:
            forget_cached(self.loaded.files_of(engine))
            started = time.monotonic()
            with _opened(engine):
                getattr(engine, question)()
                figures[f"{question}_cold_ms"] = 1000 * (time.monotonic() - started)
                figures[f"{question}_warm_ms"] = self._warm(engine, question)
        return figures

    def _warm(self, engine: Engine, question: str) -> float:
        """Ask once to compare the answer with the others', then several times; return the median of milliseconds."""
        ask: Callable[[], Answer] = getattr(engine, question)
        self._check(question, ask())
        warm = []
        for _ in range(_WARM):
            started = time.monotonic()
            ask()
            warm.append(time.monotonic() - started)
        return 1000 * median(warm)

    def _check(self, name: str, answer: Answer) -> None:
        """Require the same answer from every engine as from the first."""
        known = self.answers.setdefault(name, answer)
        if answer.shape != known.shape or not np.allclose(answer, known, _TOLERANCE, _TOLERANCE, equal_nan=True):
            raise CannotRunError(f"{name}: it answers otherwise than the first engine")


@contextmanager
def _opened(engine: Engine) -> Iterator[None]:
    engine.open()
    try:
        yield
    finally:
        engine.close()
