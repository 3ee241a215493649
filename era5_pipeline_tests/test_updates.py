"""Which months are due: from made-up ledgers, at made-up times."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.updates import current_month, newest_months, require_updatable_source, revisions
from era5_pipeline_tests.ledgers import entry

if TYPE_CHECKING:
    from pathlib import Path

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


def test_an_empty_table_begins_with_the_newest_complete_month(home: Path) -> None:
    assert months(newest_months(settings(home), [], NOW)) == ["2026-10"]


def test_a_month_is_due_some_days_after_its_end(home: Path) -> None:
    chosen = settings(home, available_after_days=6)
    assert months(newest_months(chosen, [], datetime(2026, 11, 6, 23, tzinfo=UTC))) == ["2026-09"]
    assert months(newest_months(chosen, [], datetime(2026, 11, 7, tzinfo=UTC))) == ["2026-10"]


def test_a_loaded_month_is_not_due(home: Path) -> None:
    assert newest_months(settings(home), [entry(OCTOBER)], NOW) == ()


def test_an_incomplete_month_is_due_once_it_is_complete(home: Path) -> None:
    (update,) = newest_months(settings(home), [entry(OCTOBER, state="incomplete", hours=240)], NOW)
    assert update.month == OCTOBER
    assert update.overrides == {}


def test_missed_months_are_due(home: Path) -> None:
    assert months(newest_months(settings(home), [entry(Month(2026, 7))], NOW)) == ["2026-08", "2026-09", "2026-10"]


def test_a_gap_of_more_than_a_year_is_left_to_a_backfill(home: Path) -> None:
    assert months(newest_months(settings(home), [entry(Month(1950, 3))], NOW)) == ["2026-10"]


def test_a_failed_month_is_due_again(home: Path) -> None:
    failed = entry(OCTOBER, state="failed", rows=0)
    assert months(newest_months(settings(home), [failed], NOW)) == ["2026-10"]


@given(st.integers(0, 160 * 365 * 24), st.integers(0, 60))
def test_the_newest_month_is_over_and_the_next_one_is_not(hours: int, days: int) -> None:
    at = datetime(1941, 1, 1, tzinfo=UTC) + timedelta(hours=hours)
    (update,) = newest_months(Settings(source="cds", available_after_days=days), [], at)
    assert update.month.end + timedelta(days=days) <= at
    assert Month.from_number(update.month.number + 1).end + timedelta(days=days) > at


def test_the_current_month_is_due_as_far_as_it_is_available(home: Path) -> None:
    (update,) = current_month(settings(home), [], NOW)
    assert update.month == Month(2026, 11)
    assert update.overrides == {"refetch": True, "allow_incomplete": True}
    # In the first days of a month there is nothing of it yet: the last one is not complete either.
    (update,) = current_month(settings(home), [], datetime(2026, 11, 3, tzinfo=UTC))
    assert update.month == OCTOBER


def test_months_are_revised_with_the_request_that_they_were_loaded_with(home: Path) -> None:
    june = entry(
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
    june = entry(Month(2026, 6), preliminary={"snowfall": ("2026-06-01T00",)})
    (update,) = revisions(settings(home, area="-5/106/-8/108"), [june], NOW)
    assert update.overrides == {"refetch": True, "source": "cds", "area": "global"}
    (update,) = revisions(settings(home), [june], NOW)
    assert update.overrides == {"refetch": True, "source": "cds"}


@pytest.mark.parametrize(
    ("after", "expected"), [(0, ["2026-06", "2026-10"]), (1, ["2026-06"]), (3, ["2026-06"]), (5, [])]
)
def test_only_months_that_are_old_enough(home: Path, after: int, expected: list[str]) -> None:
    preliminary = dict.fromkeys(BY_COLUMN, ("x",))
    held = [
        entry(Month(2026, 5)),
        entry(Month(2026, 6), preliminary=preliminary),
        entry(OCTOBER, preliminary=preliminary),
        entry(Month(2025, 6), preliminary=preliminary, source="files"),
    ]
    assert months(revisions(settings(home, revise_after_months=after), held, NOW)) == expected


@pytest.mark.parametrize("source", ["files", "sample"])
def test_sources_without_new_months_are_refused(home: Path, source: str) -> None:
    with pytest.raises(UsageError, match=f"source {source} does not publish new months"):
        require_updatable_source(settings(home, source=source))
    for asked in ("cds", "arco"):
        require_updatable_source(settings(home, source=asked))
