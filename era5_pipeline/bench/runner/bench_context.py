"""What a suite is given to plan its cells with."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.bench.target import Target
    from era5_pipeline.model.variables import Variable

_MOST_MONTHS = 6  # as many are generated, of equal length


@dataclass(frozen=True)
class BenchOptions:
    """The options of `era5 bench run` that concern some suites.

    `batches`: of sustained, per cell; `held`: of scale, how many months the table holds; `variables`: of layouts;
    `methods`: only these ways to load; `dask_scheduler`: of pipeline, a cluster to compare with; `months` and
    `failing`: of orchestration, how many are backfilled and how many of them fail first.
    """

    batches: int = 60
    held: tuple[int, ...] = (1, 12, 120, 1020)
    variables: tuple[Variable, ...] | None = None
    methods: tuple[str, ...] = ()
    dask_scheduler: str | None = None
    months: int = 24
    failing: int = 0


@dataclass(frozen=True)
class BenchContext:
    """A database to measure in, a folder for files, and the sizes; `server` is None for suites with their own.

    `rows` are those of one load; `workers` ascending numbers of connections. `is_given`: the server is the user's, not
    one of this run.
    """

    server: Target | None
    folder: Path
    rows: int
    workers: tuple[int, ...]
    options: BenchOptions
    is_given: bool = False

    @property
    def target(self) -> Target:
        """The database to measure in.

        Raises:
            CannotRunError: if the suite was not given one.
        """
        if self.server is None:
            raise CannotRunError("no server was given")
        return self.server

    @property
    def some_workers(self) -> int:
        """The smallest number of workers above one, for suites that compare several with one; at most six."""
        return min(_MOST_MONTHS, min((count for count in self.workers if count > 1), default=2))
