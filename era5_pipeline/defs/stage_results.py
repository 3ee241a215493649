"""Results of a month's stages, handed to the caller of a run in the same process.

Dagster records the metadata of a stage, but not its result object. The command line runs months in its own process, and
so can use the objects. Runs without a collector, such as those of the daemon, keep nothing.
"""

from __future__ import annotations

from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.flat.checks import CheckResult
    from era5_pipeline.model.errors import Era5Error, NotYetAvailableError
    from era5_pipeline.stages import FlatResult, LoadResult, RawResult


@dataclass
class StageResults:
    """What each stage of one month returned; None where a stage did not finish.

    `not_yet_available` says why the month was skipped, `error` what the last failed attempt of a stage raised.
    """

    raw: RawResult | None = None
    flat: FlatResult | None = None
    load: LoadResult | None = None
    not_yet_available: NotYetAvailableError | None = None
    error: Era5Error | None = None

    @property
    def failed_checks(self) -> list[CheckResult]:
        """The checks that failed, in the order of the stages."""
        finished = [result for result in (self.raw, self.flat, self.load) if result is not None]
        return [outcome for result in finished for outcome in result.outcomes if not outcome.passed]


_collected: ContextVar[StageResults | None] = ContextVar("era5_stage_results", default=None)


@contextmanager
def collected_results() -> Iterator[StageResults]:
    """Collect the results of the stages that run in this context."""
    results = StageResults()
    token = _collected.set(results)
    try:
        yield results
    finally:
        _collected.reset(token)


def current_results() -> StageResults:
    """The active collection; without one, an object that is discarded."""
    results = _collected.get()
    return StageResults() if results is None else results
