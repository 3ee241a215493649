"""Run months one after another in this process, and print a row or a JSON object for each, with its errors.

The output of `era5 load` and `era5 revise`; the work is in `era5_pipeline.defs.runner`.
"""

import json
import shlex
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from era5_pipeline.cli.output import by_cause, grouped_problems, print_line, terminal
from era5_pipeline.model.errors import TransientError
from era5_pipeline.model.grid import points_text
from era5_pipeline.model.months import calendar_months_of
from era5_pipeline.model.settings import split_places
from era5_pipeline.model.source_kinds import ORIGIN_TEXTS, source_kind
from era5_pipeline.model.variables import ALL_NAME
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

    from rich.console import Console

    from era5_pipeline.cli.folder_files import FolderReport
    from era5_pipeline.defs.runner import MonthRun
    from era5_pipeline.model.errors import Era5Error
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.stages import LoadResult

    MonthAndOverrides = tuple[Month, Mapping[str, Any]]

_R = TypeVar("_R")
# Before another attempt to look at the warehouse: a server needs some seconds to recover from a crash.
_PAUSES_SECONDS = (1, 5, 10)
# The most refused months that Dagster records as failed: a record takes a tenth of a second.
_RECORDED_IN_DAGSTER = 12
# The most replaced parts that are named.
_SHOWN_PARTS = 3
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


def run_months(
    settings: "Settings",
    wanted: "Sequence[MonthAndOverrides]",
    *,
    as_json: bool,
    known_changed: bool = False,
    asked: "Collection[Month] | None" = None,
    may_pass_over: bool = False,
) -> int:
    """Run the months, each with its own overrides of the settings; return the exit code.

    Months that the user's own files cannot serve are refused before any is run.

    `known_changed`: also run months for which the table holds what the source has. `asked`: all months that were asked
    for, those too that no usable file has; None: those wanted. `may_pass_over`: files passed over are no error.
    """
    from era5_pipeline.cli.folder_files import FolderReport

    try:
        with terminal(stderr=True).status("looking at the files"):
            folder = FolderReport.of(settings, wanted, asked)
        folder.print_reasons()
        done, unchanged = _run(settings, wanted, folder, as_json=as_json, known_changed=known_changed)
    except KeyboardInterrupt:
        typer.echo(
            "era5: interrupted\n      Finished months are loaded, the others are unchanged. "
            "A pending request is kept: run the same command again to resume it.",
            err=True,
        )
        raise
    if as_json:
        results = [
            _refused_as_json(month, folder.errors_of(n))
            if n in folder.refused
            else _as_json(month, done.get(n), unchanged)
            for n, (month, _) in enumerate(wanted)
        ]
        print_line(json.dumps([*results, *folder.passed_over_as_json()], indent=1))
    elif not done and len(wanted) > len(folder.refused):
        print_line(
            "nothing changed: by the ledger, these months were loaded from what the source has now "
            "(era5 verify looks at the table itself, --force loads them again)"
        )
    runs = list(done.values())
    tried = {run.month for run in runs}
    due = [month for n, (month, _) in enumerate(wanted) if n not in folder.refused]
    not_tried = [month for month in due if month not in unchanged and month not in tried]
    code_of_runs = _report(settings, runs, not_tried)
    states = {
        **dict.fromkeys(unchanged, "unchanged"),
        **{run.month: "failed" if run.errors else "used" for run in runs},
    }
    folder.print_counts(states)
    held = {run.month for run in runs if not run.errors} | set(unchanged)
    if (besides := _describe_unrequested_columns(settings, [one for one in wanted if one[0] in held])) is not None:
        typer.echo(besides, err=True)
    return folder.code or code_of_runs or (0 if may_pass_over else folder.code_of_passed_over)


def _run(
    settings: "Settings",
    wanted: "Sequence[MonthAndOverrides]",
    folder: "FolderReport",
    *,
    as_json: bool,
    known_changed: bool,
) -> "tuple[Mapping[int, MonthRun], Collection[Month]]":
    """Run the months that are due; return the runs by position in `wanted`, and the months that are unchanged.

    The months that `folder` refuses are recorded as failed: for `era5 status`, and for `era5 load --failed` if they are
    few. Those that lack hours are refused here, when it is known which months are unchanged.
    """
    from era5_pipeline.postgres.connect import open_warehouse

    _quiet_libraries()
    console = terminal(stderr=True)
    if source_kind(settings.source_name).is_generated:
        console.print(f"source {settings.source_name}: generated data, not ERA5", style="yellow", highlight=False)
    due = [n for n in range(len(wanted)) if n not in folder.refused]
    with open_warehouse(settings, create=True) as warehouse:
        if due:
            console.print(
                f"loading {_described(settings, [wanted[n] for n in due])} into {warehouse.shown}",
                style="dim",
                highlight=False,
                markup=False,
                soft_wrap=True,
            )
        with console.status("checking which months are already loaded"):
            of_due = () if known_changed else tuple(wanted[n][0] for n in due)
            unchanged = _repeated_if_lost(lambda: _prepare(settings, warehouse, of_due))
        folder.refuse_lacking(unchanged)
        if refused := [(*wanted[n], folder.errors_of(n)[0]) for n in folder.refused]:
            with console.status("recording the months that are refused"):
                _record_refused(settings, warehouse, refused)
        due = [n for n in due if n not in folder.refused]
        months = [wanted[n] for n in due]
        if not due:
            return {}, unchanged
        if not as_json:
            _print_row(name for name, _ in _COLUMNS)

        def on_unchanged(month: "Month") -> None:
            if not as_json:
                _print_row((str(month), "unchanged"))

        done: Mapping[int, MonthRun] = {}
        if all(month in unchanged and not overrides.get("refetch") for month, overrides in months):
            # Importing Dagster takes most of the time when nothing is done.
            for month, _ in months:
                on_unchanged(month)
        else:
            done = _run_in_turn(settings, months, unchanged, console, on_unchanged, as_json=as_json)
    return {due[n]: run for n, run in done.items()}, unchanged


def _prepare(settings: "Settings", warehouse: "Warehouse", months: "Sequence[Month]") -> "frozenset[Month]":
    """Bring the tables to this version, and require the privileges to load; return which of `months` are unchanged."""
    from era5_pipeline.planning.current_contents import unchanged_months
    from era5_pipeline.warehouse.attempts import settle_failures
    from era5_pipeline.warehouse.schema import require_may_load, upgrade_schema

    with warehouse.connect() as connection:
        upgrade_schema(connection)  # the plan reads its tables
        require_may_load(connection)
    unchanged = unchanged_months(settings, warehouse, tuple(months)) if months else frozenset()
    if unchanged:
        with warehouse.connect() as connection:
            settle_failures(connection, unchanged)
    return unchanged


def _record_refused(
    settings: "Settings",
    warehouse: "Warehouse",
    refused: "Sequence[tuple[Month, Mapping[str, Any], Era5Error]]",
) -> None:
    """Record that the last attempt to load each month failed; in Dagster, too, if they are few."""
    from era5_pipeline.postgres.server_errors import server_errors
    from era5_pipeline.warehouse.attempts import record_failure
    from era5_pipeline.warehouse.schema import ensure_schema

    def record() -> None:
        with warehouse.connect() as connection:
            ensure_schema(connection)  # these may be the very first months
            with server_errors("recording failures"), connection.transaction():
                for month, _, error in refused:
                    record_failure(connection, month, " ".join(error.message.split()))

    _repeated_if_lost(record)
    if len(refused) <= _RECORDED_IN_DAGSTER:
        import_dagster()
        from era5_pipeline.defs.instance.open_instance import open_instance
        from era5_pipeline.defs.runner import record_refused

        with open_instance(settings.home) as instance:
            for one in refused:
                record_refused(instance, *one)


def _run_in_turn(
    settings: "Settings",
    wanted: "Sequence[MonthAndOverrides]",
    unchanged: "Collection[Month]",
    console: "Console",
    on_unchanged: "Callable[[Month], None]",
    *,
    as_json: bool,
) -> "Mapping[int, MonthRun]":
    """Run the months that are due; return the runs by their position in `wanted`."""
    import logging

    from era5_pipeline.cli.bars import stage_bars

    import_dagster()
    from era5_pipeline.defs.instance.dagster_internals import STEP_LOGGER
    from era5_pipeline.defs.instance.open_instance import open_instance
    from era5_pipeline.defs.runner import MonthRunner

    logging.getLogger(STEP_LOGGER).setLevel(logging.ERROR)
    with ExitStack() as stack:
        instance = _repeated_if_lost(lambda: stack.enter_context(open_instance(settings.home)))
        turn = MonthRunner(
            instance,
            wanted,
            unchanged,
            around=lambda month: stage_bars(console, str(month)),
            on_run=lambda run: None if as_json else _print_run(run),
            on_unchanged=on_unchanged,
        )
        turn.run()
    return turn.done


def _repeated_if_lost(call: "Callable[[], _R]") -> "_R":
    """Return the result of a call that changes nothing; repeat it if the connection was lost, as loads are."""
    from era5_pipeline.postgres.server_errors import lost_connections

    for pause in _PAUSES_SECONDS:
        try:
            with lost_connections("preparing the load"):
                return call()
        except TransientError as error:
            if type(error) is not TransientError:  # of a store of files, which was waited for
                raise
            typer.echo(f"era5: {error.message}: trying again in {pause} s", err=True)
            time.sleep(pause)
    return call()


def import_dagster() -> None:
    """Import what runs of months need, unless this process has already.

    Meanwhile the garbage collector rests, and afterwards ignores what was imported: it would go over half a million
    objects again and again that stay until the end, a quarter of the time that a short load takes.
    """
    import gc
    import sys

    if "dagster" in sys.modules or not gc.isenabled():
        return
    gc.disable()
    try:
        import era5_pipeline.defs.instance.open_instance
        import era5_pipeline.defs.runner  # noqa: F401
    finally:
        gc.freeze()
        gc.enable()


def _quiet_libraries() -> None:
    """Silence warnings of libraries (such as each attempt to reach a server that is down), which would bury ours."""
    import logging

    logging.basicConfig(format="%(message)s")  # else a library sets a format, which has a prefix
    logging.getLogger().setLevel(logging.ERROR)
    logging.getLogger("era5_pipeline").setLevel(logging.WARNING)


def _print_row(cells: "Iterator[str] | tuple[str, ...]") -> None:
    widths = [width for _, width in _COLUMNS]
    padded = (
        cell.ljust(width) if i < 2 else cell.rjust(width)
        for i, (cell, width) in enumerate(zip(cells, widths, strict=False))
    )
    print_line("  ".join(padded).rstrip())


def _print_run(run: "MonthRun") -> None:
    from era5_pipeline.defs.metadata import per_second

    if run.skipped:
        _print_row((str(run.month), "skipped"))
        typer.echo(f"era5: {run.skipped}", err=True)
        return
    raw, load = run.results.raw, run.results.load
    if raw is None or load is None:
        _print_row((str(run.month), "failed"))
        return
    flat, loaded = load.flat, load.loaded
    _print_row(
        (
            str(run.month),
            _state(load),
            f"{loaded.rows:,}",
            f"{flat.hours}/{flat.hours_expected}",
            f"{raw.seconds:.2f}",
            f"{flat.seconds:.2f}",
            f"{loaded.seconds:.2f}",
            f"{per_second(loaded.rows, loaded.seconds):,.0f}",
        )
    )
    if flat.shift is not None:
        print_line(f"         {flat.shift.text}")
    if flat.origin in ORIGIN_TEXTS:
        print_line(f"         {ORIGIN_TEXTS[flat.origin]}")
    for column in flat.columns:
        if column.warning is not None:
            typer.echo(f"era5: {run.month}: {column.warning}", err=True)
    if loaded.replaced:
        changed = ", ".join(loaded.columns_changed or ())
        print_line(
            f"         replaced {counted(loaded.replaced_rows, 'row')}{f'; what differs: {changed}' if changed else ''}"
        )
        for part in loaded.replaced[:_SHOWN_PARTS]:
            print_line(f"           {part}")
        if len(loaded.replaced) > _SHOWN_PARTS:
            print_line(f"           and of {len(loaded.replaced) - _SHOWN_PARTS} other parts (--json has all)")
    if loaded.kept_columns:
        named = flat.raw.dataset.catalogue.named_columns
        print_line(f"         {named(flat.column_names)} written; kept {named(loaded.kept_columns)}")
    if loaded.kept_locations:
        they_were = "it was" if loaded.kept_locations == 1 else "they were"
        print_line(f"         kept {counted(loaded.kept_locations, 'other place')} of the month as {they_were}")
    if loaded.confirmed:
        print_line(f"         {_confirmed(load)}")


def _confirmed(load: "LoadResult") -> str:
    held = load.loaded.confirmation
    if held is None:
        return f"same values as in the table: the month is {load.flat.version} now, nothing was replaced"
    return (
        f"same values as in the table but for a quantum: the month stays from {' and '.join(held.sources)}, and is "
        f"{held.version} now, confirmed by {held.confirmed}"
    )


def _described(settings: "Settings", wanted: "Sequence[MonthAndOverrides]") -> str:
    """Source, variables and area of the load; the source alone if the months differ."""
    asked = {tuple(overrides.get(name) for name in ("area", "point", "variables")) for _, overrides in wanted}
    if not asked <= {(None, None, None), (settings.area, settings.point, settings.variables)}:
        return f"from {settings.source_name}"
    variables, area = settings.wanted_variables, settings.wanted_area
    catalogue = settings.wanted_dataset.catalogue
    named = "default variables"
    if variables is not None:
        named = catalogue.named_columns(variable.column for variable in variables)
    if variables == catalogue.variables:
        named = "all variables"
    kind = source_kind(settings.source_name)
    where = str(area or kind.default_area)
    if kind.is_series:
        where = f"point {points_text(settings.wanted_points)}"
    elif area is None and kind.is_chunked:
        where = f"all places of the store {'' if kind.is_known_store else settings.zarr_url}".rstrip()
    elif kind.is_chunked:
        where = f"{area}" if kind.is_known_store else f"{area}, store {settings.zarr_url}"
    elif area is None and kind.is_service:
        where = "the globe"
    elif area is None and kind.has_own_files:
        where = "all places that the files hold"
    return f"from {' and '.join(settings.source_names)} ({named}, {where})"


def _describe_unrequested_columns(settings: "Settings", wanted: "Sequence[MonthAndOverrides]") -> str | None:
    """Name the variables in the user's files beyond the default ones, with the command to load them; None: none."""
    from era5_pipeline.sources.open_source import source_of, unrequested_columns

    if not wanted or not source_kind(settings.source_name).has_own_files:
        return None
    source, months = source_of(settings), [month for month, _ in wanted]
    besides = unrequested_columns(settings, source, months)
    if not besides:
        return None
    # A named variable must be in every month.
    is_in_all = all(unrequested_columns(settings, source, (month,)) == besides for month in months)
    names = settings.wanted_dataset.catalogue.variable_names(besides)
    command = _load_command(months, wanted[0][1], names if is_in_all else ALL_NAME)
    said = names.replace(",", ", ")
    return f"era5: the files also hold {said}, which a load without --variables leaves out; to load them: {command}"


def _load_command(months: "Sequence[Month]", overrides: "Mapping[str, Any]", variables: str) -> str:
    """The command that loads these variables of the months, with the options of this command."""
    words = ["era5", "load", "--from", str(min(months))]
    words += ["--to", str(max(months))] if len(months) > 1 else []
    if numbers := calendar_months_of(sorted(set(months))):
        words += ["--calendar-month", ",".join(map(str, numbers))]
    for name in ("dataset", "source", "files_dir", "area", "off_grid", "accumulation"):
        value = overrides.get(name)
        parts = split_places(value) if name == "files_dir" and value else [value]
        words += [word for part in parts if part for word in (f"--{name.replace('_', '-')}", part)]
    for name in ("allow_incomplete", "sparse_hours", "trust_files"):
        words += [f"--{name.replace('_', '-')}"] if overrides.get(name) else []
    return shlex.join([*words, "--variables", variables])


def _state(load: "LoadResult") -> str:
    if load.loaded.confirmed:
        return "confirmed"
    state = load.flat.state
    # Another command has loaded the month in the meantime.
    return "unchanged" if state == "loaded" and not load.loaded.changed else state


def _as_json(month: "Month", run: "MonthRun | None", unchanged: "Collection[Month]") -> dict[str, Any]:
    from dataclasses import asdict

    from era5_pipeline.defs.metadata import per_second

    if run is None:
        return {"month": str(month), "state": "unchanged" if month in unchanged else "not tried"}
    raw, flat, load = run.results.raw, run.results.flat, run.results.load
    seconds = {
        "raw": raw.seconds if raw else None,
        "flat": flat.flat.seconds if flat else None,
        "weather": load.loaded.seconds if load else None,
    }
    return {
        "month": str(month),
        "state": load.flat.state if load else "skipped" if run.skipped else "failed",
        "skipped": run.skipped,
        "run_id": run.run_id,
        "rows": load.loaded.rows if load else 0,
        "hours": load.flat.hours if load else 0,
        "hours_expected": month.hours,
        "seconds": {stage: round(value, 3) for stage, value in seconds.items() if value is not None},
        "rows_per_second": per_second(load.loaded.rows, load.loaded.seconds) if load else None,
        "replaced": [asdict(part) for part in load.loaded.replaced] if load else [],
        "interpolated": asdict(load.flat.shift) if load and load.flat.shift else None,
        "origin": load.flat.origin if load else None,
        "warnings": list(load.flat.warnings) if load else [],
        "confirmed": load.loaded.confirmed if load else False,
        "kept_locations": load.loaded.kept_locations if load else 0,
        "kept_variables": list(load.loaded.kept_columns) if load else [],
        "errors": [asdict(error) for error in run.errors],
    }


def _refused_as_json(month: "Month", errors: "Sequence[Era5Error]") -> dict[str, Any]:
    """A month that is refused before it is run: a failure without a run."""
    said = [{"message": one.message, "remedy": one.remedy, "exit_code": one.exit_code} for one in errors]
    return {
        "month": str(month),
        "state": "failed",
        "run_id": None,
        "rows": 0,
        "hours": 0,
        "hours_expected": month.hours,
        "errors": said,
    }


def _report(settings: "Settings", runs: "Sequence[MonthRun]", not_tried: "Sequence[Month]") -> int:
    """Print the errors on stderr, each once; return the exit code."""
    from era5_pipeline.model.months import spans
    from era5_pipeline.sources.files import LEFT_OUT

    errors = [error for run in runs for error in run.errors]
    by_remedy: dict[str, list[tuple[Month, str]]] = {}
    for run in runs:
        for error in run.errors:
            by_remedy.setdefault(error.remedy, []).append((run.month, error.message))
    problems = ((f"era5: {text}", remedy) for remedy, said in by_remedy.items() for text in by_cause(said))
    for text in grouped_problems(problems):
        typer.echo(text, err=True)
    said = {warning for run in runs if run.results.raw is not None for warning in run.results.raw.raw.warnings}
    if not source_kind(settings.source_name).states_no_version:
        said = {warning for warning in said if warning.startswith(LEFT_OUT)}  # files passed over are told already
    for warning in sorted(said):
        typer.echo(f"era5: {warning}", err=True)
    if not_tried:
        typer.echo(f"era5: not tried: {spans(not_tried)}", err=True)
    return errors[0].exit_code if errors else 0
