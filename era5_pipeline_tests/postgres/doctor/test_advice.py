"""The advice grows with the machine, profiles contain each other, and values that are good enough are kept."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.postgres.doctor.advice import MINIMAL_LOG, PROFILES, Advice, Profile, advise, amount
from era5_pipeline.postgres.doctor.server_facts import Machine

GB = 1 << 30
UNKNOWN = Machine(None, None, None)
BEYOND_SAFE = {*MINIMAL_LOG, "synchronous_commit", "fsync", "full_page_writes"}

machines = st.builds(
    Machine,
    memory_bytes=st.integers(GB // 4, 4096 * GB),
    cores=st.integers(1, 512),
    free_bytes=st.integers(0, 100_000 * GB),
)
workers = st.none() | st.integers(0, 100)


def by_name(profile: Profile, machine: Machine, timescaledb_workers: int | None = None) -> dict[str, Advice]:
    return {advice.name: advice for advice in advise(profile, machine, timescaledb_workers=timescaledb_workers)}


def value(name: str, machine: Machine, timescaledb_workers: int | None = None) -> float:
    return amount(str(by_name("safe", machine, timescaledb_workers)[name].value))


@given(machines, machines, workers)
def test_a_larger_machine_never_gets_smaller_values(
    one: Machine, other: Machine, timescaledb_workers: int | None
) -> None:
    larger = Machine(
        max(one.memory_bytes or 0, other.memory_bytes or 0),
        max(one.cores or 0, other.cores or 0),
        max(one.free_bytes or 0, other.free_bytes or 0),
    )
    less, more = (by_name("reckless", machine, timescaledb_workers) for machine in (one, larger))
    assert less.keys() == more.keys()
    for name, advice in less.items():
        if advice.enough == "exactly":
            assert advice.value == more[name].value
        else:
            assert amount(str(advice.value)) <= amount(str(more[name].value))


@given(machines)
def test_memory_and_disk_are_left_for_other_uses(machine: Machine) -> None:
    memory = machine.memory_bytes or 0
    assert value("shared_buffers", machine) <= min(memory / 4, GB)
    assert value("shared_buffers", machine) + value("maintenance_work_mem", machine) <= memory / 2
    assert value("max_wal_size", machine) <= max(GB, (machine.free_bytes or 0) / 10)
    assert value("max_parallel_workers_per_gather", machine) <= value("max_parallel_workers", machine)
    assert value("max_parallel_workers", machine) <= value("max_worker_processes", machine)


@given(machines, st.integers(0, 100))
def test_timescaledb_gets_workers_in_addition_to_those_of_queries(machine: Machine, now: int) -> None:
    with_it = value("max_worker_processes", machine, now)
    assert with_it >= value("max_worker_processes", machine) + max(now, 16)
    assert value("timescaledb.max_background_workers", machine, now) == 16
    assert "timescaledb.max_background_workers" not in by_name("reckless", machine)


@given(machines, workers)
def test_each_profile_contains_the_previous_one(machine: Machine, timescaledb_workers: int | None) -> None:
    safe, bulk, reckless = (
        set(advise(profile, machine, timescaledb_workers=timescaledb_workers)) for profile in PROFILES
    )
    assert safe < bulk < reckless
    assert {advice.name for advice in bulk - safe} == {*MINIMAL_LOG, "synchronous_commit"}
    assert {advice.name for advice in reckless - bulk} == {"fsync", "full_page_writes"}
    assert not {advice.name for advice in safe} & BEYOND_SAFE


def test_wal_level_comes_after_the_settings_that_it_requires() -> None:
    names = [advice.name for advice in advise("bulk", UNKNOWN)]
    assert {*names[names.index("wal_level") :]} & {*MINIMAL_LOG} == {"wal_level"}


def test_nothing_is_advised_from_unknown_facts() -> None:
    known = Machine(8 * GB, 4, 100 * GB)
    unknown = by_name("reckless", UNKNOWN, 16)
    needy = {name: advice.needs for name, advice in unknown.items() if advice.value is None}
    assert set(needy.values()) == {"memory", "cores", "disk"}
    assert {name for name, advice in unknown.items() if advice.needs} == set(needy)
    for fact, machine in (
        ("memory", replace(known, memory_bytes=None)),
        ("cores", replace(known, cores=None)),
        ("disk", replace(known, free_bytes=None)),
    ):
        missing = {name for name, advice in by_name("reckless", machine, 16).items() if advice.value is None}
        assert missing == {name for name, need in needy.items() if need == fact}
    assert all(advice.value for advice in by_name("reckless", known, 16).values())
    assert not unknown["shared_buffers"].is_met_by("131072", "8kB")


def test_every_advice_has_a_reason() -> None:
    for advice in advise("reckless", UNKNOWN, timescaledb_workers=16):
        assert len(advice.why) > 20
        assert advice.why.endswith(".")


@pytest.mark.parametrize(
    ("text", "unit", "expected"),
    [
        ("131072", "8kB", GB),
        ("1048576", "kB", GB),
        ("1024", "MB", GB),
        ("1GB", None, GB),
        ("1GB", "8kB", GB),  # its own unit takes precedence
        ("2TB", None, 2048 * GB),
        ("7", "16kB", 7 * 16 * 1024),  # a server built with another block size
        ("512", "B", 512),
        ("900", "s", 900),
        ("15min", None, 900),
        ("900000", "ms", 900),
        ("15", "min", 900),
        ("1d", None, 86400),
        ("200us", None, 2e-4),
        ("0.9", None, 0.9),
        ("-1", "kB", -1024),
        ("512", None, 512),
    ],
)
def test_amounts_in_base_units(text: str, unit: str | None, expected: float) -> None:
    assert amount(text, unit) == pytest.approx(expected)


@pytest.mark.parametrize(("text", "unit"), [("on", None), ("", None), ("1 gallon", None), ("1", "gallon")])
def test_text_that_is_not_an_amount_is_an_error(text: str, unit: str | None) -> None:
    with pytest.raises(ValueError, match=r"is not an? "):
        amount(text, unit)


@pytest.mark.parametrize(
    ("advice", "setting", "unit", "met"),
    [
        (Advice("a", "512MB", "", "at least"), "65536", "8kB", True),
        (Advice("a", "512MB", "", "at least"), "65535", "8kB", False),
        (Advice("a", "512MB", "", "at least"), "99999", "8kB", True),
        (Advice("a", "15min", "", "at least"), "300", "s", False),
        (Advice("a", "15min", "", "at least"), "1800000", "ms", True),
        (Advice("a", "512", "", "at least"), "64", None, False),
        (Advice("a", "0.9", "", "at least"), "0.5", None, False),
        (Advice("a", "0.9", "", "at least"), "0.9", None, True),
        (Advice("a", "1GB", "", "at most"), "2048", "MB", False),
        (Advice("a", "1GB", "", "at most"), "1024", "MB", True),
        (Advice("a", "off", "", "exactly"), "on", None, False),
        (Advice("a", "off", "", "exactly"), "off", None, True),
        (Advice("a", "lz4", "", "exactly", also=("zstd",)), "zstd", None, True),
        (Advice("a", "lz4", "", "exactly", also=("zstd",)), "pglz", None, False),
        # Free disk and memory vary: values that were right at the server's start still are.
        (Advice("a", "8GB", "", "at least", needs="disk"), "7000", "MB", True),
        (Advice("a", "8GB", "", "at least", needs="disk"), "4096", "MB", False),
        (Advice("a", "8GB", "", "at least", needs="memory"), "7000", "MB", True),
        (Advice("a", "8", "", "at least", needs="cores"), "7", None, False),
    ],
)
def test_values_that_are_good_enough(advice: Advice, setting: str, unit: str | None, met: bool) -> None:
    assert advice.is_met_by(setting, unit) is met


@given(machines)
def test_advised_values_are_good_enough(machine: Machine) -> None:
    for advice in advise("reckless", machine, timescaledb_workers=16):
        assert advice.is_met_by(str(advice.value), None)
