"""Files of an export: CSV and Parquet, a row for each value, netCDF and Zarr, a value for each hour and grid point."""

from __future__ import annotations

import gzip
import json
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from datetime import UTC, datetime
from itertools import product
from typing import TYPE_CHECKING, Any, Literal, Protocol, Self

import numpy as np
import pyarrow
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from era5_pipeline.flat.formats import KEYS, schema_of
from era5_pipeline.model.cf_names import CONVENTIONS, cf_attributes
from era5_pipeline.model.months import spans
from era5_pipeline.model.package_version import __version__
from era5_pipeline.model.source_kinds import ORIGIN_TEXTS, source_kind
from era5_pipeline.model.times import SECONDS_PER_HOUR
from era5_pipeline.netcdf.cf_files import CALENDAR, COORDINATE_ATTRIBUTES, DIMENSIONS, TIME_UNITS, CfNetcdf

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path
    from types import TracebackType

    import numpy.typing as npt

    from era5_pipeline.export.contents import ExportContents
    from era5_pipeline.export.pieces import Cut, ExportPiece, Values
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable

_LICENCE = "CC BY 4.0, https://creativecommons.org/licenses/by/4.0/"


def expver_attributes(dataset: Dataset) -> dict[str, str]:
    """Attributes of the version of each hour."""
    return {
        "long_name": f"version of {dataset.short_title}",
        "comment": f"0001: final; 0005: preliminary ({dataset.preliminary_title}), at some place or of some variable; "
        "empty: no data, generated data, or the files that were loaded do not say",
    }


class ExportSink(Protocol):
    """A file to which pieces are written one after another; as a context manager, it closes itself."""

    def write(self, piece: ExportPiece, values: Values) -> int:
        """Write a piece, (latitudes, longitudes, hours); return the number of rows, or of values per column."""
        ...

    def finish(self, missing: Mapping[str, str]) -> None:
        """Complete the file, with what turned out to be missing as attributes; nothing is written after this."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def file_attributes(contents: ExportContents) -> dict[str, str]:
    """Attributes that describe a file: conventions, origin, history, versions, credit, place, what is missing."""
    dataset, sources = contents.dataset, contents.origin.sources
    is_real = any(not source_kind(source).is_generated for source in sources)
    found = {
        "Conventions": CONVENTIONS,
        "title": dataset.short_subject if is_real or not sources else "Generated sample data, not ERA5",
        "source": f"{f'{dataset.title}, doi:{dataset.doi}; ' if is_real else ''}"
        f"table {dataset.table} of era5-pipeline {__version__}"
        f"{', loaded from ' if sources else ''}{', '.join(sources)}",
        "history": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} exported by era5-pipeline {__version__}",
        "credit": contents.origin.credit,
        "era5_versions": contents.origin.era5_versions if contents.parts else "",
        "interpolated": _said_of_months(
            (part.interpolated.text if part.interpolated else None, part.month) for part in contents.parts
        ),
        **{f"era5_{name}": contents.origin.attributes.get(name, "") for name in ("snapshots", "confirmed_by")},
        "era5_origin": _said_of_months((ORIGIN_TEXTS.get(part.origin), part.month) for part in contents.parts),
    }
    if is_real:
        found["license"] = _LICENCE
    if contents.place is not None:
        found["place"] = contents.place.description
    return {name: text for name, text in (found | missing_attributes(contents.lines)).items() if text} | (
        {"incomplete_months": " ".join(map(str, contents.incomplete_months))} if contents.incomplete_months else {}
    )


def missing_attributes(lines: tuple[str, ...] | list[str]) -> dict[str, str]:
    """An attribute that names what is missing; empty if nothing is."""
    return {"missing": "; ".join(lines)} if lines else {}


def variable_attributes(contents: ExportContents, variable: Variable) -> dict[str, str]:
    """The CF attributes of a variable, with `missing_months`, the months without any value."""
    attributes = cf_attributes(variable)
    if variable.column in contents.missing_months:
        attributes["missing_months"] = " ".join(map(str, contents.missing_months[variable.column]))
    return attributes


def _said_of_months(said: Iterable[tuple[str | None, Month]]) -> str:
    """List each remark once, after the months that it is about: `2012-02: origin not stated by the files`."""
    months: dict[str, set[Month]] = {}
    for text, month in said:
        if text is not None:
            months.setdefault(text, set()).add(month)
    return "; ".join(f"{spans(sorted(own))}: {text}" for text, own in months.items())


# --- Tables, CSV and Parquet: a row for each location and hour with a value, as in the table weather ---


# gzip's own default, 6, takes three times as long as 3 and saves only a tenth.
_GZIP_LEVEL = 3
# Rows written at a time.
_ROWS = 250_000


class _TableSink:
    """The rows of pieces: location by location, with ascending hours."""

    def __init__(self, path: Path, contents: ExportContents) -> None:
        self._contents = contents
        keys = [schema_of(contents.columns).field(name) for name in KEYS]
        columns = [
            pa.field(variable.column, pa.float32(), metadata=variable_attributes(contents, variable))
            for variable in contents.variables
        ]
        # Not all readers see the metadata of columns.
        names = {
            "units": {variable.column: cf_attributes(variable)["units"] for variable in contents.variables},
            "long_names": {variable.column: variable.long_name for variable in contents.variables},
        }
        attributes = file_attributes(contents) | {name: json.dumps(value) for name, value in names.items()}
        self._schema = pa.schema([*keys, *columns], metadata=attributes)
        self._opened = ExitStack()
        self._file: Any = self._opened.enter_context(path.open("wb"))

    def write(self, piece: ExportPiece, values: Values) -> int:
        """Append the rows of a piece with a value in any column."""
        window = self._contents.window.part(piece.rows, piece.columns)
        grid = window.grid
        rows = (window.north_index - np.arange(window.rows))[:, np.newaxis]
        ids = grid.location_ids(rows, (window.west_index + np.arange(window.columns)) % grid.columns).reshape(-1)
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
        grid = self._contents.window.grid
        latitudes, longitudes = np.divmod(ids[places] - 1, grid.columns)
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
    """CSV with a header, like the flat files of the pipeline; compressed if the name ends with `.gz`.

    Times as `2023-07-01 00:00:00Z`, numbers with the fewest digits that read back as the same float32, NULL empty.
    """

    def __init__(self, path: Path, contents: ExportContents) -> None:
        super().__init__(path, contents)
        if path.suffix.lower() == ".gz":
            # Without name and time in the header, so that the same rows give the same bytes.
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
        """Do nothing: CSV has no metadata."""
        self._opened.close()


class ParquetExport(_TableSink):
    """Parquet: CF attributes in the metadata of each column, origin and credit in those of the schema."""

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
        # Combine small pieces: a row group has at least this many rows.
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
        with suppress(OSError):  # the first error has been raised
            self._writer.close()
        super().__exit__(kind, error, trace)

    def finish(self, missing: Mapping[str, str]) -> None:
        """Write the last rows, and add what is missing to the metadata."""
        self._flush()
        if missing:
            self._writer.add_key_value_metadata(dict(missing))
        self._writer.close()
        self._opened.close()


# --- Boxes of the grid, netCDF and Zarr: every hour, latitude and longitude of the box; missing values are NaN ---
#
# A place is a box of one latitude and one longitude.


# Version 2 specifies consolidated metadata; version 3 does not, and zarr warns about it.
_ZARR_FORMAT: Literal[2] = 2
# As many as zarr would write at once (its setting async.concurrency).
_CHUNKS_AT_ONCE = 10


class NetcdfExport:
    """A netCDF-4 file by the CF conventions; see `CfNetcdf`."""

    def __init__(self, path: Path, contents: ExportContents, cut: Cut) -> None:
        self._hours = contents.hours
        self._file = CfNetcdf(
            path,
            contents.hours,
            contents.window.latitudes,
            contents.window.longitudes,
            {variable.column: variable_attributes(contents, variable) for variable in contents.variables},
            cut.chunk,
            file_attributes(contents),
            contents.expver(),
            expver_attributes(contents.dataset),
        )

    def write(self, piece: ExportPiece, values: Values) -> int:
        """Write a piece; return the number of values per column."""
        first = (piece.hours.start - self._hours.start, piece.rows.start, piece.columns.start)
        for column, found in values.items():
            self._file.write(column, first, np.ascontiguousarray(np.moveaxis(found, -1, 0)))
        return int(np.prod(piece.shape))

    def finish(self, missing: Mapping[str, str]) -> None:
        """Complete and close the file."""
        self._file.finish(missing)

    def __enter__(self) -> Self:
        self._file.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.__exit__(kind, error, trace)


class ZarrExport:
    """A Zarr store in a folder, as xarray writes it, with consolidated metadata."""

    def __init__(self, path: Path, contents: ExportContents, cut: Cut) -> None:
        import zarr  # noqa: PLC0415  # takes half a second

        self._path = path
        self._hours = contents.hours
        self._chunk = cut.chunk
        self._group: Any = zarr.open_group(path, mode="w", zarr_format=_ZARR_FORMAT)
        self._group.attrs.update(file_attributes(contents))
        hours = np.arange(contents.hours.start, contents.hours.stop, dtype=np.int32)
        self._coordinate("time", hours, COORDINATE_ATTRIBUTES["time"] | {"units": TIME_UNITS, "calendar": CALENDAR})
        self._coordinate("latitude", contents.window.latitudes, COORDINATE_ATTRIBUTES["latitude"])
        self._coordinate("longitude", contents.window.longitudes, COORDINATE_ATTRIBUTES["longitude"])
        self._coordinate("expver", contents.expver(), expver_attributes(contents.dataset), dimension="time")
        shape = (hours.size, cut.rows, cut.columns)
        for variable in contents.variables:
            array = self._group.create_array(
                variable.column, shape=shape, chunks=cut.chunk, dtype="float32", fill_value=np.nan
            )
            attributes: dict[str, Any] = {"_ARRAY_DIMENSIONS": list(DIMENSIONS), "coordinates": "expver"}
            array.attrs.update(attributes | variable_attributes(contents, variable))

    def _coordinate(self, name: str, values: Any, attributes: Mapping[str, str], dimension: str | None = None) -> None:  # noqa: ANN401
        # With zarr's own fill value, 0, xarray would read the equator as missing.
        array = self._group.create_array(
            name, shape=values.shape, chunks=values.shape, dtype=values.dtype, fill_value=None
        )
        array[:] = values
        array.attrs.update({"_ARRAY_DIMENSIONS": [dimension or name]} | dict(attributes))

    def write(self, piece: ExportPiece, values: Values) -> int:
        """Write a piece; return the number of values per column."""
        corner = (piece.hours.start - self._hours.start, piece.rows.start, piece.columns.start)
        # A chunk for each assignment: one of several chunks raises the error of the first chunk that cannot be written,
        # and goes on to write the others, below a folder that is being removed. Leaving the pool waits for all of them.
        chunks = [
            (self._group[column], corner, turned, begin)
            for column, found in values.items()
            for turned in [np.moveaxis(found, -1, 0)]
            for begin in product(*map(range, (0, 0, 0), turned.shape, self._chunk))
        ]
        with ThreadPoolExecutor(_CHUNKS_AT_ONCE) as pool:
            for _ in pool.map(_assign, *zip(*chunks, strict=True)):
                pass
        return int(np.prod(piece.shape))

    def finish(self, missing: Mapping[str, str]) -> None:
        """Add what is missing, and consolidate the metadata."""
        import zarr  # noqa: PLC0415

        self._group.attrs.update(missing)
        zarr.consolidate_metadata(self._path, zarr_format=_ZARR_FORMAT)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Do nothing: a Zarr store has no open file."""


def _assign(
    array: Any,  # noqa: ANN401
    corner: tuple[int, ...],
    values: npt.NDArray[np.float32],
    begin: tuple[int, ...],
) -> None:
    """Write the chunk of `values` that begins at `begin`; they themselves begin at `corner` of the array."""
    sizes = array.chunks
    part = values[tuple(slice(at, at + size) for at, size in zip(begin, sizes, strict=True))]
    array[tuple(slice(c + at, c + at + n) for c, at, n in zip(corner, begin, part.shape, strict=True))] = part
