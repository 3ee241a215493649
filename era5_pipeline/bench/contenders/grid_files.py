"""xarray on the files themselves: netCDF as it comes, and Zarr in the chunks of ARCO-ERA5, an hour of the grid each."""

from __future__ import annotations

import zipfile
from typing import TYPE_CHECKING, Any, ClassVar

from era5_pipeline.bench.contenders.contender import (
    KELVIN,
    MEAN_MONTH,
    SHORT_NAME,
    FolderContender,
    GeneratedYear,
    folder_bytes,
    fresh_folder,
)

if TYPE_CHECKING:
    from pathlib import Path

    import xarray as xr

# Hours since the first, in chunks of their own: appended months would otherwise be rounded to the first one's unit.
_TIMES = {"units": "hours since 1940-01-01", "dtype": "int64", "chunks": (8784,)}


class _GridFiles(FolderContender):
    """Questions to a dataset of xarray."""

    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """Select the nearest point."""
        _, latitude, longitude = place
        values = self._values.sel(latitude=latitude, longitude=_turned(self._values, longitude), method="nearest")
        return [float(value) - KELVIN for value in values.to_numpy()]

    def month_mean(self) -> float:
        """Select the month."""
        hours = self._values.sel({self._time: f"{MEAN_MONTH}"})
        return float(hours.astype("float64").mean()) - KELVIN

    @property
    def _values(self) -> xr.DataArray:
        values: xr.DataArray = self._opened[SHORT_NAME]
        return values

    @property
    def _time(self) -> str:
        return "valid_time" if "valid_time" in self._values.dims else "time"


class NetcdfFiles(_GridFiles):
    """The netCDF files as they come, unzipped, opened as one dataset."""

    name: ClassVar[str] = "xarray on netCDF"

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Unzip them."""
        self._folder = fresh_folder(folder)
        for raw in year.raw:
            for file in raw.files:
                _unpack(file.path, self._folder / str(raw.month))
        return folder_bytes(self._folder)

    def open(self) -> None:
        """Open those with the variable."""
        self._opened = _open_netcdf(self._at)


class ZarrFiles(_GridFiles):
    """A Zarr store with a chunk for each hour of the grid, as ARCO-ERA5 is cut."""

    name: ClassVar[str] = "Zarr, an hour a chunk"

    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Unzip the netCDF files, and rewrite them."""
        self._folder = fresh_folder(folder)
        netcdf = fresh_folder(folder.with_name(f"{folder.name}-netcdf"))
        for raw in year.raw:
            for file in raw.files:
                _unpack(file.path, netcdf / str(raw.month))
        for number, raw in enumerate(year.raw):
            with _open_netcdf(netcdf / str(raw.month)) as dataset:
                values = dataset[[SHORT_NAME]].load().drop_encoding()
            values = values.drop_vars([name for name in values.coords if name not in values.dims])
            dimension = next(str(name) for name in values[SHORT_NAME].dims if "time" in str(name))
            if number:
                values.to_zarr(self._folder, append_dim=dimension, consolidated=False)
                continue
            sizes = tuple(1 if name == dimension else size for name, size in values[SHORT_NAME].sizes.items())
            encoding = {SHORT_NAME: {"chunks": sizes}, dimension: _TIMES}
            values.to_zarr(self._folder, mode="w", consolidated=False, encoding=encoding)
        return folder_bytes(self._folder)

    def open(self) -> None:
        """Open the store."""
        import xarray as xr  # noqa: PLC0415  # other suites do without it

        self._opened = xr.open_zarr(self._at, consolidated=False)


def _unpack(archive: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(folder)
    else:
        (folder / archive.name).write_bytes(archive.read_bytes())


def _open_netcdf(folder: Path) -> Any:  # noqa: ANN401  # a dataset of xarray, which types its own function loosely
    import xarray as xr  # noqa: PLC0415  # other suites do without it

    files = []
    for path in sorted(folder.rglob("*.nc")):
        with xr.open_dataset(path) as dataset:
            if SHORT_NAME in dataset:
                files.append(path)
    return xr.open_mfdataset(files, combine="by_coords", data_vars="minimal", coords="minimal", compat="override")


def _turned(values: xr.DataArray, longitude: float) -> float:
    """The longitude as the files count it: from -180 or from 0."""
    return longitude % 360 if float(values["longitude"].max()) > 180 else longitude
