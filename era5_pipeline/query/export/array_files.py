"""Exports as boxes of the grid, netCDF and Zarr: every hour, latitude and longitude of the box; what is missing is NaN.

A place is a box of one latitude and one longitude.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from era5_pipeline.netcdf.cf_netcdf import CALENDAR, COORDINATE_ATTRIBUTES, DIMENSIONS, TIME_UNITS, CfNetcdf
from era5_pipeline.query.export.export_sink import EXPVER_ATTRIBUTES, file_attributes, variable_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from types import TracebackType

    from era5_pipeline.query.export.export_contents import ExportContents
    from era5_pipeline.query.export.export_pieces import Cut, ExportPiece
    from era5_pipeline.query.export.piece_values import Values

# Version 2 has consolidated metadata by its specification; version 3 has not, and zarr warns of it.
_ZARR_FORMAT: Literal[2] = 2


class NetcdfExport:
    """A netCDF-4 file by CF; see `CfNetcdf`."""

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
            EXPVER_ATTRIBUTES,
        )

    def write(self, piece: ExportPiece, values: Values) -> int:
        """Write a piece; return how many values of a column it has."""
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
    """A store of Zarr in a folder, as xarray writes it, with consolidated metadata."""

    def __init__(self, path: Path, contents: ExportContents, cut: Cut) -> None:
        import zarr  # noqa: PLC0415  # takes half a second

        self._path = path
        self._hours = contents.hours
        self._group: Any = zarr.open_group(path, mode="w", zarr_format=_ZARR_FORMAT)
        self._group.attrs.update(file_attributes(contents))
        hours = np.arange(contents.hours.start, contents.hours.stop, dtype=np.int32)
        self._coordinate("time", hours, COORDINATE_ATTRIBUTES["time"] | {"units": TIME_UNITS, "calendar": CALENDAR})
        self._coordinate("latitude", contents.window.latitudes, COORDINATE_ATTRIBUTES["latitude"])
        self._coordinate("longitude", contents.window.longitudes, COORDINATE_ATTRIBUTES["longitude"])
        self._coordinate("expver", contents.expver(), EXPVER_ATTRIBUTES, dimension="time")
        shape = (hours.size, cut.rows, cut.columns)
        for variable in contents.variables:
            array = self._group.create_array(
                variable.column, shape=shape, chunks=cut.chunk, dtype="float32", fill_value=np.nan
            )
            attributes: dict[str, Any] = {"_ARRAY_DIMENSIONS": list(DIMENSIONS), "coordinates": "expver"}
            array.attrs.update(attributes | variable_attributes(contents, variable))

    def _coordinate(self, name: str, values: Any, attributes: Mapping[str, str], dimension: str | None = None) -> None:  # noqa: ANN401
        # With the fill value 0, which is zarr's own, xarray would read the equator as missing.
        array = self._group.create_array(
            name, shape=values.shape, chunks=values.shape, dtype=values.dtype, fill_value=None
        )
        array[:] = values
        array.attrs.update({"_ARRAY_DIMENSIONS": [dimension or name]} | dict(attributes))

    def write(self, piece: ExportPiece, values: Values) -> int:
        """Write a piece; return how many values of a column it has."""
        first = piece.hours.start - self._hours.start
        hours, rows, columns = slice(first, first + len(piece.hours)), piece.rows, piece.columns
        for column, found in values.items():
            self._group[column][hours, rows.start : rows.stop, columns.start : columns.stop] = np.moveaxis(found, -1, 0)
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
        """Do nothing: a Zarr store keeps no file open."""
