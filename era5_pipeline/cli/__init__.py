"""The command `era5`: one module per command, and the reporting of errors."""

from __future__ import annotations

import errno
import gc
import logging
import os
import signal
import sys
import warnings
from typing import TYPE_CHECKING

import typer

from era5_pipeline.cli.bench import bench
from era5_pipeline.cli.climate import climate
from era5_pipeline.cli.compare import compare
from era5_pipeline.cli.db import db
from era5_pipeline.cli.demo import demo
from era5_pipeline.cli.doctor import doctor
from era5_pipeline.cli.drop import drop
from era5_pipeline.cli.export import export
from era5_pipeline.cli.lake import lake
from era5_pipeline.cli.load import LoadCommand, load
from era5_pipeline.cli.map import map_
from era5_pipeline.cli.metrics import metrics
from era5_pipeline.cli.output import ResultsCommand, discard_output, escaped_output, one_line
from era5_pipeline.cli.places import places
from era5_pipeline.cli.plan import plan
from era5_pipeline.cli.report import report
from era5_pipeline.cli.revise import revise
from era5_pipeline.cli.series import series
from era5_pipeline.cli.serve import serve
from era5_pipeline.cli.status import status
from era5_pipeline.cli.up import up
from era5_pipeline.cli.variables import variables
from era5_pipeline.cli.verify import verify
from era5_pipeline.cli.watch import watch
from era5_pipeline.model.errors import Era5Error, LocalDiskError, disk_remedy, is_caused_by, machine_limits
from era5_pipeline.model.package_version import __version__

if TYPE_CHECKING:
    from types import FrameType

_INTERRUPTED = 128 + signal.SIGINT

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    suggest_commands=False,  # click does
    rich_markup_mode="rich",
    context_settings={"help_option_names": ["-h", "--help"]},
    help="ERA5, month by month, from netCDF to a queryable PostgreSQL/TimescaleDB table, through Dagster.",
    epilog="Settings come from ERA5_... in the environment or .env: see .env.example. "
    "Exit codes: 2 usage, 3 input files, 4 a month refused by a check, 5 database, 6 local disk, 7 try again later, "
    "8 the data service refused, 9 the data service failed for a month.",
)
app.command("load", cls=LoadCommand)(load)
app.command("plan", cls=ResultsCommand)(plan)
app.command("revise", cls=ResultsCommand)(revise)
app.command("drop", cls=ResultsCommand)(drop)
app.command("status", cls=ResultsCommand)(status)
app.command("verify", cls=ResultsCommand)(verify)
app.command("watch", cls=ResultsCommand)(watch)
app.command("metrics")(metrics)
app.command("variables", cls=ResultsCommand)(variables)
app.command("places", cls=ResultsCommand)(places)
app.command("series", cls=ResultsCommand)(series)
app.command("compare", cls=ResultsCommand)(compare)
app.command("map", cls=ResultsCommand)(map_)
app.command("export", cls=ResultsCommand)(export)
app.command("report", cls=ResultsCommand)(report)
app.command("climate", cls=ResultsCommand)(climate)
app.command("serve")(serve)
app.command("up")(up)
app.command("doctor", cls=ResultsCommand)(doctor)
app.command("demo")(demo)
app.add_typer(db, name="db")
app.add_typer(lake, name="lake")
app.add_typer(bench, name="bench")


def _print_version(wanted: bool) -> None:  # typer's callback
    if wanted:
        typer.echo(f"era5-pipeline {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True, help="Print the version."),
) -> None:
    pass


def main(arguments: list[str] | None = None, command: typer.Typer = app) -> None:
    """Run the command line, by default `era5` with the process's own arguments.

    An expected error prints message and remedy, and sets the exit code.
    """
    with escaped_output():
        _main(arguments, command)


def _main(arguments: list[str] | None, command: typer.Typer) -> None:
    interrupts = _Interrupts()
    # Commands import hundreds of thousands of objects that stay to the end. By default, at each 700 new objects, the
    # garbage collector took a twentieth of the CPU of `era5 demo` (21.7 s, and 20.5 s with this).
    gc.set_threshold(20_000, 20, 50)
    # SIGTERM and SIGHUP clean up in the same way as Ctrl-C.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        # Scripts start commands with an ignored SIGINT, nohup with an ignored SIGHUP.
        if signal.getsignal(number) in (signal.SIG_DFL, signal.default_int_handler):
            signal.signal(number, interrupts.interrupt)
    # The driver's warnings (such as "error ignored in rollback") follow an error or interrupt that is reported anyway.
    logging.getLogger("psycopg").setLevel(logging.ERROR)
    try:
        with machine_limits("the command"):
            command(arguments)
    except Era5Error as error:
        if is_caused_by(error, KeyboardInterrupt):
            sys.exit(_INTERRUPTED)
        typer.echo(f"era5: {one_line(error.message)}\n      {error.remedy}", err=True)
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader (head, less) has closed the pipe: print nothing more, not even at exit.
        discard_output()
        sys.exit(141)
    except OSError as error:
        if error.filename is None and error.errno in (errno.ENOSPC, errno.EDQUOT):
            discard_output()
            typer.echo(
                f"era5: standard output cannot be written: {error.strerror}\n      Free space on that disk.", err=True
            )
            sys.exit(LocalDiskError.exit_code)
        if is_caused_by(error, KeyboardInterrupt):
            sys.exit(_INTERRUPTED)
        if error.filename is None:
            raise
        remedy = disk_remedy(error, "choose another path") or "Check the path."
        typer.echo(f"era5: {os.fsdecode(error.filename)}: {error.strerror}\n      {remedy}", err=True)
        sys.exit(LocalDiskError.exit_code)
    except KeyboardInterrupt:
        sys.exit(_INTERRUPTED)
    except Exception as error:
        if not (interrupts.received or is_caused_by(error, KeyboardInterrupt)):
            raise
        sys.exit(_INTERRUPTED)


class _Interrupts:
    """Raises KeyboardInterrupt for signals, and records that it did.

    Compiled code that calls Python may raise an error of its own instead, without a cause: matplotlib's transformations
    turn it into a TypeError.
    """

    def __init__(self) -> None:
        self.received = False

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self.received = True
        # Zarr may have made a coroutine that it does not come to run any more.
        warnings.filterwarnings("ignore", "coroutine .* was never awaited", RuntimeWarning)
        raise KeyboardInterrupt
