"""Compare the layouts: rate of loading, bytes per row, and time to read one month of a location."""

from __future__ import annotations

import random
import time
from functools import partial
from statistics import median
from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.bench.cells import Cell, Numbers, ratio, take_turns
from era5_pipeline.bench.copy_methods import pipeline_copy
from era5_pipeline.bench.generated_months import GeneratedMonths
from era5_pipeline.bench.reader import Reader
from era5_pipeline.bench.target import Target, require_rows
from era5_pipeline.warehouse.layouts import LAYOUTS, Layout
from era5_pipeline.warehouse.layouts.columnstore import Columnstore
from era5_pipeline.warehouse.layouts.layout import WEATHER, month_where
from era5_pipeline.warehouse.space import read_space

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import psycopg

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.variables import Variable

COMPRESSED_AFTERWARDS = "columnstore by compress_chunk"
_LOCATIONS = 50


def run_layouts(
    target: Target,
    folder: Path,
    *,
    rows: int,
    repeats: int,
    say: Callable[[str], None],
    variables: tuple[Variable, ...] | None = None,
) -> dict[str, Any]:
    """Run the suite; return cells, ratios and figures as JSON values. Layouts that the server lacks are null.

    With `variables`, each layout is also measured with a month of these, and with one of the default variables in a
    table that has columns for these.
    """
    say("generating a month")
    (flat,) = GeneratedMonths(folder, rows).flat(1)
    layouts: dict[str, Layout] = LAYOUTS | {COMPRESSED_AFTERWARDS: Columnstore(direct=False)}
    measures: dict[str, Callable[[], tuple[int, Numbers]]] = {
        name: partial(_load, target, layout, flat) for name, layout in layouts.items()
    }
    if variables:
        say(f"generating a month of {len(variables)} variables")
        (other,) = GeneratedMonths(folder / "variables", rows, variables).flat(1)
        for name, layout in LAYOUTS.items():
            measures[f"{name}, {len(variables)} variables"] = partial(_load, target, layout, other, variables)
            measures[f"{name}, {len(flat.columns)} of {len(variables)} variables"] = partial(
                _load, target, layout, flat, variables
            )
    cells = take_turns(measures, repeats, say)

    def rate(name: str) -> float | None:
        return cells[name].rows_per_second

    return {
        "cells": [cell.to_json() for cell in cells.values()],
        "ratios": {
            "columnstore_to_compress_chunk": ratio(rate("columnstore"), rate(COMPRESSED_AFTERWARDS)),
            "columnstore_to_heap": ratio(rate("columnstore"), rate("calendar hypertable")),
        },
        "figures": {
            "bytes_per_row": _of_each(cells, "bytes_per_row"),
            "location_month_ms": _of_each(cells, "location_month_ms"),
            "reader_longest_wait_ms": _of_each(cells, "reader_longest_wait_ms"),
        },
    }


def _of_each(cells: dict[str, Cell], figure: str) -> dict[str, float | None]:
    values = {name: cell.figure(figure) for name, cell in cells.items()}
    return {name: None if value is None else round(value, 3) for name, value in values.items()}


def _load(target: Target, layout: Layout, flat: FlatMonth, variables: tuple[Variable, ...] = ()) -> tuple[int, Numbers]:
    rows, numbers = target.fill(layout, flat.month, pipeline_copy(flat), variables=variables)
    require_rows(rows, flat)
    with target.connect() as connection:
        numbers["bytes_per_row"] = read_space(connection).bytes / rows
        numbers["location_month_ms"] = _location_month_ms(connection, flat)
    numbers["reader_longest_wait_ms"] = _reader_longest_wait_ms(target, layout, flat)
    return rows, numbers


def _reader_longest_wait_ms(target: Target, layout: Layout, flat: FlatMonth) -> float:
    """The longest wait of a reader of one location while the month is replaced by the same one and settled."""
    with target.connect() as connection:
        ((location,),) = connection.execute("SELECT location_id FROM weather LIMIT 1").fetchall()
    with Reader(target.warehouse, flat, location) as reader, pipeline_copy(flat) as copy:
        target.replace(layout, flat.month, copy, replaced=True)
    return reader.longest_ms


def _location_month_ms(connection: psycopg.Connection[Any], flat: FlatMonth) -> float:
    """Median time to read all columns of one location's month, over 50 locations, with a warm cache."""
    locations = [row[0] for row in connection.execute("SELECT DISTINCT location_id FROM weather ORDER BY 1").fetchall()]
    sampled = random.Random(1).sample(locations, min(_LOCATIONS, len(locations)))  # noqa: S311  # the same in each run
    query = sql.SQL("SELECT * FROM {} WHERE location_id = {} AND {}")
    taken = []
    for location in sampled:
        statement = query.format(WEATHER, sql.Literal(location), month_where(flat.month))
        for _ in range(2):  # the first one fills the cache
            started = time.monotonic()
            found = len(connection.execute(statement, binary=True).fetchall())
            seconds = time.monotonic() - started
        if found != flat.hours:
            raise AssertionError(f"location {location} has {found} hours of {flat.hours}")
        taken.append(seconds * 1000)
    return median(taken)
