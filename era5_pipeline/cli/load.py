"""`era5 load`: load months through the Dagster assets.

Options, and the choice of months; running them and the output are in `era5_pipeline.cli.run_months`.
"""

import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

import click
import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.output import ResultsCommand
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.source_kinds import SOURCE_OF_FOLDERS, source_kind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import datetime

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings


class LoadCommand(ResultsCommand):
    """`era5 load`, which says how months and files are named if it is given them without an option."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments."""
        ctx.allow_extra_args = True
        rest = super().parse_args(ctx, args)
        if rest:
            raise UsageError(
                f"era5 load has only options, and {rest[0]!r} belongs to none",
                remedy=f"A folder of files, or a file: --files-dir {shlex.quote(rest[0])}. Months: --from and --to.",
            )
        return rest


def load(
    *,
    from_: Annotated[
        str | None,
        typer.Option(
            "--from",
            metavar="YYYY-MM",
            help=options.FIRST_MONTH_HELP,
            show_default="all months of the files, or of a place",
        ),
    ] = None,
    to: options.LastMonth = None,
    calendar_month: options.CalendarMonths = None,
    dataset: options.Dataset = None,
    source: options.Source = None,
    files_dir: Annotated[
        list[str] | None,
        typer.Option(
            "--files-dir",
            metavar="DIR",
            help="A folder of ERA5 files, a file, or s3://bucket/prefix; can be given several times.",
        ),
    ] = None,
    store: options.Store = None,
    variables: Annotated[
        str | None,
        typer.Option(
            "--variables",
            metavar="A,B",
            help="Variables to load; default stands for the six, all for whatever the files hold.",
            show_default="those of the six that exist",
        ),
    ] = None,
    strict_variables: Annotated[
        bool,
        typer.Option("--strict-variables", help="Refuse months that lack a variable of the list, default or all."),
    ] = False,
    area: options.AreaOrGlobe = None,
    place: options.Place = None,
    lat: options.Latitude = None,
    lon: options.Longitude = None,
    cell: options.Cell = "nearest",
    tile: options.Tile = False,
    format_: Annotated[
        Literal["parquet", "csv"] | None,
        typer.Option("--format", help="Format of flat files.", show_default="parquet"),
    ] = None,
    sample_hours: Annotated[
        int | None,
        typer.Option("--sample-hours", metavar="N", min=1, help="Source sample: only the first N hours."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            min=1,
            max=64,
            help="Connections per month; hypertables use only one.",
            show_default="1",
        ),
    ] = None,
    allow_incomplete: Annotated[
        bool,
        typer.Option("--allow-incomplete", help="Load months even if hours, variables or values are missing."),
    ] = False,
    sparse_hours: Annotated[
        bool,
        typer.Option(
            "--sparse-hours",
            help="Source files: one value a day or a month, always at the same hour, is an hour, not a mean.",
        ),
    ] = False,
    off_grid: Annotated[
        Literal["refuse", "nearest"] | None,
        typer.Option(
            "--off-grid",
            help="Source files: values between the grid points (interpolated by the store) go to the nearest points.",
            show_default="refuse",
        ),
    ] = None,
    trust_files: Annotated[
        bool,
        typer.Option(
            "--trust-files",
            help="Source files: take your word that they hold hourly values of ERA5, though they say otherwise.",
        ),
    ] = False,
    accumulation: Annotated[
        Literal["day", "hour"] | None,
        typer.Option(
            "--accumulation",
            help="Source files, ERA5-Land: amounts are sums since 00 UTC, or of hours, where files do not tell.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Load months again even if nothing changed.")] = False,
    replace: Annotated[
        bool,
        typer.Option("--replace", help="Let a load replace more hours, more variables, or final data at its places."),
    ] = False,
    refetch: Annotated[
        bool,
        typer.Option(
            "--refetch", help="Sources cds, arco, point and zarr: fetch months again even if their files exist."
        ),
    ] = False,
    pass_over: Annotated[
        bool,
        typer.Option(
            "--pass-over", help="Source files: files that cannot be used beside others are no error (exit code 0)."
        ),
    ] = False,
    failed: Annotated[
        bool,
        typer.Option("--failed", help="Load again all months whose last attempt failed, with the settings they had."),
    ] = False,
    yes: Annotated[
        bool, typer.Option("--yes", help="Do not ask before loading the whole globe, or all months of a place.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list with the result of each month.")] = False,
) -> None:
    """Load months into the table weather: get the raw files, write a flat file, load it; check each step.

    A load replaces the month's rows at its own places, in one transaction, and leaves all others as they are. Months
    that did not change are skipped. Less never replaces more, unless --replace says that it is meant. Variables that
    loaded months lack are added to their rows if they alone are named. Another data set has a table of its own.

    A load of the whole globe, or of all months of a place, says its rows, bytes and time first and asks, if it is
    started in a terminal.

    \b
    Examples:
      era5 load --place Jakarta
      era5 load --from 2023-01 --to 2023-12 --source cds --area -5/106/-8/108
      era5 load --from 1940 --to 2024 --source point --place Jakarta
      era5 load --from 1940 --to 2026-10 --source earthmover,cds --area -5/106/-8/108
      era5 load --from 1991 --to 2020 --calendar-month 7 --area -5/106/-8/108
      era5 load --from 2023-01 --to 2023-12 --source files --files-dir ~/era5
      era5 load --files-dir ~/era5
      era5 load --files-dir ~/era5 --variables all
      era5 load --from 2023-09 --files-dir ~/era5 --allow-incomplete
      era5 load --from 2023-01 --to 2023-12 --area -5/106/-8/108 --variables u100,v100
      era5 load --from 1940 --to 2024 --store s3://bucket/era5.zarr --area -5/106/-8/108
      era5 load --from 2024-01 --source sample --area -5/106/-8/108
      era5 load --dataset era5-land --files-dir ~/era5-land
      era5 load --failed
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    import os
    from datetime import UTC, datetime

    from era5_pipeline.cli.run_months import run_months
    from era5_pipeline.model.months import parse_calendar_months
    from era5_pipeline.model.question import COMMAND, find_asked_place
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.planning.offers import sources_of_months, with_tile

    calendar_months = parse_calendar_months(calendar_month or ())
    if from_ is None and to is not None:
        raise UsageError("--to was given without --from", remedy="Give the first month too: --from YYYY-MM.")
    grid = read_settings(dataset=dataset).wanted_dataset.grid
    asked = find_asked_place(COMMAND, place, lat, lon, cell, grid)
    of_store = options.store_overrides(source, store)
    overrides: dict[str, Any] = {
        "dataset": dataset,
        **of_store,
        **options.place_overrides(of_store["source"] or (SOURCE_OF_FOLDERS if files_dir else None), asked, area),
        "files_dir": os.pathsep.join(map(_place, files_dir)) if files_dir else None,
        "variables": variables,
        "strict_variables": strict_variables or None,
        "format": format_,
        "allow_incomplete": allow_incomplete or None,
        "sparse_hours": sparse_hours or None,
        "off_grid": off_grid,
        "trust_files": trust_files or None,
        "accumulation": accumulation,
        "force": force or None,
        "replace": replace or None,
        "refetch": refetch or None,
        "workers": workers,
        "sample_hours": sample_hours,
    }
    overrides = {name: value for name, value in overrides.items() if value is not None}
    if failed:
        raise typer.Exit(_load_failed(overrides, from_, to, calendar_months, as_json=as_json, may_pass_over=pass_over))
    if tile:
        overrides = with_tile(overrides)
    settings = read_settings(**overrides)
    is_all = asked is not None and from_ is None
    now = datetime.now(tz=UTC)
    months, asked_for = _months(settings, from_, to, calendar_months, now, is_of_place=asked is not None)
    if not yes:
        _ask_about_all(settings, months, is_all_of_a_place=is_all)
    elif is_all:
        from era5_pipeline.planning.fetches import announcement

        typer.echo(f"era5: {announcement(len(months))}", err=True)
    wanted = [(month, overrides) for month in months]
    if len(settings.source_names) > 1:
        sources = sources_of_months(settings, months, now)
        wanted = [(month, {**overrides, **sources[month]}) for month in months]
    raise typer.Exit(run_months(settings, wanted, as_json=as_json, asked=asked_for, may_pass_over=pass_over))


def _ask_about_all(settings: "Settings", months: "Sequence[Month]", *, is_all_of_a_place: bool) -> None:
    """Ask before a load of the whole globe, or of all months of a place, on a terminal; "no" aborts.

    Nothing has been started then.
    """
    import sys
    from dataclasses import replace
    from datetime import timedelta

    from rich.filesize import decimal

    from era5_pipeline.model.months import spans
    from era5_pipeline.model.times import spoken
    from era5_pipeline.model.words import counted
    from era5_pipeline.planning.current_contents import read_current_contents
    from era5_pipeline.planning.extent import Load
    from era5_pipeline.planning.load_plan import read_plan

    kind = source_kind(settings.source_name)
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    may_be_global = not (kind.has_own_files or kind.is_series)
    load = Load.of(settings, months)
    if not is_all_of_a_place and not (may_be_global and load.is_global):
        return
    contents = read_current_contents(settings)
    if settings.force or settings.refetch:
        contents = replace(contents, months=())  # loaded months are loaded again
    # Unlike a plan, a load tries months that may not be complete yet.
    planned = read_plan(settings, load, contents, months[-1].end + timedelta(days=settings.available_after_days))
    # A store may have a part of the globe only.
    if not planned.to_load or not (planned.load.is_global or is_all_of_a_place):
        return
    size = planned.bytes
    parts = [("download", size.download), ("raw files", size.raw), ("Parquet", size.parquet), ("table", size.table)]
    taken = ", ".join(f"{name} {decimal(round(figure.value))}" for name, figure in parts if figure.value)
    count = counted(len(planned.to_load), "month")
    what, less = "the whole globe", "for a part of the globe, give --area N/W/S/E"
    if is_all_of_a_place:
        what, less = f"all that {settings.source_name} has of {counted(load.locations, 'place')}", "for less, --from"
    typer.echo(
        f"This loads {what}: {count} ({spans(planned.to_load)}), {planned.size.rows:,} rows\n"
        f"      {taken}, about {spoken(planned.seconds.all)}, as era5 plan estimates; {less}",
        err=True,
    )
    if contents.months is None:
        typer.echo(f"      months that are loaded already are counted too: {contents.reason}", err=True)
    for warning in planned.warnings:
        typer.echo(f"warning: {warning}", err=True)
    typer.confirm("Load it?", abort=True, err=True)


def _place(text: str) -> str:
    """A folder as an absolute path, an S3 address unchanged: runs may have another current folder."""
    from pathlib import Path

    from era5_pipeline.runtime.object_store import is_s3

    return text if is_s3(text) else str(Path(text).expanduser().absolute())


def _load_failed(
    overrides: dict[str, Any],
    first: str | None,
    last: str | None,
    calendar_months: tuple[int, ...],
    *,
    as_json: bool,
    may_pass_over: bool,
) -> int:
    """Load the failed months (within the range and calendar months, if given) with their settings and `overrides`."""
    from era5_pipeline.cli.output import print_line
    from era5_pipeline.cli.run_months import import_dagster, run_months

    import_dagster()
    from era5_pipeline.defs.failures import failed_months
    from era5_pipeline.defs.instance.open_instance import open_instance
    from era5_pipeline.model.months import months_between
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import server_kept

    wanted = None if first is None else months_between(first, last)
    numbers = calendar_months or range(1, 13)
    present = read_settings(**overrides)
    with server_kept(present):  # for two looks at it
        with open_instance(present.home) as instance:
            found = failed_months(instance, present.wanted_dataset)
        found = [one for one in found if wanted is None or one.month in wanted]
        found = [one for one in found if one.month.month in numbers]
        for one in found:
            typer.echo(f"era5: {one.month} failed before: {one.reason.removeprefix(f'{one.month}: ')}", err=True)
        if not found:
            print_line("[]" if as_json else "no month's last attempt failed")
            return 0
        months = [(one.month, {**one.overrides, **overrides}) for one in found]
        # The settings of the first month; they only serve to show what is being loaded.
        settings = read_settings(**months[0][1])
        return run_months(settings, months, as_json=as_json, known_changed=True, may_pass_over=may_pass_over)


def _months(
    settings: "Settings",
    first: str | None,
    last: str | None,
    calendar_months: tuple[int, ...],
    now: "datetime",
    *,
    is_of_place: bool,
) -> "tuple[tuple[Month, ...], tuple[Month, ...]]":
    """The months to try, and all that were asked for: without a first one, also those that no file can serve."""
    from era5_pipeline.cli.folder_files import FolderReport
    from era5_pipeline.model.months import months_between, of_calendar_months
    from era5_pipeline.planning.offers import offered_months
    from era5_pipeline.sources.open_source import own_files_of, source_of

    source = source_of(settings)  # fail on missing settings before anything starts
    if first is None and is_of_place:
        months = of_calendar_months(offered_months(settings, now), calendar_months)
        return months, months
    if first is None:
        if (files := own_files_of(settings, source)) is None:
            raise UsageError(
                "no months to load are given", remedy="Give --from YYYY-MM, and --to YYYY-MM for more than one."
            )
        asked = of_calendar_months(files.months_of_files(), calendar_months)
        usable = frozenset(files.months())
        held = tuple(month for month in asked if month in usable)
        if not held:
            # The error, once the reasons of the files are printed.
            error, report = files.no_months(), FolderReport(files.use(asked, ()))
            report.print_reasons()
            if any(error.message.endswith(f": {problem.text}") for _, problem in report.use.passed_over):
                raise typer.Exit(error.exit_code)
            raise error
        return held, asked
    months = months_between(first, last, calendar_months)
    settings.wanted_dataset.require_months(months)
    months[-1].require_begun(now)
    return months, months
