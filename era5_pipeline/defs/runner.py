"""One month through the assets, in this process: what the command line runs, recorded like any other run."""

from __future__ import annotations

import os
import signal
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import dagster as dg

from era5_pipeline.defs.assets import FLAT, RAW, WEATHER
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.instance import OWN_PROCESS
from era5_pipeline.defs.jobs import load_month
from era5_pipeline.defs.metadata import skip_reason
from era5_pipeline.model.errors import Era5Error, RefusedError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dagster_shared.error import SerializableErrorInfo

    from era5_pipeline.model.months import Month

_STAGES = {RAW: "raw", FLAT: "flat", WEATHER: "weather"}


@dataclass(frozen=True)
class Trouble:
    """Why a month was not loaded, in the words of an `Era5Error`."""

    message: str
    remedy: str
    exit_code: int


@dataclass
class MonthRun:
    """What a run did. `facts` are the metadata of each stage that was materialized; `trouble` is empty on success.

    `skipped` is the reason where the source does not have the month yet.
    """

    month: Month
    run_id: str
    skipped: str | None = None
    facts: dict[str, dict[str, Any]] = field(default_factory=dict)
    trouble: list[Trouble] = field(default_factory=list)


def run_month(
    instance: dg.DagsterInstance,
    month: Month,
    *,
    overrides: Mapping[str, object],
) -> MonthRun:
    """Materialize raw, flat and weather of the month; `overrides` are fields of `Era5Resource`.

    What stops the month is the result's `trouble`, and raises nothing.

    Raises:
        KeyboardInterrupt: if the run was interrupted.
        sqlalchemy.exc.SQLAlchemyError, DagsterPostgresException: if the run could not be recorded.
    """
    with _interrupts_raised():
        result = defs.resolve_job_def(load_month.name).execute_in_process(
            partition_key=month.key,
            instance=instance,
            run_config={
                "resources": {"era5": {"config": dict(overrides)}},
                # The command line tells what happens; Dagster's own console log would drown it.
                "loggers": {"console": {"config": {"log_level": "CRITICAL"}}},
            },
            tags=OWN_PROCESS,
            raise_on_error=False,
        )
    run = MonthRun(month, result.run_id)
    for event in result.all_events:
        if event.event_type is dg.DagsterEventType.ASSET_MATERIALIZATION and event.asset_key is not None:
            stage = _STAGES[event.asset_key]
            run.facts[stage] = {
                name: value.value for name, value in event.step_materialization_data.materialization.metadata.items()
            }
        elif event.event_type is dg.DagsterEventType.ASSET_OBSERVATION:
            run.skipped = skip_reason(event.asset_observation_data.asset_observation)
        elif event.event_type is dg.DagsterEventType.ASSET_CHECK_EVALUATION:
            evaluation = event.asset_check_evaluation_data
            if not evaluation.passed:
                remedy = evaluation.metadata.get("remedy")
                run.trouble.append(
                    Trouble(
                        evaluation.description or "",
                        str(remedy.value) if remedy else "",
                        RefusedError.exit_code,
                    )
                )
        elif event.event_type is dg.DagsterEventType.STEP_FAILURE:
            run.trouble += _step_trouble(event, run)
        elif event.event_type is dg.DagsterEventType.RUN_FAILURE and not run.trouble:
            run.trouble.append(_defect(run, event.job_failure_data.error))
    return run


@contextmanager
def _interrupts_raised() -> Iterator[None]:
    """Raise KeyboardInterrupt at the end if a signal asked to stop: Dagster ends the run on it, and then forgets it.

    Dagster puts handlers of its own in place of ours. Python tells of a signal through this pipe, whoever handles it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    reader, writer = os.pipe()
    os.set_blocking(reader, False)
    os.set_blocking(writer, False)
    previous = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    try:
        yield
    finally:
        signal.set_wakeup_fd(previous)
        os.close(writer)
        with os.fdopen(reader, "rb") as pipe:
            numbers = pipe.read() or b""
    if {signal.SIGINT, signal.SIGTERM} & set(numbers):
        raise KeyboardInterrupt


def _step_trouble(event: dg.DagsterEvent, run: MonthRun) -> list[Trouble]:
    failure = event.step_failure_data
    known = failure.user_failure_data
    if known is not None and "remedy" in known.metadata:
        values = {name: value.value for name, value in known.metadata.items()}
        return [Trouble(str(values["message"]), str(values["remedy"]), int(str(values["exit_code"])))]
    error = failure.error
    if error is not None and error.cls_name == "DagsterAssetCheckFailedError":
        return []  # the check that stopped the month has said why
    return [_defect(run, error)]


def _defect(run: MonthRun, error: SerializableErrorInfo | None) -> Trouble:
    # Dagster's own words are about the step; what it met is the cause.
    said = "" if error is None else (error.cause or error).message
    return Trouble(
        f"{run.month}: {' '.join(said.split()) or 'an unexpected error'}",
        f"This is a defect of the pipeline: please report it, with the log of Dagster's run {run.run_id}.",
        Era5Error.exit_code,
    )
