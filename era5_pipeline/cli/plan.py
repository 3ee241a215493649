"""`era5 plan`: the size and duration of a load, before it starts, as a table or as JSON.

Options, and the output; the current contents of warehouse and disks are in `planning.current_contents`, the estimates
in `planning.load_plan`.
"""

import json
import textwrap
from typing import TYPE_CHECKING, Annotated

import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.output import terminal
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.planning.estimates import Figure
    from era5_pipeline.planning.load_plan import Plan
    from era5_pipeline.sources.zarr.chunk_plan import ChunkPlan

    # Label, number, words.
    _Row = tuple[str, str, str]


def plan(
    *,
    from_: Annotated[str | None, typer.Option("--from", metavar="YYYY-MM", help=options.FIRST_MONTH_HELP)] = None,
    to: options.LastMonth = None,
    calendar_month: options.CalendarMonths = None,
    dataset: options.Dataset = None,
    source: options.Source = None,
    variables: Annotated[
        str | None,
        typer.Option("--variables", metavar="A,B", help="Variables of each month.", show_default="the six"),
    ] = None,
    area: options.AreaOrGlobe = None,
    place: options.Place = None,
    lat: options.Latitude = None,
    lon: options.Longitude = None,
    cell: options.Cell = "nearest",
    tile: options.Tile = False,
    store: options.Store = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON object with the same numbers.")] = False,
) -> None:
    """Estimate a load before it starts: months, requests, rows, bytes, time, free disk.

    The command contacts no service, and starts and writes nothing. Estimates use what this warehouse has measured so
    far, otherwise documented figures. Only of a Zarr store (--store, or a place without a source) it reads the metadata
    and axes, a few kilobytes, to count its chunks. A place without months: all that its source has.

    \b
    Examples:
      era5 plan --from 1940 --to 2024
      era5 plan --from 2023-01 --to 2023-12 --area 60/-10/35/30 --variables t2m,tp
      era5 plan --place Jakarta
      era5 plan --from 1940 --to 2024 --source point --place Jakarta
      era5 plan --from 1940 --to 2024 --store s3://bucket/era5.zarr --area -5/106/-8/108
      era5 plan --from 1991 --to 2020 --calendar-month 7 --area -5/106/-8/108
      era5 plan --from 1940-01 --to 2024-12 --json | jq .table_bytes
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from datetime import UTC, datetime

    from era5_pipeline.model.months import months_between, of_calendar_months, parse_calendar_months
    from era5_pipeline.model.question import COMMAND, find_asked_place
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.planning.current_contents import read_current_contents
    from era5_pipeline.planning.extent import Load
    from era5_pipeline.planning.load_plan import read_plan
    from era5_pipeline.planning.offers import offered_months, sources_of_months, with_tile

    grid = read_settings(dataset=dataset).wanted_dataset.grid
    of_store, asked = options.store_overrides(source, store), find_asked_place(COMMAND, place, lat, lon, cell, grid)
    of_place = options.place_overrides(of_store["source"], asked, area)
    overrides = {"dataset": dataset, "variables": variables, **of_store, **of_place}
    settings = read_settings(**(with_tile(overrides) if tile else overrides))
    now, calendar_months = datetime.now(tz=UTC), parse_calendar_months(calendar_month or ())
    if from_ is not None:
        months = months_between(from_, to, calendar_months)
        settings.wanted_dataset.require_months(months)
    elif asked is not None:
        months = of_calendar_months(offered_months(settings, now), calendar_months)
    else:
        raise UsageError(
            "no months to plan are given", remedy="Give --from YYYY-MM, and --to YYYY-MM for more than one."
        )
    contents, plans = read_current_contents(settings), []
    sources = sources_of_months(settings, months, now)
    for name in settings.source_names:
        own = [month for month in months if sources[month]["source"].partition(",")[0] == name]
        if own or len(settings.source_names) == 1:
            one = settings.of_source(name)
            plans.append((read_plan(one, Load.of(one, own), contents, now), one))
    if as_json:
        values = [planned.to_json() for planned, _ in plans]
        typer.echo(json.dumps(values[0] if len(settings.source_names) == 1 else values, indent=1))
    else:
        for planned, one in plans:
            _print(planned, one)


def _print(planned: "Plan", settings: "Settings") -> None:
    from rich.table import Table

    console = terminal(highlight=False)
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    for part in (_month_rows, _size_rows, _byte_rows, _time_rows):
        for row in part(planned):
            table.add_row(*row)
        table.add_row()
    for row in _disk_rows(planned, is_embedded=settings.database_url is None):
        table.add_row(*row)
    # Without the spaces that rich adds at the end of each line.
    with console.capture() as printed:
        console.print(_heading(planned), markup=False)
        if planned.contents.months is not None and planned.contents.reason:
            console.print(planned.contents.reason, markup=False)
        console.print(table)
    typer.echo("\n".join(line.rstrip() for line in printed.get().splitlines()))
    for warning in planned.warnings:
        lines = textwrap.fill(f"warning: {warning}", console.width)
        console.print(lines, markup=False, style="yellow", soft_wrap=True)


def _heading(planned: "Plan") -> str:
    from era5_pipeline.model.words import counted

    load, catalogue = planned.load, planned.load.dataset.catalogue
    is_default = load.variables == catalogue.default_variables
    variables = "default variables" if is_default else catalogue.named_columns(v.column for v in load.variables)
    area = "global" if load.is_global else f"area {load.area}"
    if load.points is not None:
        area = f"point {load.points}"
    return f"source {load.source}: {variables}, {area} ({counted(load.locations, 'location')})"


def _month_rows(planned: "Plan") -> "Iterator[_Row]":
    from era5_pipeline.model.months import spans

    def row(label: str, months: "Sequence[Month]", words: str = "") -> "_Row":
        return f"  {label}", f"{len(months):,}", spans(months) + (words if months else "")

    yield "months", f"{len(planned.states):,}", spans(planned.load.months)
    if planned.contents.months is None:
        yield "  loaded already", "?", f"not known: {planned.contents.reason}"
    else:
        yield row("loaded already", planned.months("loaded"))
    optional = (
        row("  of them preliminary", planned.preliminary, ": final data replace ERA5T two to three months later"),
        row("incomplete", planned.months("incomplete"), ": hours or values are missing"),
        row(
            "held otherwise",
            planned.months("other"),
            ": from another source, with other variables, or of an area that overlaps; a load replaces them at its own "
            "places, or adds variables that they lack",
        ),
        row("held elsewhere", planned.months("elsewhere"), ": only other places, which a load leaves as they are"),
        row("not complete yet", planned.months("early")),
        row("not begun", planned.months("future")),
    )
    yield from (cells for cells in optional if cells[1] != "0")
    yield row("to load", planned.to_load)


def _size_rows(planned: "Plan") -> "Iterator[_Row]":
    from era5_pipeline.model.words import counted

    load, size = planned.load, planned.size
    if load.kind.is_series:
        at_once = f"{load.kind.requests_at_once} at once"
        yield (
            "requests",
            f"{size.requests:,}",
            f"one for each point, for all months; none if its series is kept; {at_once}",
        )
    elif load.kind.is_queued:
        fields = planned.fields_of_largest_request
        at_once = f"{load.kind.requests_at_once} at once"
        each = "one a month" if load.requests_a_month == 1 else f"{load.requests_a_month} a month"
        if planned.has_requests_for_several:
            each = f"one for up to {load.months_a_request} months, in a backfill one a month"
        words = f"the largest, {fields:,} fields of {load.dataset.cds_max_fields:,} allowed, fits; {at_once}"
        yield "requests", f"{size.requests:,}", f"{each}; {words} (pool cds)"
    elif planned.chunks is not None:
        yield from _chunk_rows(planned.chunks)
    else:
        yield "requests", "none", ""
    yield "rows", f"{size.rows:,}", f"{counted(load.locations, 'location')} x {counted(size.hours, 'hour')}"


def _chunk_rows(chunks: "ChunkPlan") -> "Iterator[_Row]":
    shape = " x ".join(map(str, chunks.chunk))
    sharded = "" if chunks.shard is None else f", in shards of {' x '.join(map(str, chunks.shard))}"
    yield "chunks", f"{chunks.chunks:,}", f"of {shape} (hours x latitudes x longitudes){sharded}; each is read once"
    yield "requests", f"{chunks.requests:,}", "for values, whatever the order of the months in one command"
    held = []
    if chunks.months_within is not None:
        held.append(f"--from {chunks.months_within[0]} --to {chunks.months_within[1]}")
    if chunks.area_within is not None:
        held.append(f"--area {chunks.area_within}")
    if held:
        yield "", "", f"the same chunks hold {' '.join(held)}: what another command loads of it is read again"


def _byte_rows(planned: "Plan") -> "Iterator[_Row]":
    from rich.filesize import decimal

    def row(label: str, figure: "Figure", words: str = "") -> "_Row":
        return label, decimal(round(figure.value)), figure.known_from + words

    size = planned.bytes
    if planned.load.kind.is_service:
        yield row("download", size.download)
    kind = planned.load.kind
    if kind.downloads_globe or kind.is_generated or kind.is_chunked:
        yield row("raw files", size.raw)
    yield row("Parquet", size.parquet)
    is_columnstore = planned.contents.layout == "columnstore"
    yield row(
        "table",
        size.table,
        "" if is_columnstore else f"; {decimal(round(size.columnstore))} in TimescaleDB's columnstore",
    )


def _time_rows(planned: "Plan") -> "Iterator[_Row]":
    seconds, kind = planned.seconds, planned.load.kind
    words = f"load {_duration(seconds.load.value)} ({seconds.load.known_from})"
    if not kind.has_own_files:
        words = f"{kind.raw_stage} {_duration(seconds.raw.value)} ({seconds.raw.known_from}); {words}"
    yield "time", _duration(seconds.all), words


def _disk_rows(planned: "Plan", *, is_embedded: bool) -> "Iterator[_Row]":
    from rich.filesize import decimal

    disks, table = planned.disks, decimal(round(planned.bytes.table.value))
    storage = planned.storage
    files = f"{decimal(round(storage.home_bytes))} of raw and Parquet files"
    if not storage.keeps_all_here:
        files += f" at one time (months in progress: {storage.months_at_once})"
    if disks.home_free_bytes is not None:
        both = f" and the table's {table}" if disks.is_one else ""
        yield "free disk", decimal(disks.home_free_bytes), f"for {files}{both} (ERA5_HOME)"
    if storage.store_bytes is not None:
        kept = f"{decimal(round(storage.kept_bytes))} are kept" if storage.kept_bytes else "nothing is kept"
        yield "store", decimal(round(storage.store_bytes)), f"at most at one time; {kept} ({storage.policy.store})"
    if not disks.is_one and disks.table_free_bytes is not None:
        yield "", decimal(disks.table_free_bytes), f"for the table's {table} (the embedded server)"
    if not is_embedded:
        yield "", "?", f"for the table's {table}: on the server's machine"


def _duration(seconds: float) -> str:
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 1 else "under 1 s"
    if seconds < 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:,.1f} h" if seconds < 72 * 3600 else f"{seconds / 86400:,.1f} days"
