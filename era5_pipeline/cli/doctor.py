"""`era5 doctor`: a server's settings compared with those advised for bulk loads; a table, SQL or JSON."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from era5_pipeline.cli.output import grouped_problems, new_table, print_table, terminal
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from era5_pipeline.postgres.doctor.advice import JudgedSetting

_GB = 1 << 30


def doctor(
    *,
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
      era5 doctor --sql > settings.sql
      era5 doctor --json | jq '.settings[] | select(.verdict != "ok")'
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.doctor.advice import ADVICE, file_findings, findings, judge, script
    from era5_pipeline.postgres.doctor.server_facts import read_server_facts

    if as_sql and as_json:
        raise UsageError("--sql and --json cannot be combined", remedy="Choose one; the JSON includes the SQL.")
    settings = read_settings()
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        facts = read_server_facts(connection, [advice.name for advice in ADVICE])
    machine = facts.machine
    if memory is not None:
        machine = replace(machine, memory_bytes=memory * _GB)
    if disk is not None:
        machine = replace(machine, free_bytes=disk * _GB)
    rows = judge(facts, machine)
    # The file in which the client of the Climate Data Store looks for its key.
    key_file = Path(os.environ.get("CDSAPI_RC") or "~/.cdsapirc").expanduser()
    found = [
        *findings(facts, rows, is_embedded=settings.database_url is None),
        *file_findings(key_file, Path(".env").absolute()),
    ]
    if as_json:
        value = {
            "database": warehouse.shown,
            "server": str(facts.server),
            "machine": {"memory_bytes": machine.memory_bytes, "free_disk_bytes": machine.free_bytes},
            "settings": [_as_json(row) for row in rows],
            "findings": [finding._asdict() for finding in found],
            "sql": script(rows),
        }
        typer.echo(json.dumps(value, indent=1))
        return
    if not as_sql:
        typer.echo(f"{warehouse.shown} ({facts.server})")
        typer.echo(
            f"its machine: memory {_gigabytes(machine.memory_bytes)}, free disk {_gigabytes(machine.free_bytes)}"
        )
        _show_rows(rows)
        for text in grouped_problems((f"{finding.severity}: {finding.text}", finding.remedy) for finding in found):
            typer.echo(text)
        typer.echo()
    for line in script(rows):
        typer.echo(line)


def _as_json(row: "JudgedSetting") -> dict[str, object]:
    return {
        "name": row.advice.name,
        "current": row.setting.shown,
        "advised": row.advised,
        "verdict": row.verdict,
        "applied_by": row.applied_by,
        "for_one_load": row.advice.for_one_load,
        "why": row.advice.why,
        "source": row.advice.source,
    }


def _gigabytes(count: int | None) -> str:
    return "unknown" if count is None else f"{count / _GB:.1f} GB"


def _show_rows(rows: "tuple[JudgedSetting, ...]") -> None:
    from rich.text import Text

    console = terminal()
    table = new_table("setting", "current", "advised", "verdict", "takes a", no_wrap=("setting",))
    for row in rows:
        bound = "" if isinstance(row.advice.value, str) else ">= "
        advised = "depends on its machine" if row.advised is None else f"{bound}{row.advised}"
        cells = row.advice.name, row.setting.shown, advised, row.verdict, row.applied_by
        table.add_row(*map(Text, cells))
    print_table(console, table, labelled=("current", "advised"))
    for row in rows:
        if row.verdict != "ok":
            console.print(Text(f"{row.advice.name}: {row.advice.why}"))
    console.print()
