"""Where ERA5-Land has values: on land, lakes, islands and ice shelves; the same points at all hours, in all variables.

`land_mask.npz` is made from a file of the whole grid by `era5_pipeline_tests/make_land_mask.py`. It is no map of land:
Malta and Tahiti have values, Bermuda and Male have none.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.dataset import ERA5_LAND

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.model.dataset import Dataset

LAND_MASK = Path(__file__).parent / "data" / "land_mask.npz"


@cache
def land_mask() -> npt.NDArray[np.bool_]:
    """Which points of ERA5-Land's grid have values, (1801, 3600), by latitude and longitude index."""
    with np.load(LAND_MASK) as file:
        mask = np.unpackbits(file["bits"], axis=1, count=ERA5_LAND.grid.columns).view(np.bool_)
    mask.flags.writeable = False
    return mask


def mask_of(dataset: Dataset) -> npt.NDArray[np.bool_] | None:
    """The points at which a data set has values, (rows, columns); None: at all of its grid."""
    if not dataset.is_land_only:
        return None
    if dataset.grid != ERA5_LAND.grid:
        raise ValueError(f"no mask of {dataset.grid}")
    return land_mask()
