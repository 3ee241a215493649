"""The same year and the same questions for what a user would choose instead: load time, bytes, answer times."""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.contenders.column_files import ClickhouseTable, DuckdbOnParquet
from era5_pipeline.bench.contenders.contender import Contender, GeneratedYear, forget_cached
from era5_pipeline.bench.contenders.grid_files import NetcdfFiles, ZarrFiles
from era5_pipeline.bench.contenders.warehouse_table import WarehouseTable
from era5_pipeline.bench.runner.planned_cell import Measured, PlannedCell
from era5_pipeline.bench.runner.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.bench.runner.bench_context import BenchContext

_WARM = 3
_TOLERANCE = 1e-3  # degrees Celsius: files hold kelvin, the table degrees


@contextmanager
def others_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each contender."""
    year = GeneratedYear(context.folder / "year", context.rows)
    answers: dict[str, np.ndarray] = {}
    contenders: list[Callable[[], Contender]] = [
        lambda: WarehouseTable(context.target),
        NetcdfFiles,
        ZarrFiles,
        DuckdbOnParquet,
        ClickhouseTable,
    ]
    names = [WarehouseTable.name, NetcdfFiles.name, ZarrFiles.name, DuckdbOnParquet.name, ClickhouseTable.name]
    yield [
        PlannedCell(name, 12 * context.rows, {"contender": name}, _Asked(make, year, context.folder, answers).measure)
        for name, make in zip(names, contenders, strict=True)
    ]


def others_bytes(context: BenchContext) -> int:
    """Bytes on disk for the year in each form."""
    return 12 * context.rows * (2 * TABLE_ROW_BYTES + 3 * FILE_ROW_BYTES)


@dataclass(frozen=True)
class _Asked:
    make: Callable[[], Contender]
    year: GeneratedYear
    folder: Path
    answers: dict[str, np.ndarray] = field(repr=False)

    def measure(self) -> Measured:
        """Load the year, and ask each question with an empty page cache and then several times."""
        contender = self.make()
        reason = contender.why_missing()
        if reason is not None:
            raise CannotRunError(reason)
        place, rows = self.year.place, sum(flat.rows for flat in self.year.flat)
        started = time.monotonic()
        size = contender.load(self.year, self.folder / "contender")
        figures = {"seconds": time.monotonic() - started, "bytes_per_row": size / rows}
        try:
            questions: dict[str, Callable[[], list[float]]] = {
                "place_year": lambda: contender.place_year(place),
                "month_mean": lambda: [contender.month_mean()],
            }
            for name, ask in questions.items():
                figures |= self._ask(contender, name, ask)
        finally:
            contender.close()
        return Measured(rows, figures, notes={"cold": "opened again, its files dropped from the page cache"})

    def _ask(self, contender: Contender, name: str, ask: Callable[[], list[float]]) -> dict[str, float]:
        contender.close()
        forget_cached(contender.files())
        started = time.monotonic()
        contender.open()
        self._check(name, ask())
        cold = time.monotonic() - started
        warm = []
        for _ in range(_WARM):
            started = time.monotonic()
            ask()
            warm.append(time.monotonic() - started)
        return {f"{name}_cold_ms": cold * 1000, f"{name}_warm_ms": median(warm) * 1000}

    def _check(self, name: str, answer: list[float]) -> None:
        """Require that every contender gives the answer of the first."""
        found = np.array(answer, dtype=np.float64)
        known = self.answers.setdefault(name, found)
        if found.shape != known.shape or not np.allclose(found, known, atol=_TOLERANCE, equal_nan=True):
            raise CannotRunError(f"{name}: it answers otherwise than the first contender")
