"""The suite `lake`: what the lake's files cost beside the warehouse, and the same questions to engines on both.

The questions are asked of a year at many places, and of 85 years at a few, which are what each is best at.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import partial
from statistics import median
from typing import TYPE_CHECKING

from benchmarks.cells import Laps, Measured, median_of, missing_library, planned, rate_ratios, ratio
from benchmarks.engines import ENGINES, QUESTIONS, Engine, OfWarehouse, Subject
from benchmarks.everywhere import ALL_CORES, ON_FAR_S3, ON_S3, ONE_WORKER, Band, of_folder
from benchmarks.generated import fresh_folder, last_months
from benchmarks.others import NOTES, YEAR, Answer, GeneratedYear, database_files, files_below, times_of
from benchmarks.suite import FILE_ROW_BYTES, BenchContext, Suite, disk
from era5_pipeline.lake.open_lake import ORPHAN_HOURS, open_lake
from era5_pipeline.model.settings import Settings
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from benchmarks.cells import Entries, PlannedCell
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
        of_months, clock = [], Laps()
        for flat in flats:
            alongside = None if lake is None else lake.prepared(target.warehouse, flat)
            load_month(target.warehouse, flat, alongside=alongside)
            if lake is not None:
                lake.after_commit(target.warehouse, ORPHAN_HOURS)
            of_months.append(clock.lap())
        if for_lake:
            self.held.append(self)
        size = target.bytes() + (0 if lake is None else sum(of.bytes for of in lake.store.objects()))
        self.rows = sum(flat.rows for flat in flats)
        ids = flats[0].location_ids.ids()
        self.place = int(ids[ids.size // 2])
        figures = {"seconds": sum(of_months), "bytes_per_row": size / self.rows}
        figures["first_months_ms"] = 1000 * median(of_months[:_ENDS])
        figures["last_months_ms"] = 1000 * median(of_months[-_ENDS:])
        return Measured(self.rows, figures)

    def flatten(self, *, for_lake: bool) -> tuple[list[FlatMonth], Measured]:
        """Flatten the months into one file each, or into the lake's files."""
        folder = fresh_folder(self.year.folder / ("bands" if for_lake else "flat"))
        _ = self.year.raw  # generated before the clock starts
        clock = Laps()
        flats = self.year.flatten(folder, for_lake=for_lake)
        seconds, rows = clock.lap(), sum(flat.rows for flat in flats)
        bytes_per_row = sum(flat.row_bytes for flat in flats) / rows
        return flats, Measured(rows, {"seconds": seconds, "bytes_per_row": bytes_per_row})

    def _open(self) -> Lake:
        return open_lake(Settings(_env_file=None, home=self.context.folder / "home", lake=str(self.folder)))


def _lake_cells(context: BenchContext) -> list[PlannedCell]:
    """Cells for writing with and without a lake, for trends at every place, and for each engine on both kinds."""
    folder, held = context.folder, list[_Loaded]()
    count = max(context.options.held)
    year = _Loaded(context, GeneratedYear(folder / "year", context.rows, YEAR), held, folder / "lake")
    few = GeneratedYear(folder / "few", _FEW_PLACES * 744, last_months(count))
    decades = _Loaded(context, few, held, folder / "few-lake")
    band = Band(folder / "band", context.rows)

    needs_iceberg = partial(missing_library, ("pyiceberg",))
    ways: dict[str, Callable[[], Measured]] = {
        ONE_FILE: lambda: year.flatten(for_lake=False)[1],
        BANDS: lambda: year.flatten(for_lake=True)[1],
        ALONE: partial(year.load, for_lake=False),
        BOTH: partial(year.load, for_lake=True),
        ONE_WORKER: partial(year.everywhere, on_dask=False),
        ALL_CORES: partial(year.everywhere, on_dask=True),
    }
    far = {name: partial(band.measure, name) for name in (ON_S3, ON_FAR_S3)}
    loads = {MANY_ALONE: partial(decades.load, for_lake=False), MANY_BOTH: partial(decades.load, for_lake=True)}
    cells = planned(ways, 12 * context.rows, needs_iceberg)
    for engine in ENGINES:
        cells += planned({engine.name: partial(year.asked, engine)}, 12 * context.rows, engine.why_missing)
    cells += planned(far, band.asked_rows, needs_iceberg)
    many = planned(loads, few.rows * count, needs_iceberg, months=count)
    for engine in ENGINES:
        asked = {f"{engine.name}, few places": partial(decades.asked, engine)}
        many += planned(asked, few.rows * count, engine.why_missing, months=count)
    # Loading a thousand months takes minutes.
    return cells + [replace(cell, most_repeats=1) for cell in many]


def _lake_ratios(entries: Entries) -> dict[str, float | None]:
    """How fast the lake's files are written and loaded, relative to a warehouse alone, and how its cost grows."""
    first, last = (median_of(entries, MANY_BOTH, f"{end}_months_ms") for end in ("first", "last"))
    rates = {"lake_files_to_one_file": (BANDS, ONE_FILE), "both_to_warehouse_alone": (BOTH, ALONE)}
    return {**rate_ratios(rates)(entries), "last_months_to_first": ratio(last, first)}


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
