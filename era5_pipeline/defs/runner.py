"""Run one month through the assets in this process, recorded by Dagster like any other run."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dagster as dg
from dagster._core.definitions.repository_definition.valid_definitions import SINGLETON_REPOSITORY_NAME
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteRepositoryOrigin

from era5_pipeline.defs.assets import load_month
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.instance import OWN_PROCESS
from era5_pipeline.defs.lasting_storage import not_waiting_once
from era5_pipeline.defs.month_range import RangeCaller, called_by, load_in_turn, load_months
from era5_pipeline.defs.resources import StageResults, collected_results
from era5_pipeline.defs.run_tags import MONTHS
from era5_pipeline.defs.services import LOCATION, socket_path
from era5_pipeline.model.errors import Era5Error, RefusedError
from era5_pipeline.model.months import calendar_months_of, spans

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from dagster._core.remote_origin import RemoteJobOrigin
    from dagster_shared.error import SerializableErrorInfo

    from era5_pipeline.model.months import Month


@dataclass(frozen=True)
class ErrorReport:
    """Why a month was not loaded: message, remedy and exit code, as in `Era5Error`."""

    message: str
    remedy: str
    exit_code: int


@dataclass(frozen=True)
class MonthRun:
    """The outcome of a month's run; `errors` is empty on success, and for a month that was skipped."""

    month: Month
    run_id: str
    results: StageResults
    errors: tuple[ErrorReport, ...] = ()

    @property
    def skipped(self) -> str | None:
        """Why the month was skipped; None if it was not."""
        error = self.results.not_yet_available
        return None if error is None else error.message


def run_month(
    instance: dg.DagsterInstance,
    month: Month,
    *,
    overrides: Mapping[str, object],
) -> MonthRun:
    """Materialize raw, flat and weather of the month; `overrides` are fields of `Era5Resource`.

    Errors of the month are returned in `errors` instead of being raised.

    Raises:
        KeyboardInterrupt: if the run was interrupted.
        sqlalchemy.exc.SQLAlchemyError, DagsterPostgresException: if the run could not be recorded.
    """
    with _interrupts_raised(), _recorded_code_location(instance, load_month.name), collected_results() as results:
        result = defs.resolve_job_def(load_month.name).execute_in_process(
            partition_key=month.key,
            instance=instance,
            run_config=_run_config(overrides),
            tags=OWN_PROCESS,  # the resource adds month and source
            raise_on_error=False,
        )
    errors = [ErrorReport(check.description, check.remedy, RefusedError.exit_code) for check in results.failed_checks]
    for event in result.all_events:
        if event.event_type is dg.DagsterEventType.STEP_FAILURE:
            errors += _step_errors(event, month, result.run_id, results)
        elif event.event_type is dg.DagsterEventType.RUN_FAILURE and not errors:
            errors.append(_defect(month, result.run_id, event.job_failure_data.error))
    return MonthRun(month, result.run_id, results, tuple(errors))


def run_months_together(
    instance: dg.DagsterInstance,
    months: Sequence[Month],
    *,
    overrides: Mapping[str, object],
    around: Callable[[Month], AbstractContextManager[None]],
    on_run: Callable[[MonthRun], None],
) -> None:
    """Load months of a range in one Dagster run, until one cannot be loaded; call `on_run` for each that is.

    They are all months of the range, or all of certain calendar months (`calendar_months_of`).

    It ends before the first month that cannot be loaded, and records nothing about it; `run_month` then says why.

    Raises:
        KeyboardInterrupt: if the run was interrupted.
        sqlalchemy.exc.SQLAlchemyError, DagsterPostgresException: if the run could not be recorded.
    """
    caller = RangeCaller(around, lambda month, run_id, results: on_run(MonthRun(month, run_id, results)))
    config = {
        "first": str(months[0]),
        "last": str(months[-1]),
        "calendar_months": list(calendar_months_of(months) or ()),
    }
    with _interrupts_raised(), _recorded_code_location(instance, load_months.name), called_by(caller):
        defs.resolve_job_def(load_months.name).execute_in_process(
            instance=instance,
            run_config={"ops": {load_in_turn.name: {"config": config}}, **_run_config(overrides)},
            tags={**OWN_PROCESS, MONTHS: spans(months)},
            raise_on_error=False,
        )


def _run_config(overrides: Mapping[str, object]) -> dict[str, Any]:
    return {
        "resources": {"era5": {"config": dict(overrides)}},
        # The command line reports the run itself, which Dagster's console log would bury.
        "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
    }


@contextmanager
def _recorded_code_location(instance: dg.DagsterInstance, job: str) -> Iterator[None]:
    """Record with the run the code location that `era5 up` serves, so that the web UI can execute it again.

    `execute_in_process` records none, and the UI's "Re-execute" then fails with HTTP 500.
    """
    recording: Any = instance
    recording.create_run_for_job = partial(instance.create_run_for_job, remote_job_origin=job_origin(instance, job))
    try:
        yield
    finally:
        del recording.create_run_for_job


def job_origin(instance: dg.DagsterInstance, job: str = load_month.name) -> RemoteJobOrigin:
    """The origin of the job as served by `era5 up`; by default that of a month."""
    socket = str(socket_path(Path(instance.root_directory)))
    server = GrpcServerCodeLocationOrigin(host="localhost", socket=socket, location_name=LOCATION)
    return RemoteRepositoryOrigin(server, SINGLETON_REPOSITORY_NAME).get_job_origin(job)


@contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end if a signal asked to stop: Dagster ends the run, but does not raise.

    Dagster replaces our signal handlers. Python also writes the number of each signal to this pipe, whatever the
    handler.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    received: set[int] = set()

    def is_stopped() -> bool:
        with suppress(BlockingIOError):  # no more signals
            received.update(os.read(reader, 4096))
        return not received.isdisjoint((signal.SIGINT, signal.SIGTERM))

    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        with not_waiting_once(is_stopped):
            yield
    except Exception as error:
        if is_stopped():  # the interrupted run could not be recorded
            raise KeyboardInterrupt from error
        raise
    else:
        if is_stopped():
            raise KeyboardInterrupt
    finally:
        signal.set_wakeup_fd(previous)
        os.close(writer)
        os.close(reader)


def _step_errors(event: dg.DagsterEvent, month: Month, run_id: str, results: StageResults) -> list[ErrorReport]:
    failure = event.step_failure_data
    # `as_failures` raises a `dg.Failure` either for the error just recorded in the results, or for failed checks, which
    # are reported separately.
    if failure.user_failure_data is not None and results.error is not None:
        return [ErrorReport(results.error.message, results.error.remedy, results.error.exit_code)]
    if failure.user_failure_data is not None and results.failed_checks:
        return []
    return [_defect(month, run_id, failure.error)]


def _defect(month: Month, run_id: str, error: SerializableErrorInfo | None) -> ErrorReport:
    # Dagster's message is about the step; its cause is the exception raised there.
    message = "" if error is None else (error.cause or error).message
    return ErrorReport(
        f"{month}: {' '.join(message.split()) or 'an unexpected error'}",
        f"This is a defect of the pipeline: please report it, with the log of Dagster's run {run_id}.",
        Era5Error.exit_code,
    )
