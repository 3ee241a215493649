"""Let a run outlast a restart of the server that holds Dagster's database.

Dagster takes the loss of its own connection in the middle of a run for a failure of the step, and the month would be
failed although nothing is wrong with it.
"""

from __future__ import annotations

import functools
import inspect
import logging
import time
from typing import TYPE_CHECKING, Any

from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy.exc import DBAPIError

if TYPE_CHECKING:
    from collections.abc import Callable

    import dagster as dg

# Enough for a server that recovers from a crash; then the step fails.
_PATIENCE_SECONDS, _PAUSE_SECONDS = 180.0, 1.0
_log = logging.getLogger(__name__)


def outlast_restarts(instance: dg.DagsterInstance) -> None:
    """Let the instance's storage repeat what was cut off by a lost connection, until the server answers again.

    A statement that the server had just finished is then repeated too: an entry of the run's log may be there twice.
    """
    storages: tuple[Any, ...] = (instance.event_log_storage, instance.run_storage)
    for storage in storages:
        for name, method in inspect.getmembers(storage, inspect.ismethod):
            # Those that return a connection cannot be repeated: what is done with it is.
            if not name.startswith("_") and not name.endswith("connection") and name not in ("connect", "dispose"):
                setattr(storage, name, _repeated(method))


def _repeated(method: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(method)
    def call(*arguments: Any, **options: Any) -> Any:  # noqa: ANN401  # as they are
        until = time.monotonic() + _PATIENCE_SECONDS
        while True:
            try:
                return method(*arguments, **options)
            except (DBAPIError, DagsterPostgresException) as error:
                is_lost = isinstance(error, DagsterPostgresException) or error.connection_invalidated
                if not is_lost or time.monotonic() > until:
                    raise
                _log.warning("Dagster's database does not answer: trying again")
                time.sleep(_PAUSE_SECONDS)

    return call
