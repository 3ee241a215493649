"""Seconds of waiting, added up."""

from __future__ import annotations

import time

import pytest

from era5_pipeline.runtime.waits import measured_waits, waiting


def wait_and_fail() -> None:
    with waiting():
        time.sleep(0.02)
        raise ValueError("cut off")


def test_only_waits_are_counted() -> None:
    with measured_waits() as waited:
        time.sleep(0.05)
        assert waited.seconds == 0.0
        with waiting():
            time.sleep(0.02)
        with pytest.raises(ValueError, match="cut off"):
            wait_and_fail()
    assert waited.seconds >= 0.04
    before = waited.seconds
    with waiting():
        time.sleep(0.01)
    assert waited.seconds == before
