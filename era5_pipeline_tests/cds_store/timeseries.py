"""The dataset of point series: what a request must be, how a point is moved to the grid, and the ZIP that answers.

The layout is that of files as served (data/timeseries). Near Ho Chi Minh City and Paris, the values are those of the
real files there, at their hours and of their variables; all others are made by a formula.
"""

from __future__ import annotations

import csv
import io
import json
import zipfile
from dataclasses import dataclass
from datetime import UTC, date, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np

from era5_pipeline.model.variables import VARIABLES
from era5_pipeline_tests.cds_store.validation import InvalidRequestError

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable
    from era5_pipeline_tests.cds_store.data import Availability

    Floats = npt.NDArray[np.float32]

DATASET = "reanalysis-era5-single-levels-timeseries"
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
_BY_CDS_NAME = {variable.cds_name: variable for variable in VARIABLES}
_TYPICAL = {"t2m": (285.0, 12.0), "u10": (1.0, 6.0), "v10": (-1.0, 5.0), "tcc": (0.5, 0.5), "tp": (0.0, 0.002)}
_NAN = np.float32(np.nan)
_FIRST = date(1940, 1, 1)


@dataclass(frozen=True)
class SeriesRequest:
    """A valid request: the grid point that the service makes of the location, the variables, the hours."""

    latitude: float
    longitude: float
    variables: tuple[Variable, ...]
    hours: range


def snapped(latitude: float, longitude: float) -> tuple[float, float]:
    """The point nearest to the location, on latitudes 90 to -90 and longitudes -180 to 179.75, without wrapping."""
    latitudes, longitudes = np.arange(90.0, -90.25, -0.25), np.arange(-180.0, 180.0, 0.25)
    return (
        float(latitudes[np.abs(latitudes - latitude).argmin()]),
        float(longitudes[::-1][np.abs(longitudes[::-1] - longitude).argmin()]),
    )


def validated_series(inputs: dict[str, Any], newest: datetime) -> SeriesRequest:
    """Check a request, and cut its end short at `newest`, the latest hour that there is.

    Raises:
        InvalidRequestError: as the service answers with status 400.
    """
    unknown = set(inputs) - {"variable", "location", "area", "date", "data_format"}
    if unknown or "location" not in inputs or inputs.get("data_format") not in ("netcdf", "csv"):
        raise InvalidRequestError(f"invalid request: {sorted(unknown) or sorted(inputs)}")
    others = [name for name in inputs["variable"] if name not in OFFERED]
    if others:
        raise InvalidRequestError(f"request['variable']: {others[0]!r} is not one of {list(OFFERED)}")
    location, (period,) = inputs["location"], inputs["date"]
    first, last = (date.fromisoformat(text) for text in period.split("/"))
    if first < _FIRST or not (-90 <= location["latitude"] <= 90 and -180 <= location["longitude"] <= 180):
        raise InvalidRequestError("the request is outside of the dataset")
    start, end = _hour(first), min(_hour(last) + 23, int(newest.timestamp()) // 3600) + 1
    if end <= start:
        raise InvalidRequestError("None of the data you have requested is available yet")
    variables = tuple(_BY_CDS_NAME[name] for name in sorted(inputs["variable"]) if name in _BY_CDS_NAME)
    return SeriesRequest(*snapped(location["latitude"], location["longitude"]), variables, range(start, end))


def cache_key(inputs: dict[str, Any], newest: datetime) -> str:
    """The key of an answer in the cache, as of the service's own code.

    Source: `ArcoDataLakeCdsAdaptor.normalise_request` of cads-adaptors: variables are sorted, the location is made
    floats, the two dates are sorted, and a last one after the newest day is replaced by that.
    """
    first, last = sorted(inputs["date"][0].split("/"))
    location = {name: float(degrees) for name, degrees in sorted(inputs["location"].items())}
    dates = [first, min(last, newest.date().isoformat())]
    return json.dumps([DATASET, sorted(inputs["variable"]), location, dates, inputs["data_format"]])


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
) -> bytes:
    """The ZIP that answers; each `number` gives other bytes. Preliminary hours are not marked; those of `gap` lack."""
    hours = np.array(request.hours, dtype=np.int64)
    if gap is not None:
        hours = hours[(hours < gap[0]) | (hours > gap[1])]
    values = {v.short_name: values_of(v, request.latitude, request.longitude, hours) for v in request.variables}
    if availability.preliminary_differs and "t2m" in values:
        values["t2m"][hours > int(availability.final_until.timestamp()) // 3600] += np.float32(0.5)
    content = _as_netcdf(request, hours, values, number)
    made = io.BytesIO()
    # As served: packed in name only. 86 years of hours would take most of the time to pack.
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED, compresslevel=0) as archive:
        archive.writestr(f"{DATASET}-sfc{number:08x}.nc", content)
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
                "GRIB_Nx": 1440,
                "GRIB_Ny": 721,
                "GRIB_paramId": variable.param_id,
                "long_name": variable.long_name,
                "units": variable.file_units[0],
                "coordinates": "number time step surface latitude longitude valid_time",
            }
        )
        stored[:] = values[variable.short_name]
    for name, degrees in (("latitude", request.latitude), ("longitude", request.longitude)):
        scalar = dataset.createVariable(name, "f8", (), fill_value=np.nan)
        scalar.setncatts({"units": f"degrees_{'north' if name == 'latitude' else 'east'}", "standard_name": name})
        scalar[...] = degrees
    time = dataset.createVariable("valid_time", "i8", ("valid_time",))
    time.setncatts({"units": "seconds since 1970-01-01", "calendar": "proleptic_gregorian"})
    time[:] = hours * 3600
    return bytes(dataset.close())
