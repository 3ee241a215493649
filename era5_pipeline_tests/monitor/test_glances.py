"""From glances to rates: exact for readings that are made up, and never negative, whatever a server did in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.months import Month
from era5_pipeline.monitor.glances import (
    CPU,
    DONE,
    HIDDEN,
    IDLE,
    Glance,
    Held,
    Loader,
    Session,
    bytes_per_row,
    moved,
    report_loaders,
)

JULY = Month(2023, 7)
NOBODY = Held({}, {}, {})
COPY = 'COPY "weather" ("time") FROM STDIN (FORMAT binary)'
CONNECTED = datetime(2026, 11, 21, tzinfo=UTC)

COUNTS = st.integers(0, 1 << 50)


def session(**changes: object) -> Session:
    made = Session(
        pid=7,
        since=CONNECTED,
        name="era5",
        wait=CPU,
        statement=COPY,
        table="weather",
        copying=True,
        bytes=0,
        rows=0,
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def glances(*seen: Session | None, seconds: float = 1.0) -> list[Glance]:
    """One session at each of these times, `seconds` apart; None: it was not there."""
    return [Glance(100 + n * seconds, {} if one is None else {one.key: one}) for n, one in enumerate(seen)]


def only(loaders: tuple[Loader, ...]) -> Loader:
    (loader,) = loaders
    return loader


@given(st.lists(st.none() | COUNTS, min_size=1))
def test_a_counter_never_goes_back(readings: list[int | None]) -> None:
    assert moved(readings) >= 0


@given(st.lists(COUNTS, min_size=1).map(sorted))
def test_a_counter_that_only_rises_came_from_first_to_last(readings: list[int]) -> None:
    assert moved(readings) == readings[-1] - readings[0]


@given(st.lists(st.lists(COUNTS, min_size=1).map(sorted), min_size=1), COUNTS)
def test_counters_that_begin_anew_add_up(copies: list[list[int]], before: int) -> None:
    readings: list[int | None] = [before]
    for copy in copies:
        readings += [None, *copy]
    assert moved(readings) == sum(copy[-1] for copy in copies)


def test_a_counter_set_back_began_at_zero() -> None:
    assert moved([5_000, 7_000, 300, 400]) == 2_000 + 300 + 100


def test_rates_of_two_glances() -> None:
    before, after = session(bytes=8_600_000, rows=100_000), session(bytes=17_200_000, rows=200_000)
    loader = only(report_loaders(glances(before, after, seconds=0.5), NOBODY, {}, variables=6))
    assert (loader.rows_per_second, loader.rows_estimated, loader.rows) == (200_000, False, 200_000)
    assert (loader.bytes_per_second, loader.bytes) == (17_200_000, 17_200_000)
    assert (loader.phase, loader.waits) == ("COPY", {CPU: 1})


@pytest.mark.parametrize(("variables", "size"), [(6, 86), (1, 66), (0, 62)])
def test_rows_that_are_not_counted_follow_from_bytes(variables: int, size: int) -> None:
    assert bytes_per_row(variables) == size
    before, after = session(bytes=size * 1_000), session(bytes=size * 3_000)
    loader = only(report_loaders(glances(before, after, seconds=4), NOBODY, {}, variables=variables))
    assert (loader.rows_per_second, loader.rows_estimated, loader.rows) == (500, True, 3_000)


def test_rows_of_text_are_not_guessed() -> None:
    text = "COPY weather FROM STDIN (FORMAT csv, HEADER true)"
    seen = glances(session(statement=text), session(statement=text, bytes=4_000_000))
    loader = only(report_loaders(seen, NOBODY, {}, variables=6))
    assert (loader.rows_per_second, loader.rows, loader.bytes_per_second) == (None, None, 4_000_000)
    # Where the server counts them, they are known.
    seen = glances(session(statement=text), session(statement=text, bytes=4_000_000, rows=50_000))
    assert only(report_loaders(seen, NOBODY, {}, variables=6)).rows_per_second == 50_000


def test_a_copy_that_came_and_went_within_the_interval_counts() -> None:
    loader = only(report_loaders(glances(None, session(bytes=860, rows=10), None), NOBODY, {}, variables=6))
    assert (loader.rows_per_second, loader.phase) == (5, DONE)


def test_a_later_session_of_the_same_number_is_another() -> None:
    first = session(bytes=9_000, rows=100)
    second = session(bytes=4_000, rows=40, since=datetime(2026, 11, 22, tzinfo=UTC))
    old, new = report_loaders(glances(first, first, second), NOBODY, {}, variables=6)
    assert (old.rows_per_second, old.phase) == (0, DONE)
    assert (new.rows_per_second, new.phase) == (20, "COPY")


def test_hidden_is_unknown_and_not_zero() -> None:
    hidden = session(since=None, wait=HIDDEN, statement="", table=None, bytes=None, rows=None)
    held = Held({7: JULY}, {}, {})
    loader = only(report_loaders(glances(hidden, hidden), held, {}, variables=6))
    assert (loader.rows_per_second, loader.bytes_per_second, loader.rows, loader.bytes) == (None,) * 4
    assert (loader.month, loader.phase, loader.waits) == (JULY, "COPY", {HIDDEN: 1})
    # One that the server shows no progress of any more is as unknown, though it has been seen before.
    lost = glances(session(bytes=1_000), session(bytes=9_000), session(bytes=None, rows=None))
    loader = only(report_loaders(lost, NOBODY, {}, variables=6))
    assert (loader.rows_per_second, loader.bytes_per_second, loader.rows, loader.bytes) == (None,) * 4
    assert (loader.phase, loader.rows_estimated) == ("COPY", False)
    # One that waits for its table has taken nothing.
    waits = session(bytes=None, rows=None, wait="Lock:relation")
    assert only(report_loaders(glances(waits, waits), NOBODY, {}, variables=6)).rows_per_second == 0
    # That it waits for a lock shows all the same.
    blocked = Held({}, {}, {7: ("session 8",)})
    assert only(report_loaders(glances(hidden, hidden), blocked, {}, variables=6)).phase == "waits for a lock"


@given(
    st.lists(
        st.none()
        | st.builds(
            session,
            since=st.sampled_from([None, CONNECTED]),
            wait=st.sampled_from([CPU, IDLE, HIDDEN, "Lock:relation", "Client:ClientRead"]),
            statement=st.sampled_from([COPY, "", "COPY weather FROM STDIN (FORMAT csv)", "COMMIT"]),
            copying=st.booleans(),
            bytes=st.none() | COUNTS,
            rows=st.none() | COUNTS,
        ),
        min_size=2,
    )
)
def test_rates_are_never_negative(seen: list[Session | None]) -> None:
    for loader in report_loaders(glances(*seen, seconds=0.1), Held({7: JULY}, {}, {}), {}, variables=6):
        assert loader.rows_per_second is None or loader.rows_per_second >= 0
        assert loader.bytes_per_second is None or loader.bytes_per_second >= 0
        assert 0 < sum(loader.waits.values()) <= len(seen) - 1


@pytest.mark.parametrize(
    ("name", "table", "month"),
    [
        ("era5 2023-07 worker 2", "weather_2023_07_2", JULY),
        ("era5 2023-07", None, JULY),
        ("era5: 2023-07", None, JULY),
        ("era5", "weather_2023_07", JULY),
        ("psql", "weather_2023_07_12", JULY),
        ("psql", "weather", None),
        ("era5 2023-13", None, None),
        ("era5 1939-12", None, None),
        ("era5 2023-071", None, None),
        ("era5 worker 2", None, None),
    ],
)
def test_month_by_the_names_of_session_and_table(name: str, table: str | None, month: Month | None) -> None:
    seen = session(name=name, table=table)
    assert only(report_loaders(glances(seen, seen), NOBODY, {}, variables=6)).month == month


def test_a_session_that_has_a_months_name_and_does_nothing_is_no_load() -> None:
    idle = session(name="era5 2023-07 lookout", wait=IDLE, copying=False, bytes=None, rows=None, table=None)
    assert report_loaders(glances(idle, idle), NOBODY, {}, variables=6) == ()
    works = replace(idle, wait=CPU, statement="DELETE FROM weather")
    assert only(report_loaders(glances(idle, works, idle), NOBODY, {}, variables=6)).waits == {CPU: 1, IDLE: 1}


def test_a_session_that_only_asks_is_no_load() -> None:
    asking = session(copying=False, statement="SELECT time FROM weather", table=None, bytes=None, rows=None)
    assert report_loaders(glances(asking, asking), NOBODY, {}, variables=6) == ()
    # One that holds a month is, also in the glances before it was asked who does.
    assert only(report_loaders(glances(asking, asking), Held({7: JULY}, {}, {}), {}, variables=6)).month == JULY
    assert only(report_loaders(glances(asking, asking, None), NOBODY, {asking.key: JULY}, variables=6)).month == JULY


@pytest.mark.parametrize(
    ("changes", "phase"),
    [
        ({"statement": "COMMIT"}, "COMMIT"),
        ({"statement": "CREATE INDEX ON x USING brin (y)"}, "CREATE INDEX"),
        ({"statement": "CREATE TABLE x (y int)"}, "CREATE TABLE"),
        ({"statement": "DELETE FROM weather"}, "DELETE"),
        ({"statement": "SELECT compress_chunk('x'::regclass)"}, "compress_chunk"),
        ({"statement": "SELECT time FROM weather"}, "SELECT"),
        ({"statement": "COMMIT", "wait": IDLE}, IDLE),
        ({"statement": "COMMIT", "wait": "Lock:relation"}, "waits for a lock"),
        ({"statement": "COMMIT", "wait": "Lock:extend"}, "COMMIT"),
        ({"statement": "", "wait": HIDDEN}, HIDDEN),
        ({"statement": ""}, "?"),
    ],
)
def test_phases(changes: dict[str, str], phase: str) -> None:
    seen = session(copying=False, bytes=None, rows=None, **changes)
    assert only(report_loaders(glances(seen, seen), Held({7: JULY}, {}, {}), {}, variables=6)).phase == phase


def test_a_phase_with_progress_is_told_as_such() -> None:
    seen = session(copying=False, bytes=None, rows=None, statement="VACUUM (ANALYZE) x")
    held = Held({7: JULY}, {7: "ANALYZE 54 %"}, {})
    assert only(report_loaders(glances(seen, seen), held, {}, variables=6)).phase == "ANALYZE 54 %"
