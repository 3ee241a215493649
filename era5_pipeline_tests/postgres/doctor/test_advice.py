"""The advice grows with the machine, profiles contain each other, and values that are good enough are kept."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.postgres.doctor.advice import MINIMAL_LOG, PROFILES, Advice, Profile, advise, amount
from era5_pipeline.postgres.doctor.server_facts import Machine
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

GB = 1 << 30
UNKNOWN = Machine(None, None, None)
BEYOND_SAFE = {*MINIMAL_LOG, "synchronous_commit", "fsync"}

machines = st.builds(
    Machine,
    memory_bytes=st.integers(GB // 4, 4096 * GB),
    cores=st.integers(1, 512),
    free_bytes=st.integers(0, 100_000 * GB),
)


def by_name(profile: Profile, machine: Machine) -> dict[str, Advice]:
    return {advice.name: advice for advice in advise(profile, machine)}


def value(name: str, machine: Machine) -> float:
    return amount(str(by_name("safe", machine)[name].value))


@given(machines, machines)
def test_a_larger_machine_never_gets_smaller_values(one: Machine, other: Machine) -> None:
    larger = Machine(
        max(one.memory_bytes or 0, other.memory_bytes or 0),
        max(one.cores or 0, other.cores or 0),
        max(one.free_bytes or 0, other.free_bytes or 0),
    )
    less, more = (by_name("reckless", machine) for machine in (one, larger))
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
    assert value("max_wal_size", machine) <= max(GB, (machine.free_bytes or 0) / 10)


@given(machines)
def test_each_profile_contains_the_previous_one(machine: Machine) -> None:
    safe, bulk, reckless = (set(advise(profile, machine)) for profile in PROFILES)
    assert safe < bulk < reckless
    assert {advice.name for advice in bulk - safe} == {*MINIMAL_LOG, "synchronous_commit"}
    assert {advice.name for advice in reckless - bulk} == {"fsync"}
    assert not {advice.name for advice in safe} & BEYOND_SAFE


def test_wal_level_comes_after_the_settings_that_it_requires() -> None:
    names = [advice.name for advice in advise("bulk", UNKNOWN)]
    assert {*names[names.index("wal_level") :]} & {*MINIMAL_LOG} == {"wal_level"}


def test_nothing_is_advised_from_unknown_facts() -> None:
    known = Machine(8 * GB, 4, 100 * GB)
    unknown = by_name("reckless", UNKNOWN)
    needy = {name: advice.needs for name, advice in unknown.items() if advice.value is None}
    assert set(needy.values()) == {"memory", "disk"}
    assert {name for name, advice in unknown.items() if advice.needs} == set(needy)
    for fact, machine in (
        ("memory", replace(known, memory_bytes=None)),
        ("disk", replace(known, free_bytes=None)),
    ):
        missing = {name for name, advice in by_name("reckless", machine).items() if advice.value is None}
        assert missing == {name for name, need in needy.items() if need == fact}
    assert all(advice.value for advice in by_name("reckless", known).values())
    assert not unknown["shared_buffers"].is_met_by("131072", "8kB")


def cells(suite: str) -> dict[str, dict[str, float]]:
    """The medians of a suite's cells in the committed results."""
    found = {}
    for path in sorted((ROOT / "benchmarks" / "results").rglob("*.json")):
        for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
            if cell["suite"] == suite and cell["medians"]:
                found[cell["name"]] = {name: median for name, (_, median, _) in cell["medians"].items()}
                found[cell["name"]]["rows"] = cell["rows"]
    return found


def is_faster(setting: str) -> bool:
    measured = cells("settings")
    tables = {name.partition(", ")[2] for name in measured if name.startswith("default, ")}
    assert len(tables) == 2
    return all(measured[f"{setting}, {one}"]["seconds"] < measured[f"default, {one}"]["seconds"] for one in tables)


def logs_less(setting: str) -> bool:
    measured, table = cells("settings"), "a new table for each batch"
    name = "wal_bytes_per_row"
    return measured[f"{setting}, {table}"][name] < measured[f"default, {table}"][name] / 10


def fills_the_default_log_within_a_minute() -> bool:
    measured = [cell for name, cell in cells("settings").items() if name.startswith("default, ")]
    return all(60 * cell["wal_bytes_per_row"] * cell["rows"] / cell["seconds"] > GB for cell in measured)


# The measurement behind each piece of advice; None: not about speed, or measured by a study.
EVIDENCE: dict[str, Callable[[], bool] | None] = {
    "shared_buffers": None,  # a study
    "max_wal_size": fills_the_default_log_within_a_minute,
    "max_locks_per_transaction": None,  # without it, queries over all years fail
    "wal_level": partial(logs_less, "wal_level=minimal"),
    **dict.fromkeys((name for name in MINIMAL_LOG if name != "wal_level"), None),  # required by wal_level=minimal
    "synchronous_commit": partial(is_faster, "synchronous_commit=off"),
    "fsync": partial(is_faster, "fsync=off"),
}


def test_every_advice_has_evidence() -> None:
    assert {advice.name for advice in advise("reckless", UNKNOWN)} == set(EVIDENCE)
    for name, evidence in EVIDENCE.items():
        assert evidence is None or evidence(), name


@pytest.mark.parametrize("setting", ["full_page_writes=off", "wal_compression=pglz", "jit=off"])
def test_what_makes_no_load_faster_is_not_advised(setting: str) -> None:
    assert not is_faster(setting)
    assert setting.partition("=")[0] not in EVIDENCE


def test_every_advice_has_a_reason() -> None:
    for advice in advise("reckless", UNKNOWN):
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
        (Advice("a", "512", "", "at least"), "64", None, False),
        (Advice("a", "0.9", "", "at least"), "0.5", None, False),
        (Advice("a", "0.9", "", "at least"), "0.9", None, True),
        (Advice("a", "off", "", "exactly"), "on", None, False),
        (Advice("a", "off", "", "exactly"), "off", None, True),
        # Free disk and memory vary: values that were right at the server's start still are.
        (Advice("a", "8GB", "", "at least", needs="disk"), "7000", "MB", True),
        (Advice("a", "8GB", "", "at least", needs="disk"), "4096", "MB", False),
        (Advice("a", "8GB", "", "at least", needs="memory"), "7000", "MB", True),
    ],
)
def test_values_that_are_good_enough(advice: Advice, setting: str, unit: str | None, met: bool) -> None:
    assert advice.is_met_by(setting, unit) is met


@given(machines)
def test_advised_values_are_good_enough(machine: Machine) -> None:
    for advice in advise("reckless", machine):
        assert advice.is_met_by(str(advice.value), None)
