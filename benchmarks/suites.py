"""All suites of `era5 bench run`: what is run, listed, printed and drawn follows from this table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.anywhere import ANYWHERE
from benchmarks.asking import ASK
from benchmarks.batches import CONVERSION, COPY, INSERT, MULTI_INSERT, PARALLEL, SUSTAINED, TOOLS
from benchmarks.coverage import COVERAGE
from benchmarks.formats import FORMATS
from benchmarks.lake import LAKE
from benchmarks.layouts import LAYOUTS_SUITE, SCALE
from benchmarks.methods import unknown
from benchmarks.orchestration import ORCHESTRATION
from benchmarks.others import OTHERS
from benchmarks.pipeline import LIMIT, PIPELINE
from benchmarks.reaching import REACH
from benchmarks.settings import LADDER, SETTINGS_SUITE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.suite import Suite

SUITES: tuple[Suite, ...] = (
    *(INSERT, MULTI_INSERT, COPY, SUSTAINED, PARALLEL, TOOLS, SETTINGS_SUITE, CONVERSION, LADDER, SCALE, OTHERS),
    *(LAKE, ASK, REACH, LIMIT, LAYOUTS_SUITE, PIPELINE, FORMATS, COVERAGE, ORCHESTRATION, ANYWHERE),
)


def find_suites(names: Sequence[str]) -> tuple[Suite, ...]:
    """The suites of these names, in the order of the registry; `all` for all of them."""
    known = [suite.name for suite in SUITES]
    for name in names:
        if name not in (*known, "all"):
            raise unknown("bench run", name, [*known, "all"])
    return tuple(suite for suite in SUITES if "all" in names or suite.name in names)
