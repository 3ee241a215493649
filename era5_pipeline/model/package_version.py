"""The version of this package, as it is installed."""

from importlib.metadata import version

__version__ = version("era5-pipeline")
