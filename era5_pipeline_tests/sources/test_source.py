from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.months import Month
from era5_pipeline.sources.source import locked_month, try_lock_month

if TYPE_CHECKING:
    from pathlib import Path

MONTH = Month(2020, 2)


def test_a_lock_that_is_held_is_reported_and_waited_for(tmp_path: Path) -> None:
    lock, done = tmp_path / "month.lock", threading.Event()
    said: list[str] = []
    waiting = threading.Event()

    def report(text: str) -> None:
        said.append(text)
        waiting.set()

    def second_run() -> None:
        with locked_month(MONTH, lock, report, "up to 2 h"):
            done.set()

    with locked_month(MONTH, lock, lambda _: pytest.fail("the lock is free"), ""):
        thread = threading.Thread(target=second_run)
        thread.start()
        assert waiting.wait(240)
        assert not done.is_set()
    thread.join(240)
    assert done.is_set()
    assert said == ["2020-02: another run is fetching it, waiting until that ends (up to 2 h)"]


def test_trying_a_lock_does_not_wait(tmp_path: Path) -> None:
    lock = tmp_path / "folder" / "month.lock"
    with try_lock_month(MONTH, lock) as is_locked, try_lock_month(MONTH, lock) as is_locked_again:
        assert (is_locked, is_locked_again) == (True, False)
    with try_lock_month(MONTH, lock) as is_locked:
        assert is_locked
