"""The datasets of point series: what a request must be, how a point is moved to the grid, and the ZIP that answers.

The layout is that of files as served (data/timeseries). Near Ho Chi Minh City and Paris, the values are those of the
real files there, at their hours and of their variables; all others are made by a formula. ERA5-Land's ZIP has a member
for each group of variables, and no value at sea.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np

from era5_pipeline.model.dataset import DATASETS, ERA5, ERA5_LAND, Dataset
from era5_pipeline.model.land_mask import land_mask
from era5_pipeline_tests.cds_store.validation import InvalidRequestError

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable
    from era5_pipeline_tests.cds_store.data import Availability

    Floats = npt.NDArray[np.float32]

SERIES = {dataset.cds_series_name: dataset for dataset in DATASETS.values()}
DATA = Path(__file__).parents[2] / "data" / "timeseries"
# As the dataset's form lists them (October 2026).
OFFERED = (
    *("100m_u_component_of_wind", "100m_v_component_of_wind", "10m_u_component_of_wind", "10m_v_component_of_wind"),
    *("10m_wind_gust_since_previous_post_processing", "2m_dewpoint_temperature", "2m_temperature"),
    *("boundary_layer_height", "cloud_base_height", "mean_sea_level_pressure", "mean_wave_direction"),
    *("mean_wave_period", "sea_surface_temperature", "significant_height_of_combined_wind_waves_and_swell"),
    *("skin_temperature", "surface_latent_heat_flux", "surface_pressure", "surface_sensible_heat_flux"),
    *("surface_solar_radiation_downwards", "surface_thermal_radiation_downwards", "total_cloud_cover"),
    *("total_precipitation", "total_sky_direct_solar_radiation_at_surface"),
)
# Of ERA5-Land, the members of its ZIP and what is known to be in each.
GROUPS = {
    "2m-temperature": ("2m_dewpoint_temperature", "2m_temperature"),
    "pressure-precipitation": ("surface_pressure", "total_precipitation"),
    "radiation-heat": ("surface_solar_radiation_downwards", "surface_thermal_radiation_downwards"),
    "skin-temperature": ("skin_temperature",),
    "soil-temperature": tuple(f"soil_temperature_level_{number}" for number in range(1, 5)),
    "soil-water": tuple(f"volumetric_soil_water_layer_{number}" for number in range(1, 5)),
    "wind": ("10m_u_component_of_wind", "10m_v_component_of_wind"),
}
_OFFERED = {ERA5.name: OFFERED, ERA5_LAND.name: tuple(name for names in GROUPS.values() for name in names)}
_TYPICAL = {"t2m": (285.0, 12.0), "u10": (1.0, 6.0), "v10": (-1.0, 5.0), "tcc": (0.5, 0.5), "tp": (0.0, 0.002)}
_NAN = np.float32(np.nan)
_FIRST = {ERA5.name: date(1940, 1, 1), ERA5_LAND.name: date(1950, 1, 2)}


@dataclass(frozen=True)
class SeriesRequest:
    """A valid request: the grid point that the service makes of the location, the variables, the hours."""

    latitude: float
    longitude: float
    variables: tuple[Variable, ...]
    hours: range
    dataset: Dataset = ERA5


def snapped(latitude: float, longitude: float, dataset: Dataset = ERA5) -> tuple[float, float]:
    """The point nearest to the location, without wrapping: on longitudes -180 to 179.75, of ERA5-Land -179.9 to 180."""
    if dataset == ERA5:
        latitudes, longitudes = np.arange(90.0, -90.25, -0.25), np.arange(-180.0, 180.0, 0.25)
    else:
        latitudes, longitudes = np.arange(-900, 901) / 10, np.arange(-1799, 1801) / 10
    return (
        float(latitudes[np.abs(latitudes - latitude).argmin()]),
        float(longitudes[::-1][np.abs(longitudes[::-1] - longitude).argmin()]),
    )


def validated_series(inputs: dict[str, Any], newest: datetime, dataset: Dataset = ERA5) -> SeriesRequest:
    """Check a request, and cut its end short at `newest`, the latest hour that there is.

    Raises:
        InvalidRequestError: as the service answers with status 400.
    """
    unknown = set(inputs) - {"variable", "location", "area", "date", "data_format"}
    if unknown or "location" not in inputs or inputs.get("data_format") not in ("netcdf", "csv"):
        raise InvalidRequestError(f"invalid request: {sorted(unknown) or sorted(inputs)}")
    offered = _OFFERED[dataset.name]
    others = [name for name in inputs["variable"] if name not in offered]
    if others:
        raise InvalidRequestError(f"request['variable']: {others[0]!r} is not one of {list(offered)}")
    location, (period,) = inputs["location"], inputs["date"]
    first, last = (date.fromisoformat(text) for text in period.split("/"))
    if first < _FIRST[dataset.name] or not (-90 <= location["latitude"] <= 90 and -180 <= location["longitude"] <= 180):
        raise InvalidRequestError("the request is outside of the dataset")
    start, end = _hour(first), min(_hour(last) + 23, int(newest.timestamp()) // 3600) + 1
    if end <= start:
        raise InvalidRequestError("None of the data you have requested is available yet")
    known = {variable.cds_name: variable for variable in dataset.catalogue.variables}
    variables = tuple(known[name] for name in sorted(inputs["variable"]) if name in known)
    place = snapped(location["latitude"], location["longitude"], dataset)
    return SeriesRequest(*place, variables, range(start, end), dataset)


def cache_key(inputs: dict[str, Any], newest: datetime, dataset: Dataset = ERA5) -> str:
    """The key of an answer in the cache, as of the service's own code.

    Source: `ArcoDataLakeCdsAdaptor.normalise_request` of cads-adaptors: variables are sorted, the location is made
    floats, the two dates are sorted, and a last one after the newest day is replaced by that.
    """
    first, last = sorted(inputs["date"][0].split("/"))
    location = {name: float(degrees) for name, degrees in sorted(inputs["location"].items())}
    dates = [first, min(last, newest.date().isoformat())]
    return json.dumps([dataset.cds_series_name, sorted(inputs["variable"]), location, dates, inputs["data_format"]])


def _hour(day: date) -> int:
    return int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) // 3600


def values_of(variable: Variable, latitude: float, longitude: float, hours: npt.NDArray[np.int64]) -> Floats:
    """The values at these hours in the unit of the files; precipitation of 1940-01-01 is missing."""
    middle, swing = _TYPICAL.get(variable.short_name, (None, None))
    if middle is None or swing is None:
        low, high = ((bound - variable.offset) / variable.scale for bound in (variable.minimum, variable.maximum))
        middle, swing = (low + high) / 2, (high - low) / 8
    phase = 0.01 * latitude + 0.02 * longitude
    wave = 0.6 * np.sin(2 * np.pi * hours / 24 + phase) + 0.4 * np.sin(2 * np.pi * hours / 8766 + 3 * phase)
    made = (middle + swing * wave).astype(np.float32)
    if variable.step_type != "instant":
        made = np.maximum(made, np.float32(0.0))
        made[hours < _hour(date(1940, 1, 2))] = _NAN
    held, values = real_series().get((latitude, longitude), (np.array([], dtype=np.int64), {}))
    if variable.short_name in values:
        within = (hours >= held[0]) & (hours <= held[-1])
        made[within] = values[variable.short_name][hours[within] - held[0]]
    return made


@cache
def real_series() -> dict[tuple[float, float], tuple[npt.NDArray[np.int64], dict[str, Floats]]]:
    """By point: the hours of its real file, without a gap, and its values by short name."""
    found = {}
    (archive,) = (DATA / "mekong-2020-2025-csv-zip").glob("*.zip")
    with zipfile.ZipFile(archive) as opened:
        rows = list(csv.DictReader(io.StringIO(opened.read(opened.namelist()[0]).decode())))
    hours = np.array([row["valid_time"].replace(" ", "T") for row in rows], dtype="datetime64[h]").astype(np.int64)
    names = [name for name in rows[0] if name not in ("valid_time", "latitude", "longitude")]
    found[10.75, 106.25] = hours, {name: np.array([row[name] for row in rows], dtype=np.float32) for name in names}
    (archive,) = (DATA / "paris-2024-nc-zip").glob("*.zip")
    with zipfile.ZipFile(archive) as opened, netCDF4.Dataset("real", memory=opened.read(opened.namelist()[0])) as real:
        of_paris = {name: np.asarray(real[name][:]) for name in ("u10", "v10", "d2m", "t2m", "sp")}
        found[48.75, 2.25] = np.asarray(real["valid_time"][:]) // 3600, of_paris
    return found


def series_zip(
    request: SeriesRequest,
    availability: Availability,
    number: int,
    gap: tuple[int, int] | None = None,
    late_hours: int = 0,
) -> bytes:
    """The ZIP that answers; each `number` gives other bytes. Preliminary hours are not marked; those of `gap` lack.

    By `late_hours`, the wind of ERA5-Land ends before its other groups.
    """
    hours = np.array(request.hours, dtype=np.int64)
    if gap is not None:
        hours = hours[(hours < gap[0]) | (hours > gap[1])]
    values = {v.short_name: values_of(v, request.latitude, request.longitude, hours) for v in request.variables}
    if availability.preliminary_differs and "t2m" in values:
        values["t2m"][hours > int(availability.final_until.timestamp()) // 3600] += np.float32(0.5)
    dataset, at = request.dataset, (request.latitude, request.longitude)
    if dataset.is_land_only and not land_mask().flat[dataset.grid.nearest_location(*at).location_id - 1]:
        values = {name: np.full_like(of_name, _NAN) for name, of_name in values.items()}
    groups = {"": OFFERED} if dataset == ERA5 else {f"-{name}": names for name, names in GROUPS.items()}
    made = io.BytesIO()
    # As served: packed in name only. 86 years of hours would take most of the time to pack.
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=0) as archive:
        for group, names in groups.items():
            if variables := tuple(v for v in request.variables if v.cds_name in names):
                own = hours[: len(hours) - late_hours] if group == "-wind" else hours
                content = _as_netcdf(replace(request, variables=variables), own, values, number)
                archive.writestr(f"{dataset.cds_series_name}-sfc{group}{number:08x}.nc", content)
    return made.getvalue()


def _as_netcdf(request: SeriesRequest, hours: npt.NDArray[np.int64], values: dict[str, Floats], number: int) -> bytes:
    dataset = netCDF4.Dataset("series.nc", "w", memory=1)
    dataset.setncatts({"Conventions": "CF-1.7", "institution": "a test server", "history": f"made as number {number}"})
    dataset.createDimension("valid_time", hours.size)
    for variable in request.variables:
        stored = dataset.createVariable(variable.short_name, "f4", ("valid_time",), fill_value=_NAN, contiguous=True)
        stored.setncatts(
            {
                # Attributes of the source, not of the file, with a list of coordinates most of which do not exist.
                "GRIB_Nx": request.dataset.grid.columns,
                "GRIB_Ny": request.dataset.grid.rows,
                "GRIB_paramId": variable.param_id,
                "long_name": variable.long_name,
                "units": variable.file_units[0],
                "coordinates": "number time step surface latitude longitude valid_time",
            }
        )
        stored[:] = values[variable.short_name][: hours.size]
    for name, degrees in (("latitude", request.latitude), ("longitude", request.longitude)):
        scalar = dataset.createVariable(name, "f8", (), fill_value=np.nan)
        scalar.setncatts({"units": f"degrees_{'north' if name == 'latitude' else 'east'}", "standard_name": name})
        scalar[...] = degrees
    time = dataset.createVariable("valid_time", "i8", ("valid_time",))
    unit, factor = ("seconds", 3600) if request.dataset == ERA5 else ("hours", 1)
    time.setncatts({"units": f"{unit} since 1970-01-01", "calendar": "proleptic_gregorian"})
    time[:] = hours * factor
    return bytes(dataset.close())
