"""All ways to load, in the order in which results are shown."""

from __future__ import annotations

from difflib import get_close_matches
from typing import TYPE_CHECKING

from era5_pipeline.bench.methods.arrow_copies import AdbcIngest, ArrowBinaryCopy, PipelineLoader
from era5_pipeline.bench.methods.csv_copies import ArrowCsvCopy, PandasCsvCopy
from era5_pipeline.bench.methods.loading_tools import BulkloadTool, ParallelCopyTool
from era5_pipeline.bench.methods.multi_inserts import (
    PandasMultiInsert,
    PsycopgExecutemany,
    PsycopgMultiValues,
    PsycopgUnnest,
    SqlalchemyMultiInsert,
)
from era5_pipeline.bench.methods.row_copies import AsyncpgRecords, PsycopgBinaryRows, PsycopgRows
from era5_pipeline.bench.methods.single_inserts import PandasInsert, PsycopgInsert, SqlalchemyInsert
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.bench.methods.load_method import Family, LoadMethod

METHODS: tuple[LoadMethod, ...] = (
    PandasInsert(),
    PsycopgInsert(),
    SqlalchemyInsert(),
    PandasMultiInsert(),
    PsycopgExecutemany(),
    PsycopgMultiValues(),
    PsycopgUnnest(),
    SqlalchemyMultiInsert(),
    PandasCsvCopy(),
    ArrowCsvCopy(),
    PsycopgRows(),
    PsycopgBinaryRows(),
    AsyncpgRecords(),
    AdbcIngest(),
    ArrowBinaryCopy(),
    PipelineLoader(),
)
WRITERS = ("direct", "buffered", "parallel")


def methods_of(family: Family, workers: Sequence[int] = (1,)) -> tuple[LoadMethod, ...]:
    """The ways of a family; of tools that take a number of workers, one for each number."""
    if family == "tool":
        return (*(ParallelCopyTool(count) for count in workers), *(BulkloadTool(writer) for writer in WRITERS))
    return tuple(method for method in METHODS if method.family == family)


def require_known(names: Sequence[str], workers: Sequence[int]) -> None:
    """Require that each of these is the name of a way to load.

    Raises:
        UsageError: if one is not; it names the nearest.
    """
    known = [method.name for method in (*METHODS, *methods_of("tool", workers))]
    for name in names:
        if name not in known:
            raise unknown("--method", name, known)


def unknown(option: str, name: str, known: Sequence[str]) -> UsageError:
    """The error for a name that is none of the known ones."""
    near = get_close_matches(name.lower(), known, n=3, cutoff=0.4)
    meant = f"Did you mean {' or '.join(near)}? " if near else ""
    return UsageError(f"{option}: there is no {name!r}", remedy=f"{meant}Known: {', '.join(dict.fromkeys(known))}.")
