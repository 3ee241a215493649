"""Which months to load or revise, by dates (year ends, leap years) and ledger entries."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.warehouse.revisions import months_to_revise, needs_loading, newest_complete_month
from era5_pipeline_tests.ledgers import entry

PRELIMINARY = dict.fromkeys(BY_COLUMN, ("2024-12-01T00",))
months = st.builds(Month, st.integers(1941, 2040), st.integers(1, 12))
instants = st.datetimes(datetime(1942, 1, 1), datetime(2045, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001  # st.datetimes adds UTC


def added(time: datetime, count: int) -> datetime:
    """Add calendar months, counted one by one; `time` is the first of a month."""
    for _ in range(count):
        time += timedelta(days=monthrange(time.year, time.month)[1])
    return time


@given(months, instants, st.integers(0, 40))
@example(Month(2024, 2), datetime(2024, 3, 1, tzinfo=UTC), 0)
@example(Month(2024, 2), datetime(2024, 2, 29, 23, 59, tzinfo=UTC), 0)
@example(Month(2023, 11), datetime(2024, 2, 29, tzinfo=UTC), 3)
@example(Month(2023, 11), datetime(2024, 3, 1, tzinfo=UTC), 3)
@example(Month(2024, 12), datetime(2025, 4, 1, tzinfo=UTC), 3)
@example(Month(2024, 12), datetime(2025, 3, 31, 23, tzinfo=UTC), 3)
def test_a_month_is_revised_once_its_end_lies_far_enough_back(month: Month, now: datetime, after: int) -> None:
    due = added(month.end, after) <= now
    assert months_to_revise([entry(month, preliminary=PRELIMINARY)], now, after) == ((month,) if due else ())


@given(st.lists(months, unique=True, max_size=8), instants, st.integers(0, 12))
def test_months_to_revise_are_ordered_and_fewer_with_a_longer_delay(
    held: list[Month], now: datetime, after: int
) -> None:
    entries = [entry(month, preliminary=PRELIMINARY) for month in held]
    found = months_to_revise(entries, now, after)
    assert list(found) == sorted(found)
    assert set(months_to_revise(entries, now, after + 1)) <= set(found) <= set(held)
    assert months_to_revise(entries[::-1], now, after) == found


NOW = datetime(2026, 11, 20, tzinfo=UTC)
JUNE = Month(2026, 6)


@pytest.mark.parametrize(("source", "due"), [("cds", True), ("arco", True), ("files", False), ("sample", False)])
def test_only_months_of_the_services_are_revised(source: str, *, due: bool) -> None:
    assert bool(months_to_revise([entry(JUNE, source=source, preliminary=PRELIMINARY)], NOW, 3)) == due


def test_final_months_and_months_not_in_the_table_are_not_revised() -> None:
    assert months_to_revise([entry(JUNE)], NOW, 3) == ()
    assert months_to_revise([entry(JUNE, state="failed", rows=0, preliminary=PRELIMINARY)], NOW, 3) == ()
    assert months_to_revise([], NOW, 3) == ()


def test_one_preliminary_hour_of_one_variable_is_enough() -> None:
    assert months_to_revise([entry(JUNE, preliminary={"snowfall": ("2026-06-30T23",)})], NOW, 3) == (JUNE,)


def test_a_month_of_unknown_version_is_not_revised() -> None:
    unknown = replace(entry(JUNE), expver={column: {"unknown": 720} for column in BY_COLUMN})
    assert months_to_revise([unknown], NOW, 3) == ()


@given(instants, st.integers(0, 60))
@example(datetime(2024, 3, 6, tzinfo=UTC), 5)
@example(datetime(2024, 3, 5, 23, 59, 59, tzinfo=UTC), 5)
@example(datetime(2025, 1, 1, tzinfo=UTC), 0)
@example(datetime(2025, 3, 1, tzinfo=UTC), 29)
def test_the_newest_complete_month_has_ended_and_the_next_has_not(now: datetime, days: int) -> None:
    newest = newest_complete_month(now, days)
    assert newest.end + timedelta(days=days) <= now
    assert Month.from_number(newest.number + 1).end + timedelta(days=days) > now


def test_a_month_needs_loading_until_it_is_complete() -> None:
    may = Month(2026, 5)
    for held in ([], [entry(may)], [entry(JUNE, state="failed", rows=0)], [entry(JUNE, state="loading", rows=0)]):
        assert needs_loading(held, JUNE)
    assert needs_loading([entry(JUNE, state="incomplete", hours=240), entry(may)], JUNE)
    assert not needs_loading([entry(may), entry(JUNE)], JUNE)
    assert not needs_loading([entry(JUNE, preliminary=PRELIMINARY)], JUNE)
