"""Variables as a catalogue may hold them, one of each kind; fields and series of values that are usual for them."""

from __future__ import annotations

import dataclasses
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.maps.fields import FieldMap
from era5_pipeline.model import grid
from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_COLUMNS, Variable
from era5_pipeline.read.fields import Series, hour_field

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt

    Floats = npt.NDArray[np.floating]

TIME = datetime(2018, 12, 4, 4, tzinfo=UTC)
TEMPERATURE = BY_COLUMN["temperature_2m"]


def _variable(column: str, unit: str, step_type: str, minimum: float, maximum: float) -> Variable:
    of_hour: Any = step_type
    return dataclasses.replace(
        BY_COLUMN["temperature_2m"], column=column, unit=unit, step_type=of_hour, minimum=minimum, maximum=maximum
    )


# With the least and the greatest of usual values.
USUAL: dict[Variable, tuple[float, float]] = {
    _variable("dewpoint_2m", "degC", "instant", -120, 50): (-40, 25),
    _variable("soil_temperature_level_1", "degC", "instant", -110, 100): (-5, 35),
    _variable("mean_sea_level_pressure", "hPa", "instant", 850, 1110): (960, 1045),
    _variable("surface_pressure", "hPa", "instant", 400, 1110): (955, 1040),
    _variable("sea_ice_cover", "fraction", "instant", -0.001, 1.001): (0, 1),
    _variable("wind_gust_10m", "m/s", "max", -0.1, 400): (1, 30),
    _variable("surface_solar_radiation_downwards", "J/m2", "accum", -1000, 6_000_000): (0, 3.3e6),
    _variable("surface_net_thermal_radiation", "J/m2", "accum", -3_000_000, 2_000_000): (-4e5, 2e4),
    _variable("top_net_thermal_radiation", "J/m2", "accum", -2_500_000, 1000): (-1.2e6, -4e5),
    _variable("evaporation", "mm", "accum", -10, 10): (-0.6, 0.05),
    _variable("runoff", "mm", "accum", -1, 500): (0, 3),
    _variable("snow_depth_water_equivalent", "mm", "instant", -5, 100_000): (0, 800),
    _variable("boundary_layer_height", "m", "instant", -5, 15_000): (20, 3500),
    _variable("convective_available_potential_energy", "J/kg", "instant", -5, 30_000): (0, 4000),
    _variable("total_column_ozone", "kg/m2", "instant", 0, 0.05): (0.005, 0.0095),
    _variable("total_column_water_vapour", "kg/m2", "instant", -1, 200): (1, 60),
    _variable("volumetric_soil_water_layer_1", "m3/m3", "instant", -0.05, 1.05): (0.02, 0.5),
    _variable("mean_total_precipitation_rate", "kg/m2/s", "avg", -1e-5, 0.15): (0, 0.002),
    _variable("mean_surface_downward_short_wave_radiation_flux", "W/m2", "avg", -1, 1700): (0, 900),
    _variable("eastward_turbulent_surface_stress", "N s/m2", "accum", -500_000, 500_000): (-4000, 5000),
    _variable("k_index", "K", "instant", -300, 400): (-30, 40),
    _variable("soil_type", "1", "instant", 0, 10): (0, 7),
}
KINDS = {variable.column: variable for variable in USUAL}
_RANGES = {variable.column: ends for variable, ends in USUAL.items()} | {
    "temperature_2m": (-30.0, 30.0),
    "total_precipitation": (0.0, 8.0),
    "zonal_wind_10m": (-10.0, 10.0),
    "total_cloud_cover": (0.0, 1.0),
}


def field_over(
    area: str, values_at: Callable[[Floats, Floats], Floats], variable: Variable = TEMPERATURE, time: datetime = TIME
) -> FieldMap:
    """A field over an area, computed from the latitudes and longitudes of its points."""
    rectangle = grid.Area.parse(area)
    rows, columns = np.meshgrid(rectangle.latitude_indices(), rectangle.longitude_indices(), indexing="ij")
    of = rectangle.grid
    values = values_at(of.latitudes_of(rows), of.longitudes_of(columns)).astype(np.float32)
    return FieldMap.of_hour(hour_field(time, variable, of.location_ids(rows, columns).ravel(), values.ravel(), of))


def usual_field(area: str, variable: Variable = TEMPERATURE, time: datetime = TIME) -> FieldMap:
    """Waves over an area, between the least and the greatest usual value."""
    low, high = _RANGES[variable.column]

    def waves(latitudes: Floats, longitudes: Floats) -> Floats:
        wave = np.cos(np.deg2rad(3 * latitudes)) * np.cos(np.deg2rad(2 * longitudes))
        return low + (high - low) * (wave + 1) / 2

    return field_over(area, waves, variable, time)


def field_of(area: str, what: str = "latitude") -> FieldMap:
    """A field whose value is the latitude, or a third of the longitude."""
    return field_over(area, lambda latitudes, longitudes: latitudes if what == "latitude" else longitudes / 3)


def usual_series(
    hours: int, ranges: Mapping[str, tuple[float, float]] | None = None, *, missing: slice | None = None, step: int = 1
) -> Series:
    """A yearly and a daily cycle of every kind of variable, from 2023-01-01 on, without the `missing` hours."""
    number = np.delete(np.arange(0, hours, step), missing or [])
    wave = 0.5 - 0.3 * np.cos(2 * np.pi * number / 8760) - 0.2 * np.cos(2 * np.pi * number / 24)
    times = np.datetime64("2023-01-01", "s") + number * np.timedelta64(3600, "s")
    ends = ranges or {variable.column: pair for variable, pair in USUAL.items()}
    return Series(times, {name: (low + (high - low) * wave).astype(np.float32) for name, (low, high) in ends.items()})


def default_series(hours: int, **options: Any) -> Series:
    """Hours of every default column that rise and fall between 5 and 35, over the year and the day."""
    return usual_series(hours, dict.fromkeys(DEFAULT_COLUMNS, (5.0, 35.0)), **options)
