"""Failures of a month's first stages, recorded in the warehouse, so that `era5 status` shows them."""

from __future__ import annotations

import logging
from contextlib import contextmanager
from typing import TYPE_CHECKING

import dagster as dg

from era5_pipeline.defs.dagster_failures import RETRIES
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.months import Month
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse.attempts import record_failure
from era5_pipeline.warehouse.schema import ensure_schema

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.defs.resources import Era5Resource
    from era5_pipeline.model.settings import Settings

_log = logging.getLogger(__name__)


@contextmanager
def failure_in_ledger(month: str, era5: Era5Resource, attempt: int) -> Iterator[None]:
    """Record a failure of this stage of the month, once no retry follows; it is raised all the same."""
    try:
        yield
    except (dg.Failure, dg.RetryRequested) as raised:
        failure = raised if isinstance(raised, dg.Failure) else raised.__cause__
        is_last = isinstance(raised, dg.Failure) or attempt >= RETRIES.max_retries
        if is_last and isinstance(failure, dg.Failure):
            record(era5.settings(), Month.parse(month), str(failure.metadata["message"].value))
        raise


def record(settings: Settings, month: Month, message: str) -> None:
    """Record that the month failed; without a database that can be written, it is only logged."""
    try:
        with open_warehouse(settings, create=True) as warehouse, warehouse.connect() as connection:
            ensure_schema(connection)  # this may be the first month of all
            with server_errors("recording a failure"):
                record_failure(connection, month, " ".join(message.split()))
    except Era5Error as error:
        _log.info("%s: its failure could not be recorded: %s", month, error)
