"""Advised settings for loading months in bulk: values and reasons, as pure functions.

A setting is here if a measurement supports it, or if without it a load or query can fail; `test_advice` names the
measurement of each. For querying a server see `server_facts`, for comparing `comparison`, for settings of the embedded
server alone `embedded.cluster`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from era5_pipeline.postgres.doctor.server_facts import Machine

# Each includes the previous one. safe: full durability. bulk: no committed month is lost, but there are no
# replicas, no archive and no point-in-time recovery meanwhile. reckless: a power failure can destroy the database.
Profile = Literal["safe", "bulk", "reckless"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
MachineFact = Literal["memory", "disk"]

# wal_level=minimal and its prerequisites: a server with only some of them does not start.
MINIMAL_LOG = ("max_wal_senders", "archive_mode", "summarize_wal", "wal_level")

_KB = 1 << 10
_MB = 1 << 20
_GB = 1 << 30
# Units of pg_settings and of values, in bytes.
_UNITS = {"": 1, "B": 1, "kB": _KB, "MB": _MB, "GB": _GB, "TB": _GB << 10}
_AMOUNT = re.compile(r"\s*(-?[0-9.]+)\s*([A-Za-z]*)\s*")
_UNIT = re.compile(r"([0-9]*)([A-Za-z]*)")

# Good enough for amounts derived from memory or disk: both vary a little, which does not justify a restart.
_GOOD_ENOUGH = 0.75


@dataclass(frozen=True)
class Advice:
    """The advised `value` of a setting, as in postgresql.conf; None if the fact `needs` is unknown.

    `enough` says which other values are as good: larger ones, or none.
    """

    name: str
    value: str | None
    why: str
    enough: Literal["at least", "exactly"] = "at least"
    profile: Profile = "safe"
    needs: MachineFact | None = None

    def is_met_by(self, setting: str, unit: str | None) -> bool:
        """Return True if a pg_settings value, in its unit, is as good as the advised one; False if unknown."""
        if self.value is None:
            return False
        if self.enough == "exactly":
            return setting == self.value
        return amount(setting, unit) >= amount(self.value) * (_GOOD_ENOUGH if self.needs else 1)


def amount(value: str, unit: str | None = None) -> float:
    """Convert a value to bytes or a count; `unit` applies to a bare number, as in pg_settings ("8kB")."""
    found = _AMOUNT.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r} is not an amount")
    number, own_unit = found.groups()
    return float(number) * _factor(own_unit or unit or "")


def _factor(unit: str) -> int:
    found = _UNIT.fullmatch(unit)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{unit!r} is not a unit")
    return int(found[1] or 1) * _UNITS[found[2]]


def size(count: int) -> str:
    """Format whole megabytes as the server does."""
    megabytes = count // _MB
    return f"{megabytes // 1024}GB" if megabytes % 1024 == 0 and megabytes else f"{megabytes}MB"


def advise(profile: Profile, machine: Machine) -> tuple[Advice, ...]:
    """Advise settings for the machine. Not every server has each of them, or supports every value."""
    wanted = PROFILES[: PROFILES.index(profile) + 1]
    return tuple(advice for advice in (*_safe(machine), *_less_safe()) if advice.profile in wanted)


def _safe(machine: Machine) -> tuple[Advice, ...]:
    memory, free = machine.memory_bytes, machine.free_bytes
    return (
        Advice(
            "shared_buffers",
            None if memory is None else size(max(_MB, min(memory // 4, _GB))),
            "Caches indexes and repeated reads; a study's loads took 647 s with the default of 128MB, and 595 s with "
            "2GB. Beyond 1GB memory is better left to the page cache: COPY uses a ring of 16MB.",
            needs="memory",
        ),
        Advice(
            "max_wal_size",
            None if free is None else size(max(_GB, min(free // 10, 8 * _GB))),
            "A fast load writes so much log that the default of 1GB starts a checkpoint every few seconds. The log "
            "keeps the disk space, so a tenth of the free disk is advised, and 8GB at most.",
            needs="disk",
        ),
        Advice(
            "max_locks_per_transaction",
            "512",
            "A query over all years locks each month's partition or chunk and its index, over 2,000, and fails if the "
            "server has no room for them; timescaledb-tune sets 512, too.",
        ),
    )


def _less_safe() -> tuple[Advice, ...]:
    """Return the advice of only bulk and reckless; `MINIMAL_LOG` is ordered so that each part is safe to set."""

    def bulk(name: str, value: str, why: str) -> Advice:
        return Advice(name, value, why, "exactly", "bulk")

    return (
        bulk("max_wal_senders", "0", "wal_level=minimal requires it. No replicas and no base backups while it is 0."),
        bulk("archive_mode", "off", "wal_level=minimal requires it. No point-in-time recovery while it is off."),
        bulk("summarize_wal", "off", "wal_level=minimal requires it. No incremental backups while it is off."),
        bulk(
            "wal_level",
            "minimal",
            "Rows that are loaded into a new partition are synced instead of logged: half the writing, at about the "
            "same speed. Hypertables are logged in any case.",
        ),
        bulk(
            "synchronous_commit",
            "off",
            "Small transactions do not wait for the disk; Dagster has many of them. era5 load still commits each month "
            "synchronously.",
        ),
        Advice(
            "fsync",
            "off",
            "A power failure or a crash of the machine can destroy the whole database, for a few percent of a load's "
            "time; on a slow disk, for more.",
            "exactly",
            "reckless",
        ),
    )
