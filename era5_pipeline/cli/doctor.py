"""`era5 doctor`: compare a server's settings with those advised for bulk loads; print a table, SQL or JSON."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from era5_pipeline.cli.output import grouped_problems, print_table, terminal
from era5_pipeline.model.errors import UsageError
from era5_pipeline.postgres.doctor.advice import Profile

if TYPE_CHECKING:
    from era5_pipeline.postgres.doctor.comparison import ComparedSetting
    from era5_pipeline.postgres.doctor.diagnosis import Diagnosis

_GB = 1 << 30
_WIDTH_WITH_REASONS = 130
_STYLES = {"ok": "green", "change": "yellow", "restart": "yellow", "elsewhere": "yellow", "held back": "red"}


def doctor(
    *,
    profile: Annotated[
        Profile,
        typer.Option(
            "--profile",
            help="safe: no loss of durability. bulk: for a single large load, without replicas and WAL archive. "
            "reckless: a power failure can destroy the database.",
        ),
    ] = "safe",
    memory: Annotated[
        int | None,
        typer.Option("--memory", metavar="GB", min=1, help="Memory of the server's machine.", show_default="measured"),
    ] = None,
    disk: Annotated[
        int | None,
        typer.Option("--disk", metavar="GB", min=1, help="Free disk for its WAL.", show_default="measured"),
    ] = None,
    as_sql: Annotated[bool, typer.Option("--sql", help="Print only the SQL, for psql.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print settings, findings and SQL as JSON.")] = False,
) -> None:
    """Compare the server's settings with those advised for bulk loads, and print the SQL that changes them.

    Findings also name a superuser's URL, a TimescaleDB with known faults, and files with keys or passwords that every
    user of this machine can read. The command changes nothing: run the statements yourself. Memory and disk are
    measured if the server runs on this machine.

    \b
    Examples:
      era5 doctor
      era5 doctor --memory 64 --disk 2000
      era5 doctor --profile bulk --sql > bulk.sql
      era5 doctor --json | jq '.settings[] | select(.verdict != "ok")'
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.doctor.diagnosis import diagnose
    from era5_pipeline.postgres.doctor.findings import file_findings
    from era5_pipeline.postgres.doctor.server_facts import Machine

    if as_sql and as_json:
        raise UsageError("--sql and --json cannot be combined", remedy="Choose one; the JSON includes the SQL.")
    given = Machine(None if memory is None else memory * _GB, None, None if disk is None else disk * _GB)
    settings = read_settings()
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        diagnosis = diagnose(
            connection,
            profile,
            given,
            is_embedded=settings.database_url is None,
            more=file_findings([_key_file()], Path(".env").absolute()),
        )
    if as_sql:
        typer.echo(diagnosis.file, nl=False)
    elif as_json:
        typer.echo(json.dumps({"database": warehouse.shown} | diagnosis.to_json(), indent=1))
    else:
        typer.echo(f"{warehouse.shown} ({diagnosis.server})")
        typer.echo(_machine_line(diagnosis))
        _show_rows(diagnosis.rows)
        _show_findings(diagnosis)
        _show_sql(diagnosis)


def _key_file() -> Path:
    """The file in which the client of the Climate Data Store looks for its key."""
    return Path(os.environ.get("CDSAPI_RC") or "~/.cdsapirc").expanduser()


def _machine_line(diagnosis: "Diagnosis") -> str:
    machine, origins = diagnosis.machine, diagnosis.origins
    facts = (
        ("memory", origins["memory"], machine.memory_bytes and f"{machine.memory_bytes / _GB:.1f} GB"),
        ("free disk", origins["disk"], machine.free_bytes is not None and f"{machine.free_bytes / _GB:.1f} GB"),
    )
    return "its machine: " + ", ".join(
        f"{name} {origin}" if origin == "unknown" else f"{name} {value} ({origin})" for name, origin, value in facts
    )


def _show_rows(rows: "tuple[ComparedSetting, ...]") -> None:
    from rich.box import SIMPLE
    from rich.table import Table
    from rich.text import Text

    console = terminal()
    reasons_fit = console.width >= _WIDTH_WITH_REASONS
    table = Table(box=SIMPLE)
    table.add_column("setting", no_wrap=True)
    for name in ("current", "advised", "verdict", "takes a", *(("why",) if reasons_fit else ())):
        table.add_column(name)
    for row in rows:
        cells = _cells(row)
        reason = (row.advice.why,) if reasons_fit else ()
        table.add_row(*(Text(cell, style=_STYLES.get(cell, "")) for cell in (*cells, *reason)))
    print_table(console, table, labelled=("current", "advised"))
    if not reasons_fit:
        for row in rows:
            if row.verdict != "ok":
                console.print(Text(f"{row.name}: {row.advice.why}"))
        console.print()


def _cells(row: "ComparedSetting") -> tuple[str, ...]:
    advice = row.advice
    bound = ">= " if advice.enough == "at least" else ""
    advised = f"needs --{advice.needs}" if advice.value is None else bound + advice.value
    return row.name, row.setting.shown, advised, row.verdict, "" if row.verdict == "ok" else row.applied_by


def _show_findings(diagnosis: "Diagnosis") -> None:
    for text in grouped_problems((f"{f.severity}: {f.text}", f.remedy) for f in diagnosis.findings):
        typer.echo(text)
    if diagnosis.findings:
        typer.echo()


def _show_sql(diagnosis: "Diagnosis") -> None:
    if not diagnosis.statements and all(row.verdict == "ok" for row in diagnosis.rows):
        typer.echo(f"Every setting is as the profile {diagnosis.profile} advises, or better.")
    else:
        typer.echo(diagnosis.script, nl=False)
    if diagnosis.undo:
        typer.echo(f"\n{diagnosis.undo_script}", nl=False)
