"""Variables by the CF conventions: standard names, units that udunits reads, and cell methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from era5_pipeline.model.variables import Variable


# From the CF standard name table: variables that match the definition exactly, in a unit convertible to the CF one.
STANDARD_NAMES = {
    "temperature_2m": "air_temperature",
    "zonal_wind_10m": "eastward_wind",
    "meridional_wind_10m": "northward_wind",
    "total_cloud_cover": "cloud_area_fraction",
    "total_precipitation": "lwe_thickness_of_precipitation_amount",
    "snowfall": "lwe_thickness_of_snowfall_amount",
    "dewpoint_2m": "dew_point_temperature",
    "mean_sea_level_pressure": "air_pressure_at_mean_sea_level",
    "surface_pressure": "surface_air_pressure",
    "sea_surface_temperature": "sea_surface_temperature",
    "sea_ice_cover": "sea_ice_area_fraction",
    "zonal_wind_100m": "eastward_wind",
    "meridional_wind_100m": "northward_wind",
    "wind_speed_10m": "wind_speed",
    "wind_speed_100m": "wind_speed",
    "wind_direction_10m": "wind_from_direction",
    "wind_direction_100m": "wind_from_direction",
    "wind_gust_10m": "wind_speed_of_gust",
    "instantaneous_wind_gust_10m": "wind_speed_of_gust",
    "maximum_temperature_2m": "air_temperature",
    "minimum_temperature_2m": "air_temperature",
    "convective_precipitation": "lwe_thickness_of_convective_precipitation_amount",
    "snow_depth_water_equivalent": "lwe_thickness_of_surface_snow_amount",
    "boundary_layer_height": "atmosphere_boundary_layer_thickness",
    "total_column_water_vapour": "atmosphere_mass_content_of_water_vapor",
    "land_sea_mask": "land_area_fraction",
}

_UNITS = {
    "fraction": "1",
    "degrees": "degree",
    "m/s": "m s-1",
    "J/m2": "J m-2",
    "W/m2": "W m-2",
    "N/m2": "N m-2",
    "N s/m2": "N s m-2",
    "J/kg": "J kg-1",
    "kg/m2": "kg m-2",
    "kg/m3": "kg m-3",
    "kg/m/s": "kg m-1 s-1",
    "kg/m2/s": "kg m-2 s-1",
    "m3/m3": "m3 m-3",
    "m2/m2": "m2 m-2",
    "m2/s2": "m2 s-2",
}
_METHODS = {"instant": "point", "accum": "sum", "avg": "mean", "max": "maximum", "min": "minimum"}


def cf_unit(variable: Variable) -> str:
    """The variable's unit as CF and udunits write it: `m s-1` for `m/s`."""
    return _UNITS.get(variable.unit, variable.unit)


def cell_method(variable: Variable) -> str:
    """The CF cell method: `point` for instants; `sum`, `mean`, `maximum` or `minimum` over the preceding hour."""
    return _METHODS[variable.step_type]


CONVENTIONS = "CF-1.10"


def cf_attributes(variable: Variable) -> dict[str, str]:
    """`units`, `long_name`, `description`, `cell_methods`, ERA5's short name and, where CF has one, a standard name.

    >>> from era5_pipeline.model.variables import BY_COLUMN
    >>> attributes = cf_attributes(BY_COLUMN["total_precipitation"])
    >>> attributes["standard_name"], attributes["units"], attributes["cell_methods"]
    ('lwe_thickness_of_precipitation_amount', 'mm', 'time: sum')
    """
    attributes = {
        "long_name": variable.long_name,
        "units": cf_unit(variable),
        "cell_methods": f"time: {cell_method(variable)}",
        "description": variable.description,
        "short_name": variable.short_name,
    }
    if variable.column in STANDARD_NAMES:
        attributes["standard_name"] = STANDARD_NAMES[variable.column]
    return attributes
