"""Open the source that the settings select."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.sources.source import Request, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.sources.files import FilesSource

# Sources whose module is not named after them.
_MODULES = {
    "cds": "cds.source",
    "zarr": "zarr.source",
    "earthmover": "zarr.earthmover",
    "edh": "zarr.source",
    "ecmwf-arco": "zarr.ecmwf_arco",
}


def module_of(name: str) -> str:
    """The module with a source's `open_source`."""
    return f"era5_pipeline.sources.{_MODULES.get(name, name)}"


def _no_op(_: str) -> None:
    """No-op callback."""


def source_of(settings: Settings, say: Callable[[str], None] = _no_op) -> Source:
    """Open the source that the settings select; `say` receives messages about waits and retries."""
    name = settings.source_name
    module = import_module(module_of(name))
    source: Source = module.open_source(settings, Request.of(settings), say)
    return source


def own_files_of(settings: Settings, source: Source | None = None) -> FilesSource | None:
    """The source of the user's own files, which determine the months; None if the settings select another one."""
    if not source_kind(settings.source_name).has_own_files:
        return None
    from era5_pipeline.sources.files import FilesSource  # noqa: PLC0415  # slow to import, and others do not need it

    opened = source_of(settings) if source is None else source
    return opened if isinstance(opened, FilesSource) else None


def unrequested_columns(settings: Settings, source: Source, months: Collection[Month]) -> tuple[str, ...]:
    """Columns in the user's own files of these months that a load without a list of variables leaves out.

    Empty if the settings name variables: such users know of the others.
    """
    files = None if settings.variables else own_files_of(settings, source)
    if files is None:
        return ()
    asked = {variable.column for variable in Request.of(settings).wanted}
    return tuple(column for column in files.columns(months) if column not in asked)
