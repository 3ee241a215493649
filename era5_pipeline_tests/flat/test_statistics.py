"""Tests of `flat/statistics`."""

from __future__ import annotations

import struct
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from era5_pipeline.flat import statistics
from era5_pipeline.flat.statistics import MODULUS, ColumnRules, RowWeights, digest_text
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.variables import BY_COLUMN

if TYPE_CHECKING:
    import numpy.typing as npt
    import pytest

    Floats = npt.NDArray[np.float32]
    Integers = npt.NDArray[np.int64]

FIRST_HOUR = -262_992  # 1940-01-01T00


def splitmix64(number: int) -> int:
    mixed = number * 0x9E3779B97F4A7C15 % MODULUS
    mixed = (mixed ^ mixed >> 30) * 0xBF58476D1CE4E5B9 % MODULUS
    mixed = (mixed ^ mixed >> 27) * 0x94D049BB133111EB % MODULUS
    return mixed ^ mixed >> 31


def in_python(values: Floats, location_ids: Integers, hours: Integers, present: npt.NDArray[np.bool_] | None) -> int:
    total = 0
    for (row, column), value in np.ndenumerate(values):
        if present is None or present[row, column]:
            (bits,) = struct.unpack("<I", struct.pack("<f", value)) if not np.isnan(value) else (0x7FC00000,)
            of_location = splitmix64(int(location_ids[row]) + (1 << 60)) | 1
            of_hour = splitmix64(int(hours[column]) + (2 << 60)) | 1
            total += ((bits ^ bits >> 16) + 1) * of_location * of_hour
    return total % MODULUS


any_value = st.one_of(st.floats(width=32), st.sampled_from([0.0, -0.0, np.nan, 1e-45, -1e-45, np.inf]))


@st.composite
def months(draw: st.DrawFn) -> tuple[Floats, Integers, Integers]:
    """Values (location, hour), location ids, and hours."""
    shape = (draw(st.integers(1, 6)), draw(st.integers(1, 8)))
    values = draw(npst.arrays(np.float32, shape, elements=any_value))
    places = draw(st.lists(st.integers(1, 1_038_240), min_size=shape[0], max_size=shape[0], unique=True))
    hours = draw(st.lists(st.integers(FIRST_HOUR, 1_000_000), min_size=shape[1], max_size=shape[1], unique=True))
    return values, np.array(places), np.array(hours)


@given(months(), st.data())
def test_the_digest_is_the_sum_over_rows_of_bits_times_weights(
    month: tuple[Floats, Integers, Integers], data: st.DataObject
) -> None:
    values, places, hours = month
    assert RowWeights(places, hours).digest(values) == in_python(values, places, hours, None)
    present = data.draw(npst.arrays(np.bool_, values.shape))
    assert RowWeights(places, hours, present).digest(values) == in_python(values, places, hours, present)
    everywhere = np.ones(values.shape, dtype=np.bool_)
    assert RowWeights(places, hours, everywhere).digest(values) == RowWeights(places, hours).digest(values)


@given(months(), any_value, st.data())
def test_another_value_in_any_row_changes_the_digest(
    month: tuple[Floats, Integers, Integers], other: float, data: st.DataObject
) -> None:
    values, places, hours = month
    row, column = (data.draw(st.integers(0, size - 1)) for size in values.shape)
    changed = values.copy()
    changed[row, column] = other
    assume(changed.tobytes() != values.tobytes())
    assume(not (np.isnan(other) and np.isnan(values[row, column])))
    weights = RowWeights(places, hours)
    assert weights.digest(changed) != weights.digest(values)


@given(months(), st.data())
def test_the_smallest_step_of_any_value_changes_the_digest(
    month: tuple[Floats, Integers, Integers], data: st.DataObject
) -> None:
    values, places, hours = month
    row, column = (data.draw(st.integers(0, size - 1)) for size in values.shape)
    assume(np.isfinite(values[row, column]))
    weights = RowWeights(places, hours)
    for towards in (-np.inf, np.inf):
        changed = values.copy()
        with np.errstate(over="ignore"):  # the step above the largest float32 is infinity
            changed[row, column] = np.nextafter(values[row, column], np.float32(towards))
        assert weights.digest(changed) != weights.digest(values)


@given(months(), st.data())
def test_order_and_grouping_do_not_change_the_digest(
    month: tuple[Floats, Integers, Integers], data: st.DataObject
) -> None:
    values, places, hours = month
    whole = RowWeights(places, hours).digest(values)
    order = np.array(data.draw(st.permutations(range(places.size))))
    turn = np.array(data.draw(st.permutations(range(hours.size))))
    assert RowWeights(places[order], hours[turn]).digest(values[order][:, turn]) == whole
    row, column = data.draw(st.integers(0, places.size)), data.draw(st.integers(0, hours.size))
    portions = [
        RowWeights(places[rows], hours[columns]).digest(values[rows, columns])
        for rows in (slice(row), slice(row, None))
        for columns in (slice(column), slice(column, None))
    ]
    assert sum(portions) % MODULUS == whole


@given(months(), st.integers(0, 5), st.integers(0, 7))
def test_an_absent_row_differs_from_a_zero_and_from_a_missing_value(
    month: tuple[Floats, Integers, Integers], row: int, column: int
) -> None:
    values, places, hours = month
    row, column = row % values.shape[0], column % values.shape[1]
    present = np.ones(values.shape, dtype=np.bool_)
    present[row, column] = False
    found = set()
    for value in (0.0, -0.0, np.nan):
        values[row, column] = value
        found.add(RowWeights(places, hours).digest(values))
    without = RowWeights(places, hours, present)
    assert len(found) == 3
    assert without.digest(values) not in found
    values[row, column] = 5.0  # the value of an absent row is ignored
    values_before = without.digest(values)
    values[row, column] = np.nan
    assert without.digest(values) == values_before


def test_swapped_values_change_the_digest() -> None:
    values = np.arange(12, dtype=np.float32).reshape(3, 4)
    places, hours = np.array([7, 8, 1_038_240]), np.arange(4) + FIRST_HOUR
    weights = RowWeights(places, hours)
    found = {
        weights.digest(turned)
        for turned in (values, values[::-1], values[:, ::-1], np.roll(values, 1, axis=1), np.roll(values, 1, axis=0))
    }
    assert len(found) == 5
    assert RowWeights(places + 1, hours).digest(values) not in found
    assert RowWeights(places, hours + 1).digest(values) not in found


def test_all_nans_have_the_same_digest() -> None:
    patterns = np.array([0x7FC00000, 0xFFC00000, 0x7FC00001, 0x7F800001], dtype=np.uint32)
    weights = RowWeights(np.array([1]), np.array([0]))
    assert len({weights.digest(pattern.reshape(1, 1).view(np.float32)) for pattern in patterns}) == 1


def test_changing_every_sign_changes_the_digest() -> None:
    """The sign is the highest bit: unless mixed into lower ones, it would affect the highest bits of the sum only."""
    random = np.random.default_rng(1)
    values = random.normal(size=(50, 744)).astype(np.float32)
    weights = RowWeights(np.arange(50), np.arange(744))
    found = {weights.digest(np.where(random.random(values.shape) < 0.5, -values, values)) for _ in range(200)}
    assert len(found) == 200
    assert len({digest % (1 << 32) for digest in found}) == 200


def test_the_size_of_portions_does_not_change_the_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    values = np.random.default_rng(1).normal(size=(100, 24)).astype(np.float32)
    values[::3, ::5] = np.nan
    for present in (None, np.random.default_rng(2).random(values.shape) < 0.5):
        weights = RowWeights(np.arange(100), np.arange(24), present)
        whole = weights.digest(values)
        assert whole == in_python(values, np.arange(100), np.arange(24), present)
        for size in (1, 24, 100, 2400, 10**9):
            monkeypatch.setattr(statistics, "_CACHED_VALUES", size)
            assert weights.digest(values) == whole
            assert weights.digest(np.asfortranarray(values)) == whole


def test_the_digest_as_text_has_sixteen_digits() -> None:
    assert digest_text(0) == "0" * 16
    assert digest_text(MODULUS + 255) == "00000000000000ff"
    assert digest_text(MODULUS - 1) == "f" * 16


# --- Sums ---


@given(data=st.data())
def test_compiled_sums_are_those_of_numpy_to_the_bit(data: st.DataObject) -> None:
    """Values may be out of bounds or missing; a month has 1 to 744 hours."""
    variable = BY_COLUMN[data.draw(st.sampled_from(["temperature_2m", "total_precipitation", "zonal_wind_10m"]))]
    shape = (data.draw(st.integers(1, 5)), data.draw(st.integers(1, 744)))
    inside = st.floats(float(np.ceil(variable.minimum)), float(np.floor(variable.maximum)), width=32)
    elements = st.one_of(inside, st.floats(width=32)) if data.draw(st.booleans()) else inside
    values = data.draw(npst.arrays(np.float32, shape, elements=elements, fill=inside))
    values = np.where(data.draw(npst.arrays(np.bool_, shape, fill=st.just(False))), np.float32("nan"), values)
    ids, hours = np.arange(1, shape[0] + 1), np.arange(shape[1])
    rules = ColumnRules(variable, hours, np.ones(0, dtype=np.bool_), np.ones(0, dtype=np.bool_), ERA5_GRID)
    areas = np.linspace(0.1, 1.0, shape[0])
    with np.errstate(all="ignore"):
        found = [replace(rules, is_compiled=way).sums(values, RowWeights(ids, hours), areas) for way in (False, True)]
    by_numpy, compiled = (asdict(sums) for sums in found)
    for name, expected in [*by_numpy.pop("by_location").items(), *by_numpy.items()]:
        given_value = compiled["by_location"].get(name, compiled.get(name))
        np.testing.assert_array_equal(given_value, expected, err_msg=name)
