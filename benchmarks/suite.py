"""The definition of a suite, and the parameters from which it plans its cells."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.cells import CannotRunError, Entries, PlannedCell

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.servers import Target
    from era5_pipeline.model.variables import Variable


_MOST_MONTHS = 6  # the number generated, of equal length


@dataclass(frozen=True)
class BenchOptions:
    """The options of `era5 bench run`.

    `url` is the server; None: an embedded server started for this run. `rows` and `repeats` apply to all suites; None:
    the defaults of each. `workers` are ascending numbers of connections. The others are for particular suites.
    `batches`: for sustained, per cell; `held`: for scale, the numbers of months in the table; `variables`: for layouts;
    `methods`: only these ways to load; `dask_scheduler`, `dataset`: for pipeline, a cluster and a data set to compare
    with; `months` and
    `failing`: for orchestration, how many are backfilled and how many of them fail first.
    """

    url: str | None = None
    rows: int | None = None
    repeats: int | None = None
    workers: tuple[int, ...] = (1, 2)
    batches: int = 60
    held: tuple[int, ...] = (1, 12, 120, 1020)
    variables: tuple[Variable, ...] | None = None
    methods: tuple[str, ...] = ()
    dask_scheduler: str | None = None
    dataset: str = "era5"
    months: int = 24
    failing: int = 0


@dataclass(frozen=True)
class BenchContext:
    """A database to measure in, a folder for files, and the sizes; `server` is None for suites with their own.

    `rows` are those of one load. `stack` ends with the suite.
    """

    server: Target | None
    folder: Path
    rows: int
    options: BenchOptions
    stack: ExitStack = field(default_factory=ExitStack)

    @property
    def target(self) -> Target:
        """The database to measure in."""
        if self.server is None:
            raise CannotRunError("no server was given")
        return self.server

    @property
    def some_workers(self) -> int:
        """The smallest number of workers above one, for suites that compare several with one; at most six."""
        return min(_MOST_MONTHS, min((count for count in self.options.workers if count > 1), default=2))


# Bytes of a row in the table with its indexes, and in the files that it is loaded from.
TABLE_ROW_BYTES = 100
FILE_ROW_BYTES = 120


def disk(tables: float, files: float) -> Callable[[BenchContext], int]:
    """The disk space of a suite that has this many tables, with their log, and files of `rows` rows at a time."""
    return lambda context: int(context.rows * (tables * TABLE_ROW_BYTES + files * FILE_ROW_BYTES))


@dataclass(frozen=True)
class Suite:
    """A suite, as an entry of the table of all suites (`suites.py`).

    `plan` gives the cells; it is also called just to count them, so nothing slow may happen before the first
    measurement. `rows` is the default of `--rows`, `load` says what one load is with it, `bytes` is the disk space for
    that many at a time. `own_server`: it starts its own servers. `ratios` and `figures` are calculated from the results
    of its cells; figures are its findings by name, so that readers need not know its cells; `at_least` and `at_most`
    are the targets of some.
    """

    name: str
    summary: str
    load: str
    plan: Callable[[BenchContext], Sequence[PlannedCell]]
    rows: int
    repeats: int
    bytes: Callable[[BenchContext], int]
    own_server: bool = False
    ratios: Callable[[Entries], Mapping[str, float | None]] = lambda _: {}
    figures: Callable[[Entries], Mapping[str, float | None]] = lambda _: {}
    at_least: Mapping[str, float] = field(default_factory=dict)
    at_most: Mapping[str, float] = field(default_factory=dict)
