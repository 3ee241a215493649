"""ERA5, month by month, from netCDF to a queryable PostgreSQL/TimescaleDB table, through Dagster.

`import era5_pipeline as era5` is also how Python asks the table: `db = era5.open()`, then `db.series(place="Jakarta")`
and other methods of `era5.Database` (docs/python.md). What that needs is imported when it is first used.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from era5_pipeline.model.package_version import __version__
from era5_pipeline.runtime.shared_libraries import keep_apart

if TYPE_CHECKING:
    from era5_pipeline.api.database import Database
    from era5_pipeline.api.database import open_database as open  # noqa: A004  # called as era5.open
    from era5_pipeline.api.frames import MissingDataWarning
    from era5_pipeline.model.errors import (
        Era5Error,
        InputError,
        NoDatabaseError,
        NoDataError,
        ServerUnreachableError,
        ServerUnsuitableError,
        TransientError,
        UsageError,
        WarehouseError,
    )

# Here, because any module may import psycopg, and xarray imports this package when it lists its engines.
keep_apart()

_ERRORS = "era5_pipeline.model.errors"
# By name: the module, and the name there.
_LAZY = {
    "Database": ("era5_pipeline.api.database", "Database"),
    "MissingDataWarning": ("era5_pipeline.api.frames", "MissingDataWarning"),
    "open": ("era5_pipeline.api.database", "open_database"),
    "Era5Error": (_ERRORS, "Era5Error"),
    "InputError": (_ERRORS, "InputError"),
    "NoDataError": (_ERRORS, "NoDataError"),
    "NoDatabaseError": (_ERRORS, "NoDatabaseError"),
    "ServerUnreachableError": (_ERRORS, "ServerUnreachableError"),
    "ServerUnsuitableError": (_ERRORS, "ServerUnsuitableError"),
    "TransientError": (_ERRORS, "TransientError"),
    "UsageError": (_ERRORS, "UsageError"),
    "WarehouseError": (_ERRORS, "WarehouseError"),
}

__all__ = [
    "Database",
    "Era5Error",
    "InputError",
    "MissingDataWarning",
    "NoDataError",
    "NoDatabaseError",
    "ServerUnreachableError",
    "ServerUnsuitableError",
    "TransientError",
    "UsageError",
    "WarehouseError",
    "__version__",
    "open",
]


def __getattr__(name: str) -> object:
    """Import what a user of Python asks for; the commands and Dagster need none of it."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, there = _LAZY[name]
    return getattr(import_module(module), there)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
