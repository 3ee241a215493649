"""The advice on a server's settings and other findings, as rows of data, and the SQL that follows from it.

A setting is here if a measurement supports it, or if without it a load or query can fail; `test_advice` checks the
measurement of each against the committed results. For querying a server see `server_facts`, for settings of the
embedded server alone `embedded.cluster`. Nothing here changes a server.
"""

from __future__ import annotations

import re
import stat
from contextlib import suppress
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.postgres.doctor.server_facts import Machine, ServerFacts, ServerSetting

MachineFact = Literal["memory", "disk"]
_MB, _GB = 1 << 20, 1 << 30

# Memory and free disk vary a little, which does not justify a restart: this much of a share of them is good enough.
_GOOD_ENOUGH = 0.75


class Share(NamedTuple):
    """One of `parts` parts of the machine's memory or free disk, within bounds, in bytes."""

    of: MachineFact
    parts: int
    least: int
    most: int


class Advice(NamedTuple):
    """The advised `value` of a setting: a word, or an amount, of which more is as good.

    `source` says where it comes from. `for_one_load` advice gives up something that a server may need at other times.
    """

    name: str
    value: str | int | Share
    why: str
    source: str
    for_one_load: bool = False

    def wanted(self, machine: Machine) -> str | int | None:
        """Return the value for the machine, an amount in bytes or by number; None if it is a share of the unknown."""
        if not isinstance(self.value, Share):
            return self.value
        whole = machine.memory_bytes if self.value.of == "memory" else machine.free_bytes
        return None if whole is None else max(self.value.least, min(whole // self.value.parts, self.value.most))


_LOSES_ALL = (
    "With it off, a power failure or a crash of the machine can destroy the whole database. After setting it, run "
    "CHECKPOINT, and sync on the server's machine."
)
_NO_AUTOVACUUM = (
    "Without autovacuum the space of replaced months is not used again, statistics become outdated, and in the end "
    "transaction numbers run out."
)
_DOCUMENTATION = "PostgreSQL's documentation"
_SUITE = "suite settings of benchmarks/results.md"

# wal_level=minimal and its prerequisites, in an order of which each part is safe to set: a server with only some of
# them does not start.
MINIMAL_LOG = ("max_wal_senders", "archive_mode", "summarize_wal", "wal_level")

ADVICE = (
    Advice(
        "shared_buffers",
        Share("memory", 4, _MB, _GB),
        "Caches indexes and repeated reads; a study's loads took 647 s with the default of 128MB, and 595 s with 2GB. "
        "Beyond 1GB memory is better left to the page cache: COPY uses a ring of 16MB.",
        'the article "Loading 60x faster" (Mircea Cadariu, 2024), as in the suite ladder of benchmarks/results.md',
    ),
    Advice(
        "max_wal_size",
        Share("disk", 10, _GB, 8 * _GB),
        "A fast load writes so much log that the default of 1GB starts a checkpoint every few seconds. The log keeps "
        "the disk space, so a tenth of the free disk is advised, and 8GB at most.",
        f"wal_bytes_per_row of the {_SUITE}",
    ),
    Advice(
        "max_locks_per_transaction",
        512,
        "A query over all years locks each month's partition or chunk and its index, over 2,000, and fails if the "
        "server has no room for them.",
        "1,020 months with an index each; timescaledb-tune sets 512, too",
    ),
    Advice("fsync", "on", _LOSES_ALL, f"{_DOCUMENTATION}; off, a load gains a few percent ({_SUITE})"),
    Advice("full_page_writes", "on", _LOSES_ALL, f"{_DOCUMENTATION}; off, a load gains 2 % at most ({_SUITE})"),
    Advice("autovacuum", "on", _NO_AUTOVACUUM, _DOCUMENTATION),
    Advice("track_counts", "on", _NO_AUTOVACUUM, _DOCUMENTATION),
    *(
        Advice(name, off, f"wal_level=minimal requires it. No {lost} while it is {off}.", _DOCUMENTATION, True)
        for name, off, lost in (
            ("max_wal_senders", "0", "replicas and no base backups"),
            ("archive_mode", "off", "point-in-time recovery"),
            ("summarize_wal", "off", "incremental backups"),
        )
    ),
    Advice(
        "wal_level",
        "minimal",
        "Rows that are loaded into a new partition are synced instead of logged: half the writing, at about the same "
        "speed. Hypertables are logged in any case.",
        f"wal_bytes_per_row of the {_SUITE}",
        for_one_load=True,
    ),
    Advice(
        "synchronous_commit",
        "off",
        "Small transactions do not wait for the disk; Dagster has many of them. era5 load still commits each month "
        "synchronously.",
        _SUITE,
        for_one_load=True,
    ),
)


def size(count: int) -> str:
    """Format whole megabytes as the server does."""
    megabytes = count // _MB
    return f"{megabytes // 1024}GB" if megabytes % 1024 == 0 and megabytes else f"{megabytes}MB"


def advised_amounts(machine: Machine) -> dict[str, str]:
    """Return the advised amounts for the machine, as in postgresql.conf, without those that depend on unknown facts."""
    wanted = ((advice.name, advice.wanted(machine)) for advice in ADVICE)
    return {name: _shown(value) for name, value in wanted if isinstance(value, int)}


def _shown(value: str | int) -> str:
    """Return an advised value as in postgresql.conf."""
    return size(value) if isinstance(value, int) and value >= _MB else str(value)


# ok: as advised or as good. change: ALTER SYSTEM sets it. for one load: it may, see `Advice`. restart: it was set, and
# waits for a restart. unknown: the advice depends on an unknown fact of the machine. elsewhere: its source overrides
# ALTER SYSTEM. held back: it would end replication, or the server would not start.
Verdict = Literal["ok", "change", "for one load", "restart", "unknown", "elsewhere", "held back"]

# Sources of pg_settings that override ALTER SYSTEM.
_STRONGER_SOURCES = (
    *("command line", "environment variable", "global"),
    *("database", "user", "database user", "client", "session"),
)
RELOAD = "SELECT pg_reload_conf();"


class JudgedSetting(NamedTuple):
    """A setting of a server, the advice for it with its value for the server's machine, and the verdict."""

    advice: Advice
    advised: str | None
    setting: ServerSetting
    verdict: Verdict

    @property
    def applied_by(self) -> Literal["reload", "restart"]:
        """Name the action that makes ALTER SYSTEM effective for this setting."""
        return "restart" if self.setting.context == "postmaster" else "reload"

    @property
    def statement(self) -> str:
        """The statement that applies the advice; its names and values are constants, and need no quoting."""
        return f"ALTER SYSTEM SET {self.advice.name} = '{self.advised}';"


def judge(facts: ServerFacts, machine: Machine) -> tuple[JudgedSetting, ...]:
    """Compare each setting that the server has and whose advised value it supports."""
    rows = []
    for advice in ADVICE:
        setting, value = facts.settings.get(advice.name), advice.wanted(machine)
        if setting is not None and (setting.enumvals is None or value in setting.enumvals):
            shown = None if value is None else _shown(value)
            rows.append(JudgedSetting(advice, shown, setting, _verdict(advice, value, setting)))
    log = [row.verdict for row in rows if row.advice.name in MINIMAL_LOG]
    if not (facts.others["standby"] or facts.others["replicas"] or "elsewhere" in log):
        return tuple(rows)
    return tuple(
        row._replace(verdict="held back")
        if row.advice.name in MINIMAL_LOG and row.verdict in ("for one load", "restart")
        else row
        for row in rows
    )


def _verdict(advice: Advice, value: str | int | None, setting: ServerSetting) -> Verdict:
    if value is None:
        return "unknown"
    enough = _GOOD_ENOUGH if isinstance(advice.value, Share) else 1
    if setting.setting == value if isinstance(value, str) else (setting.amount or 0) >= value * enough:
        return "ok"
    if setting.source in _STRONGER_SOURCES:
        return "elsewhere"
    if setting.pending_restart:
        return "restart"
    return "for one load" if advice.for_one_load else "change"


def script(rows: Sequence[JudgedSetting]) -> list[str]:
    """Return the statements that apply the advice, in an order that is safe to interrupt, with comments.

    Those for one load are among the comments, with those that go back.
    """
    changed = [row for row in rows if row.verdict == "change"]
    lines = [*(row.statement for row in changed), RELOAD] if changed else ["-- Nothing to change."]
    restart = [row.advice.name for row in changed if row.applied_by == "restart"]
    if restart:
        lines.append(f"-- Effective after a restart of the server: {', '.join(restart)}")
    optional = [row.statement for row in rows if row.verdict == "for one load"]
    if optional:
        lines.append("-- For one load; no committed month is lost; no replicas, archive and base backups meanwhile:")
        lines += [f"--   {statement}" for statement in (*optional, RELOAD)]
    # In reverse order: the server does not start with WAL senders and a minimal log.
    undo = []
    for row in (row for row in reversed(rows) if row.advice.for_one_load):
        by_alter_system = row.verdict == "ok" and (row.setting.sourcefile or "").endswith("postgresql.auto.conf")
        if by_alter_system or row.verdict in ("for one load", "restart"):
            undo.append(f"ALTER SYSTEM RESET {row.advice.name};")
    if undo:
        lines.append("-- After that load; then restart, and take a base backup: older ones end at wal_level=minimal:")
        lines += [f"--   {statement}" for statement in (*undo, RELOAD)]
    return lines


class Finding(NamedTuple):
    """A finding with its remedy; a note needs no action."""

    severity: Literal["warning", "note"]
    text: str
    remedy: str


# By the column of `sql/doctor_facts.sql` that tells whether it holds; texts name columns in braces.
_FINDINGS = {
    "superuser": Finding(
        "warning",
        "the user {superuser} of ERA5_DATABASE_URL is a superuser: a mistake, or whoever finds the URL, can destroy "
        "every database of the server and run programs on its machine",
        "Run era5 db init --roles once with this URL, then the statements it prints; use the URL of a loader or reader "
        "from then on.",
    ),
    "standby": Finding(
        "warning",
        "this server is a standby: no month can be loaded into it, and some settings must follow its primary's",
        "Use the primary's URL.",
    ),
    "faulty": Finding(
        "warning",
        "this is TimescaleDB {faulty}; in releases before 2.29.2, in the Community edition's columnstore, some queries "
        "give wrong results or lack rows (TimescaleDB's issues 9921, 10423); before 2.28.3, a DELETE by a list with "
        "NULL removes more rows than it should (10129)",
        "Install 2.29.2 or later on the server, restart it, then run in each database, in a new session of psql -X: "
        "ALTER EXTENSION timescaledb UPDATE;",
    ),
    "not_loaded": Finding(
        "warning",
        "TimescaleDB is installed on the server and not loaded: a new table would have plain partitions",
        "{not_loaded} then restart the server, before the first load.",
    ),
    "pending": Finding(
        "warning",
        "set, and waiting for a restart of the server: {pending}",
        "Restart it, then run era5 doctor again.",
    ),
    "checkpoints": Finding(
        "warning",
        "{requested:,} checkpoints were started by a full log (or by commands such as DROP DATABASE), and {timed:,} by "
        "the clock",
        "If it is loads that start them, raise max_wal_size.",
    ),
    "replicas": Finding(
        "note",
        "this server has replicas or running backups: {replicas}. wal_level=minimal would end them, and with slots the "
        "server would not start: held back",
        "If they are not needed, stop the replicas and drop their slots, then run era5 doctor again.",
    ),
}


def findings(facts: ServerFacts, rows: Sequence[JudgedSetting], *, is_embedded: bool) -> list[Finding]:
    """List the findings about a server; the embedded one has a single user, its administrator."""
    found = [
        Finding(finding.severity, finding.text.format_map(facts.others), finding.remedy.format_map(facts.others))
        for fact, finding in _FINDINGS.items()
        if facts.others[fact] and not (fact == "superuser" and is_embedded)
    ]
    for row in rows:
        if row.verdict == "elsewhere":
            source = row.setting.source
            text = f"{row.advice.name} = {row.setting.shown} is set by the {source}, which overrides ALTER SYSTEM"
            found.append(Finding("warning", text, f"Change it there, to {row.advised}."))
    denied = [row.advice.name for row in rows if row.verdict == "change" and not row.setting.alterable]
    if denied:
        user = facts.others["session_user"]
        text = f"ALTER SYSTEM is not allowed for the user {user}, or on this server: {', '.join(denied)}"
        remedy = "Let an administrator set them; a managed server has a settings page for its parameters."
        found.append(Finding("note", text, remedy))
    return found


# A key, or a URL with a password, in an .env.
_SECRETS_OF_ENV = r"(?m)^\s*(export\s+)?(CDSAPI_KEY=.|ERA5_(DAGSTER_)?DATABASE_URL=.*(://[^/@]*:[^@]+@|password=))"


def file_findings(key_file: Path, env_file: Path) -> Iterator[Finding]:
    """Files with a key or password that every user of this machine can read; `env_file` counts only if it holds one."""
    for path, pattern in ((key_file, ""), (env_file, _SECRETS_OF_ENV)):
        with suppress(OSError, UnicodeDecodeError):  # it does not exist, or even this user cannot read it
            whole = path.resolve(strict=True)
            may_enter = all(folder.stat().st_mode & stat.S_IXOTH for folder in whole.parents)
            if may_enter and whole.stat().st_mode & stat.S_IROTH and re.search(pattern, whole.read_text("utf-8")):
                text = f"every user of this machine can read {path}, which holds a key or a password"
                yield Finding("warning", text, f"Run: chmod go-rwx {path}")
