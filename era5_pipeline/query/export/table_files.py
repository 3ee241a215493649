"""Exports as tables, CSV and Parquet: a row for each location and hour that has a value, as in the table weather."""

from __future__ import annotations

import gzip
import json
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from era5_pipeline.flat.formats import KEYS, schema_of
from era5_pipeline.model import grid
from era5_pipeline.model.hours import SECONDS_PER_HOUR
from era5_pipeline.query.api.cf_attributes import cf_attributes
from era5_pipeline.query.export.export_sink import file_attributes, variable_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    import numpy.typing as npt

    from era5_pipeline.query.export.export_contents import ExportContents
    from era5_pipeline.query.export.export_pieces import ExportPiece
    from era5_pipeline.query.export.piece_values import Values

# As gzip's own default, 6 takes three times as long as 3 for a tenth less.
_GZIP_LEVEL = 3
# Rows that are made at a time.
_ROWS = 250_000


class _TableSink:
    """The rows of pieces: those of locations one after another, their hours ascending."""

    def __init__(self, path: Path, contents: ExportContents) -> None:
        self._contents = contents
        keys = [schema_of(contents.columns).field(name) for name in KEYS]
        columns = [
            pa.field(variable.column, pa.float32(), metadata=variable_attributes(contents, variable))
            for variable in contents.variables
        ]
        # Columns' own metadata are not seen by all readers.
        names = {
            "units": {variable.column: cf_attributes(variable)["units"] for variable in contents.variables},
            "long_names": {variable.column: variable.long_name for variable in contents.variables},
        }
        attributes = file_attributes(contents) | {name: json.dumps(value) for name, value in names.items()}
        self._schema = pa.schema([*keys, *columns], metadata=attributes)
        self._opened = ExitStack()
        self._file: Any = self._opened.enter_context(path.open("wb"))

    def write(self, piece: ExportPiece, values: Values) -> int:
        """Append the rows of a piece that have a value of any column."""
        window = self._contents.window.part(piece.rows, piece.columns)
        rows = (window.north_index - np.arange(window.rows))[:, np.newaxis]
        ids = grid.location_ids(rows, (window.west_index + np.arange(window.columns)) % grid.N_LONGITUDES).reshape(-1)
        hours = np.arange(piece.hours.start, piece.hours.stop, dtype=np.int64)
        flat = [one.reshape(ids.size, hours.size) for one in values.values()]
        step = max(_ROWS // hours.size, 1)
        written = 0
        for first in range(0, ids.size, step):
            written += self._write_locations(
                ids[first : first + step], hours, [one[first : first + step] for one in flat]
            )
        return written

    def _write_locations(
        self, ids: npt.NDArray[np.int32], hours: npt.NDArray[np.int64], values: list[npt.NDArray[np.float32]]
    ) -> int:
        has_value = np.zeros(values[0].shape, dtype=np.bool_)
        for one in values:
            has_value |= ~np.isnan(one)
        places, at = np.nonzero(has_value)
        if not places.size:
            return 0
        latitudes, longitudes = np.divmod(ids[places] - 1, grid.N_LONGITUDES)
        keys = (
            pa.array(hours[at] * SECONDS_PER_HOUR, pa.timestamp("s", tz="UTC")).cast(self._schema.field("time").type),
            pa.array(ids[places]),
            pa.array(grid.latitudes_of(latitudes)),
            pa.array(grid.longitudes_of(longitudes)),
        )
        columns = [pa.array(one[has_value], from_pandas=True) for one in values]
        self._append(pa.Table.from_arrays([*keys, *columns], schema=self._schema))
        return int(places.size)

    def _append(self, table: pa.Table) -> None:
        raise NotImplementedError

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._opened.__exit__(kind, error, trace)


class CsvExport(_TableSink):
    """CSV with a header, as the flat files of the pipeline; compressed where the name ends with `.gz`.

    Times as `2023-07-01 00:00:00Z`, numbers in the fewest digits that read back as the same float32, NULL as no text.
    """

    def __init__(self, path: Path, contents: ExportContents) -> None:
        super().__init__(path, contents)
        if path.suffix.lower() == ".gz":
            # Without name and time in its header, so that the same rows are the same bytes.
            zipped = gzip.GzipFile("", "wb", _GZIP_LEVEL, self._file, mtime=0)
            self._file = self._opened.enter_context(zipped)
        # Microseconds would add six zeros to every row.
        self._csv_schema = self._schema.set(0, pa.field("time", pa.timestamp("s", tz="UTC"))).remove_metadata()
        self._file.write(f"{','.join(self._schema.names)}\n".encode())  # pyarrow would quote the names

    def _append(self, table: pa.Table) -> None:
        options = pa.csv.WriteOptions(include_header=False, quoting_style="none")
        text = pa.BufferOutputStream()
        pa.csv.write_csv(table.cast(self._csv_schema), text, options)
        self._file.write(text.getvalue())

    def finish(self, missing: Mapping[str, str]) -> None:
        """A CSV file says nothing of itself."""
        self._opened.close()


class ParquetExport(_TableSink):
    """Parquet: attributes of CF in the metadata of each column, origin and credit in that of the schema."""

    def __init__(self, path: Path, contents: ExportContents) -> None:
        super().__init__(path, contents)
        self._writer = pq.ParquetWriter(
            self._file,
            self._schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=list(KEYS),
            use_byte_stream_split=list(contents.columns),
        )
        self._waiting: list[pa.Table] = []

    def _append(self, table: pa.Table) -> None:
        # A row group is of so many rows at least, so that small pieces do not become many groups.
        self._waiting.append(table)
        if sum(one.num_rows for one in self._waiting) >= _ROWS:
            self._flush()

    def _flush(self) -> None:
        if self._waiting:
            whole = pa.concat_tables(self._waiting)
            self._writer.write_table(whole, row_group_size=whole.num_rows)
            self._waiting.clear()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):  # not again what has been raised
            self._writer.close()
        super().__exit__(kind, error, trace)

    def finish(self, missing: Mapping[str, str]) -> None:
        """Write the last rows, and what is missing into the metadata."""
        self._flush()
        if missing:
            self._writer.add_key_value_metadata(dict(missing))
        self._writer.close()
        self._opened.close()
