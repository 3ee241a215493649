"""Warnings about a planned load: what does not fit or cannot be loaded yet, and what to do.

Not here: the figures themselves (`make_plan`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.filesize import decimal

from era5_pipeline.model.months import spans

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from era5_pipeline.model.months import Month
    from era5_pipeline.planning.load_plan import Plan


def plan_warnings(plan: Plan) -> tuple[str, ...]:
    """Return the warnings, one sentence each."""
    return (*_of_time(plan), *_of_disks(plan), *_of_files(plan))


def _of_time(plan: Plan) -> Iterator[str]:
    if early := plan.months("early"):
        day = plan.complete_from[early[-1]].date()
        yield f"{spans(early)} cannot be complete yet, and {_is(early)} not counted: load {_it(early)} from {day} on"
    if future := plan.months("future"):
        begun = [month for month in plan.load.months if month < future[0]]
        end = f"; end with --to {begun[-1]}" if begun else ""
        yield f"{spans(future)} {'has' if len(future) == 1 else 'have'} not begun, and {_is(future)} not counted{end}"


def _is(months: Sequence[Month]) -> str:
    return "is" if len(months) == 1 else "are"


def _it(months: Sequence[Month]) -> str:
    return "it" if len(months) == 1 else "them"


def _of_disks(plan: Plan) -> Iterator[str]:
    disks, table = plan.disks, plan.bytes.table.value or 0.0
    in_table = table if disks.is_one else 0.0
    needed = plan.storage.home_bytes + in_table
    smaller = "a smaller --area, fewer --variables, or fewer months at a time"
    if disks.home_free_bytes is not None and needed > disks.home_free_bytes:
        what = "raw and Parquet files and the table take" if in_table else "raw and Parquet files take"
        one_month = f"those of one month take {decimal(round(plan.largest_home_bytes))}"
        less = f"; or remove the files of loaded months (ERA5_KEEP), or keep them elsewhere (ERA5_STORE): {one_month}"
        yield (
            f"the disk of ERA5_HOME has {decimal(disks.home_free_bytes)} free, and {what} {decimal(round(needed))}: "
            f"set ERA5_HOME to another disk, or take {smaller}{less if plan.storage.keeps_all_here else ''}"
        )
    if disks.table_free_bytes is not None and table > disks.table_free_bytes:
        columnstore = f"; TimescaleDB's columnstore would take {decimal(round(plan.bytes.columnstore))}"
        yield (
            f"the disk of the embedded server has {decimal(disks.table_free_bytes)} free, and the table takes "
            f"{decimal(round(table))}: use another server (ERA5_DATABASE_URL), or take {smaller}"
            + ("" if plan.contents.layout == "columnstore" else columnstore)
        )


def _of_files(plan: Plan) -> Iterator[str]:
    if plan.load.is_open:
        yield (
            "the files are not opened, and may hold fewer months, variables and locations: these figures are upper "
            "limits; --variables and --area lower them"
        )
