"""Cut a small piece out of an ERA5 file and keep its layout: this made the cut files below `data/`.

    python -m era5_pipeline_tests.cutting SOURCE TARGET [--variables u10,tp] [--keep DIMENSION=FIRST:END] [--deflate]

Dimensions, types, attributes, packing and filters stay as they are, and so do chunks, as far as the piece is as large
as one. With `--deflate` a netCDF-3 file becomes netCDF-4, shuffled and compressed; the stored numbers are the same.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import netCDF4


def main() -> None:
    parser = argparse.ArgumentParser(description="Cut a piece out of a netCDF file.")
    parser.add_argument("source", type=Path)
    parser.add_argument("target", type=Path)
    parser.add_argument("--variables", default="", help="Only these and the coordinates, with commas.")
    parser.add_argument("--keep", action="append", default=[], metavar="DIMENSION=FIRST:END", help="May be repeated.")
    parser.add_argument("--deflate", action="store_true", help="Write netCDF-4, shuffled and compressed.")
    given = parser.parse_args()
    kept = {}
    for text in given.keep:
        dimension, _, borders = text.partition("=")
        first, _, end = borders.partition(":")
        kept[dimension] = slice(int(first), int(end))
    cut(given.source, given.target, set(filter(None, given.variables.split(","))), kept, deflate=given.deflate)


def cut(source: Path, target: Path, names: set[str], kept: dict[str, slice], *, deflate: bool = False) -> None:
    """Write the part of `source` inside the slices `kept` (by dimension), only of the variables `names`."""
    with netCDF4.Dataset(source) as old:
        model = "NETCDF4_CLASSIC" if deflate else old.data_model
        with netCDF4.Dataset(target, "w", format=model) as new:
            new.setncatts({name: old.getncattr(name) for name in old.ncattrs()})
            for name, dimension in old.dimensions.items():
                size = len(range(len(dimension))[kept.get(name, slice(None))])
                new.createDimension(name, None if dimension.isunlimited() else size)
            for name, variable in old.variables.items():
                is_coordinate = variable.ndim <= 1
                if not names or name in names or is_coordinate:
                    _copy(variable, new, kept, deflate=deflate)


def _copy(variable: Any, new: Any, kept: dict[str, slice], *, deflate: bool) -> None:
    where = tuple(kept.get(dimension, slice(None)) for dimension in variable.dimensions)
    variable.set_auto_maskandscale(False)
    values = variable[where]
    options: dict[str, Any] = {}
    if deflate and variable.ndim:
        options = {"zlib": True, "complevel": 9, "shuffle": True}
    elif variable.dtype is not str and variable.ndim and (filters := variable.filters()):
        options = {name: filters[name] for name in ("zlib", "complevel", "shuffle", "fletcher32")}
        if variable.chunking() != "contiguous":
            options["chunksizes"] = [min(pair) for pair in zip(variable.chunking(), values.shape, strict=True)]
    attributes = {name: variable.getncattr(name) for name in variable.ncattrs()}
    fill = attributes.pop("_FillValue", None)
    copied = new.createVariable(variable.name, variable.dtype, variable.dimensions, fill_value=fill, **options)
    copied.set_auto_maskandscale(False)
    copied.setncatts(attributes)
    copied[...] = values


if __name__ == "__main__":
    main()
