"""COPY of columns, without a Python object for each value: ADBC, pgpq, and the pipeline's own loader."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, ClassVar

import pgpq
from psycopg import sql

from era5_pipeline.bench.copy_methods import COLUMNS, pipeline_copy
from era5_pipeline.bench.methods.load_method import WEATHER_COLUMNS, Batch, Family, LoadMethod
from era5_pipeline.flat.formats import open_sink
from era5_pipeline.warehouse.layouts.layout import WEATHER

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    import pyarrow as pa

    from era5_pipeline.flat.flat_month import FlatMonth

_BATCH_ROWS = 16_384


class AdbcIngest(LoadMethod):
    """ADBC's `adbc_ingest` of an Arrow table."""

    name: ClassVar[str] = "ADBC ingest"
    family: ClassVar[Family] = "copy"
    libraries: ClassVar[tuple[str, ...]] = ("adbc_driver_postgresql",)

    @contextmanager
    def session(self, url: str) -> Iterator[Any]:
        """A connection of ADBC."""
        from adbc_driver_postgresql import dbapi  # noqa: PLC0415  # optional

        with dbapi.connect(url) as connection:
            yield connection

    def prepare(self, batch: Batch) -> pa.Table:
        """Take the table as it is."""
        return batch.rows

    def load(self, session: Any, prepared: pa.Table) -> None:  # noqa: ANN401  # optional library
        """Ingest it."""
        with session.cursor() as cursor:
            cursor.adbc_ingest("weather", prepared, mode="append")
        session.commit()


class ArrowBinaryCopy(LoadMethod):
    """Arrow encoded as binary COPY by pgpq, from memory: the pipeline's loader without its file."""

    name: ClassVar[str] = "pgpq from memory"
    family: ClassVar[Family] = "copy"

    def prepare(self, batch: Batch) -> pa.Table:
        """Take the table as it is."""
        return batch.rows

    def load(self, session: psycopg.Connection[Any], prepared: pa.Table) -> None:
        """Encode and send."""
        encoder = pgpq.ArrowToPostgresBinaryEncoder(prepared.schema)
        statement = sql.SQL("COPY {} FROM STDIN (FORMAT binary)").format(WEATHER_COLUMNS)
        with session.cursor() as cursor, cursor.copy(statement) as copy:
            copy.write(encoder.write_header())
            for part in prepared.to_batches(max_chunksize=_BATCH_ROWS):
                copy.write(encoder.write_batch(part))
            copy.write(encoder.finish())
        session.commit()


class PipelineLoader(LoadMethod):
    """The pipeline's own: a Parquet file, copied by `warehouse.copy.FlatCopy`, as `era5 load` does."""

    name: ClassVar[str] = "our loader"
    family: ClassVar[Family] = "copy"

    def prepare(self, batch: Batch) -> FlatMonth:
        """Write the file."""
        path = batch.folder / "batch.parquet"
        with open_sink(path, "parquet", batch.rows.schema) as sink:
            sink.write(batch.rows.select(list(COLUMNS)))
        return replace(batch.flat, path=path, rows=batch.rows.num_rows, bytes=path.stat().st_size)

    def load(self, session: psycopg.Connection[Any], prepared: FlatMonth) -> None:
        """Copy the file."""
        with pipeline_copy(prepared) as copy:
            copy(session, WEATHER, freeze=False)
        session.commit()
