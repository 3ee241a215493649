"""An export from the table to a file, piece by piece: complete or absent, and of one state of the table."""

from __future__ import annotations

from contextlib import closing, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import TYPE_CHECKING, Any

from era5_pipeline.export.contents import HeldHours, nothing_in, one_state, read_contents, read_state
from era5_pipeline.export.files import missing_attributes
from era5_pipeline.export.pieces import PIECE_BYTES, Cut, cut, read_piece
from era5_pipeline.model.errors import LocalDiskError, TransientError
from era5_pipeline.model.months import spans
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.runtime import progress
from era5_pipeline.runtime.files import replacing, replacing_folder
from era5_pipeline.runtime.prefetch import Prefetched

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator
    from datetime import datetime
    from pathlib import Path

    import psycopg

    from era5_pipeline.export.contents import ExportContents, State
    from era5_pipeline.export.files import ExportSink
    from era5_pipeline.export.formats import ExportFormat
    from era5_pipeline.export.pieces import ExportPiece, Values
    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.places import AskedPlace
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse

# How often an export is restarted because its months changed meanwhile.
_TRIES = 3
# Each chunk is a file: a week of one latitude of the globe has 1 MB.
_CHUNK_DAYS_OF_ZARR = 7
_DOING = "reading the table"


@dataclass(frozen=True)
class Exported:
    """The size of the result: rows of a table, or hours x grid points of a box; bytes of the file or folder."""

    contents: ExportContents
    rows: int
    bytes: int
    seconds: float
    missing: tuple[str, ...]


class _ChangedError(Exception):
    """Months of the export were replaced or dropped while it ran."""

    def __init__(self, months: list[Month]) -> None:
        super().__init__(months)
        self.months = months


def export(
    warehouse: Warehouse,
    path: Path,
    format_: ExportFormat,
    asked: AskedPlace | Area | None,
    *,
    columns: tuple[Variable, ...] | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    say: Callable[[str], None] = lambda _: None,
    piece_bytes: int = PIECE_BYTES,
) -> Exported:
    """Write a place, an area or all of the table, with `start <= time < end` (aware; None: all), to a file.

    The file at `path` is replaced once the new one is complete, and kept otherwise. An export is of one state of the
    table: if one of its months is replaced meanwhile, it starts again, and reports that to `say`. `columns` None: those
    with values there. The server sends at most about `piece_bytes` at a time.
    """
    begun = monotonic()
    for tries_left in reversed(range(_TRIES)):
        try:
            contents, rows, size, missing = _try_export(
                warehouse, path, format_, asked, columns, start, end, piece_bytes
            )
        except _ChangedError as error:
            changed = f"{spans(error.months)} changed in the table during the export"
            if not tries_left:
                raise TransientError(
                    f"{changed}, each of {_TRIES} times: {path} was not written",
                    remedy="Run it again when no load is running, or export fewer months at a time.",
                ) from None
            say(f"{changed}: starting again, so that the file holds one state of the table")
        else:
            return Exported(contents, rows, size, monotonic() - begun, missing)
    raise AssertionError


def _try_export(
    warehouse: Warehouse,
    path: Path,
    format_: ExportFormat,
    asked: AskedPlace | Area | None,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
    piece_bytes: int,
) -> tuple[ExportContents, int, int, tuple[str, ...]]:
    with warehouse.connect() as connection:
        with server_errors(_DOING):
            connection.execute("SET default_transaction_read_only = on")
            # Compiling expressions takes longer than the query.
            connection.execute("SET jit = off")
            contents = read_contents(connection, asked, columns, start, end)
        window = contents.window
        chunk_days = _CHUNK_DAYS_OF_ZARR if format_ == "zarr" else 1
        plan = cut(contents.hours, window.rows, window.columns, len(contents.variables), piece_bytes, chunk_days)
        held = HeldHours(contents)
        with _disk_errors(path), (replacing_folder if format_ == "zarr" else replacing)(path) as temporary:
            with _open_sink(temporary, format_, contents, plan) as sink:
                rows = _write_pieces(connection, contents, plan, sink, held)
                lines = tuple(held.lines())
                if not held.has_values:
                    with server_errors(_DOING):
                        raise nothing_in(connection, contents)
                sink.finish(missing_attributes(lines))
            files = temporary.rglob("*") if temporary.is_dir() else [temporary]
            size = sum(file.stat().st_size for file in files if file.is_file())
        return contents, rows, size, lines


def _open_sink(path: Path, format_: ExportFormat, contents: ExportContents, plan: Cut) -> ExportSink:
    if format_ in ("netcdf", "zarr"):
        from era5_pipeline.export.files import NetcdfExport, ZarrExport  # noqa: PLC0415

        return (NetcdfExport if format_ == "netcdf" else ZarrExport)(path, contents, plan)
    from era5_pipeline.export.files import CsvExport, ParquetExport  # noqa: PLC0415

    return (CsvExport if format_ == "csv" else ParquetExport)(path, contents)


def _write_pieces(
    connection: psycopg.Connection[Any], contents: ExportContents, plan: Cut, sink: ExportSink, held: HeldHours
) -> int:
    """Write all pieces, each while the next one is read; return the sum of what `write` returns."""
    total = len(contents.hours) * contents.window.rows * contents.window.columns
    rows = done = 0
    reading = _pieces(connection, contents, plan)
    with closing(reading), closing(Prefetched(reading)) as pieces:
        try:
            for piece, values in pieces:
                rows += sink.write(piece, values)
                held.add(piece, values)
                hours, latitudes, longitudes = piece.shape
                done += hours * latitudes * longitudes
                progress.report("export", done, total, "rows")
        except BaseException:
            # Do not wait for the piece being read.
            connection.cancel_safe(timeout=1.0)
            raise
    return rows


def _pieces(
    connection: psycopg.Connection[Any], contents: ExportContents, plan: Cut
) -> Generator[tuple[ExportPiece, Values]]:
    """Read the pieces; after each, raise `_ChangedError` unless the table is as it was."""
    state = contents.state
    window_locations = contents.locations
    # With a ledger, which tells whether the table changed, each piece is read by itself: a transaction as long as an
    # export would make loads wait, and its snapshot does not hide a month that is exchanged as a partition.
    with server_errors(_DOING), one_state(connection, is_needed=state is None):
        for piece in plan.pieces():
            window = contents.window.part(piece.rows, piece.columns)
            values = read_piece(connection, contents.columns, piece.hours, window, contents.held)
            if state is not None:
                now = read_state(connection, window_locations, contents.first_month, contents.last_month)
                _require_unchanged(state, now or {})
            yield piece, values


def _require_unchanged(before: State, now: State) -> None:
    if before == now:
        return
    keys = {key for key in before.keys() | now.keys() if before.get(key) != now.get(key)}
    raise _ChangedError(sorted({month for month, _ in keys}))


@contextmanager
def _disk_errors(path: Path) -> Iterator[None]:
    """Name the file in errors of the disk, with a remedy for that file."""
    try:
        yield
    except LocalDiskError as error:
        raise LocalDiskError(
            error.message,
            remedy=f"Nothing was left half-written, and what was at {path} is still there. Free space, or give "
            "another --out, in a folder that you may write to.",
        ) from error
