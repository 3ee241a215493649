"""Months run one after another in this process: a row or a JSON object each, and what went wrong.

Here: what `era5 load` and `era5 revise` print. Not here: the work (`era5_pipeline.defs.runner`).
"""

import json
from typing import TYPE_CHECKING, Any

import typer

from era5_pipeline.cli.output import tell
from era5_pipeline.model.errors import InputError, MonthFailedError, SourceError, TransientError
from era5_pipeline.model.source_kinds import source_kind

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from era5_pipeline.defs.runner import MonthRun, Trouble
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings

    MonthAndOverrides = tuple[Month, Mapping[str, Any]]

_SERVICE_CODES = {MonthFailedError.exit_code, TransientError.exit_code}
# Months at each of which a service fails, one after another, before it is left alone.
_FAILED_IN_A_ROW = 3
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


def run_months(settings: "Settings", wanted: "Sequence[MonthAndOverrides]", *, as_json: bool) -> int:
    """Run the months, each with its own overrides of the settings; gives the exit code.

    Raises:
        Era5Error: if there is no database to be had.
        KeyboardInterrupt: if it was interrupted.
    """
    try:
        return _run(settings, wanted, as_json=as_json)
    except KeyboardInterrupt:
        typer.echo(
            "era5: interrupted\n      Months that were finished are loaded, the others are as they were. "
            "A request under way is kept: the same command takes it up.",
            err=True,
        )
        raise


def _run(settings: "Settings", wanted: "Sequence[MonthAndOverrides]", *, as_json: bool) -> int:
    import logging
    from collections import deque

    from rich.console import Console

    from era5_pipeline.cli.bars import stage_bars
    from era5_pipeline.defs.instance import open_instance
    from era5_pipeline.defs.runner import run_month
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.stages import request_ahead, unchanged_months

    # What libraries warn of (each try to reach a server that is down) would drown what we say.
    logging.getLogger().setLevel(logging.ERROR)
    logging.getLogger("era5_pipeline").setLevel(logging.WARNING)
    # Of a month that is skipped, it says of each check that it was not made.
    logging.getLogger("dagster._core.execution.plan.active").setLevel(logging.ERROR)
    console = Console(stderr=True)
    if source_kind(settings.source_name).is_generated:
        console.print(f"source {settings.source_name}: generated data, not ERA5", style="yellow", highlight=False)
    runs: list[MonthRun] = []
    with open_warehouse(settings, create=True) as warehouse:
        console.print(
            f"loading {_described(settings, wanted)} into {warehouse.shown}",
            style="dim",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )
        with console.status("looking what is there already"):
            unchanged = unchanged_months(settings, warehouse, tuple(month for month, _ in wanted))
        if not as_json:
            _print_row(name for name, _ in _COLUMNS)
        with open_instance(settings.home) as instance:
            todo = deque(one for one in wanted if one[0] not in unchanged or one[1].get("refetch"))
            for month, overrides in wanted:
                if _is_service_down(runs):
                    break
                if not todo or month != todo[0][0]:
                    if not as_json:
                        _print_row((str(month), "unchanged"))
                    continue
                todo.popleft()
                # Two in the queue, as in a backfill; only once the service has given something.
                if todo and any("raw" in run.facts for run in runs[-1:]):
                    request_ahead(read_settings(**todo[0][1]), todo[0][0])
                with stage_bars(console, str(month)):
                    run = run_month(instance, month, overrides=overrides)
                runs.append(run)
                if not as_json:
                    _print_run(run)
    if as_json:
        tell(json.dumps([_as_json(month, runs, unchanged) for month, _ in wanted], indent=1))
    elif not runs:
        tell("nothing changed: the table holds these months as the source has them (--force does them again)")
    untried = [month for month, _ in wanted if month not in unchanged and month not in {run.month for run in runs}]
    return _report(settings, runs, untried)


def _is_service_down(runs: "Sequence[MonthRun]") -> bool:
    """Whether the service would refuse the other months as well: it said so, or failed at several in a row."""
    last = [{trouble.exit_code for trouble in run.trouble} for run in runs[-_FAILED_IN_A_ROW:]]
    is_refused = bool(last) and SourceError.exit_code in last[-1]
    return is_refused or (len(last) == _FAILED_IN_A_ROW and all(codes & _SERVICE_CODES for codes in last))


def _print_row(cells: "Iterator[str] | tuple[str, ...]") -> None:
    widths = [width for _, width in _COLUMNS]
    padded = (
        cell.ljust(width) if i < 2 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )
    tell("  ".join(padded).rstrip())


def _print_run(run: "MonthRun") -> None:
    if run.skipped:
        _print_row((str(run.month), "skipped"))
        typer.echo(f"era5: {run.skipped}", err=True)
        return
    if run.trouble and "weather" not in run.facts:
        _print_row((str(run.month), "failed"))
        return
    raw, flat, weather = (run.facts[stage] for stage in ("raw", "flat", "weather"))
    _print_row(
        (
            str(run.month),
            _state(weather),
            f"{weather['rows']:,}",
            f"{weather['hours']}/{weather['hours_expected']}",
            f"{raw['seconds']:.2f}",
            f"{flat['seconds']:.2f}",
            f"{weather['seconds']:.2f}",
            f"{weather['rows_per_second']:,.0f}",
        )
    )
    if weather["replaced_rows"] and weather["changed"]:
        changed = ", ".join(weather["columns_changed"] or ())
        differs = f"; what differs: {changed}" if changed else ""
        tell(f"         replaced {weather['replaced_rows']:,} rows that the month held before{differs}")
    elif weather["confirmed"]:
        tell(f"         the values are those that the table holds: {weather['version']} now, nothing was replaced")


def _described(settings: "Settings", wanted: "Sequence[MonthAndOverrides]") -> str:
    """What is asked for, where it is the same for all months."""
    asked = {(overrides.get("area"), overrides.get("variables")) for _, overrides in wanted}
    if not asked <= {(None, None), (settings.area, settings.variables)}:
        return f"from {settings.source_name}"
    variables, area = settings.wanted_variables, settings.wanted_area
    named = "all variables" if variables is None else ", ".join(variable.column for variable in variables)
    kind = source_kind(settings.source_name)
    where = str(area or kind.default_area)
    if area is None and kind.is_service:
        where = "the globe"
    elif area is None and kind.has_own_files:
        where = "all that the files hold"
    return f"from {settings.source_name} ({named}, {where})"


def _state(weather: "Mapping[str, Any]") -> str:
    if weather["confirmed"]:
        return "confirmed"
    # Another command was quicker.
    return "unchanged" if weather["state"] == "loaded" and not weather["changed"] else str(weather["state"])


def _as_json(month: "Month", runs: "Sequence[MonthRun]", unchanged: "Collection[Month]") -> dict[str, Any]:
    run = next((run for run in runs if run.month == month), None)
    if run is None:
        return {"month": str(month), "state": "unchanged" if month in unchanged else "not tried"}
    weather = run.facts.get("weather", {})
    return {
        "month": str(month),
        "state": weather.get("state", "skipped" if run.skipped else "failed"),
        "skipped": run.skipped,
        "run_id": run.run_id,
        "rows": weather.get("rows", 0),
        "hours": weather.get("hours", 0),
        "hours_expected": month.hours,
        "seconds": {stage: facts["seconds"] for stage, facts in run.facts.items()},
        "rows_per_second": weather.get("rows_per_second"),
        "errors": [{"message": t.message, "remedy": t.remedy, "exit_code": t.exit_code} for t in run.trouble],
    }


def _report(settings: "Settings", runs: "Sequence[MonthRun]", untried: "Sequence[Month]") -> int:
    """Say on stderr what went wrong, each thing once; gives the exit code."""
    from era5_pipeline.model.months import spans
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
    if untried:
        typer.echo(f"era5: not tried: {spans(untried)}", err=True)
    if trouble:
        return trouble[0].exit_code
    return InputError.exit_code if any(p.kind != "nothing" for p in strays) else 0
