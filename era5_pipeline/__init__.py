"""ERA5, month by month, from netCDF to a queryable PostgreSQL/TimescaleDB table, through Dagster."""

from importlib.metadata import version

__version__ = version("era5-pipeline")
