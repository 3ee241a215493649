"""Advised settings for loading months in bulk and reading series: values and reasons, as pure functions.

The advice for a machine, from studies of bulk loads and this project's measurements, and whether a value is good
enough. For querying a server see `server_facts`, for comparing `comparison`, for settings of the embedded server
alone `embedded.cluster`.
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
MachineFact = Literal["memory", "cores", "disk"]

# wal_level=minimal and its prerequisites: a server with only some of them does not start.
MINIMAL_LOG = ("max_wal_senders", "archive_mode", "summarize_wal", "wal_level")

_KB = 1 << 10
_MB = 1 << 20
_GB = 1 << 30
# Units of pg_settings and of values, in bytes or seconds.
_UNITS = {"": 1.0, "B": 1.0, "kB": float(_KB), "MB": float(_MB), "GB": float(_GB), "TB": float(_GB << 10)} | {
    "us": 1e-6,
    "ms": 1e-3,
    "s": 1.0,
    "min": 60.0,
    "h": 3600.0,
    "d": 86400.0,
}
_AMOUNT = re.compile(r"\s*(-?[0-9.]+)\s*([A-Za-z]*)\s*")
_UNIT = re.compile(r"([0-9]*)([A-Za-z]*)")

# Good enough for amounts derived from memory or disk: both vary a little, which does not justify a restart.
_GOOD_ENOUGH = 0.75

_TIMESCALEDB_WORKERS = 16
_TIMESCALEDB_OWN = 3  # as in timescaledb-tune: the launcher and two spare ones


@dataclass(frozen=True)
class Advice:
    """The advised `value` of a setting, as in postgresql.conf; None if the fact `needs` is unknown.

    `enough` says which other values are as good: larger ones, smaller ones, or only those in `also`.
    """

    name: str
    value: str | None
    why: str
    enough: Literal["at least", "at most", "exactly"] = "at least"
    profile: Profile = "safe"
    needs: MachineFact | None = None
    also: tuple[str, ...] = ()

    def is_met_by(self, setting: str, unit: str | None) -> bool:
        """Whether a pg_settings value, in its unit, is as good as the advised one; False if unknown."""
        if self.value is None:
            return False
        if self.enough == "exactly":
            return setting in (self.value, *self.also)
        actual, advised = amount(setting, unit), amount(self.value)
        if self.enough == "at most":
            return actual <= advised
        return actual >= advised * (_GOOD_ENOUGH if self.needs in ("memory", "disk") else 1)


def amount(value: str, unit: str | None = None) -> float:
    """Convert a value to bytes, seconds or a count; `unit` applies to a bare number, as in pg_settings ("8kB").

    Raises:
        ValueError: if it is not a number with a known unit.
    """
    found = _AMOUNT.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r} is not an amount")
    number, own_unit = found.groups()
    return float(number) * _factor(own_unit or unit or "")


def advise(profile: Profile, machine: Machine, *, timescaledb_workers: int | None = None) -> tuple[Advice, ...]:
    """Advise settings for the machine; `timescaledb_workers` is TimescaleDB's limit, None without the extension.

    Not every server has every setting (version, extensions) or supports every value (build options).
    """
    wanted = PROFILES[: PROFILES.index(profile) + 1]
    every = (*_memory(machine), *_log(machine), *_workers(machine.cores, timescaledb_workers), *_other(), *_less_safe())
    return tuple(advice for advice in every if advice.profile in wanted)


def _memory(machine: Machine) -> tuple[Advice, ...]:
    memory = machine.memory_bytes

    def share(name: str, part: int, least: int, most: int, why: str) -> Advice:
        value = None if memory is None else _size(max(least, min(memory // part, most)))
        return Advice(name, value, why, needs="memory")

    unlimited = 1 << 62
    return (
        share(
            "shared_buffers",
            4,
            _MB,
            _GB,
            "Caches indexes and repeated reads; a study went from 647 s with the default of 128MB to 595 s with 2GB. "
            "Beyond 1GB memory is better left to the page cache: COPY uses a ring of 16MB.",
        ),
        share(
            "effective_cache_size",
            2,
            _MB,
            unlimited,
            "The planner's estimate of what is cached; it reserves nothing. If it is too low, indexes are not used.",
        ),
        share(
            "work_mem",
            256,
            4 * _MB,
            64 * _MB,
            "For one sort; a query over many months has several of them in each parallel worker.",
        ),
        share("maintenance_work_mem", 16, 64 * _MB, _GB, "Building indexes and vacuuming, one at a time."),
    )


def _log(machine: Machine) -> tuple[Advice, ...]:
    free = machine.free_bytes
    return (
        Advice(
            "max_wal_size",
            None if free is None else _size(max(_GB, min(free // 10, 8 * _GB))),
            "2 million rows a second, of 77 bytes, fill the default of 1GB, and so start a checkpoint, every seven "
            "seconds. Studies of bulk loads use 16GB and more; the log keeps the disk space, so a tenth of the free "
            "disk is advised, and 8GB at most.",
            needs="disk",
        ),
        Advice(
            "checkpoint_timeout",
            "15min",
            "The first change of a page after a checkpoint logs the whole page; the default is 5min.",
        ),
        Advice(
            "checkpoint_completion_target",
            "0.9",
            "Spreads the writing over the time until the next checkpoint; the studies agree.",
        ),
        Advice(
            "wal_compression",
            "lz4",
            "Replacing a month by DELETE logs its old pages completely: 133 bytes a row, 92 with lz4 in the same time "
            "(pglz: three times as long).",
            enough="exactly",
            also=("zstd",),
        ),
    )


def _workers(cores: int | None, timescaledb_workers: int | None) -> tuple[Advice, ...]:
    extension = None if timescaledb_workers is None else max(timescaledb_workers, _TIMESCALEDB_WORKERS)
    processes = None if cores is None else max(8, cores)
    if processes is not None and extension is not None:
        processes += extension + _TIMESCALEDB_OWN
    advised = [
        Advice(
            "max_parallel_workers",
            _number(cores),
            "One for each core, for queries that read many months.",
            needs="cores",
        ),
        Advice(
            "max_parallel_workers_per_gather",
            None if cores is None else str(max(1, min(cores // 2, 8))),
            "Half of the cores for one query over many months, 8 at most.",
            needs="cores",
        ),
        Advice(
            "max_worker_processes",
            _number(processes),
            "Room for the parallel workers"
            + (" and those of TimescaleDB, as timescaledb-tune counts them." if extension else "."),
            needs="cores",
        ),
    ]
    if extension is not None:
        advised.append(
            Advice(
                "timescaledb.max_background_workers",
                str(_TIMESCALEDB_WORKERS),
                "One per database and one per running policy; timescaledb-tune sets 16.",
            )
        )
    return tuple(advised)


def _other() -> tuple[Advice, ...]:
    return (
        Advice(
            "max_locks_per_transaction",
            "512",
            "A query over all years locks each month's partition or chunk and its index, over 2,000; timescaledb-tune "
            "sets 512, too.",
        ),
        Advice(
            "jit",
            "off",
            "A study of a large installation had 870 records a second with jit, and 1,500 without.",
            enough="exactly",
        ),
        Advice(
            "autovacuum",
            "on",
            "Frees the space of replaced months, and keeps transaction numbers from running out; the studies tune it, "
            "none turns it off.",
            enough="exactly",
        ),
    )


def _less_safe() -> tuple[Advice, ...]:
    """Return the advice of only bulk and reckless; `MINIMAL_LOG` is ordered so that each part is safe to set."""

    def bulk(name: str, value: str, why: str) -> Advice:
        return Advice(name, value, why, "exactly", "bulk")

    def reckless(name: str, value: str, why: str) -> Advice:
        return Advice(name, value, why, "exactly", "reckless")

    return (
        bulk("max_wal_senders", "0", "wal_level=minimal requires it. No replicas and no base backups while it is 0."),
        bulk("archive_mode", "off", "wal_level=minimal requires it. No point-in-time recovery while it is off."),
        bulk("summarize_wal", "off", "wal_level=minimal requires it. No incremental backups while it is off."),
        bulk(
            "wal_level",
            "minimal",
            "Rows that are loaded into a new partition are synced instead of logged: half the writing. Hypertables are "
            "logged in any case.",
        ),
        bulk(
            "synchronous_commit",
            "off",
            "In a study, small transactions were 10 times faster and more without waiting for the disk; Dagster has "
            "many of them. era5 load still commits each month synchronously.",
        ),
        reckless(
            "fsync",
            "off",
            "A power failure or a crash of the machine can destroy the whole database. A study's loads went from 250 "
            "to 462 thousand rows a second with this and full_page_writes off.",
        ),
        reckless(
            "full_page_writes",
            "off",
            "Pages may be left half written, and nothing repairs them. Gains little: a study went from 595 s to 590 s.",
        ),
    )


def _factor(unit: str) -> float:
    found = _UNIT.fullmatch(unit)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{unit!r} is not a unit")
    return int(found[1] or 1) * _UNITS[found[2]]


def _number(count: int | None) -> str | None:
    return None if count is None else str(count)


def _size(count: int) -> str:
    """Format whole megabytes as the server does."""
    megabytes = count // _MB
    return f"{megabytes // 1024}GB" if megabytes % 1024 == 0 and megabytes else f"{megabytes}MB"
