"""`era5 bench`: the measurements of docs/performance.md, on this machine and server."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from era5_pipeline.bench.target import Target
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import Variable

bench = typer.Typer(no_args_is_help=True, help="Benchmarks of loading, with ratios measured in the same run.")

# The target (at least this much) of each ratio and figure, for the printed table.
_TARGETS = {
    "loader_to_limit": 0.95,
    "loader_to_psycopg_rows": 10,
    "loader_to_parallel_copy": 2,
    "columnstore_to_compress_chunk": 1.7,
    "columnstore_to_heap": 0.85,
    "two_workers_to_one": 1.4,
    "pipeline_rows_per_second": 1_000_000,
    "flatten_rows_per_second": 3_000_000,
}
# At most this much.
_LIMITS = {"seconds_per_month": 2.5}


@bench.callback()
def _group() -> None:
    """Keep `run` a subcommand although it is the only one."""


@bench.command("run")
def run(
    suite: Annotated[
        Literal["limit", "layouts", "pipeline", "orchestration"],
        typer.Argument(
            help="limit: compared with the fastest possible COPY; layouts: rate, space and read time of each; "
            "pipeline: all stages; orchestration: tiny months through Dagster's daemon and queue."
        ),
    ],
    *,
    rows: Annotated[int, typer.Option("--rows", min=744, help="Approximate number of rows per month.")] = 3_000_000,
    workers: Annotated[
        int, typer.Option("--workers", min=2, max=6, help="Connections per month, or months at once.")
    ] = 2,
    repeats: Annotated[int, typer.Option("--repeats", min=1, help="How many times to measure each item.")] = 3,
    variables: Annotated[
        str | None,
        typer.Option("--variables", metavar="LIST", help="Suite layouts: measure months of these variables too."),
    ] = None,
    dask_scheduler: Annotated[
        str | None,
        typer.Option(
            "--dask-scheduler", metavar="ADDRESS", help="Suite pipeline: flatten on this Dask cluster too, to compare."
        ),
    ] = None,
    months: Annotated[
        int, typer.Option("--months", min=1, max=1020, help="Suite orchestration: how many months to backfill.")
    ] = 24,
    failing: Annotated[
        int,
        typer.Option("--failing", min=0, max=100, help="Suite orchestration: months that fail first."),
    ] = 0,
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write all measurements to this file.")
    ] = None,
) -> None:
    """Measure loads of generated months in a new database, which is dropped afterwards.

    The server is the one of ERA5_DATABASE_URL, or the embedded one. Items that it cannot run are null, with the reason.

    \b
    Examples:
      era5 bench run limit --json limit.json
      era5 bench run layouts --rows 7440000
      era5 bench run pipeline --workers 2
      era5 bench run pipeline --dask-scheduler tcp://127.0.0.1:8786
      era5 bench run orchestration --months 1020 --failing 2
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from rich.console import Console

    from era5_pipeline.bench.environment import describe_environment
    from era5_pipeline.bench.target import new_target
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.model.variables import find_variables
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.runtime.scratch_folders import temporary_folder

    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise UsageError(
            f"--json: {json_file.parent} is not a folder", remedy="Create it first, or choose another file."
        )
    settings, wanted = read_settings(dask_scheduler=dask_scheduler), find_variables(variables) if variables else None
    if failing > months:
        raise UsageError("--failing: more months than --months", remedy="Let at most --months fail.")
    console = Console(stderr=True)
    if suite == "orchestration":
        _finish(_run_orchestration(settings, console, months=months, failing=failing), json_file)
        return
    with (
        open_warehouse(settings, create=True) as warehouse,
        new_target(warehouse) as target,
        temporary_folder(settings.home, "bench-") as folder,
        console.status("starting") as status,
    ):
        say = _teller(console, status)
        with target.connect() as connection:
            environment = describe_environment(connection, folder)
        measured = _run(
            suite,
            target,
            folder,
            rows=rows,
            workers=workers,
            repeats=repeats,
            say=say,
            variables=wanted,
            dask_scheduler=dask_scheduler,
        )
    _finish({"suite": suite, "rows": rows, "repeats": repeats, **measured, **environment}, json_file)


def _teller(console: "Console", status: "Status") -> Callable[[str], None]:
    """Return a callback that shows what is being done."""

    def say(text: str) -> None:
        status.update(text)
        if not console.is_terminal:
            typer.echo(text, err=True)

    return say


def _finish(result: dict[str, Any], json_file: Path | None) -> None:
    if json_file is not None:
        json_file.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    _print(result)


def _run_orchestration(settings: "Settings", console: "Console", *, months: int, failing: int) -> dict[str, Any]:
    """Run the suite on an embedded server of its own, or in a new database of the user's server."""
    from contextlib import ExitStack

    from era5_pipeline.bench.orchestration.orchestration_suite import run_orchestration
    from era5_pipeline.bench.target import new_target
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.runtime.scratch_folders import temporary_folder

    with ExitStack() as stack:
        url = None
        if settings.database_url is not None:
            warehouse = stack.enter_context(open_warehouse(settings))
            url = stack.enter_context(new_target(warehouse)).warehouse.url
        folder = stack.enter_context(temporary_folder(settings.home, "bench-"))
        say = _teller(console, stack.enter_context(console.status("starting")))
        measured = run_orchestration(folder, url, months=months, failing=failing, say=say)
    return {"suite": "orchestration", **measured}


def _run(
    suite: str,
    target: "Target",
    folder: Path,
    *,
    rows: int,
    workers: int,
    repeats: int,
    say: Callable[[str], None],
    variables: "tuple[Variable, ...] | None",
    dask_scheduler: str | None,
) -> dict[str, Any]:
    from era5_pipeline.bench.layout_suite import run_layouts
    from era5_pipeline.bench.limit_suite import run_limit
    from era5_pipeline.bench.pipeline_suite import run_pipeline

    if suite == "layouts":
        return run_layouts(target, folder, rows=rows, repeats=repeats, say=say, variables=variables)
    if suite == "limit":
        return run_limit(target, folder, rows=rows, workers=workers, repeats=repeats, say=say)
    return run_pipeline(
        target, folder, rows=rows, workers=workers, repeats=repeats, say=say, dask_scheduler=dask_scheduler
    )


def _print(result: dict[str, Any]) -> None:
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    console = Console()
    console = console if console.is_terminal else Console(width=120)
    cells = Table("measured", box=SIMPLE)
    for name in ("rows", "rows/s", "seconds"):
        cells.add_column(name, justify="right")
    cells.add_column("why not measured")
    for cell in result["cells"]:
        rate = cell["rows_per_second"]
        seconds = ", ".join(f"{value:.2f}" for value in cell["seconds"])
        cells.add_row(
            cell["name"],
            f"{cell['rows']:,}" if rate else "",
            f"{rate:,}" if rate else "",
            seconds,
            cell["reason"] or "",
        )
    if result["cells"]:
        console.print(cells)
    figures = Table("ratio or figure", box=SIMPLE)
    for name in ("value", "target"):
        figures.add_column(name, justify="right")
    for name, value in (*result["ratios"].items(), *result["figures"].items()):
        for label, number in _labelled(name, value):
            target = f">= {_TARGETS[name]:,}" if name in _TARGETS else f"<= {_LIMITS[name]}" if name in _LIMITS else ""
            figures.add_row(label, "null" if number is None else f"{number:,.6g}", target)
    console.print(figures)
    typer.echo(f"{result['server']['version']} on {result['machine']['cores']} cores, {result['machine']['processor']}")


def _labelled(name: str, value: Any) -> list[tuple[str, float | None]]:  # noqa: ANN401  # a number or None, or a dict of them
    if isinstance(value, dict):
        return [(f"{name}, {part}", number) for part, number in value.items()]
    return [(name, value)]
