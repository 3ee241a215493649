"""The installed version of this package."""

from importlib.metadata import version

__version__ = version("era5-pipeline")
