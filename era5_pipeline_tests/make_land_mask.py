"""Make `era5_pipeline/model/data/land_mask.npz`: at which points of its grid ERA5-Land has values.

    .venv/bin/python -m era5_pipeline_tests.make_land_mask FILE

The file holds t2m on the whole grid at one time or more, such as a month of reanalysis-era5-land-monthly-means.
All times must have the same points. A bit for each point, rows from south to north, columns from 179.9 W.
"""

from __future__ import annotations

import sys
from pathlib import Path

import netCDF4
import numpy as np

from era5_pipeline.model.grid import ERA5_LAND_GRID
from era5_pipeline.model.land_mask import LAND_MASK


def main(source: Path, written: Path = LAND_MASK) -> None:
    """Write the mask of a file of the whole grid."""
    grid = ERA5_LAND_GRID
    with netCDF4.Dataset(source) as file:
        rows = grid.latitude_indices(file["latitude"][:])
        columns = grid.longitude_indices(file["longitude"][:])
        has_values = ~np.isnan(np.ma.filled(file["t2m"][:].astype(np.float64), np.nan))
    if not (has_values == has_values[0]).all():
        raise SystemExit(f"{source}: its times have values at different points")
    mask = np.zeros((grid.rows, grid.columns), dtype=np.bool_)
    mask[np.ix_(rows, columns)] = has_values[0]
    if has_values[0].size != mask.size:
        raise SystemExit(f"{source}: {has_values[0].size:,} points, and the grid has {mask.size:,}")
    np.savez_compressed(written, bits=np.packbits(mask, axis=1))
    print(f"{written}: {mask.sum():,} points of {mask.size:,}, {written.stat().st_size:,} bytes")  # noqa: T201


if __name__ == "__main__":
    main(Path(sys.argv[1]))
