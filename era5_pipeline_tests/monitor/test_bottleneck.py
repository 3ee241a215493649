"""From waits to the bottleneck: the right kind, an actionable text, and names of waits that real servers use."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model.months import Month
from era5_pipeline.monitor.activity import Report
from era5_pipeline.monitor.bottleneck import Kind, find_bottleneck, kind_of_wait, wait_shares
from era5_pipeline.monitor.session_samples import CPU, HIDDEN, IDLE, Loader

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse

_GB = 1 << 30


def loader(
    waits: dict[str, int], *, pid: int = 7, month: Month | None = None, blocked_by: tuple[str, ...] = ()
) -> Loader:
    return Loader(
        pid=pid,
        name="era5",
        month=month,
        phase="COPY",
        rows=0,
        rows_per_second=0,
        bytes=0,
        bytes_per_second=0,
        waits=waits,
        blocked_by=blocked_by,
    )


def report(*loaders: Loader, requested: int = 0, wal_bytes: int = 0) -> Report:
    return Report(
        time=datetime(2026, 11, 21, tzinfo=UTC),
        loaders=loaders,
        wal_bytes_per_second=0,
        checkpoints_timed=0,
        checkpoints_requested=requested,
        requested_lately=requested,
        wal_bytes_lately=wal_bytes,
        max_wal_bytes=_GB,
        active_sessions=len(loaders),
        all_visible=True,
        has_months=True,
        database_bytes=None,
        database_bytes_per_second=None,
    )


@pytest.mark.parametrize(
    ("waits", "kind", "words"),
    [
        ({"Client:ClientRead": 7, CPU: 3}, "loader", "for 70 % of the time the server waits for rows"),
        ({CPU: 6, "Client:ClientRead": 4}, "processor", "for 60 % of the time"),
        ({"LWLock:WALWrite": 3, "IO:WalSync": 2, "LWLock:WALInsert": 1, CPU: 4}, "wal", "60 % of the time (LWLock:WAL"),
        # Names in PostgreSQL 15 and 16.
        ({"IO:WALWrite": 5, "IO:WALSync": 3}, "wal", "100 % of the time (IO:WALWrite)"),
        ({"IO:DataFileExtend": 4, "IO:DataFileWrite": 3, CPU: 3}, "disk", "70 % of the time (IO:DataFileExtend)"),
        ({"IO:AioIoCompletion": 9, CPU: 1}, "disk", "90 %"),
        ({"IPC:BufferIO": 5}, "disk", "IPC:BufferIO"),
        ({"Lock:extend": 6, CPU: 4}, "contention", "60 % of the time (Lock:extend)"),
        ({"LWLock:BufferMapping": 6, CPU: 4}, "contention", "LWLock:BufferMapping"),
        ({"IPC:SyncRep": 6, CPU: 4}, "wal", "IPC:SyncRep"),
        ({"IPC:MessageQueueSend": 6, CPU: 4}, "other", "IPC:MessageQueueSend"),
        ({IDLE: 10}, "idle", "between two statements"),
        # Idle sessions say nothing about busy ones: a load's first session is idle while its workers copy.
        ({IDLE: 10, CPU: 1}, "processor", "100 %"),
        ({HIDDEN: 10}, "hidden", "GRANT pg_monitor"),
        ({HIDDEN: 6, CPU: 4}, "processor", "100 %"),
    ],
)  # fmt: skip
def test_the_bottleneck_follows_from_the_waits(waits: dict[str, int], kind: Kind, words: str) -> None:
    found = find_bottleneck(report(loader(waits)))
    assert found.kind == kind
    assert words in found.text


def test_without_loaders_nothing_is_loading() -> None:
    assert find_bottleneck(report()).kind == "nothing"


def test_waits_of_the_same_kind_add_up() -> None:
    waits = {"IO:WalSync": 2, "IO:WalWrite": 2, "LWLock:WALWrite": 1, CPU: 4}
    assert find_bottleneck(report(loader(waits))).kind == "wal"


def test_only_busy_sessions_count_as_using_a_core() -> None:
    found = find_bottleneck(report(loader({IDLE: 10}), loader({CPU: 9}, pid=8), loader({CPU: 9}, pid=9)))
    assert "2 sessions, one core each" in found.text


def test_a_lock_takes_precedence_and_its_holder_is_named() -> None:
    blocked = loader({"Lock:relation": 6, CPU: 4}, month=Month(2023, 7), blocked_by=("session 9 of ana",))
    found = find_bottleneck(report(loader({CPU: 10}, pid=8), blocked))
    assert found.kind == "lock"
    assert "2023-07 (session 7) waits for session 9 of ana" in found.text


def test_a_short_wait_for_a_lock_is_no_bottleneck() -> None:
    assert find_bottleneck(report(loader({"Lock:relation": 1, CPU: 9}))).kind == "processor"
    granted = find_bottleneck(report(loader({"Lock:relation": 9, CPU: 1})))
    assert granted.kind == "lock"
    assert "and has it now" in granted.text


def test_a_lock_is_found_even_if_waits_are_hidden() -> None:
    found = find_bottleneck(report(loader({HIDDEN: 10}, blocked_by=("session 9",))))
    assert found.kind == "lock"
    assert "session 9" in found.text


def test_checkpoints_requested_by_a_full_log_are_the_bottleneck() -> None:
    writing = loader({"IO:WalSync": 8, CPU: 2})
    found = find_bottleneck(report(writing, requested=4, wal_bytes=2 * _GB))
    assert found.kind == "checkpoints"
    assert "a full log requested 4 in the last minute" in found.text
    assert "max_wal_size (1.1 GB now)" in found.text
    assert "era5 doctor" in found.text
    # If the processor is the bottleneck, they are mentioned after it.
    found = find_bottleneck(report(loader({CPU: 9}), requested=4, wal_bytes=2 * _GB))
    assert found.kind == "processor"
    assert "a full log requested 4 in the last minute" in found.text
    # An occasional one is normal.
    assert find_bottleneck(report(writing, requested=1, wal_bytes=2 * _GB)).kind == "wal"


def test_checkpoints_that_others_requested_are_not_blamed_on_a_full_log() -> None:
    found = find_bottleneck(report(loader({"IO:WalSync": 8, CPU: 2}), requested=9, wal_bytes=_GB // 10))
    assert found.kind == "wal"
    assert "Checkpoints" not in found.text


WAITS = st.dictionaries(
    st.sampled_from([CPU, IDLE, HIDDEN, "Client:ClientRead", "IO:WalSync", "Lock:tuple", "LWLock:X", "IPC:Y", "Z:z"]),
    st.integers(1, 1000),
)


@given(WAITS)
def test_wait_shares_add_up_to_1(waits: dict[str, int]) -> None:
    found = wait_shares(waits)
    assert sum(found.values()) == pytest.approx(1) or not found
    assert list(found.values()) == sorted(found.values(), reverse=True)
    assert not {IDLE, HIDDEN} & found.keys()


@given(st.lists(WAITS, min_size=1), st.integers(0, 100), st.integers(0, 100 * _GB))
def test_any_sample_has_a_bottleneck(sampled: list[dict[str, int]], requested: int, wal_bytes: int) -> None:
    loaders = [loader(waits, pid=n) for n, waits in enumerate(sampled)]
    found = find_bottleneck(report(*loaders, requested=requested, wal_bytes=wal_bytes))
    kinds = {kind_of_wait(wait) for wait in sum(map(Counter, sampled), Counter[str]())}
    assert found.kind in kinds | {"lock", "checkpoints", "idle", "hidden"}
    assert found.text
    assert "\n" not in found.text


def test_a_loader_without_waits_does_not_change_the_bottleneck() -> None:
    one = report(loader({"Client:ClientRead": 7, CPU: 3}))
    assert find_bottleneck(replace(one, loaders=(*one.loaders, loader({}, pid=8)))) == find_bottleneck(one)


def test_the_classified_waits_exist_on_the_server(shared_warehouse: Warehouse) -> None:
    """A wait that a new version of PostgreSQL renames must not go unnoticed."""
    with shared_warehouse.connect() as connection:
        if connection.info.server_version < 170000:
            pytest.skip("before PostgreSQL 17, servers do not say which waits they know")
        names = connection.execute("SELECT type || ':' || name FROM pg_wait_events").fetchall()
    groups: dict[Kind, set[str]] = {}
    for (name,) in names:
        groups.setdefault(kind_of_wait(name), set()).add(name)
    assert groups["loader"] == {"Client:ClientRead"}
    assert groups["wal"] >= {"IO:WalWrite", "IO:WalSync", "IO:WalInitWrite", "LWLock:WALWrite", "LWLock:WALInsert"}
    assert groups["disk"] >= {"IO:DataFileRead", "IO:DataFileWrite", "IO:DataFileExtend", "IPC:BufferIo"}
    assert groups["lock"] >= {"Lock:relation", "Lock:advisory", "Lock:transactionid"}
    assert groups["contention"] >= {"Lock:extend", "LWLock:BufferMapping", "LWLock:BufferContent"}
