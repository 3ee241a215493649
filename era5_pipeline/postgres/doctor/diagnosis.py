"""Diagnose a server: its settings against the advice for its machine, other findings, and the SQL to change them.

Combines the parts; nothing here changes a server. For the display see `cli`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from era5_pipeline.postgres.doctor.advice import PROFILES, MachineFact, advise
from era5_pipeline.postgres.doctor.comparison import (
    ComparedSetting,
    Verdict,
    change_statements,
    compare,
    undo_statements,
)
from era5_pipeline.postgres.doctor.findings import (
    SETTINGS_OF_FINDINGS,
    Finding,
    list_findings,
    security_findings,
    warnings_first,
)
from era5_pipeline.postgres.doctor.server_facts import Machine, is_session_here, log_folder, read_server_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    import psycopg

    from era5_pipeline.postgres.doctor.advice import Profile
    from era5_pipeline.postgres.doctor.server_facts import ServerFacts
    from era5_pipeline.postgres.server_version import Server

_UNKNOWN = Machine(None, None, None)
_PROMISES: dict[Profile, str] = {
    "safe": "no durability is given up.",
    "bulk": "for a one-off load. No committed month is lost; replicas, archive and base backups end meanwhile.",
    "reckless": "FOR DATA THAT CAN ALL BE LOADED AGAIN. A power failure or a crash of the machine can destroy the "
    "whole database.",
}
_FULL_LOG_AGAIN = (
    "Then restart the server, and take a new base backup: older ones cannot be recovered across a minimal log."
)
_SYNC_AGAIN = (
    "Then run CHECKPOINT; in this session, and sync on the server's machine: what was written may not be on disk yet."
)


@dataclass(frozen=True)
class Diagnosis:
    """The diagnosis of a server for a profile.

    `origins` says where each fact of the machine comes from: "this machine", "given" or "unknown". `statements` apply
    the advice, `undo` restores the profile safe; both are for the user to run, and never run by this package.
    """

    server: Server
    profile: Profile
    machine: Machine
    origins: dict[MachineFact, str]
    rows: tuple[ComparedSetting, ...]
    findings: tuple[Finding, ...]
    statements: tuple[str, ...]
    undo: tuple[str, ...]

    @property
    def script(self) -> str:
        """The statements, with explanations as comments."""
        lines = [f"-- Profile {self.profile}: {_PROMISES[self.profile]}"]
        lines += [*self._named("Left out (era5 doctor says why)", "held back", "elsewhere")]
        lines += [*self._named("Left out, because too little is known about the server's machine", "unknown")]
        lines += self.statements or ["-- Nothing to change."]
        return _joined([*lines, *self._to_restart()])

    @property
    def undo_script(self) -> str:
        """The statements that restore the profile safe after the load; empty without any."""
        if not self.undo:
            return ""
        undone = " ".join(self.undo)
        notes = (("wal_level", _FULL_LOG_AGAIN), ("fsync", _SYNC_AGAIN))
        return _joined(
            [
                "-- After the load, to go back:",
                *self.undo,
                *(f"-- {text}" for name, text in notes if f" {name}" in undone),
            ]
        )

    @property
    def file(self) -> str:
        """Both scripts in one file for psql: `script` as statements, and `undo_script` as comments."""
        undo = self.undo_script.splitlines()
        return self.script + _joined([line if line.startswith("--") else f"--   {line}" for line in undo])

    def _named(self, what: str, *verdicts: Verdict) -> list[str]:
        names = [row.name for row in self.rows if row.verdict in verdicts]
        return [f"-- {what}: {', '.join(names)}"] if names else []

    def _to_restart(self) -> list[str]:
        names = [
            row.name
            for row in self.rows
            if row.verdict == "restart" or (row.verdict == "change" and row.applied_by == "restart")
        ]
        return [f"-- Effective after a restart of the server: {', '.join(names)}"] if names else []

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as JSON, as printed by `era5 doctor --json`."""
        return {
            "server": str(self.server),
            "profile": self.profile,
            "machine": {
                "memory_bytes": self.machine.memory_bytes,
                "free_disk_bytes": self.machine.free_bytes,
                "known_from": self.origins,
            },
            "settings": [
                {
                    "name": row.name,
                    "current": row.setting.shown,
                    "advised": row.advice.value,
                    "enough": row.advice.enough,
                    "verdict": row.verdict,
                    "applied_by": row.applied_by,
                    "profile": row.advice.profile,
                    "needs": row.advice.needs,
                    "why": row.advice.why,
                }
                for row in self.rows
            ],
            "findings": [
                {"severity": finding.severity, "text": finding.text, "remedy": finding.remedy}
                for finding in self.findings
            ],
            "sql": list(self.statements),
            "undo_sql": list(self.undo),
        }


def diagnose(
    connection: psycopg.Connection[Any],
    profile: Profile,
    given: Machine = _UNKNOWN,
    *,
    is_embedded: bool = False,
    more: Iterable[Finding] = (),
) -> Diagnosis:
    """Diagnose the connected server for the profile; `given` facts about its machine override measured ones.

    `more` are findings from outside the server, included in the diagnosis.
    """
    names = {advice.name for advice in advise("reckless", _UNKNOWN)}
    facts = read_server_facts(connection, names | set(SETTINGS_OF_FINDINGS))
    machine, origins = _known_machine(facts, given)
    every = compare(advise("reckless", machine), facts)
    rows = tuple(row for row in every if row.advice.profile in PROFILES[: PROFILES.index(profile) + 1])
    return Diagnosis(
        server=facts.server,
        profile=profile,
        machine=machine,
        origins=origins,
        rows=rows,
        findings=warnings_first(
            [*security_findings(facts, is_embedded=is_embedded), *more, *list_findings(facts, every, profile)]
        ),
        statements=change_statements(rows, connection),
        undo=undo_statements(rows, connection),
    )


def _joined(lines: Iterable[str]) -> str:
    return "".join(f"{line}\n" for line in lines)


def _known_machine(facts: ServerFacts, given: Machine) -> tuple[Machine, dict[MachineFact, str]]:
    session, measured = facts.session, _UNKNOWN
    if is_session_here(session.pid, session.user, session.database, session.client_port):
        measured = Machine.here(log_folder(session.pid, facts.data_folder))
    known: dict[MachineFact, int | None] = {}
    origins: dict[MachineFact, str] = {}
    of_machine: tuple[tuple[MachineFact, int | None, int | None], ...] = (
        ("memory", given.memory_bytes, measured.memory_bytes),
        ("disk", given.free_bytes, measured.free_bytes),
    )
    for fact, option, found in of_machine:
        known[fact] = found if option is None else option
        origins[fact] = "given" if option is not None else "unknown" if found is None else "this machine"
    return Machine(known["memory"], measured.cores, known["disk"]), origins
