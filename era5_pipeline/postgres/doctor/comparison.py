"""Compare a server's settings with the advice, and write the SQL that applies and undoes the changes.

Verdicts and statements as text; nothing is executed. For the advice see `advice`, for querying `server_facts`, for
findings beyond single settings `findings`.
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

# ok: as advised or as good. change: the SQL sets it. restart: it is set, and needs a restart. unknown: the advice
# depends on an unknown fact of the machine. elsewhere: its source overrides ALTER SYSTEM. held back: it would end
# replication.
Verdict = Literal["ok", "change", "restart", "unknown", "elsewhere", "held back"]

RELOAD = "SELECT pg_reload_conf();"

# Sources in pg_settings that override ALTER SYSTEM, and where to change them.
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
# The file that ALTER SYSTEM writes.
_AUTO = "postgresql.auto.conf"


@dataclass(frozen=True)
class ComparedSetting:
    """A setting of a server, the advice for it, and the verdict."""

    advice: Advice
    setting: ServerSetting
    verdict: Verdict

    @property
    def name(self) -> str:
        """The setting's name."""
        return self.advice.name

    @property
    def applied_by(self) -> Literal["reload", "restart"]:
        """Name the action that makes ALTER SYSTEM effective for this setting: reload or restart."""
        return "restart" if self.setting.context == "postmaster" else "reload"


def compare(advised: Iterable[Advice], facts: ServerFacts) -> tuple[ComparedSetting, ...]:
    """Compare each setting that the server has and whose advised value it supports."""
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
    # This is the value that our statement sets: the user has already run it.
    return "restart" if setting.pending_restart and setting.in_file == advice.value else "change"


def _keeps_full_log(facts: ServerFacts, rows: Iterable[ComparedSetting]) -> bool:
    """Return True if wal_level must not become minimal: replication would end, or the server would not start."""
    stuck = any(row.name in MINIMAL_LOG and row.verdict == "elsewhere" for row in rows)
    return stuck or facts.is_standby or facts.replicas > 0 or bool(facts.slots)


def change_statements(rows: Iterable[ComparedSetting], connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return the statements for the user to run, in an order that is safe to interrupt."""
    changed = [row for row in rows if row.verdict == "change"]
    statements = [_set(row.name, str(row.advice.value), connection) for row in changed]
    return (*statements, RELOAD) if statements else ()


def undo_statements(rows: Iterable[ComparedSetting], connection: psycopg.Connection[Any]) -> tuple[str, ...]:
    """Return the statements that restore the profile safe, whether or not `change_statements` were run.

    Values previously set by ALTER SYSTEM are set again; others return to the configuration files' value.
    """
    # In reverse order: the server does not start with WAL senders and a minimal log.
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
    # The names are constants of this package, and need no quotes.
    return f"ALTER SYSTEM SET {name} = {sql.Literal(value).as_string(connection).strip()};"
