"""Suite `reach`, the data on its way to users: hours as a DataFrame, a box as a DataArray, years over HTTP."""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

from era5_pipeline.bench.asking.asked_table import MOST_MONTHS, YEAR_SHARE, AskedTable
from era5_pipeline.bench.cells import ratio
from era5_pipeline.bench.reaching.box_arrays import BOX_SHARE, BoxOfMonth
from era5_pipeline.bench.reaching.place_frames import frame_of_all_columns, frame_of_one_column, frame_row_by_row
from era5_pipeline.bench.reaching.served_years import DUE_RATE, ServedYears
from era5_pipeline.bench.runner.planned_cell import PlannedCell
from era5_pipeline.bench.runner.suite import FILE_ROW_BYTES, TABLE_ROW_BYTES, measured, rate_of, rate_ratio

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from era5_pipeline.bench.cells import Numbers
    from era5_pipeline.bench.runner.bench_context import BenchContext
    from era5_pipeline.bench.runner.suite import Entries

    Question = Callable[["_Reached"], tuple[int, Numbers]]

FRAME, FRAME_OF_ALL, ROW_BY_ROW = "a DataFrame of one column", "a DataFrame of all columns", "one column, row by row"
FIELD, DATASET = "a box as DataArray, field", "a box as DataArray, dataset"
AT_RATE = f"HTTP, {DUE_RATE:g} requests a second"
AT_MOST, GZIP, SAME, UNCHANGED = "HTTP, at most", "HTTP, at most, gzip", "HTTP, the same year", "HTTP, unchanged (304)"
# So many rows of a month for each request of a load, within limits.
_ROWS_A_REQUEST, _FEWEST, _MOST = 25, 40, 3000


class _Reached:
    """The things that the cells of one run share: the table, the box beside it, and the server."""

    def __init__(self, context: BenchContext, count: int, stack: ExitStack) -> None:
        self.table = AskedTable(context.target, context.folder, context.rows, count)
        self.box = BoxOfMonth(self.table, context.rows)
        self.served = ServedYears(self.table, _requests(context.rows), stack)


_QUESTIONS: dict[str, Question] = {
    FRAME: lambda own: frame_of_one_column(own.table),
    FRAME_OF_ALL: lambda own: frame_of_all_columns(own.table),
    ROW_BY_ROW: lambda own: frame_row_by_row(own.table),
    FIELD: lambda own: own.box.field(),
    DATASET: lambda own: own.box.dataset(),
    AT_RATE: lambda own: own.served.at_rate(),
    AT_MOST: lambda own: own.served.at_most(),
    GZIP: lambda own: own.served.compressed(),
    SAME: lambda own: own.served.same(),
    UNCHANGED: lambda own: own.served.unchanged(),
}


@contextmanager
def reach_cells(context: BenchContext) -> Iterator[Sequence[PlannedCell]]:
    """A cell for each way; the table is loaded and the server started when the first of them is measured."""
    count = min(MOST_MONTHS, max(context.options.held))
    shared: list[_Reached] = []
    with ExitStack() as stack:

        def asked(question: Question) -> tuple[int, Numbers]:
            if not shared:
                shared.append(_Reached(context, count, stack))
            return question(shared[0])

        yield [
            PlannedCell(
                name, context.rows, {"months": count}, partial(lambda question: measured(asked(question)), question)
            )
            for name, question in _QUESTIONS.items()
        ]


def reach_bytes(context: BenchContext) -> int:
    """Bytes on disk for the table with its log, and for the box beside it with its files."""
    held = min(MOST_MONTHS, max(context.options.held)) + 12 * YEAR_SHARE
    return context.rows * (held * TABLE_ROW_BYTES + BOX_SHARE * (TABLE_ROW_BYTES + FILE_ROW_BYTES))


def reach_figures(entries: Entries) -> dict[str, float | None]:
    """Rates and times; those of a series are None of a table with fewer than 85 years."""
    return {
        "dataframe_rows_per_second": _of_85_years(entries, FRAME),
        "dataframe_all_columns_rows_per_second": _of_85_years(entries, FRAME_OF_ALL),
        "box_seconds": _median(entries, FIELD, "seconds"),
        "box_dataset_seconds": _median(entries, DATASET, "seconds"),
        "http_requests_per_second": _median(entries, AT_MOST, "requests_per_second"),
        "http_p99_ms": _median(entries, AT_RATE, "p99_ms"),
        "http_p50_ms": _median(entries, AT_RATE, "p50_ms"),
        "http_answered_per_second_at_rate": _median(entries, AT_RATE, "requests_per_second"),
    }


def reach_ratios(entries: Entries) -> dict[str, float | None]:
    """The rate of one way as a multiple of that of another."""
    return {
        "frame_to_row_by_row": rate_ratio(entries, FRAME, ROW_BY_ROW),
        "gzip_to_plain": _rate_ratio(entries, GZIP, AT_MOST),
        "same_to_different": _rate_ratio(entries, SAME, AT_MOST),
        "unchanged_to_same": _rate_ratio(entries, UNCHANGED, SAME),
    }


def _requests(rows: int) -> int:
    return min(_MOST, max(_FEWEST, rows // _ROWS_A_REQUEST))


def _rate_ratio(entries: Entries, above: str, below: str) -> float | None:
    one, other = (_median(entries, name, "requests_per_second") for name in (above, below))
    return ratio(one, other)


def _of_85_years(entries: Entries, name: str) -> float | None:
    entry = entries.get(name)
    is_whole = entry is not None and entry["parameters"]["months"] == MOST_MONTHS
    return rate_of(entries, name) if is_whole else None


def _median(entries: Entries, name: str, figure: str) -> float | None:
    entry = entries.get(name)
    if entry is None or entry["reason"] is not None or figure not in entry["medians"]:
        return None
    return float(entry["medians"][figure][1])
