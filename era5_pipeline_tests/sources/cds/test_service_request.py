"""Requests of an earlier run that failed, are out of date, or belong to another account."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import time_machine

from era5_pipeline.model.errors import MonthFailedError, SourceError
from era5_pipeline_tests.sources.cds.source_under_test import MONTH, SourceUnderTest, is_fresh

if TYPE_CHECKING:
    from era5_pipeline.model.months import Month
    from era5_pipeline_tests.cds_store.server import Job


def leave_in_queue(cds: SourceUnderTest, month: Month = MONTH, *, refetch: bool = False) -> Job:
    """Leave a request in the queue, as a run does whose retry limit has passed."""
    cds.server.faults.accepted_polls = 10_000
    with pytest.raises(SourceError, match="in the queue"):
        cds.fetch(month, patience_hours=0.01, refetch=refetch)
    cds.server.faults.accepted_polls = 0
    return list(cds.server.jobs.values())[-1]


@pytest.mark.parametrize("failure", ["", "cost limits exceeded", "Request has not produced a valid combination."])
def test_a_failed_request_is_not_taken_up_by_the_next_run(cds: SourceUnderTest, failure: str) -> None:
    cds.server.faults.failure, cds.server.faults.fail_jobs = failure, 10_000
    for _ in range(2):
        with pytest.raises(MonthFailedError):
            cds.fetch()
    cds.server.faults.fail_jobs = 0
    cds.fetch()
    assert cds.server.submissions


def test_an_error_that_contains_the_word_invalid_is_retried(cds: SourceUnderTest) -> None:
    cds.server.faults.failure, cds.server.faults.fail_jobs = "OSError: [Errno 22] Invalid argument", 2
    cds.fetch()
    assert len(cds.server.submissions) == 3


@pytest.mark.parametrize("status", [401, 403, 410])
def test_a_request_that_cannot_be_taken_up_is_sent_again(cds: SourceUnderTest, status: int) -> None:
    leave_in_queue(cds)
    cds.server.faults.fail("poll", status=status, times=1)
    cds.fetch()
    assert len(cds.server.submissions) == 2
    assert any("cannot be resumed" in text for text in cds.said)


def test_a_wrong_key_does_not_lose_the_place_in_the_queue(
    cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave_in_queue(cds)
    for _ in range(2):
        monkeypatch.setenv("CDSAPI_KEY", "00000000-wrong-key")
        with pytest.raises(SourceError, match="does not accept the key"):
            cds.fetch()
    monkeypatch.setenv("CDSAPI_KEY", cds.server.key)
    cds.fetch()
    assert len(cds.server.submissions) == 1


def test_a_fresh_retrieval_answered_long_ago_is_requested_again(cds: SourceUnderTest) -> None:
    job = leave_in_queue(cds, refetch=True)
    cds.server.finish_jobs()
    cds.server.poll(job)
    assert job.finished is not None
    job.finished -= timedelta(days=2)
    cds.fetch()
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [True, True]


def test_a_fresh_retrieval_answered_recently_is_taken_up(cds: SourceUnderTest) -> None:
    job = leave_in_queue(cds, refetch=True)
    cds.server.finish_jobs()
    cds.server.poll(job)
    cds.fetch()
    assert len(cds.server.submissions) == 1


def test_a_refetch_after_a_failed_submission_does_not_take_the_old_answer(cds: SourceUnderTest) -> None:
    first = cds.fetch()
    cds.server.faults.fail("submit", status=503, times=1)
    with time_machine.travel(datetime.now(tz=UTC) + timedelta(minutes=1)):
        cds.fetch(refetch=True)
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [False, True]
    note = json.loads(next(cds.folder.glob("*.json")).read_text())
    assert note["fetched"]["job"] == list(cds.server.jobs)[-1]
    assert first.files[0].bytes


def test_a_damaged_file_is_not_taken_again_after_a_failed_submission(cds: SourceUnderTest) -> None:
    cds.server.faults.corrupt_zip = 1

    def fail() -> None:
        cds.server.faults.fail("submit", status=503, times=1)
        cds.while_asleep = lambda: None

    cds.while_asleep = fail
    cds.fetch()
    assert len(cds.server.submissions) == 2
