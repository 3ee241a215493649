"""A CSV file first, then COPY: by pandas as in the study, and by pyarrow as the pipeline writes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from psycopg import sql

from era5_pipeline.bench.copy_methods import COLUMNS
from era5_pipeline.bench.methods.load_method import WEATHER_COLUMNS, Batch, Family, LoadMethod
from era5_pipeline.bench.methods.server_folder import server_reads
from era5_pipeline.flat.formats import open_sink

if TYPE_CHECKING:
    from pathlib import Path

    import psycopg

_CHUNK_BYTES = 1 << 20
_OPTIONS = sql.SQL("(FORMAT csv, HEADER true)")


class _CsvCopy(LoadMethod):
    """COPY of a CSV file, which the server reads itself where it can; else it is sent over the connection."""

    family: ClassVar[Family] = "copy"
    # Of the last load, for `notes`: it says what a rate means.
    _is_read_by_server = False

    def load(self, session: psycopg.Connection[Any], prepared: Path) -> None:
        """Copy it."""
        if server_reads(session, prepared):
            self._is_read_by_server = True
            session.execute(sql.SQL("COPY {} FROM {} {}").format(WEATHER_COLUMNS, sql.Literal(str(prepared)), _OPTIONS))
        else:
            statement = sql.SQL("COPY {} FROM STDIN {}").format(WEATHER_COLUMNS, _OPTIONS)
            with session.cursor() as cursor, prepared.open("rb") as file, cursor.copy(statement) as copy:
                while chunk := file.read(_CHUNK_BYTES):
                    copy.write(chunk)
        session.commit()

    def notes(self, session: psycopg.Connection[Any]) -> dict[str, str]:
        """Say who read the file."""
        del session
        return {"file": "read by the server" if self._is_read_by_server else "sent over the connection"}


class PandasCsvCopy(_CsvCopy):
    """pandas' `to_csv`, then COPY."""

    name: ClassVar[str] = "pandas CSV + COPY"
    libraries: ClassVar[tuple[str, ...]] = ("pandas",)

    def prepare(self, batch: Batch) -> Path:
        """Write the file."""
        path = batch.folder / "pandas.csv"
        batch.rows.to_pandas().to_csv(path, index=False)
        return path


class ArrowCsvCopy(_CsvCopy):
    """pyarrow's CSV, as `era5 load --format csv` writes it, then COPY."""

    name: ClassVar[str] = "pyarrow CSV + COPY"

    def prepare(self, batch: Batch) -> Path:
        """Write the file."""
        return write_batch_csv(batch)


def write_batch_csv(batch: Batch) -> Path:
    """Write the batch as the pipeline's CSV, with a header."""
    path = batch.folder / "pyarrow.csv"
    with open_sink(path, "csv", batch.rows.schema) as sink:
        sink.write(batch.rows.select(list(COLUMNS)))
    return path
