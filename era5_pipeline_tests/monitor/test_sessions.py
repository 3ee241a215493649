"""From samples to rates: exact for made-up readings, and never negative, whatever the server did in between."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.months import Month
from era5_pipeline.monitor.sessions import (
    CPU,
    DONE,
    HIDDEN,
    IDLE,
    Loader,
    LocksAndPhases,
    Sample,
    SampledSession,
    increase,
    summarize_loaders,
)

JULY = Month(2023, 7)
NO_LOCKS = LocksAndPhases({}, {}, {})
COPY = 'COPY "weather" ("time") FROM STDIN (FORMAT binary)'
CONNECTED = datetime(2026, 11, 21, tzinfo=UTC)

COUNTS = st.integers(0, 1 << 50)


def session(**changes: object) -> SampledSession:
    made = SampledSession(
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


def samples(*sampled: SampledSession | None, seconds: float = 1.0) -> list[Sample]:
    """Samples of one session, `seconds` apart; None: it was not connected."""
    return [Sample(100 + n * seconds, {} if one is None else {one.key: one}) for n, one in enumerate(sampled)]


def only(loaders: tuple[Loader, ...]) -> Loader:
    (loader,) = loaders
    return loader


@given(st.lists(st.none() | COUNTS, min_size=1))
def test_an_increase_is_never_negative(readings: list[int | None]) -> None:
    assert increase(readings) >= 0


@given(st.lists(COUNTS, min_size=1).map(sorted))
def test_a_counter_that_only_rises_grew_from_first_to_last_reading(readings: list[int]) -> None:
    assert increase(readings) == readings[-1] - readings[0]


@given(st.lists(st.lists(COUNTS, min_size=1).map(sorted), min_size=1), COUNTS)
def test_counters_of_successive_copies_add_up(copies: list[list[int]], before: int) -> None:
    readings: list[int | None] = [before]
    for copy in copies:
        readings += [None, *copy]
    assert increase(readings) == sum(copy[-1] for copy in copies)


def test_a_counter_that_was_reset_began_at_zero() -> None:
    assert increase([5_000, 7_000, 300, 400]) == 2_000 + 300 + 100


def test_rates_of_two_samples() -> None:
    before, after = session(bytes=8_600_000, rows=100_000), session(bytes=17_200_000, rows=200_000)
    loader = only(summarize_loaders(samples(before, after, seconds=0.5), NO_LOCKS, {}))
    assert (loader.rows_per_second, loader.rows) == (200_000, 200_000)
    assert (loader.bytes_per_second, loader.bytes) == (17_200_000, 17_200_000)
    assert (loader.phase, loader.waits) == ("COPY", {CPU: 1})


def test_rows_are_unknown_while_the_server_takes_bytes_and_counts_no_rows() -> None:
    """As TimescaleDB does."""
    before, after = session(bytes=66_000), session(bytes=198_000)
    loader = only(summarize_loaders(samples(before, after, seconds=4), NO_LOCKS, {}))
    assert (loader.rows_per_second, loader.rows) == (None, None)
    assert (loader.bytes_per_second, loader.bytes) == (33_000, 198_000)
    # Before the first bytes there are no rows either.
    begun = session()
    loader = only(summarize_loaders(samples(begun, begun), NO_LOCKS, {}))
    assert (loader.rows_per_second, loader.rows, loader.bytes_per_second) == (0, 0, 0)


def test_a_copy_that_began_and_ended_within_the_interval_counts() -> None:
    loader = only(summarize_loaders(samples(None, session(bytes=860, rows=10), None), NO_LOCKS, {}))
    assert (loader.rows_per_second, loader.phase) == (5, DONE)


def test_a_later_session_with_the_same_process_number_is_another_loader() -> None:
    first = session(bytes=9_000, rows=100)
    second = session(bytes=4_000, rows=40, since=datetime(2026, 11, 22, tzinfo=UTC))
    old, new = summarize_loaders(samples(first, first, second), NO_LOCKS, {})
    assert (old.rows_per_second, old.phase) == (0, DONE)
    assert (new.rows_per_second, new.phase) == (20, "COPY")


def test_hidden_or_lost_progress_is_unknown_and_not_zero() -> None:
    hidden = session(since=None, wait=HIDDEN, statement="", table=None, bytes=None, rows=None)
    current = LocksAndPhases({7: JULY}, {}, {})
    loader = only(summarize_loaders(samples(hidden, hidden), current, {}))
    assert (loader.rows_per_second, loader.bytes_per_second, loader.rows, loader.bytes) == (None,) * 4
    assert (loader.month, loader.phase, loader.waits) == (JULY, "COPY", {HIDDEN: 1})
    # Progress that the server no longer shows is unknown too, though earlier samples have it.
    lost = samples(session(bytes=1_000), session(bytes=9_000), session(bytes=None, rows=None))
    loader = only(summarize_loaders(lost, NO_LOCKS, {}))
    assert (loader.rows_per_second, loader.bytes_per_second, loader.rows, loader.bytes) == (None,) * 4
    assert loader.phase == "COPY"
    # A COPY that waits for its table has taken nothing.
    waits = session(bytes=None, rows=None, wait="Lock:relation")
    assert only(summarize_loaders(samples(waits, waits), NO_LOCKS, {})).rows_per_second == 0
    # A session that waits for a lock is shown as such even if its waits are hidden.
    blocked = LocksAndPhases({}, {}, {7: ("session 8",)})
    assert only(summarize_loaders(samples(hidden, hidden), blocked, {})).phase == "waits for a lock"


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
def test_rates_are_never_negative(sampled: list[SampledSession | None]) -> None:
    for loader in summarize_loaders(samples(*sampled, seconds=0.1), LocksAndPhases({7: JULY}, {}, {}), {}):
        assert loader.rows_per_second is None or loader.rows_per_second >= 0
        assert loader.bytes_per_second is None or loader.bytes_per_second >= 0
        assert 0 < sum(loader.waits.values()) <= len(sampled) - 1


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
def test_the_month_is_read_from_the_names_of_session_and_table(
    name: str, table: str | None, month: Month | None
) -> None:
    sampled = session(name=name, table=table)
    assert only(summarize_loaders(samples(sampled, sampled), NO_LOCKS, {})).month == month


def test_an_idle_session_is_no_load_even_if_its_name_has_a_month() -> None:
    idle = session(name="era5 2023-07 lookout", wait=IDLE, copying=False, bytes=None, rows=None, table=None)
    assert summarize_loaders(samples(idle, idle), NO_LOCKS, {}) == ()
    works = replace(idle, wait=CPU, statement="DELETE FROM weather")
    assert only(summarize_loaders(samples(idle, works, idle), NO_LOCKS, {})).waits == {CPU: 1, IDLE: 1}


def test_a_session_that_only_queries_is_no_load() -> None:
    asking = session(copying=False, statement="SELECT time FROM weather", table=None, bytes=None, rows=None)
    assert summarize_loaders(samples(asking, asking), NO_LOCKS, {}) == ()
    # A session that has locked a month is, also in samples from before the locks were read.
    assert only(summarize_loaders(samples(asking, asking), LocksAndPhases({7: JULY}, {}, {}), {})).month == JULY
    assert only(summarize_loaders(samples(asking, asking, None), NO_LOCKS, {asking.key: JULY})).month == JULY


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
def test_the_phase_follows_from_wait_and_statement(changes: dict[str, str], phase: str) -> None:
    sampled = session(copying=False, bytes=None, rows=None, **changes)
    assert only(summarize_loaders(samples(sampled, sampled), LocksAndPhases({7: JULY}, {}, {}), {})).phase == phase


def test_a_phase_includes_its_progress() -> None:
    sampled = session(copying=False, bytes=None, rows=None, statement="VACUUM (ANALYZE) x")
    current = LocksAndPhases({7: JULY}, {7: "ANALYZE 54 %"}, {})
    assert only(summarize_loaders(samples(sampled, sampled), current, {})).phase == "ANALYZE 54 %"
