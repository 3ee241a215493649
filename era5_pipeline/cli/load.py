"""`era5 load`: months through the Dagster assets, a row per month.

Here: options, which months, what is printed. Not here: the work (`era5_pipeline.defs.runner`).
"""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from era5_pipeline.errors import InputError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from era5_pipeline.defs.runner import MonthRun, Trouble
    from era5_pipeline.months import Month
    from era5_pipeline.settings import Settings

_COLUMNS = (
    ("month", 7),
    ("state", 10),
    ("rows", 12),
    ("hours", 9),
    ("raw s", 7),
    ("flat s", 7),
    ("load s", 7),
    ("rows/s", 10),
)


def load(
    *,
    from_: Annotated[
        str | None,
        typer.Option("--from", metavar="YYYY-MM", help="First month.", show_default="all the files hold"),
    ] = None,
    to: Annotated[
        str | None, typer.Option("--to", metavar="YYYY-MM", help="Last month.", show_default="the first one")
    ] = None,
    source: Annotated[
        Literal["files", "sample"] | None,
        typer.Option("--source", help="Where months come from.", show_default="files with --files-dir, else sample"),
    ] = None,
    files_dir: Annotated[
        list[Path] | None,
        typer.Option("--files-dir", metavar="DIR", help="A folder of ERA5 files; may be repeated."),
    ] = None,
    variables: Annotated[
        str | None,
        typer.Option(
            "--variables",
            metavar="A,B",
            help="Variables each month must have.",
            show_default="what the source holds",
        ),
    ] = None,
    area: Annotated[
        str | None,
        typer.Option("--area", metavar="N/W/S/E", help="Only this rectangle, in degrees; or global."),
    ] = None,
    format_: Annotated[
        Literal["parquet", "csv"] | None,
        typer.Option("--format", help="What flat months are written as.", show_default="parquet"),
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
            help="Connections that share out each month; hypertables take one.",
            show_default="1",
        ),
    ] = None,
    allow_incomplete: Annotated[
        bool,
        typer.Option("--allow-incomplete", help="Load months that lack hours, variables or values in places."),
    ] = False,
    force: Annotated[
        bool,
        typer.Option("--force", help="Do months again where nothing changed; let sample replace real data."),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print a JSON list of what was done to each month.")] = False,
) -> None:
    """Load months into the table weather: raw files, flat file, table, each checked.

    A month is replaced as a whole, in one transaction. Months that did not change are left alone.

    \b
    Examples:
      era5 load --from 2023-01 --to 2023-12 --source files --files-dir ~/era5
      era5 load --files-dir ~/era5
      era5 load --from 2023-09 --files-dir ~/era5 --allow-incomplete
      era5 load --from 2024-01 --source sample --area -5/106/-8/108
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    import os

    from era5_pipeline.settings import read_settings

    overrides: dict[str, Any] = {
        "source": source or ("files" if files_dir else None),
        "files_dir": os.pathsep.join(str(path.expanduser().absolute()) for path in files_dir) if files_dir else None,
        "variables": variables,
        "area": area,
        "format": format_,
        "allow_incomplete": allow_incomplete or None,
        "force": force or None,
        "workers": workers,
        "sample_hours": sample_hours,
    }
    overrides = {name: value for name, value in overrides.items() if value is not None}
    settings = read_settings(**overrides)
    months = _months(settings, from_, to)
    try:
        code = _load(settings, months, overrides, as_json=as_json)
    except KeyboardInterrupt:
        typer.echo(
            "era5: interrupted\n      Months that were finished are loaded, the others are as they were.", err=True
        )
        raise
    raise typer.Exit(code)


def _months(settings: "Settings", first: str | None, last: str | None) -> "tuple[Month, ...]":
    from datetime import UTC, datetime

    from era5_pipeline.months import Month, month_range
    from era5_pipeline.sources.files import FilesSource
    from era5_pipeline.stages import source_of

    source = source_of(settings)  # says what it lacks before anything is started
    if first is None:
        if last is not None:
            raise UsageError("--to was given without --from", remedy="Give the first month too: --from YYYY-MM.")
        if not isinstance(source, FilesSource):
            raise UsageError("which months?", remedy="Give --from YYYY-MM, and --to YYYY-MM for more than one.")
        held = source.months()
        if not held:
            problems = source.problems()
            raise InputError(
                str(problems[0]) if problems else f"{settings.files_dir}: no ERA5 file was found there",
                remedy=problems[0].remedy if problems else "Give --files-dir the folder of your ERA5 files.",
            )
        return held
    months = tuple(month_range(Month.parse(first), Month.parse(last or first)))
    months[-1].require_begun(datetime.now(tz=UTC))
    return months


def _load(settings: "Settings", months: "Sequence[Month]", overrides: dict[str, Any], *, as_json: bool) -> int:
    import logging

    from rich.console import Console

    from era5_pipeline.cli.bars import stage_bars
    from era5_pipeline.defs.instance import open_instance
    from era5_pipeline.defs.runner import run_month
    from era5_pipeline.stages import unchanged_months
    from era5_pipeline.warehouse.connect import open_warehouse

    # What libraries warn of (each try to reach a server that is down) would drown what we say.
    logging.getLogger().setLevel(logging.ERROR)
    logging.getLogger("era5_pipeline").setLevel(logging.WARNING)
    console = Console(stderr=True)
    if settings.source_name == "sample":
        console.print("source sample: generated data, not ERA5", style="yellow", highlight=False)
    runs: list[MonthRun] = []
    with open_warehouse(settings, create=True) as warehouse:
        console.print(f"loading into {warehouse.shown}", style="dim", highlight=False, soft_wrap=True)
        with console.status("looking what is there already"):
            unchanged = unchanged_months(settings, warehouse, tuple(months))
        if not as_json:
            _print_row(name for name, _ in _COLUMNS)
        with open_instance(settings.home) as instance:
            for month in months:
                if month in unchanged:
                    if not as_json:
                        _print_row((str(month), "unchanged"))
                    continue
                with stage_bars(console, str(month)):
                    run = run_month(instance, month, overrides=overrides)
                runs.append(run)
                if not as_json:
                    _print_run(run)
    if as_json:
        typer.echo(json.dumps([_as_json(month, runs) for month in months], indent=1))
    elif not runs:
        typer.echo("nothing changed: the table holds these months as the source has them (--force does them again)")
    return _report(settings, runs)


def _print_row(cells: "Iterator[str] | tuple[str, ...]") -> None:
    widths = [width for _, width in _COLUMNS]
    padded = (
        cell.ljust(width) if i < 2 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )
    typer.echo("  ".join(padded).rstrip())


def _print_run(run: "MonthRun") -> None:
    if run.trouble and "weather" not in run.facts:
        _print_row((str(run.month), "failed"))
        return
    raw, flat, weather = (run.facts[stage] for stage in ("raw", "flat", "weather"))
    _print_row(
        (
            str(run.month),
            weather["state"],
            f"{weather['rows']:,}",
            f"{weather['hours']}/{weather['hours_expected']}",
            f"{raw['seconds']:.2f}",
            f"{flat['seconds']:.2f}",
            f"{weather['seconds']:.2f}",
            f"{weather['rows_per_second']:,.0f}",
        )
    )
    if weather["replaced_rows"] and weather["changed"]:
        typer.echo(f"         replaced {weather['replaced_rows']:,} rows that the month held before")


def _as_json(month: "Month", runs: "Sequence[MonthRun]") -> dict[str, Any]:
    run = next((run for run in runs if run.month == month), None)
    if run is None:
        return {"month": str(month), "state": "unchanged"}
    weather = run.facts.get("weather", {})
    return {
        "month": str(month),
        "state": weather.get("state", "failed"),
        "run_id": run.run_id,
        "rows": weather.get("rows", 0),
        "hours": weather.get("hours", 0),
        "hours_expected": month.hours,
        "seconds": {stage: facts["seconds"] for stage, facts in run.facts.items()},
        "rows_per_second": weather.get("rows_per_second"),
        "errors": [{"message": t.message, "remedy": t.remedy, "exit_code": t.exit_code} for t in run.trouble],
    }


def _report(settings: "Settings", runs: "Sequence[MonthRun]") -> int:
    """Say on stderr what went wrong, each thing once; gives the exit code."""
    from era5_pipeline.stages import stray_problems

    trouble: list[Trouble] = [t for run in runs for t in run.trouble]
    said = set()
    for t in trouble:
        if t not in said:
            typer.echo(f"era5: {t.message}\n      {t.remedy}", err=True)
            said.add(t)
    strays = [p for p in stray_problems(settings) if not any(str(p) in t.message for t in trouble)]
    for problem in strays:
        verb = "passed over" if problem.kind == "nothing" else "could not be used, whichever month it was for"
        typer.echo(f"era5: {problem} ({verb})\n      {problem.remedy}", err=True)
    if trouble:
        return trouble[0].exit_code
    return InputError.exit_code if any(p.kind != "nothing" for p in strays) else 0
