"""Open the source that the settings select, and request months early."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.sources.source import FolderSource, QueuedSource, Request, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings

# Sources whose module is not named after them.
_MODULES = {"cds": "cds.source", "zarr": "zarr.source"}


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


def unrequested_columns(settings: Settings, source: Source, months: Collection[Month]) -> tuple[str, ...]:
    """Columns in the user's own files of these months that a load without a list of variables leaves out.

    Empty if the settings name variables: such users know of the others.
    """
    if settings.variables or not isinstance(source, FolderSource):
        return ()
    asked = {variable.column for variable in Request.of(settings).wanted}
    return tuple(column for column in source.columns(months) if column not in asked)


def request_ahead(settings: Settings, month: Month) -> None:
    """Submit the month's request early, if the source has a queue and none is under way; `run_raw` continues it."""
    source = source_of(settings)
    if isinstance(source, QueuedSource):
        source.ask(month)


def months_together(settings: Settings, month: Month) -> tuple[Month, ...]:
    """The months that one request can cover together with this one, if all are wanted; else the month alone."""
    source = source_of(settings) if source_kind(settings.source_name).is_queued else None
    return source.months_together(month) if isinstance(source, QueuedSource) else (month,)


def can_go_together(settings: Settings, months: tuple[Month, ...]) -> bool:
    """Return True if `run_raw` of these `months_together` uses one request, while they are `due_months`."""
    source = source_of(settings)
    return isinstance(source, QueuedSource) and source.can_go_together(months)


def request_together(settings: Settings, months: tuple[Month, ...]) -> None:
    """Submit one request for `months_together` early; like `request_ahead`."""
    source = source_of(settings)
    if isinstance(source, QueuedSource):
        source.ask_together(months)


def is_known(settings: Settings, month: Month) -> bool:
    """Return True if the source can provide the month without a request."""
    return source_of(settings).known(month) is not None
