"""Versions that a store states by hour: what of its arrays `expver` and `status` counts as final."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hour_of, hours_of_month
from era5_pipeline.sources.zarr.earthmover import EarthmoverSource
from era5_pipeline.sources.zarr.stated_versions import codes_of
from era5_pipeline_tests.sources.cds.source_under_test import inventory
from era5_pipeline_tests.sources.zarr.test_icechunk_objects import NEEDS_ICECHUNK, address_of
from era5_pipeline_tests.sources.zarr.test_source import source
from era5_pipeline_tests.zarr_stores import BOXES, LATITUDES, LONGITUDES, weather, write_repository, write_store

if TYPE_CHECKING:
    from pathlib import Path

MONTH = Month(2020, 2)
HOURS = range(hours_of_month(MONTH).start - 24, hours_of_month(MONTH).start + 48)
ONE = ("temperature_2m",)
# The attributes that CF has for such arrays.
FLAGS: dict[str, Any] = {"flag_values": [0, 1, 2], "flag_meanings": "final preliminary suspect"}
BY_AGE, FINAL, PRELIMINARY, UNKNOWN = "by age", "0001", "0005", "unknown"


def add(group: zarr.Group, name: str, values: Any, dims: tuple[str, ...] = ("valid_time",), **attributes: Any) -> None:
    """Add an array to a store; its chunks are of 24 hours and all places."""
    array = group.create_array(
        name,
        shape=np.shape(values),
        chunks=tuple(24 if dim == "valid_time" else size for dim, size in zip(dims, np.shape(values), strict=True)),
        dtype=np.asarray(values).dtype,
        fill_value=0,
        dimension_names=dims,
        attributes=attributes,
        config={"write_empty_chunks": attributes.pop("is_written", True)},
    )
    array[...] = values


def days(*values: int) -> np.ndarray:
    """A value for each day of HOURS."""
    return np.repeat(np.array(values, np.int8), 24)


def at_places(by_hour: np.ndarray, *, differs: bool = False) -> np.ndarray:
    values = np.broadcast_to(by_hour[:, None, None], (by_hour.size, LATITUDES.size, LONGITUDES.size)).copy()
    values[-1, -1, -1] += differs
    return values


PLACES = ("valid_time", "lat", "lon")


@pytest.mark.parametrize(
    ("arrays", "versions", "unclear"),
    [
        ({"expver": (days(1, 1, 5),)}, {FINAL: 24, PRELIMINARY: 24}, ""),
        ({"status": (days(0, 0, 0),)}, {FINAL: 48}, ""),
        ({"status": (at_places(days(0, 0, 0)), PLACES)}, {FINAL: 48}, ""),
        ({"status": (at_places(days(0, 0, 0), differs=True), PLACES)}, {FINAL: 47, UNKNOWN: 1}, ""),
        ({"status": (days(0, 3, 0),)}, {FINAL: 24, UNKNOWN: 24}, "values of status have no known meaning (0003)"),
        # Two arrays: neither overrules the other.
        ({"expver": (days(1, 1, 1),), "status": (days(0, 0, 1),)}, {FINAL: 24, UNKNOWN: 24}, "(0001)"),
        ({"expver": (days(5, 5, 5),), "status": (days(0, 0, 0),)}, {PRELIMINARY: 48}, ""),
        ({"status": (np.zeros(2, np.int8), ("lat",))}, {UNKNOWN: 48}, "status is not by hour (lat)"),
    ],
)
def test_only_what_is_understood_is_a_version(
    tmp_path: Path, arrays: dict[str, Any], versions: dict[str, int], unclear: str
) -> None:
    write_store(tmp_path / "store", BOXES, HOURS, ONE)
    group = zarr.open_group(str(tmp_path / "store"))
    for name, of_one in arrays.items():
        add(group, name, *of_one)
    said: list[str] = []
    opened = source(tmp_path / "store", tmp_path / "raw", *ONE, say=said.append)
    assert inventory(opened.fetch(MONTH), tmp_path).expver == {"temperature_2m": versions}
    told = [text for text in said if "these hours have their version by age" in text]
    assert [unclear in text for text in told] == ([True] if unclear else [])


@pytest.mark.parametrize(
    ("attributes", "codes"),
    [
        ({}, {"0000": 1}),
        (FLAGS, {"0000": 1, "0001": 2}),
        ({"flag_values": "0, 1", "flag_meanings": "ERA5T ERA5"}, {"0000": 2, "0001": 1}),
        # Nothing follows from 0, if it means something else.
        ({"flag_values": [0], "flag_meanings": "good"}, {}),
        ({"flag_values": [0, 1], "flag_meanings": "final"}, {}),
        ({"flag_meanings": "final"}, {}),
    ],
)
def test_meanings_are_those_of_the_attributes(attributes: dict[str, Any], codes: dict[str, int]) -> None:
    assert codes_of("status", attributes) == codes


@NEEDS_ICECHUNK
def test_hours_of_unknown_status_are_final_by_age_in_a_snapshot_and_that_is_said_once(tmp_path: Path) -> None:
    hours = range(HOURS.start, hours_of_month(MONTH).stop)
    by_day = [0] * 9 + [2] * 10 + [1] * 11  # of the last 29 days, 10 are of unknown meaning

    def state(session: Any) -> None:
        add(zarr.open_group(session.store, path="single/temporal"), "status", days(*by_day), **FLAGS)

    write_repository(tmp_path / "era5", hours, ONE, also=state)
    said: list[str] = []
    opened = source(address_of(tmp_path / "era5"), tmp_path / "raw", *ONE, say=said.append)
    assert opened.final_months() == frozenset()
    raw = opened.fetch(MONTH)
    counts = {FINAL: 8 * 24, BY_AGE: 10 * 24, PRELIMINARY: 11 * 24}
    assert inventory(raw, tmp_path).expver == {"temperature_2m": counts}
    assert sum("values of status have no known meaning (0002)" in text for text in said) == 1


@NEEDS_ICECHUNK
def test_the_stores_word_counts_more_than_the_age_of_a_month(tmp_path: Path) -> None:
    """A young month that is stated final is; chunks of a status that were never written state nothing."""
    young = Month.from_number(Month.of(datetime.now(tz=UTC)).number - 2)
    hours = hours_of_month(young)
    for number, is_written in enumerate((True, False)):

        def state(session: Any, is_written: bool = is_written) -> None:
            values = np.zeros(len(hours), np.int8)
            add(zarr.open_group(session.store, path="single/temporal"), "status", values, is_written=is_written)

        write_repository(tmp_path / str(number), hours, ONE, also=state)
        opened = source(address_of(tmp_path / str(number)), tmp_path / "raw", *ONE)
        assert opened.final_months() == ({young} if is_written else set())
        version = FINAL if is_written else PRELIMINARY
        assert inventory(opened.fetch(young), tmp_path).expver == {"temperature_2m": {version: len(hours)}}
        assert hour_of(young.start) == hours.start


@NEEDS_ICECHUNK
def test_months_that_lack_values_are_not_final_until_the_store_changes(tmp_path: Path) -> None:
    hours = hours_of_month(MONTH)
    values = weather(hours, ONE)
    values[ONE[0]][100:] = np.nan
    write_repository(tmp_path / "era5", hours, ONE, values)
    address = address_of(tmp_path / "era5")
    opened = source(address, tmp_path / "raw", *ONE)
    assert opened.final_months() == {MONTH}
    raw = opened.fetch(MONTH)
    opened.record_completeness(raw, is_complete=False)
    assert opened.final_months() == frozenset()
    open_store = EarthmoverSource(opened.access, opened.folder, opened.request)
    assert open_store.final_months() == frozenset()
    write_repository(tmp_path / "era5", hours, ONE)
    assert opened.final_months() == open_store.final_months() == {MONTH}


def test_a_status_that_is_damaged_states_nothing(tmp_path: Path) -> None:
    write_store(tmp_path / "store", BOXES, HOURS, ONE)
    add(zarr.open_group(str(tmp_path / "store")), "status", days(0, 0, 0))
    (tmp_path / "store" / "status" / "c" / "1").write_bytes(b"no chunk")
    said: list[str] = []
    raw = source(tmp_path / "store", tmp_path / "raw", *ONE, say=said.append).fetch(MONTH)
    assert inventory(raw, tmp_path).expver == {"temperature_2m": {FINAL: 24, UNKNOWN: 24}}
    assert any("status cannot be decoded" in text for text in said)
