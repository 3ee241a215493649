"""Tests of `runtime/http`."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
import time_machine

from era5_pipeline.runtime.http import retry_after


@pytest.mark.parametrize(
    ("header", "seconds"),
    [
        ("17", 17.0),
        ("1.5", 1.5),
        ("-3", 0.0),
        ("Fri, 20 Nov 2026 12:02:00 GMT", 120.0),
        ("Fri, 20 Nov 2026 11:00:00 GMT", 0.0),
        ("soon", None),
        ("inf", None),
        ("nan", None),
        ("Fri, 31 Dec 9999 23:59:59 -1200", None),
        ("", None),
    ],
)
def test_retry_after_header(header: str, seconds: float | None) -> None:
    with time_machine.travel(datetime(2026, 11, 20, 12, tzinfo=UTC), tick=False):
        assert retry_after({"Retry-After": header}) == seconds
