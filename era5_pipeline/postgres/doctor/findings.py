"""Findings beyond single settings: about the server, excessive privileges, and versions with known faults."""

from __future__ import annotations

import re
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from dotenv import dotenv_values
from psycopg import sql

from era5_pipeline.model.errors import UsageError
from era5_pipeline.postgres.doctor.advice import MINIMAL_LOG, PROFILES, MachineFact
from era5_pipeline.postgres.doctor.comparison import STRONGER_SOURCES
from era5_pipeline.postgres.urls import url_parameters

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from era5_pipeline.postgres.doctor.advice import Profile
    from era5_pipeline.postgres.doctor.comparison import ComparedSetting
    from era5_pipeline.postgres.doctor.server_facts import ServerFacts

# --- Findings about a server beyond its single settings, each with a remedy; pure functions ---


# Too few checkpoints say nothing about their rate.
_FEWEST_CHECKPOINTS = 10
_OPTIONS: dict[MachineFact, str] = {"memory": "--memory GB", "disk": "--disk GB"}
# Settings that are not advised, and dangerous if off.
SETTINGS_OF_FINDINGS = ("autovacuum", "full_page_writes", "track_counts")
_LOSES_ALL = "a power failure or a crash of the machine can destroy the whole database"


@dataclass(frozen=True)
class Finding:
    """A finding with its remedy; a note needs no action."""

    severity: Literal["warning", "note"]
    text: str
    remedy: str


def list_findings(facts: ServerFacts, rows: Sequence[ComparedSetting], profile: Profile) -> tuple[Finding, ...]:
    """List the findings, warnings first; `rows` cover all profiles."""
    chosen = [row for row in rows if row.advice.profile in PROFILES[: PROFILES.index(profile) + 1]]
    found = (
        *_durability(facts, profile),
        *_replication(facts, chosen, profile),
        *_upkeep(facts),
        *_checkpoints(facts, chosen),
        *_unknown(chosen),
        *_not_by_alter_system(facts, chosen),
        *_timescaledb(facts),
        *_bulk_would_add(rows, profile),
    )
    return warnings_first(found)


def warnings_first(found: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort findings by severity, keeping their order otherwise."""
    return tuple(sorted(found, key=lambda finding: finding.severity != "warning"))


def _is_off(facts: ServerFacts, name: str) -> bool:
    setting = facts.settings.get(name)
    return setting is not None and setting.setting == "off"


def _durability(facts: ServerFacts, profile: Profile) -> Iterator[Finding]:
    if facts.is_standby:
        yield Finding(
            "warning",
            "this server is a standby: no month can be loaded into it, and some settings must follow its primary's",
            "Use the primary's URL.",
        )
    off = [name for name in ("fsync", "full_page_writes") if _is_off(facts, name)]
    if off:
        yield Finding(
            "warning",
            f"off: {', '.join(off)}; {_LOSES_ALL}",
            f"After the load: {' '.join(f'ALTER SYSTEM SET {name} = on;' for name in off)} SELECT pg_reload_conf(); "
            "CHECKPOINT; and sync on the server's machine.",
        )
    if profile == "reckless":
        yield Finding(
            "warning",
            f"the profile reckless turns fsync off: then {_LOSES_ALL}, not only the months being loaded",
            "Use it only for a server whose data can all be loaded again. era5 never runs these statements itself.",
        )


def _replication(facts: ServerFacts, chosen: Sequence[ComparedSetting], profile: Profile) -> Iterator[Finding]:
    archive = [row for row in chosen if row.name == "archive_mode" and row.verdict == "change"]
    if archive:
        yield Finding(
            "warning",
            f"archive_mode is {archive[0].setting.setting}: the profile {profile} would end the archive, and so "
            "point-in-time recovery",
            "If it is needed, stay with the profile safe. Otherwise take a new base backup after the load.",
        )
    if not any(row.verdict == "held back" for row in chosen):
        return
    uses = [f"{facts.replicas} connected (pg_stat_replication)"] if facts.replicas else []
    uses += [f"replication slots {', '.join(facts.slots)}"] if facts.slots else []
    if uses:
        drops = [f"SELECT pg_drop_replication_slot({sql.Literal(name).as_string()});" for name in facts.slots]
        yield Finding(
            "warning",
            f"this server has replicas or running backups: {'; '.join(uses)}. wal_level=minimal would end them, and "
            "with slots the server would not start: left out",
            "Stay with the profile safe; or, if they are not needed, stop the replicas and drop their slots, then run "
            "era5 doctor again." + "".join(f" {drop}" for drop in drops),
        )
    elif not facts.is_standby:
        yield Finding(
            "warning",
            f"{', '.join(MINIMAL_LOG)} belong together, and cannot all be changed by ALTER SYSTEM: left out",
            "Change them where they are set: see the other findings.",
        )


def _upkeep(facts: ServerFacts) -> Iterator[Finding]:
    off = [name for name in ("autovacuum", "track_counts") if _is_off(facts, name)]
    if off:
        yield Finding(
            "warning",
            f"autovacuum does not run ({', '.join(off)} off): the space of replaced months is not used again, "
            "statistics become outdated, and in the end transaction numbers run out",
            f"{' '.join(f'ALTER SYSTEM SET {name} = on;' for name in off)} SELECT pg_reload_conf();",
        )
    if facts.pending_restart:
        yield Finding(
            "warning",
            f"set, and waiting for a restart of the server: {', '.join(facts.pending_restart)}",
            "Restart it, then run era5 doctor again.",
        )


def _checkpoints(facts: ServerFacts, chosen: Iterable[ComparedSetting]) -> Iterator[Finding]:
    counts = facts.checkpoints
    if counts.requested < _FEWEST_CHECKPOINTS or counts.requested <= counts.timed:
        return
    since = f" since {counts.since:%Y-%m-%d}" if counts.since else ""
    for row in chosen:
        if row.name == "max_wal_size":
            advised = f"advised {row.advice.value}" if row.verdict == "change" else "and may be raised further"
            yield Finding(
                "warning",
                f"{counts.requested:,} checkpoints{since} were started by a full log (or by commands such as DROP "
                f"DATABASE), and {counts.timed:,} by the clock",
                f"If it is loads that start them, raise max_wal_size: it is {row.setting.shown}, {advised}.",
            )


def _unknown(chosen: Sequence[ComparedSetting]) -> Iterator[Finding]:
    for fact, option in _OPTIONS.items():
        names = [row.name for row in chosen if row.verdict == "unknown" and row.advice.needs == fact]
        if names:
            yield Finding(
                "note",
                f"the {fact} of the server's machine is unknown, and {', '.join(names)} depends on it",
                f"Give it: era5 doctor {option}",
            )


def _not_by_alter_system(facts: ServerFacts, chosen: Sequence[ComparedSetting]) -> Iterator[Finding]:
    for row in chosen:
        if row.verdict == "elsewhere":
            yield Finding(
                "warning",
                f"{row.name} = {row.setting.shown} is set by {STRONGER_SOURCES[row.setting.source]}, which overrides "
                "ALTER SYSTEM",
                f"Change it there, to {row.advice.value}.",
            )
    changed = [row for row in chosen if row.verdict == "change"]
    if changed and not facts.alter_system_allowed:
        yield Finding(
            "warning",
            "this server refuses ALTER SYSTEM (allow_alter_system is off)",
            "Set the values in its configuration, wherever that is managed.",
        )
    denied = [row.name for row in changed if not row.setting.alterable]
    if denied:
        yield Finding(
            "note",
            f"the user {facts.session.user} may not change these: {', '.join(denied)}",
            "Let an administrator run the statements; a managed server has a settings page for its parameters.",
        )
    if any((row.setting.sourcefile or "").endswith("/era5.conf") for row in changed):
        yield Finding(
            "note",
            "the embedded server's settings are written again at each start, for the machine as it is then",
            "Run era5 db stop; the next command starts it.",
        )


def _timescaledb(facts: ServerFacts) -> Iterator[Finding]:
    server = facts.server
    if facts.timescaledb_offered and not facts.timescaledb_preloaded:
        if facts.preloaded is None:  # hidden from unprivileged users, who may not change it either
            remedy = "Let an administrator add timescaledb to shared_preload_libraries,"
        else:
            # One literal per name: 'a, b' would be a single library name, and the server would not start.
            libraries = ", ".join(sql.Literal(name).as_string() for name in (*facts.preloaded, "timescaledb"))
            remedy = f"ALTER SYSTEM SET shared_preload_libraries = {libraries};"
        yield Finding(
            "warning",
            "TimescaleDB is installed on the server and not loaded: a new table would have plain partitions",
            f"{remedy} then restart the server, before the first load.",
        )
    elif facts.timescaledb_preloaded and server.timescaledb is None:
        yield Finding(
            "note",
            "TimescaleDB is loaded, but not yet created as an extension in this database; its edition is unknown",
            "era5 db init creates it, as does the first load.",
        )
    elif server.license == "apache":
        yield Finding(
            "note",
            "this is TimescaleDB's Apache edition, which has no columnstore: a row takes 77 bytes, in the Community "
            "edition's columnstore 18",
            "If disk space matters, use a server with the Community edition.",
        )
    elif server.license is not None:
        yield Finding(
            "note",
            "rows are compressed as they come (direct compress) by settings that a load makes in its own session",
            "Nothing needs to be set on the server.",
        )


def _bulk_would_add(rows: Iterable[ComparedSetting], profile: Profile) -> Iterator[Finding]:
    added = [row for row in rows if row.advice.profile == "bulk" and row.verdict != "ok"]
    if profile == "safe" and added:
        yield Finding(
            "note",
            f"for a one-off load, the profile bulk would add {', '.join(f'{r.name}={r.advice.value}' for r in added)}",
            "Run era5 doctor --profile bulk, if this server has no replicas and its backups can wait.",
        )


# --- Findings about excessive privileges, readable secrets, and TimescaleDB versions with known faults ---


# The first release without the faults that `_COLUMNSTORE_FAULTS` names.
SOUND_TIMESCALEDB = (2, 29, 2)
_COLUMNSTORE_FAULTS = (
    (
        (2, 28, 3),
        "a DELETE by a list with NULL removes more rows than it should (TimescaleDB's issue 10129, mended in 2.28.3)",
    ),
    (SOUND_TIMESCALEDB, "some queries give wrong results or lack rows (9921, 10423, in 2.29.2)"),
)
_KEYS_IN_ENV = ("CDSAPI_KEY",)
_URLS_IN_ENV = ("ERA5_DATABASE_URL", "ERA5_DAGSTER_DATABASE_URL")


def security_findings(facts: ServerFacts, *, is_embedded: bool) -> Iterator[Finding]:
    """Findings about the connecting user and the version of TimescaleDB.

    The embedded server has a single user, its administrator, and is not reported.
    """
    if facts.session.is_superuser and not is_embedded:
        yield Finding(
            "warning",
            f"the user {facts.session.user} of ERA5_DATABASE_URL is a superuser: a mistake, or whoever finds the URL, "
            "can destroy every database of the server and run programs on its machine",
            "Run era5 db init --roles once with this URL, then the statements it prints; use the URL of a loader or "
            "reader from then on.",
        )
    yield from _timescaledb_faults(facts)


def _timescaledb_faults(facts: ServerFacts) -> Iterator[Finding]:
    version = facts.timescaledb_version
    number = _number(version)
    if number is None or number >= SOUND_TIMESCALEDB or not facts.timescaledb_preloaded:
        return
    sound = ".".join(map(str, SOUND_TIMESCALEDB))
    if facts.timescaledb_license == "apache":
        yield Finding(
            "note",
            f"this is TimescaleDB {version}; releases before {sound} have faults in the columnstore, which the Apache "
            "edition does not have",
            f"Upgrade to {sound} or later before a change to the Community edition.",
        )
        return
    # Before the extension is created, the best time to upgrade, its edition is unknown.
    faults = "; ".join(text for mended_in, text in _COLUMNSTORE_FAULTS if number < mended_in)
    yield Finding(
        "warning",
        f"this is TimescaleDB {version}; in releases before {sound}, in the Community edition's columnstore, {faults}",
        f"Install {sound} or later on the server, restart it, then run in each database, in a new session of psql -X: "
        "ALTER EXTENSION timescaledb UPDATE;",
    )


def _number(version: str | None) -> tuple[int, ...] | None:
    found = re.match(r"(\d+)\.(\d+)(?:\.(\d+))?", version or "")
    return None if found is None else tuple(int(part or 0) for part in found.groups())


def file_findings(key_files: Iterable[Path], env_file: Path) -> Iterator[Finding]:
    """World-readable files with a key or password; `env_file` counts only if it holds one."""
    for path in key_files:
        if _all_may_read(path):
            yield _readable(path, "the key of the Climate Data Store")
    if _all_may_read(env_file) and (secrets := _secrets_in(env_file)):
        yield _readable(env_file, f"secrets ({', '.join(secrets)})")


def _readable(path: Path, what: str) -> Finding:
    return Finding(
        "warning", f"every user of this machine can read {path}, which holds {what}", f"Run: chmod go-rwx {path}"
    )


def _all_may_read(path: Path) -> bool:
    """Return True if every user of the machine can read the file, by its permissions and those of its folders."""
    try:
        whole = path.resolve(strict=True)
        return (
            whole.is_file()
            and bool(whole.stat().st_mode & stat.S_IROTH)
            and all(folder.stat().st_mode & stat.S_IXOTH for folder in whole.parents)
        )
    except OSError:  # it does not exist, or even this user cannot look
        return False


def _secrets_in(env_file: Path) -> list[str]:
    """Names of settings in the file that hold a key, or a URL with a password."""
    try:
        values = dotenv_values(env_file)
    except (OSError, UnicodeDecodeError):
        return []
    keys = [name for name in _KEYS_IN_ENV if values.get(name)]
    return keys + [name for name in _URLS_IN_ENV if _has_password(values.get(name) or "")]


def _has_password(url: str) -> bool:
    try:
        return "password" in url_parameters(url)
    except UsageError:  # not a URL: a password may be anywhere in it
        return bool(url)
