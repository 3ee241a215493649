"""Requests of an earlier run may be another account's, have failed, or be out of date: no month sticks to one."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import time_machine

from era5_pipeline.model.errors import MonthFailedError, SourceError
from era5_pipeline_tests.sources.cds.asking import MONTH, Asking, is_fresh

if TYPE_CHECKING:
    from era5_pipeline.model.months import Month
    from era5_pipeline_tests.cds_store.server import Job


def in_the_queue(asking: Asking, month: Month = MONTH, *, refetch: bool = False) -> Job:
    """What a run leaves whose patience is over: a request that goes on."""
    asking.server.faults.accepted_polls = 10_000
    with pytest.raises(SourceError, match="in the queue"):
        asking.fetch(month, patience_hours=0.01, refetch=refetch)
    asking.server.faults.accepted_polls = 0
    return list(asking.server.jobs.values())[-1]


@pytest.mark.parametrize("failure", ["", "cost limits exceeded", "Request has not produced a valid combination."])
def test_a_request_that_failed_is_not_taken_up_again(asking: Asking, failure: str) -> None:
    asking.server.faults.failure, asking.server.faults.fail_jobs = failure, 10_000
    for _ in range(2):
        with pytest.raises(MonthFailedError):
            asking.fetch()
    asking.server.faults.fail_jobs = 0
    asking.fetch()
    assert asking.server.submissions


def test_words_that_also_stand_in_other_messages_are_no_refusal(asking: Asking) -> None:
    asking.server.faults.failure, asking.server.faults.fail_jobs = "OSError: [Errno 22] Invalid argument", 2
    asking.fetch()
    assert len(asking.server.submissions) == 3


@pytest.mark.parametrize("status", [401, 403, 410])
def test_what_cannot_be_taken_up_is_asked_for_anew(asking: Asking, status: int) -> None:
    in_the_queue(asking)
    asking.server.faults.fail("poll", status=status, times=1)
    asking.fetch()
    assert len(asking.server.submissions) == 2
    assert any("cannot be taken up" in text for text in asking.said)


def test_with_a_wrong_key_the_place_in_the_queue_is_kept(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    in_the_queue(asking)
    for _ in range(2):
        monkeypatch.setenv("CDSAPI_KEY", "00000000-wrong-key")
        with pytest.raises(SourceError, match="does not accept the key"):
            asking.fetch()
    monkeypatch.setenv("CDSAPI_KEY", asking.server.key)
    asking.fetch()
    assert len(asking.server.submissions) == 1


def test_what_was_made_anew_long_ago_is_made_anew_again(asking: Asking) -> None:
    job = in_the_queue(asking, refetch=True)
    asking.server.finish_jobs()
    asking.server.look(job)
    assert job.finished is not None
    job.finished -= timedelta(days=2)
    asking.fetch()
    assert [is_fresh(inputs) for inputs in asking.server.submissions] == [True, True]


def test_what_was_made_anew_this_morning_is_taken_up(asking: Asking) -> None:
    job = in_the_queue(asking, refetch=True)
    asking.server.finish_jobs()
    asking.server.look(job)
    asking.fetch()
    assert len(asking.server.submissions) == 1


def test_trouble_while_asking_anew_does_not_bring_back_what_was_there(asking: Asking) -> None:
    first = asking.fetch()
    asking.server.faults.fail("submit", status=503, times=1)
    with time_machine.travel(datetime.now(tz=UTC) + timedelta(minutes=1)):
        asking.fetch(refetch=True)
    assert [is_fresh(inputs) for inputs in asking.server.submissions] == [False, True]
    note = json.loads(next(asking.folder.glob("*.json")).read_text())
    assert note["fetched"]["job"] == list(asking.server.jobs)[-1]
    assert first.files[0].bytes


def test_trouble_after_a_damaged_file_does_not_bring_it_back(asking: Asking) -> None:
    asking.server.faults.corrupt_zip = 1

    def fail() -> None:
        asking.server.faults.fail("submit", status=503, times=1)
        asking.while_asleep = lambda: None

    asking.while_asleep = fail
    asking.fetch()
    assert len(asking.server.submissions) == 2
