"""Which months are due: from made-up ledgers, at made-up times."""

from __future__ import annotations

from calendar import monthrange
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import DEFAULT_COLUMNS
from era5_pipeline.planning.updates import (
    current_month,
    final_in_earlier_source,
    needs_loading,
    newest_complete_month,
    newest_months,
    parts_to_revise,
    require_updatable_source,
    revisions,
)
from era5_pipeline_tests.ledgers import contents_of, entry, held, not_held

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.planning.updates import FinalMonths
    from era5_pipeline.warehouse.ledger_entry import MonthContents

NOW = datetime(2026, 11, 20, 6, tzinfo=UTC)
OCTOBER = Month(2026, 10)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def settings(home: Path, **values: Any) -> Settings:
    return Settings(home=home, **{"source": "cds", **values})


def months(updates: Any) -> list[str]:
    return [str(update.month) for update in updates]


@pytest.mark.parametrize(
    ("contents", "due"),
    [
        ([], ["2026-10"]),
        ([held(OCTOBER)], []),
        ([held(OCTOBER, state="incomplete", hours=240)], ["2026-10"]),
        ([not_held(OCTOBER)], ["2026-10"]),
        ([held(Month(2026, 7))], ["2026-08", "2026-09", "2026-10"]),
        ([held(Month(1950, 3))], ["2026-10"]),
    ],
    ids=["empty", "loaded", "incomplete", "failed", "missed", "a gap of more than a year is left to a backfill"],
)
def test_months_after_the_newest_of_the_table_are_due(
    home: Path, contents: list[MonthContents], due: list[str]
) -> None:
    updates = newest_months(settings(home), contents, NOW)
    assert months(updates) == due
    assert all(update.overrides == {} for update in updates)


def test_the_current_month_is_due_as_far_as_it_is_available(home: Path) -> None:
    (update,) = current_month(settings(home), [], NOW)
    assert update.month == Month(2026, 11)
    assert update.overrides == {"refetch": True, "allow_incomplete": True}
    # In the first days of a month there is nothing of it yet: the last one is not complete either.
    (update,) = current_month(settings(home), [], datetime(2026, 11, 3, tzinfo=UTC))
    assert update.month == OCTOBER


def test_months_are_revised_with_the_request_that_they_were_loaded_with(home: Path) -> None:
    june = held(
        Month(2026, 6),
        source="arco",
        area="-5/106/-8/108",
        columns=["temperature_2m", "snowfall"],
        preliminary={"temperature_2m": ("2026-06-01T00 to 2026-06-30T23",)},
    )
    (update,) = revisions(settings(home), [june], NOW)
    assert update.month == Month(2026, 6)
    assert update.overrides == {
        "refetch": True,
        "source": "arco",
        "area": "-5/106/-8/108",
        "variables": "temperature_2m,snowfall",
    }


def test_a_month_of_the_globe_is_not_cut_to_the_area_that_is_set_today(home: Path) -> None:
    june = held(Month(2026, 6), preliminary={"snowfall": ("2026-06-01T00",)})
    (update,) = revisions(settings(home, area="-5/106/-8/108"), [june], NOW)
    assert update.overrides == {"refetch": True, "source": "cds", "area": "global"}
    (update,) = revisions(settings(home), [june], NOW)
    assert update.overrides == {"refetch": True, "source": "cds"}


def test_a_series_is_revised_once_its_months_are_not_young_any_more(home: Path) -> None:
    place = ERA5_GRID.nearest_location(-6.25, 106.75)
    preliminary = {"temperature_2m": ("x",)}
    of_place = {
        "source": "point",
        "columns": ["temperature_2m"],
        "preliminary": preliminary,
        "locations": LocationSet.of_ids([place.location_id]),
    }
    some = [held(Month(2026, number), **of_place) for number in (6, 7, 8)]
    for after in (0, 3):
        (update,) = revisions(settings(home, revise_after_months=after, area="-5/106/-8/108"), some, NOW)
        assert update.month == Month(2026, 6)  # July could have been preliminary four months later
        assert update.overrides == {
            "refetch": True,
            "source": "point",
            "area": "global",
            "point": "-6.25/106.75",
            "variables": "temperature_2m",
        }
    assert revisions(settings(home, revise_after_months=5), some, NOW) == ()


def test_the_newest_month_of_a_place_is_due_though_an_area_has_it(home: Path) -> None:
    chosen = settings(home, source="point", point="-6.2/106.8")
    elsewhere = held(OCTOBER, locations=LocationSet.of_area(Area(10, 10, 5, 20)))
    (update,) = newest_months(chosen, [elsewhere], NOW)
    assert update.month == OCTOBER
    here = held(OCTOBER, locations=LocationSet.of_area(Area(-5, 106, -8, 108)))
    assert newest_months(chosen, [here], NOW) == ()


@pytest.mark.parametrize("source", ["files", "sample"])
def test_sources_without_new_months_are_refused(home: Path, source: str) -> None:
    with pytest.raises(UsageError, match=f"source {source} does not publish new months"):
        require_updatable_source(settings(home, source=source))
    for asked in ("cds", "arco"):
        require_updatable_source(settings(home, source=asked))


# Which months and parts: by dates (year ends, leap years) and the ledger

PRELIMINARY = dict.fromkeys(DEFAULT_COLUMNS, ("2024-12-01T00",))
any_month = st.builds(Month, st.integers(1941, 2040), st.integers(1, 12))
instants = st.datetimes(datetime(1942, 1, 1), datetime(2045, 12, 31), timezones=st.just(UTC))  # noqa: DTZ001  # st.datetimes adds UTC


def months_to_revise(contents: list[MonthContents], now: datetime, after: int) -> tuple[Month, ...]:
    return tuple(part.month for part in parts_to_revise(contents, now, after))


def added(time: datetime, count: int) -> datetime:
    """Add calendar months, counted one by one; `time` is the first of a month."""
    for _ in range(count):
        time += timedelta(days=monthrange(time.year, time.month)[1])
    return time


@given(any_month, instants, st.integers(0, 40))
@example(Month(2024, 2), datetime(2024, 3, 1, tzinfo=UTC), 0)
@example(Month(2024, 2), datetime(2024, 2, 29, 23, 59, tzinfo=UTC), 0)
@example(Month(2023, 11), datetime(2024, 2, 29, tzinfo=UTC), 3)
@example(Month(2023, 11), datetime(2024, 3, 1, tzinfo=UTC), 3)
@example(Month(2024, 12), datetime(2025, 4, 1, tzinfo=UTC), 3)
@example(Month(2024, 12), datetime(2025, 3, 31, 23, tzinfo=UTC), 3)
def test_a_month_is_revised_once_its_end_lies_far_enough_back(month: Month, now: datetime, after: int) -> None:
    due = added(month.end, after) <= now
    assert months_to_revise([held(month, preliminary=PRELIMINARY)], now, after) == ((month,) if due else ())


@given(st.lists(any_month, unique=True, max_size=8), instants, st.integers(0, 12))
def test_months_to_revise_are_ordered_and_fewer_with_a_longer_delay(
    some: list[Month], now: datetime, after: int
) -> None:
    entries = [held(month, preliminary=PRELIMINARY) for month in some]
    found = months_to_revise(entries, now, after)
    assert list(found) == sorted(found)
    assert set(months_to_revise(entries, now, after + 1)) <= set(found) <= set(some)
    assert months_to_revise(entries[::-1], now, after) == found


JUNE = Month(2026, 6)


@pytest.mark.parametrize(
    ("contents", "due"),
    [
        *(([held(JUNE, source=source, preliminary=PRELIMINARY)], True) for source in ("cds", "arco")),
        *(([held(JUNE, source=source, preliminary=PRELIMINARY)], False) for source in ("files", "sample")),
        ([held(JUNE)], False),
        ([not_held(JUNE)], False),
        ([], False),
        # One preliminary hour of one variable is enough.
        ([held(JUNE, preliminary={"snowfall": ("2026-06-30T23",)})], True),
        ([contents_of(replace(entry(JUNE), expver={column: {"unknown": 720} for column in DEFAULT_COLUMNS}))], False),
    ],
)
def test_only_preliminary_months_of_the_services_are_revised(contents: list[MonthContents], *, due: bool) -> None:
    assert months_to_revise(contents, NOW, 3) == ((JUNE,) if due else ())


def test_a_month_needs_loading_until_it_is_complete(home: Path) -> None:
    may, chosen = Month(2026, 5), settings(home)
    for some in ([], [held(may)], [not_held(JUNE)], [not_held(JUNE, "running")]):
        assert needs_loading(chosen, some, JUNE)
    assert needs_loading(chosen, [held(JUNE, state="incomplete", hours=240), held(may)], JUNE)
    assert not needs_loading(chosen, [held(may), held(JUNE)], JUNE)
    assert not needs_loading(chosen, [held(JUNE, preliminary=PRELIMINARY)], JUNE)


JAVA = Area.parse("-5/106/-8/108")


def test_a_month_needs_loading_until_it_has_all_of_the_area(home: Path) -> None:
    chosen = settings(home, area=str(JAVA), variables="t2m,tp")
    java, elsewhere = LocationSet.of_area(JAVA), LocationSet.of_area(Area.parse("50/0/49/1"))
    assert needs_loading(chosen, [held(JUNE, locations=elsewhere)], JUNE)
    assert not needs_loading(chosen, [held(JUNE, locations=java)], JUNE)
    west = LocationSet.of_area(Area.parse("-5/106/-8/107"))
    both = contents_of(entry(JUNE, locations=west), entry(JUNE, locations=java - west, part=2))
    assert not needs_loading(chosen, [both], JUNE)
    assert needs_loading(chosen, [contents_of(*both.parts[:1])], JUNE)
    assert needs_loading(chosen, [held(JUNE, locations=java, columns=["temperature_2m"])], JUNE)


def test_each_part_is_revised_by_its_own_request(home: Path) -> None:
    parts = (
        entry(JUNE, area="50/0/49/1", locations=LocationSet(((9, 12),)), preliminary=PRELIMINARY),
        entry(JUNE, area=None, part=2),
        entry(JUNE, area="-5/106/-8/108", source="arco", part=3, preliminary=PRELIMINARY),
    )
    first, second = revisions(settings(home), [contents_of(*parts)], NOW)
    assert (first.overrides["area"], second.overrides["area"]) == ("50/0/49/1", "-5/106/-8/108")
    assert (first.overrides["source"], second.overrides["source"]) == ("cds", "arco")
    assert first.reason != second.reason


@pytest.mark.parametrize(
    ("of_part", "earlier"),
    [
        ({"source": "cds"}, "earthmover"),
        ({"source": "cds", "preliminary": PRELIMINARY}, "earthmover"),
        ({"source": "point"}, "earthmover"),
        ({"source": "cds", "confirmed_by": "point"}, "earthmover"),
        ({"source": "cds", "confirmed_by": "arco"}, "earthmover"),
        ({"source": "cds", "confirmed_by": "earthmover"}, None),
        ({"source": "earthmover"}, None),
        ({"source": "earthmover", "confirmed_by": "cds"}, None),
        ({"source": "files"}, None),
        ({"source": "cds", "columns": ["temperature_2m"]}, None),  # the source has not all columns, or not the month
        ({"source": "cds", "locations": LocationSet(((1, 2), (9, 10), (3000, 3002)))}, None),
    ],
)
def test_parts_of_later_sources_are_asked_of_the_earlier_one_that_has_them_once(
    home: Path, of_part: dict[str, Any], earlier: str | None
) -> None:
    chosen = settings(home, source="earthmover,point,cds")
    final: FinalMonths = {
        ("earthmover", DEFAULT_COLUMNS): frozenset({JUNE}),
        ("earthmover", ("temperature_2m",)): frozenset(),
        ("point", DEFAULT_COLUMNS): frozenset(),
        ("point", ("temperature_2m",)): frozenset(),
    }
    assert final_in_earlier_source(chosen, entry(JUNE, **of_part), final) == earlier
    assert final_in_earlier_source(settings(home), entry(JUNE, **of_part), final) is None


@given(instants, st.integers(0, 60))
@example(datetime(2024, 3, 6, tzinfo=UTC), 5)
@example(datetime(2024, 3, 5, 23, 59, 59, tzinfo=UTC), 5)
@example(datetime(2025, 1, 1, tzinfo=UTC), 0)
@example(datetime(2025, 3, 1, tzinfo=UTC), 29)
def test_the_newest_complete_month_has_ended_and_the_next_has_not(now: datetime, days: int) -> None:
    (update,) = newest_months(Settings(source="cds", available_after_days=days), [], now)
    newest = newest_complete_month(now, days)
    assert update.month == newest
    assert newest.end + timedelta(days=days) <= now
    assert Month.from_number(newest.number + 1).end + timedelta(days=days) > now
