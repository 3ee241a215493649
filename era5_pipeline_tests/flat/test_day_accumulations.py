"""Tests of `flat/day_accumulations`."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.flat.day_accumulations import (
    DaySum,
    Falls,
    add_up,
    amounts_of_rows,
    falls,
    lower_bound,
    seems_accumulated,
    wrong_day_sum,
)
from era5_pipeline.model.times import hour_of
from era5_pipeline.model.variables import ERA5_LAND_CATALOGUE
from era5_pipeline.runtime.compiled import is_available
from era5_pipeline_tests.samples import DATA

if TYPE_CHECKING:
    from pathlib import Path

    import numpy.typing as npt

    Doubles = npt.NDArray[np.float64]
    Hours = npt.NDArray[np.int64]

MIDNIGHT = hour_of(datetime(2025, 2, 18, tzinfo=UTC))
INDONESIA = DATA / "era5" / "indonesia-land-2023-07-10" / "data_0.nc"
SIERRA_LEONE = next((DATA / "era5" / "sierra-leone-land-2025-02").iterdir())
TP, SSRD, E = (ERA5_LAND_CATALOGUE.find(name) for name in ("tp", "ssrd", "e"))


def hours_from(first: int, count: int) -> Hours:
    return np.arange(first, first + count, dtype=np.int64)


def accumulated(amounts: Doubles, hours: Hours) -> Doubles:
    """Sums since 00 UTC of amounts of hours, (hour, ...), which begin at 01 UTC."""
    assert hours[0] % 24 == 1
    sums = np.zeros_like(amounts)
    for position, hour in enumerate(hours):
        sums[position] = amounts[position] + (0.0 if hour % 24 == 1 else sums[position - 1])
    return sums


def values_of(path: Path, name: str) -> tuple[Doubles, Hours]:
    with netCDF4.Dataset(path) as file:
        values = np.ma.filled(file[name][:].astype(np.float64), np.nan)
        return values, np.asarray(file["valid_time"][:], dtype=np.int64) // 3600


def hourly_amounts(values: npt.NDArray[np.floating[Any]], hours: Hours) -> Doubles:
    """The amounts in float64, not yet rounded to the table's float32."""
    amounts = np.diff(values.astype(np.float64), axis=0, prepend=np.nan)
    amounts[np.diff(hours, prepend=hours[0]) != 1] = np.nan
    amounts[hours % 24 == 1] = values[hours % 24 == 1]
    return amounts


@pytest.mark.parametrize(
    "is_compiled", [False, pytest.param(True, marks=pytest.mark.skipif(not is_available(), reason="numba"))]
)
@given(
    first=st.integers(0, 23),
    left_out=st.sets(st.integers(0, 59), max_size=5),
    before=st.sampled_from([None, 0.0, 7.0]),
    seed=st.integers(0, 2**32 - 1),
)
def test_amounts_of_rows_are_those_of_each_place_by_itself_to_the_bit(
    first: int, left_out: set[int], before: float | None, seed: int, is_compiled: bool
) -> None:
    random = np.random.default_rng(seed)
    hours = np.delete(hours_from(MIDNIGHT + first, 60), sorted(left_out))
    sums = random.uniform(0, 1e7, (5, hours.size))
    sums[random.uniform(size=sums.shape) < 0.05] = np.nan
    sums[4] = np.nan
    last = np.full(5, np.nan if before is None else before)
    amounts = amounts_of_rows(sums, last, hours, MIDNIGHT + first - 1, is_compiled=is_compiled)
    wanted = np.full(sums.shape, np.nan, dtype=np.float32)
    known = {(MIDNIGHT + first - 1, place): last[place] for place in range(5)}
    known |= {(hour, place): sums[place, at] for at, hour in enumerate(hours.tolist()) for place in range(5)}
    for at, hour in enumerate(hours.tolist()):
        for place in range(5):
            earlier = 0.0 if hour % 24 == 1 else known.get((hour - 1, place), np.nan)
            wanted[place, at] = np.float32(sums[place, at] - earlier)
    assert amounts.dtype == np.float32
    assert np.array_equal(np.isnan(amounts), np.isnan(wanted))
    there = ~np.isnan(wanted)
    assert (amounts[there].view(np.uint32) == wanted[there].view(np.uint32)).all()


def packed_by_file(values: Doubles) -> tuple[Doubles, float]:
    """As netCDF of the former store: 16 bits for the range of all values."""
    step = max(float(np.ptp(values)), 1e-300) / 65_534
    return np.rint((values - values.min()) / step) * step + values.min(), step


def packed_by_field(values: Doubles) -> tuple[Doubles, float]:
    """As GRIB: 24 bits for the range of each hour's field, in steps of powers of two; the largest step."""
    ranges = np.ptp(values, axis=1, keepdims=True)
    steps = 2.0 ** np.ceil(np.log2(np.maximum(ranges, 1e-300) / (2**24 - 1)))
    least = values.min(axis=1, keepdims=True)
    return np.rint((values - least) / steps) * steps + least, float(steps.max())


@given(
    days=st.integers(1, 3),
    places=st.integers(1, 4),
    seed=st.integers(0, 2**32 - 1),
    greatest=st.sampled_from([1e-5, 0.02, 4e6]),
    packed=st.sampled_from([packed_by_file, packed_by_field]),
)
def test_amounts_of_packed_sums_are_the_hours_within_two_steps_and_sum_to_the_days(
    days: int, places: int, seed: int, greatest: float, packed: Any
) -> None:
    random = np.random.default_rng(seed)
    hours = hours_from(MIDNIGHT + 1, 24 * days)
    true = random.uniform(0, greatest, (hours.size, places)) * (random.uniform(size=(hours.size, places)) < 0.6)
    values, step = packed(accumulated(true, hours))
    amounts = hourly_amounts(values, hours)
    assert np.abs(amounts - true).max() <= 2 * step + 1e-12 * greatest
    ends = hours % 24 == 0
    sums = amounts.reshape(days, 24, places).sum(axis=1)
    assert sums == pytest.approx(values[ends], rel=1e-12, abs=1e-12 * greatest)
    assert wrong_day_sum(amounts.astype(np.float32), values, hours) is None
    assert falls(amounts, hours, -2 * step) is None
    # The hour before a month is all that its first amount needs.
    cut = 24 * days - 1
    assert (hourly_amounts(values[cut - 1 :], hours[cut - 1 :])[1:] == amounts[cut:]).all()


def test_the_lower_bound_is_the_variables_or_that_of_the_packing() -> None:
    assert lower_bound(TP, 0.0) == -0.01
    assert lower_bound(TP, 0.02) == -0.04
    assert lower_bound(SSRD, 300.0) == -1000.0
    assert lower_bound(SSRD, 600.0) == -1200.0
    assert lower_bound(E, 0.02) == -10.0


def test_a_sum_that_falls_within_its_day_is_named() -> None:
    hours = hours_from(MIDNIGHT + 1, 30)
    values = accumulated(np.full((30, 2, 3), 0.5), hours)
    values[10, 1, 2] -= 2.0
    values[20, 0, 1] -= 1.0
    amounts = hourly_amounts(values, hours)
    assert falls(amounts, hours, -0.01) == Falls(2, 1.5, int(hours[10]), (1, 2))
    assert falls(amounts, hours, -1.5) is None
    # That it starts again at 01 UTC is no fall.
    assert falls(hourly_amounts(accumulated(np.ones(30), hours), hours), hours, 0.0) is None


def test_a_day_whose_hours_do_not_sum_to_its_value_is_named() -> None:
    hours = hours_from(MIDNIGHT + 1, 72)
    values = accumulated(np.random.default_rng(2).uniform(0, 5, (72, 4)), hours)
    amounts = hourly_amounts(values, hours).astype(np.float32)
    assert wrong_day_sum(amounts, values, hours) is None
    amounts[30, 2] = np.nextafter(amounts[30, 2] + np.float32(1e-4), np.float32(9))
    found = wrong_day_sum(amounts, values, hours)
    assert found is not None
    assert found == DaySum(MIDNIGHT + 48, (2,), found.summed, values[47, 2])
    assert found.summed == pytest.approx(values[47, 2] + 1e-4, rel=1e-6)
    # A day that lacks an hour is not compared.
    assert wrong_day_sum(np.delete(amounts, 35, axis=0), np.delete(values, 35, axis=0), np.delete(hours, 35)) is None


# --- Real files ---


def test_rain_of_sierra_leone_is_a_few_millimetres_and_not_ten_times_as_much() -> None:
    values, hours = values_of(SIERRA_LEONE, "tp")
    amounts = hourly_amounts(values, hours) * TP.scale
    assert (hours[0], hours.size) == (MIDNIGHT, 97)
    assert np.isnan(amounts[0]).all()
    on_land = np.isfinite(values[0])
    assert on_land.sum() == 15
    assert (np.isfinite(amounts[1:]) == on_land).all()
    # Four whole days: what the days' own values say, at every point.
    days = values[hours % 24 == 0][1:, on_land].sum(axis=0) * TP.scale
    assert amounts[1:, on_land].sum(axis=0) == pytest.approx(days, rel=1e-12)
    assert days.mean() == pytest.approx(4.276, abs=1e-3)
    assert np.nansum(values[1:, on_land], axis=0).mean() * TP.scale == pytest.approx(43.07, abs=0.01)
    assert wrong_day_sum(amounts.astype(np.float32), values * TP.scale, hours) is None
    # Dry hours are not exactly dry, by less than the bound of the variable, and more than float32 explains.
    assert (amounts < 0).sum() == 17
    assert falls(amounts, hours, lower_bound(TP, 0.0)) is None
    spacing = float(np.spacing(np.float32(np.nanmax(values)))) * TP.scale
    assert falls(amounts, hours, -2 * spacing) is not None


def test_sunlight_of_java_falls_to_zero_at_night() -> None:
    values, hours = values_of(INDONESIA, "ssrd")
    amounts = hourly_amounts(values, hours)
    assert np.isnan(amounts[0]).all()  # 9 July, whose other hours are in another file
    on_land = amounts[1:, ~np.isnan(values[0])]
    assert (on_land[11:22] == 0).all()  # 12 to 22 UTC are 19 to 5 h in Java
    assert 1e6 < on_land.max() < SSRD.maximum
    assert falls(amounts, hours, lower_bound(SSRD, 0.0)) is None


# --- What numbers alone tell ---


@pytest.mark.parametrize(("path", "name"), [(SIERRA_LEONE, "tp"), (INDONESIA, "ssrd")], ids=lambda one: str(one)[-12:])
def test_numbers_tell_sums_of_era5_land_from_amounts_of_hours(path: Path, name: str) -> None:
    values, hours = values_of(path, name)
    assert seems_accumulated(values, hours) is True
    assert seems_accumulated(-values, hours) is True
    assert seems_accumulated(hourly_amounts(values, hours)[1:], hours[1:]) is False


@pytest.mark.parametrize("folder", ["telangana-2023-09", "telangana-2023-jja"])
def test_numbers_tell_amounts_of_hours_of_era5(folder: str) -> None:
    values, hours = values_of(DATA / "era5" / folder / "data_stream-oper_stepType-accum.nc", "tp")
    assert seems_accumulated(values, hours) is False
    assert seems_accumulated(accumulated(values[1:], hours[1:]), hours[1:]) is True


def test_numbers_that_tell_nothing_are_not_judged() -> None:
    hours = hours_from(MIDNIGHT + 1, 48)
    wave = np.sin(np.arange(48) / 4)
    assert seems_accumulated(np.zeros(48), hours) is None
    assert seems_accumulated(np.full(48, np.nan), hours) is None
    assert seems_accumulated(wave, hours) is None  # of both signs
    assert seems_accumulated(np.arange(10.0), hours[:10]) is None  # a morning: both rise
    assert seems_accumulated(np.ones(1), hours[:1]) is None
    assert seems_accumulated(np.ones((0, 3)), hours[:0]) is None


@pytest.mark.parametrize(
    "is_compiled", [False, pytest.param(True, marks=pytest.mark.skipif(not is_available(), reason="numba"))]
)
@given(harm=st.sampled_from(["none", "fall", "sum"]), left_out=st.integers(0, 71), seed=st.integers(0, 2**32 - 1))
def test_one_pass_tells_of_both_faults(harm: str, left_out: int, seed: int, is_compiled: bool) -> None:
    random = np.random.default_rng(seed)
    hours = hours_from(MIDNIGHT + 1, 72)
    values = accumulated(random.uniform(0, 5, (72, 4)), hours)
    values += random.uniform(-1e-3, 1e-3, values.shape)  # so that some amounts are below zero
    values[values < 0.5] = np.nan
    at, place = int(random.integers(72)), int(random.integers(4))
    if harm == "fall":
        values[at, place] -= 9.0
    values, hours = np.delete(values, left_out, axis=0), np.delete(hours, left_out)
    amounts = hourly_amounts(values, hours).astype(np.float32)
    if harm == "sum":
        amounts[at - 1, place] += np.float32(1e-3)
    wrong = falls(amounts, hours, -0.01) is not None or wrong_day_sum(amounts, values, hours) is not None
    rows = np.ascontiguousarray(values.T), np.ascontiguousarray(amounts.T)
    assert add_up(*rows, hours, -0.01, is_compiled=is_compiled) is not wrong
