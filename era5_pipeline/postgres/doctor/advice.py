"""What a server's settings should be for loading months in bulk and reading series: values, and why; pure functions.

Here: the advice, by the machine, from the studies of bulk loads and from what was measured here; and whether a value is
good enough. Not here: any server (`facts`, `comparison`), or what is right for the embedded one alone (`tuning`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

if TYPE_CHECKING:
    from era5_pipeline.postgres.doctor.machine import Machine

# Each contains the one before it. safe: nothing durable is given up. bulk: no committed month is lost, but there are
# no replicas, no archive and no point-in-time recovery meanwhile. reckless: a power failure can cost the database.
Profile = Literal["safe", "bulk", "reckless"]
PROFILES: tuple[Profile, ...] = get_args(Profile)
MachineFact = Literal["memory", "cores", "disk"]

# What wal_level=minimal asks for: a server with one of these and not the others does not start.
MINIMAL_LOG = ("max_wal_senders", "archive_mode", "summarize_wal", "wal_level")

_KB = 1 << 10
_MB = 1 << 20
_GB = 1 << 30
# What a unit, of pg_settings or in a value, is of bytes or seconds.
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

# Of an amount that follows from memory or disk: both move a little, and nobody should restart a server for that.
_GOOD_ENOUGH = 0.75

_TIMESCALEDB_WORKERS = 16
_TIMESCALEDB_OWN = 3  # what timescaledb-tune adds: its launcher, and two to spare


@dataclass(frozen=True)
class Advice:
    """What one setting should be: `value`, in the words of postgresql.conf; None while the fact `needs` is not known.

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
        """Whether the value of pg_settings, in its unit, is as advised or as good; False where nothing is known."""
        if self.value is None:
            return False
        if self.enough == "exactly":
            return setting in (self.value, *self.also)
        actual, advised = amount(setting, unit), amount(self.value)
        if self.enough == "at most":
            return actual <= advised
        return actual >= advised * (_GOOD_ENOUGH if self.needs in ("memory", "disk") else 1)


def amount(value: str, unit: str | None = None) -> float:
    """A value in bytes, seconds or pieces; `unit` is what a bare number is of, as pg_settings writes it ("8kB").

    Raises:
        ValueError: if it is no number with a known unit.
    """
    found = _AMOUNT.fullmatch(value)
    if found is None:
        raise ValueError(f"{value!r} is no amount")
    number, own_unit = found.groups()
    return float(number) * _factor(own_unit or unit or "")


def advise(profile: Profile, machine: Machine, *, timescaledb_workers: int | None = None) -> tuple[Advice, ...]:
    """What the settings should be on the machine; `timescaledb_workers`: how many TimescaleDB may start, None without.

    A setting may not be there on every server (its version, its extensions), nor every value (how it was built).
    """
    wanted = PROFILES[: PROFILES.index(profile) + 1]
    every = (*_memory(machine), *_log(machine), *_workers(machine.cores, timescaledb_workers), *_other(), *_less_safe())
    return tuple(advice for advice in every if advice.profile in wanted)


def _memory(machine: Machine) -> tuple[Advice, ...]:
    memory = machine.memory_bytes

    def share(name: str, part: int, least: int, most: int, why: str) -> Advice:
        value = None if memory is None else _size(max(least, min(memory // part, most)))
        return Advice(name, value, why, needs="memory")

    endless = 1 << 62
    return (
        share(
            "shared_buffers",
            4,
            _MB,
            _GB,
            "Indexes and what is asked again; a study went from 647 s with the default of 128MB to 595 s with 2GB. "
            "Beyond 1GB memory is better left to the page cache: COPY passes by in a ring of 16MB.",
        ),
        share(
            "effective_cache_size",
            2,
            _MB,
            endless,
            "What the planner takes to be cached; it reserves nothing. Too low, and it shuns indexes.",
        ),
        share(
            "work_mem",
            256,
            4 * _MB,
            64 * _MB,
            "Sorts of one query, of which an aggregate over many months has some in each parallel worker.",
        ),
        share("maintenance_work_mem", 16, 64 * _MB, _GB, "Building indexes and vacuuming, one at a time."),
    )


def _log(machine: Machine) -> tuple[Advice, ...]:
    free = machine.free_bytes
    return (
        Advice(
            "max_wal_size",
            None if free is None else _size(max(_GB, min(free // 10, 8 * _GB))),
            "2 million rows a second, of 77 bytes, fill the default of 1GB, and thereby start a checkpoint, every "
            "seven seconds. Studies of bulk loads take 16GB and more; the log keeps the place, hence a tenth of the "
            "free disk, and 8GB at most.",
            needs="disk",
        ),
        Advice(
            "checkpoint_timeout",
            "15min",
            "The first change of a page after a checkpoint logs it whole; the default is 5min.",
        ),
        Advice(
            "checkpoint_completion_target",
            "0.9",
            "Spreads the writing over the time until the next checkpoint; the studies agree.",
        ),
        Advice(
            "wal_compression",
            "lz4",
            "Replacing a month by DELETE logs its old pages whole: 133 bytes a row, 92 with lz4 in the same time "
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
            + (" and, beside them, TimescaleDB's, as timescaledb-tune counts them." if extension else "."),
            needs="cores",
        ),
    ]
    if extension is not None:
        advised.append(
            Advice(
                "timescaledb.max_background_workers",
                str(_TIMESCALEDB_WORKERS),
                "One a database and one for each policy at work; timescaledb-tune takes 16.",
            )
        )
    return tuple(advised)


def _other() -> tuple[Advice, ...]:
    return (
        Advice(
            "max_locks_per_transaction",
            "512",
            "A query over all years locks each month's partition or chunk and its index, over 2,000; timescaledb-tune "
            "takes 512, too.",
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
            "Gives room back where months were replaced, and keeps transaction numbers from running out; the studies "
            "tune it and do not turn it off.",
            enough="exactly",
        ),
    )


def _less_safe() -> tuple[Advice, ...]:
    """What only bulk and reckless ask for; the parts of `MINIMAL_LOG` in the order in which they are safe to set."""

    def bulk(name: str, value: str, why: str) -> Advice:
        return Advice(name, value, why, "exactly", "bulk")

    def reckless(name: str, value: str, why: str) -> Advice:
        return Advice(name, value, why, "exactly", "reckless")

    return (
        bulk("max_wal_senders", "0", "wal_level=minimal demands it. No replicas and no base backups while it is 0."),
        bulk("archive_mode", "off", "wal_level=minimal demands it. No point-in-time recovery while it is off."),
        bulk("summarize_wal", "off", "wal_level=minimal demands it. No incremental backups while it is off."),
        bulk(
            "wal_level",
            "minimal",
            "What is loaded into a fresh partition is synced instead of logged: half the writing. Hypertables are "
            "logged all the same.",
        ),
        bulk(
            "synchronous_commit",
            "off",
            "A study: commits that wait for the disk decide the rate of small ones (10 times and more), which Dagster "
            "has many of. era5 load commits each month synchronously all the same.",
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
            "Pages may be left torn, and nothing mends them. Gains little: a study went from 595 s to 590 s.",
        ),
    )


def _factor(unit: str) -> float:
    found = _UNIT.fullmatch(unit)
    if found is None or found[2] not in _UNITS:
        raise ValueError(f"{unit!r} is no unit")
    return int(found[1] or 1) * _UNITS[found[2]]


def _number(count: int | None) -> str | None:
    return None if count is None else str(count)


def _size(count: int) -> str:
    """Whole megabytes, written as the server writes them."""
    megabytes = count // _MB
    return f"{megabytes // 1024}GB" if megabytes % 1024 == 0 and megabytes else f"{megabytes}MB"
