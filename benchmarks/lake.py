"""The suite `lake`: what the lake's files cost beside the warehouse, and the same questions to engines on both.

The questions are asked of a year at many places, and of 85 years at a few, which are what each is best at.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.cells import Measured, PlannedCell, median_of, missing_library, rate_ratio, ratio
from benchmarks.engines import ENGINES, QUESTIONS, OfWarehouse, Subject
from benchmarks.everywhere import ALL_CORES, ON_FAR_S3, ON_S3, ONE_WORKER, Band, of_folder
from benchmarks.generated import last_months
from benchmarks.others import NOTES, YEAR, GeneratedYear, database_files, files_below, fresh_folder, times_of
from benchmarks.suite import FILE_ROW_BYTES, Suite, disk
from era5_pipeline.lake.open_lake import ORPHAN_HOURS, open_lake
from era5_pipeline.model.settings import Settings
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.cells import Entries
    from benchmarks.engines import Engine
    from benchmarks.others import Answer
    from benchmarks.suite import BenchContext
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.lake.months import Lake

ONE_FILE, BANDS = "flatten, one file a month", "flatten, the lake's files"
ALONE, BOTH = "load, warehouse alone", "load, warehouse and lake"
# The same of few places, month after month.
MANY_ALONE, MANY_BOTH = f"{ALONE}, few places", f"{BOTH}, few places"
# Months whose median is compared: the first ones and the last ones.
_ENDS = 20
_TOLERANCE = 1e-6
_FEW_PLACES = 8


def of_decades(engine: type[Engine]) -> str:
    """The name of the cell of an engine that is asked about few places and many months."""
    return f"{engine.name}, few places"


# --- The warehouse and the lake, with a year or with decades ---


@dataclass(eq=False)
class _Loaded:
    """Generated months, loaded into table and lake when they are needed and the table has others.

    `held` has the one whose months the table of the run's database has, if any.
    """

    context: BenchContext
    year: GeneratedYear
    held: list[_Loaded]
    folder: Path
    rows: int = 0
    place: int = 0
    answers: dict[str, Answer] = field(default_factory=dict)

    @property
    def lake(self) -> Lake:
        """The lake with the months, which the table has too."""
        if self not in self.held:
            self.load(for_lake=True)
        return self._open()

    def asked(self, engine: type[Engine]) -> Measured:
        """Ask the engine each question; the same answers are required from every one as from the first."""
        lake, months = self.lake, self.year.months  # loaded before the clock starts
        july = months[-min(6, len(months))]
        store = engine(Subject(self.context.target.warehouse, lake, self.place, july))
        is_warehouse = issubclass(engine, OfWarehouse)
        files = partial(database_files, self.context.target) if is_warehouse else partial(files_below, self.folder)
        questions = {name: getattr(store, name) for name in QUESTIONS}
        figures = times_of(store, questions, files, self.answers, _TOLERANCE)
        figures["seconds"] = sum(figures[f"{name}_warm_ms"] for name in QUESTIONS) / 1000
        return Measured(self.rows, figures, notes=NOTES)

    def everywhere(self, *, on_dask: bool) -> Measured:
        """Compute the trends at every place."""
        return of_folder(self.context.target, self.lake, self.folder, self.year.months[0].year, on_dask=on_dask)

    def load(self, *, for_lake: bool) -> Measured:
        """Load the months into a new table, and into a new lake; the flat files are made before."""
        target = self.context.target
        self.held.clear()
        flats = self.flatten(for_lake=for_lake)[0]
        target.make_table(target.layout)
        with target.connect() as connection:
            connection.execute("DROP TABLE IF EXISTS public.iceberg_tables, public.iceberg_namespace_properties")
        fresh_folder(self.folder)
        lake = self._open() if for_lake else None
        target.calm()
        of_months = []
        for flat in flats:
            started = time.perf_counter()
            alongside = None if lake is None else lake.prepared(target.warehouse, flat)
            load_month(target.warehouse, flat, alongside=alongside)
            if lake is not None:
                lake.after_commit(target.warehouse, ORPHAN_HOURS)
            of_months.append(time.perf_counter() - started)
        if for_lake:
            self.held.append(self)
        size = target.bytes() + (0 if lake is None else sum(of.bytes for of in lake.store.objects()))
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
        folder = fresh_folder(self.year.folder / ("bands" if for_lake else "flat"))
        _ = self.year.raw  # generated before the clock starts
        started = time.perf_counter()
        flats = self.year.flatten(folder, for_lake=for_lake)
        seconds = time.perf_counter() - started
        rows = sum(flat.rows for flat in flats)
        size = sum(flat.row_bytes for flat in flats)
        return flats, Measured(rows, {"seconds": seconds, "bytes_per_row": size / rows})

    def _open(self) -> Lake:
        return open_lake(Settings(_env_file=None, home=self.context.folder / "home", lake=str(self.folder)))


# --- The suite ---


def _lake_cells(context: BenchContext) -> list[PlannedCell]:
    """Cells for writing with and without a lake, for trends at every place, and for each engine on both kinds."""
    folder, held = context.folder, list[_Loaded]()
    count = max(context.options.held)
    year = _Loaded(context, GeneratedYear(folder / "year", context.rows, YEAR), held, folder / "lake")
    few = GeneratedYear(folder / "few", _FEW_PLACES * 744, last_months(count))
    decades = _Loaded(context, few, held, folder / "few-lake")
    band = Band(folder / "band", context.rows)

    needs_iceberg = partial(missing_library, ("pyiceberg",))

    def cell(name: str, measure: Callable[[], Measured], why_missing: Callable[[], str | None]) -> PlannedCell:
        return PlannedCell(name, 12 * context.rows, {}, measure, why_missing=why_missing)

    def of_decade(name: str, measure: Callable[[], Measured], why_missing: Callable[[], str | None]) -> PlannedCell:
        # Loading a thousand months takes minutes.
        return PlannedCell(name, few.rows * count, {"months": count}, measure, None, 1, why_missing)

    ways: dict[str, Callable[[], Measured]] = {
        ONE_FILE: lambda: year.flatten(for_lake=False)[1],
        BANDS: lambda: year.flatten(for_lake=True)[1],
        ALONE: partial(year.load, for_lake=False),
        BOTH: partial(year.load, for_lake=True),
        ONE_WORKER: partial(year.everywhere, on_dask=False),
        ALL_CORES: partial(year.everywhere, on_dask=True),
    }
    return [
        *(cell(name, measure, needs_iceberg) for name, measure in ways.items()),
        *(cell(engine.name, partial(year.asked, engine), engine.why_missing) for engine in ENGINES),
        *(
            PlannedCell(name, band.asked_rows, {}, partial(band.measure, name), why_missing=needs_iceberg)
            for name in (ON_S3, ON_FAR_S3)
        ),
        of_decade(MANY_ALONE, partial(decades.load, for_lake=False), needs_iceberg),
        of_decade(MANY_BOTH, partial(decades.load, for_lake=True), needs_iceberg),
        *(of_decade(of_decades(engine), partial(decades.asked, engine), engine.why_missing) for engine in ENGINES),
    ]


def _lake_ratios(entries: Entries) -> dict[str, float | None]:
    """How fast the lake's files are written and loaded, relative to a warehouse alone, and how its cost grows."""
    first, last = (median_of(entries, MANY_BOTH, f"{end}_months_ms") for end in ("first", "last"))
    return {
        "lake_files_to_one_file": rate_ratio(entries, BANDS, ONE_FILE),
        "both_to_warehouse_alone": rate_ratio(entries, BOTH, ALONE),
        "last_months_to_first": ratio(last, first),
    }


LAKE = Suite(
    name="lake",
    summary="an Iceberg table beside the warehouse, and engines on it",
    load="12 months of a million rows",
    plan=_lake_cells,
    rows=1_000_000,
    repeats=3,
    # The year in each form, and a band of the globe.
    bytes=lambda context: (
        disk(12 * 2, 12 * 4)(context) + Band(context.folder, context.rows).asked_rows * FILE_ROW_BYTES
    ),
    ratios=_lake_ratios,
)
