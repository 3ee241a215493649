"""Advice against what a server has: a row a setting, and the SQL that would change it, and put it back.

Here: verdicts and statements, as text; nothing here runs a statement. Not here: the advice (`advice`), asking
(`facts`), or what is amiss besides single settings (`findings`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from psycopg import sql

from era5_pipeline.postgres.doctor.advice import MINIMAL_LOG

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import psycopg

    from era5_pipeline.postgres.doctor.advice import Advice
    from era5_pipeline.postgres.doctor.server_facts import ServerFacts, ServerSetting

# ok: as advised or as good. change: the SQL sets it. restart: it is set, and waits for one. unknown: the advice needs
# to know more of the machine. elsewhere: what sets it wins over ALTER SYSTEM. held back: it would end replication.
Verdict = Literal["ok", "change", "restart", "unknown", "elsewhere", "held back"]

RELOAD = "SELECT pg_reload_conf();"

# Sources in pg_settings that win over what ALTER SYSTEM writes, and where to change them.
STRONGER_SOURCES = {
    "command line": "the server's command line",
    "environment variable": "the server's environment",
    "global": "ALTER ROLE ALL SET",
    "database": "ALTER DATABASE ... SET",
    "user": "ALTER ROLE ... SET",
    "database user": "ALTER ROLE ... IN DATABASE ... SET",
    "client": "the URL's options or PGOPTIONS",
    "session": "the session",
}
# What ALTER SYSTEM writes to.
_AUTO = "postgresql.auto.conf"


@dataclass(frozen=True)
class ComparedSetting:
    """A setting of a server, and what is advised for it."""

    advice: Advice
    setting: ServerSetting
    verdict: Verdict

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.advice.name

    @property
    def applied_by(self) -> Literal["reload", "restart"]:
        """What it takes after ALTER SYSTEM."""
        return "restart" if self.setting.context == "postmaster" else "reload"


def compare(advised: Iterable[Advice], facts: ServerFacts) -> tuple[ComparedSetting, ...]:
    """A row for each setting that the server has and that may take what is advised."""
    rows = []
    for advice in advised:
        setting = facts.settings.get(advice.name)
        if setting is None or (setting.enumvals is not None and advice.value not in setting.enumvals):
            continue
        rows.append(ComparedSetting(advice, setting, _verdict(advice, setting)))
    if _keeps_full_log(facts, rows):
        return tuple(
            ComparedSetting(row.advice, row.setting, "held back")
            if row.name in MINIMAL_LOG and row.verdict in ("change", "restart")
            else row
            for row in rows
        )
    return tuple(rows)


def _verdict(advice: Advice, setting: ServerSetting) -> Verdict:
    if advice.value is None:
        return "unknown"
    if advice.is_met_by(setting.setting, setting.unit):
        return "ok"
    if setting.source in STRONGER_SOURCES:
        return "elsewhere"
    # The very words of our statement: whoever ran it should not be told to run it again.
    return "restart" if setting.pending_restart and setting.in_file == advice.value else "change"


def _keeps_full_log(facts: ServerFacts, rows: Iterable[ComparedSetting]) -> bool:
    """Whether the log must not become minimal: that would end replication, or the server would not start again."""
    stuck = any(row.name in MINIMAL_LOG and row.verdict == "elsewhere" for row in rows)
    return stuck or facts.is_standby or facts.replicas > 0 or bool(facts.slots)


def change_statements(rows: Iterable[ComparedSetting], connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """The statements that set what is to change, in an order that is safe to break off; for people to run."""
    changed = [row for row in rows if row.verdict == "change"]
    statements = [_set(row.name, str(row.advice.value), connection) for row in changed]
    return (*statements, RELOAD) if statements else ()


def undo_statements(rows: Iterable[ComparedSetting], connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """The statements that end what goes beyond the profile safe, before or after `change_statements` were run.

    A value that ALTER SYSTEM set before is set again; anything else is what the configuration files say.
    """
    # Last in, first out: the server would not start with senders and a minimal log.
    statements = list(_reversals(reversed([row for row in rows if row.advice.profile != "safe"]), connection))
    return (*statements, RELOAD) if statements else ()


def _reversals(rows: Iterable[ComparedSetting], connection: psycopg.Connection[Any]) -> Iterator[str]:
    for row in rows:
        by_us = row.setting.source == "configuration file" and (row.setting.sourcefile or _AUTO).endswith(_AUTO)
        if row.verdict == "change" and by_us and row.setting.sourcefile is not None:
            yield _set(row.name, row.setting.shown, connection)
        elif row.verdict in ("change", "restart") or (row.verdict == "ok" and by_us):
            yield f"ALTER SYSTEM RESET {row.name};"


def _set(name: str, value: str, connection: psycopg.Connection[Any]) -> str:
    # The names are our own, and plain.
    return f"ALTER SYSTEM SET {name} = {sql.Literal(value).as_string(connection).strip()};"
