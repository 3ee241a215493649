"""The Dagster instance of the `era5` commands: the project's `dagster.yaml`, copied to a folder below ERA5_HOME."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import dagster as dg
import psycopg2
from dagster_postgres.utils import DagsterPostgresException
from sqlalchemy.exc import SQLAlchemyError

from era5_pipeline.defs.instance.lost_runs import fail_lost_runs
from era5_pipeline.defs.resources import ensure_pools
from era5_pipeline.model.errors import Era5Error, TransientError, WarehouseError
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Iterator


_PACKAGE = Path(__file__).parents[2]
# In a wheel the file is inside the package, in a checkout next to it.
_CONFIGURATION = (_PACKAGE / "dagster.yaml", _PACKAGE.parent / "dagster.yaml")

# The configuration of commands, beside `dagster.yaml`: without the output of steps. To capture it, Dagster redirects
# standard error, which hides the progress bars, and starts four processes per run. Our steps print nothing.
_OF_COMMANDS = "era5-commands.yaml"
_NO_COMPUTE_LOGS = """
compute_logs:
  module: dagster.core.storage.noop_compute_log_manager
  class: NoOpComputeLogManager
"""


def dagster_home(home: Path) -> Path:
    """The folder for DAGSTER_HOME, with `dagster.yaml`, the commands' version of it, and the logs of runs."""
    configuration = next((path for path in _CONFIGURATION if path.is_file()), None)
    if configuration is None:
        raise Era5Error(
            "dagster.yaml is missing from this installation of era5-pipeline",
            remedy="Install the package again, from a complete checkout or wheel.",
        )
    folder, text = home / "dagster", configuration.read_text(encoding="utf-8")
    for name, wanted in (("dagster.yaml", text), (_OF_COMMANDS, text + _NO_COMPUTE_LOGS)):
        written = folder / name
        if not written.is_file() or written.read_text(encoding="utf-8") != wanted:
            with replacing(written) as temporary:
                temporary.write_text(wanted, encoding="utf-8")
    return folder


@contextmanager
def open_instance(home: Path, *, no_daemon: bool = False) -> Iterator[dg.DagsterInstance]:
    """Open the instance, create its database if it is missing, and mark lost runs as failed.

    `no_daemon`: no daemon is running, so runs about to be started are lost too.

    Raises:
        TransientError: if the connection to its database is lost in this context.
        WarehouseError: if no server is reachable, or it refuses to create Dagster's tables.
    """
    folder = dagster_home(home)
    with _storage_errors(), dg.DagsterInstance.from_config(str(folder), _OF_COMMANDS) as instance:
        ensure_pools(instance)
        fail_lost_runs(instance, with_starting=no_daemon)
        yield instance


@contextmanager
def _storage_errors() -> Iterator[None]:
    try:
        yield
    except (SQLAlchemyError, DagsterPostgresException) as error:
        root: BaseException = error
        while root.__cause__ is not None:
            root = root.__cause__
        # Not `str(error)`, which contains the statement and its values.
        message = f"Dagster's database: {' '.join(str(root).split())}"
        if isinstance(root, psycopg2.OperationalError | psycopg2.InterfaceError):
            raise TransientError(
                message, remedy="Run the command again: months that are already loaded are skipped."
            ) from error
        raise WarehouseError(
            message,
            remedy="Let its user create tables there, or set ERA5_DAGSTER_DATABASE_URL to another database.",
        ) from error
