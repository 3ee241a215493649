"""`python -m benchmarks` and `era5 bench`: measure here; make tables and figures of results."""

import os
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from typer.core import TyperCommand

from era5_pipeline.cli.options import known_dataset
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    import click

    from benchmarks.results import ResultsFile
    from benchmarks.suite import Suite

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    suggest_commands=False,  # click does
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Benchmarks of loading, and what they found as tables and figures.",
)


class _Run(TyperCommand):
    """Names all suites in its help; importing them takes seconds, which other commands need not wait for."""

    def format_help(self, ctx: "click.Context", formatter: "click.HelpFormatter") -> None:
        from benchmarks.suites import SUITES

        self.help = (self.help or "").replace("SUITES", ", ".join(suite.name for suite in SUITES))
        super().format_help(ctx, formatter)


_URL_HELP = (
    "Measure on this server, in databases that are created and dropped (default: ERA5_DATABASE_URL, else an embedded "
    "server for this run alone)."
)
_OWN = "default: each suite's own, as in benchmarks/README.md"
_WORKERS_HELP = "Numbers of connections (default: 1,2,4 up to twice the cores)."
_METHOD_HELP = "Suites insert, multi-insert, copy, tools: only this; repeatable."
_HELD_HELP = "Suites scale and ask (the most): months of the table."
_VARIABLES_HELP = "Suite layouts: measure months of these variables too."
_DASK_HELP = "Suite pipeline: flatten on this Dask cluster too, to compare."
_FILE_HELP = "The file of results (default: one in ERA5_HOME/benchmarks)."


@app.command("run", cls=_Run)
def run(
    suites: Annotated[list[str], typer.Argument(metavar="SUITE...")],
    *,
    database_url: Annotated[str | None, typer.Option(metavar="URL", help=_URL_HELP)] = None,
    rows: Annotated[int | None, typer.Option(min=744, help=f"Rows of one load ({_OWN}).")] = None,
    workers: Annotated[str | None, typer.Option(metavar="LIST", help=_WORKERS_HELP)] = None,
    repeats: Annotated[int | None, typer.Option(min=1, help=f"How often to measure each cell ({_OWN}).")] = None,
    method: Annotated[list[str] | None, typer.Option(metavar="NAME", help=_METHOD_HELP)] = None,
    batches: Annotated[int, typer.Option(min=2, help="Suite sustained: how many batches (744 in the study).")] = 60,
    held: Annotated[str, typer.Option(metavar="LIST", help=_HELD_HELP)] = "1,12,120,1020",
    variables: Annotated[str | None, typer.Option(metavar="LIST", help=_VARIABLES_HELP)] = None,
    dask_scheduler: Annotated[str | None, typer.Option(metavar="ADDRESS", help=_DASK_HELP)] = None,
    dataset: Annotated[
        str, typer.Option(metavar="NAME", callback=known_dataset, help="Suite pipeline: also this one, beside ERA5.")
    ] = "era5",
    months: Annotated[int, typer.Option(min=1, max=1020, help="Suite orchestration: months to backfill.")] = 24,
    failing: Annotated[int, typer.Option(min=0, max=100, help="Suite orchestration: months that fail first.")] = 0,
    json_file: Annotated[Path | None, typer.Option("--json", metavar="FILE", help=_FILE_HELP)] = None,
) -> None:
    """Measure, cell by cell, and go on where an earlier run with the same file ended.

    Suites: SUITES; or all.

    A cell has a new table, or a new server, and is measured in turns with the others of its suite. What cannot be
    measured here is null, with the reason. After every measurement the file is complete.

    \b
    Examples:
      era5 bench run all
      era5 bench run copy tools --database-url postgresql://postgres@localhost:5432/postgres
      era5 bench run limit --rows 3000000 --json limit.json
      era5 bench run sustained --batches 744
      era5 bench run pipeline --dask-scheduler tcp://127.0.0.1:8786
      era5 bench run pipeline --dataset era5-land
      era5 bench run ask --json ask.json
      era5 bench run reach --json reach.json
      era5 bench run orchestration --months 1020 --failing 2
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from pydantic import SecretStr
    from rich.console import Console

    from benchmarks.methods import require_known
    from benchmarks.results import ResultsFile, machine_name
    from benchmarks.run import run_plan
    from benchmarks.suite import BenchOptions
    from benchmarks.suites import find_suites
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.model.variables import find_variables
    from era5_pipeline.postgres.urls import normalized

    chosen = find_suites(suites)
    numbers = _numbers("--workers", workers, 64) if workers else _default_workers()
    names = tuple(method or ())
    require_known(names, numbers)
    if json_file is not None and not json_file.absolute().parent.is_dir():
        raise UsageError(
            f"--json: {json_file.parent} is not a folder", remedy="Create it first, or choose another file."
        )
    if failing > months:
        raise UsageError("--failing is more than --months", remedy="Give --failing a number up to that of --months.")
    settings = read_settings(dask_scheduler=dask_scheduler)
    given = SecretStr(database_url) if database_url is not None else settings.database_url
    options = BenchOptions(
        url=None if given is None else normalized(given.get_secret_value()),
        rows=rows,
        repeats=repeats,
        workers=numbers,
        batches=batches,
        held=_numbers("--held", held, 1020),
        variables=find_variables(variables) if variables else None,
        methods=names,
        dask_scheduler=dask_scheduler,
        dataset=dataset,
        months=months,
        failing=failing,
    )
    results = ResultsFile(json_file or settings.home / "benchmarks" / f"{machine_name()}.json")
    console = Console(stderr=True)
    say = partial(console.print, markup=False, highlight=False, soft_wrap=True)
    with console.status("planning") as status:
        try:
            run_plan(chosen, options, settings.home, results, say, status.update)
        finally:
            if results.path.exists():
                typer.echo(f"results: {results.path}", err=True)
    _print(results, chosen)


@app.command("report")
def report(
    folder: Annotated[Path, typer.Argument(help="It has results/DATE/MACHINE.json, as benchmarks.")] = Path(
        "benchmarks"
    ),
) -> None:
    """Make the tables and figures of the newest results in FOLDER, and fill the marked parts of documents beside it.

    Tables go to FOLDER/results.md, figures to FOLDER/figures. In README.md and docs/choosing.md beside it, the parts
    between `<!-- bench: NAME -->` and `<!-- end -->` are rewritten.

    \b
    Examples:
      era5 bench report
      era5 bench report ~/measured
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from benchmarks.report import write_report

    for path in write_report(folder):
        typer.echo(path)


def _numbers(option: str, text: str, most: int) -> tuple[int, ...]:
    """The numbers of a list such as `1,2,4`, ascending."""
    try:
        found = sorted({int(word) for word in text.split(",")})
    except ValueError:
        found = []
    if not found or found[0] < 1 or found[-1] > most:
        raise UsageError(f"{option}: {text!r} is not a list of numbers from 1 to {most}", remedy="For example: 1,2,4.")
    return tuple(found)


def _default_workers() -> tuple[int, ...]:
    most = max(2, 2 * (os.cpu_count() or 1))
    return tuple(count for count in (1, 2, 4, 8, 16, 32) if count <= most)


def _print(results: "ResultsFile", suites: "Sequence[Suite]") -> None:
    """Print the results of these suites by server."""
    from rich.box import SIMPLE
    from rich.console import Console
    from rich.table import Table

    from benchmarks.results import figure_of

    console = Console()
    console = console if console.is_terminal else Console(width=140)
    for suite in suites:
        found = [cell for cell in results.contents["cells"] if cell["suite"] == suite.name]
        for server in dict.fromkeys(cell["server"] for cell in found):
            columns = suite.name, "median", "repeats", "why not measured"
            table = Table(*columns, box=SIMPLE, title=f"{suite.summary}: {server}", title_justify="left")
            for cell in (cell for cell in found if cell["server"] == server):
                figure = "" if cell["reason"] else figure_of(cell)
                table.add_row(cell["name"], figure, str(len(cell["repeats"])), cell["reason"] or "")
            console.print(table)
            for kind in ("figures", "ratios"):
                for name, value in results.contents[kind].get(server, {}).get(suite.name, {}).items():
                    target = f" (target: at least {suite.at_least[name]})" if name in suite.at_least else ""
                    target = f" (target: at most {suite.at_most[name]})" if name in suite.at_most else target
                    typer.echo(f"{name}: {'null' if value is None else format(value, ',.6g')}{target}")
