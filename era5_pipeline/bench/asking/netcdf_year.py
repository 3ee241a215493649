"""A year of one place from the month's netCDF files, by xarray: what is done without a warehouse."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.sources.source import RawMonth


def unpack(months: Iterable[RawMonth], folder: Path) -> list[Path]:
    """Unzip the months' files into `folder`; returns the netCDF files, which one command would open."""
    for raw in months:
        for file in raw.files:
            own = folder / str(raw.month)
            own.mkdir(parents=True, exist_ok=True)
            if zipfile.is_zipfile(file.path):
                with zipfile.ZipFile(file.path) as archive:
                    archive.extractall(own)
            else:
                (own / file.path.name).write_bytes(file.path.read_bytes())
    return sorted(folder.rglob("*.nc"))


def read_year(
    paths: Sequence[Path], place: Location, variables: Iterable[Variable]
) -> dict[str, npt.NDArray[np.float32]]:
    """The hours of the place, ascending, by column, in the units of the table."""
    import xarray as xr  # noqa: PLC0415  # counting the cells does without it

    with xr.open_mfdataset(
        paths, combine="by_coords", data_vars="minimal", coords="minimal", compat="override", join="outer"
    ) as dataset:
        hours = dataset.sel(latitude=place.latitude, longitude=place.longitude, method="nearest").load()
    return {
        variable.column: (hours[variable.short_name].to_numpy() * variable.scale + variable.offset).astype(np.float32)
        for variable in variables
    }
