"""Months of the Climate Data Store through the assets: the real client, and a local server with the same protocol."""

from __future__ import annotations

import zipfile
from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING, NoReturn

import dagster as dg
import pytest

from era5_pipeline.defs.failures import failed_months
from era5_pipeline.defs.run_tags import resource_config
from era5_pipeline.defs.runner import MonthRunner
from era5_pipeline.model.errors import BadFileError, RefusedError, SourceError
from era5_pipeline.model.months import Month, months_between
from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.pipelines import Pipeline, new_pipeline
from era5_pipeline_tests.sources.cds.source_under_test import is_fresh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.defs.runner import MonthRun
    from era5_pipeline.sources.source import RawMonth

TODAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
AREA = "-6/106/-6.5/106.5"


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdsServer]:
    with CdsServer(tmp_path_factory.mktemp("cds"), today=TODAY) as server:
        yield server


@pytest.fixture
def server(running: CdsServer) -> CdsServer:
    running.reset(today=TODAY)
    return running


@pytest.fixture(scope="module")
def pipeline(server_url: str, running: CdsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    env = {
        "CDSAPI_URL": running.url,
        "CDSAPI_KEY": running.key,
        "ERA5_AREA": AREA,
        "ERA5_CDS_POLL_SECONDS": "0.02",
        "ERA5_CDS_RETRY_SECONDS": "0.02",
    }
    with new_pipeline(server_url, tmp_path_factory.mktemp("pipeline"), **env) as pipeline:
        yield pipeline


def log_of(pipeline: Pipeline, run: MonthRun) -> str:
    return "\n".join(entry.user_message for entry in pipeline.instance.all_logs(run.run_id))


def test_waits_and_their_reasons_are_in_the_run_log(pipeline: Pipeline, server: CdsServer) -> None:
    server.faults.reject_jobs, server.faults.accepted_polls = 2, 3
    run = pipeline.run("2020-03")
    assert run.errors == ()
    log = log_of(pipeline, run)
    assert log.count("temporarily limited") == 2
    assert "sending a new request in 0 s (waited 0 s so far, up to " in log
    assert "is in the queue (accepted), waiting" in log
    assert pipeline.attempts(run, "raw") == 1


def test_refused_request_is_not_retried(pipeline: Pipeline, server: CdsServer) -> None:
    server.faults.licence = True
    run = pipeline.run("2020-04")
    (error,) = run.errors
    assert error.exit_code == SourceError.exit_code
    assert error.remedy
    assert pipeline.attempts(run, "raw") == 1
    asked = [path for method, path, _ in server.requests if method == "POST"]
    assert len(asked) == 1
    record = pipeline.instance.get_run_record_by_id(run.run_id)
    assert record is not None
    assert record.dagster_run.tags.get("dagster/max_retries") == "0"


def in_turn(pipeline: Pipeline, first: str, last: str, unchanged: tuple[str, ...] = ()) -> list[str]:
    """Run the months as `era5 load` does, and return those that were loaded."""
    turn = MonthRunner(
        pipeline.instance,
        [(month, {}) for month in months_between(first, last)],
        {month for text in unchanged for month in months_between(text)},
        around=lambda _: nullcontext(),
        on_run=lambda _: None,
        on_unchanged=lambda _: None,
    )
    turn.run()
    return [str(run.month) for run in turn.done.values() if run.errors == () and run.results.load is not None]


def asked_months(server: CdsServer) -> list[list[str]]:
    return [inputs["month"] for inputs in server.submissions]


def test_months_of_a_small_area_are_requested_together(pipeline: Pipeline, server: CdsServer) -> None:
    assert len(in_turn(pipeline, "2018-03", "2018-08", unchanged=("2018-08",))) == 5
    # Parts of the year of which a month is not wanted, or loaded already, are requested month by month.
    assert sorted(asked_months(server)) == [["03"], ["04", "05", "06"], ["07"]]
    for month in months_between("2018-03", "2018-07"):
        assert pipeline.rows(str(month)) == month.hours * 9
        entry = pipeline.held(str(month))
        assert entry.state == "loaded"


def test_the_next_request_for_several_months_is_sent_while_months_of_this_one_are_loaded(
    pipeline: Pipeline, server: CdsServer
) -> None:
    asked: list[int] = []
    turn = MonthRunner(
        pipeline.instance,
        [(month, {}) for month in months_between("2015-01", "2015-06")],
        (),
        around=lambda _: nullcontext(),
        on_run=lambda _: asked.append(len(server.submissions)),
        on_unchanged=lambda _: None,
    )
    turn.run()
    assert asked == [1, 2, 2, 2, 2, 2]
    assert all(run.errors == () for run in turn.done.values())
    # A month that was removed from the table is loaded from its file.
    assert pipeline.run("2015-02", force=True).errors == ()
    assert len(server.submissions) == 2


def test_a_run_names_the_months_of_its_request_and_a_later_attempt_does_not(
    pipeline: Pipeline, server: CdsServer
) -> None:
    server.faults.licence = True
    assert in_turn(pipeline, "2014-01", "2014-03") == []
    (run,) = pipeline.instance.get_runs(limit=1)
    assert resource_config(run) == {"together": ["2014-01", "2014-02", "2014-03"]}
    (failed,) = (one for one in failed_months(pipeline.instance) if one.month == Month(2014, 1))
    assert "together" not in failed.overrides
    assert "licence" in failed.reason


def test_unavailable_month_is_skipped(pipeline: Pipeline, server: CdsServer) -> None:
    server.today = datetime(2020, 5, 3, tzinfo=UTC)
    run = pipeline.run("2020-05")
    assert run.errors == ()
    assert run.skipped is not None
    assert "2020-05 is not available yet: the latest hour there is 2020-04-28 00:00" in run.skipped
    record = pipeline.instance.get_run_record_by_id(run.run_id)
    assert record is not None
    assert record.dagster_run.status is dg.DagsterRunStatus.SUCCESS
    assert pipeline.materialized(run) == {}
    assert pipeline.rows("2020-05") == 0
    skipped = pipeline.events(run, dg.DagsterEventType.STEP_SKIPPED)
    assert {event.step_key for event in skipped} == {"era5__flat", "era5__weather"}
    (observed,) = pipeline.events(run, dg.DagsterEventType.ASSET_OBSERVATION)
    assert observed.partition == "2020-05-01"


def test_incomplete_month_is_refused_and_requested_again(pipeline: Pipeline, server: CdsServer) -> None:
    server.today = datetime(2020, 6, 20, tzinfo=UTC)
    run = pipeline.run("2020-06")
    (error,) = run.errors
    assert error.exit_code == RefusedError.exit_code
    assert "337 of 720 hours" in error.message
    assert "the latest hour there is 2020-06-15 00:00 UTC" in error.message
    assert pipeline.rows("2020-06") == 0
    server.today = TODAY
    assert pipeline.run("2020-06").errors == ()
    assert pipeline.rows("2020-06") == 720 * 9
    # The second request asked for new data, because the store still has the incomplete file.
    assert [is_fresh(inputs) for inputs in server.submissions] == [False, True]


@pytest.mark.parametrize("where", ["head", "values"])
def test_unreadable_file_is_fetched_again(pipeline: Pipeline, server: CdsServer, tmp_path: Path, where: str) -> None:
    """The file has the announced checksum, but its coordinates or some of its values are damaged."""
    month, number = ("2020-09", 9) if where == "head" else ("2020-10", 10)
    only = {"variables": "temperature_2m", "area": "-5/106/-7/108"}
    assert pipeline.run(month, **only).errors == ()
    (raw,) = (pipeline.home / "raw" / "cds").glob(f"2020-{number:02d}-*.nc")
    content = bytearray(raw.read_bytes())
    at = 4096 if where == "head" else len(content) // 2
    content[at : at + 4000] = bytes(4000)
    server.faults.answer_with = tmp_path / "damaged.nc"
    server.faults.answer_with.write_bytes(content)
    (error,) = pipeline.run(month, **only, refetch=True).errors
    assert "downloaded again" in error.remedy
    server.faults.answer_with = None
    assert pipeline.run(month, **only).errors == ()
    assert [is_fresh(inputs) for inputs in server.submissions] == [False, True, True]
    entry = pipeline.held(month)
    assert entry.state == "loaded"


def test_a_file_that_was_not_read_for_want_of_memory_is_kept(
    pipeline: Pipeline, server: CdsServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without_memory(raw: RawMonth, *_: object, **__: object) -> NoReturn:
        raise BadFileError(raw.files[0].path, "cannot be read", remedy="Download it again.") from MemoryError

    with monkeypatch.context() as patch:
        patch.setattr("era5_pipeline.stages.flatten_month", without_memory)
        (error,) = pipeline.run("2020-09").errors
    assert "the memory that this process may use is not enough" in error.message
    assert pipeline.run("2020-09").errors == ()
    assert len(server.submissions) == 1


def test_first_month_of_era5_is_complete(pipeline: Pipeline, server: CdsServer) -> None:
    run = pipeline.run("1940-01")
    assert run.errors == ()
    entry = pipeline.held("1940-01")
    assert (entry.source, entry.area, entry.state) == ("cds", AREA, "loaded")
    assert pipeline.rows("1940-01") == entry.rows == 744 * 9
    assert entry.hours == 744
    assert len(server.submissions) == 1
    assert set(pipeline.checks(run).values()) == {True}
    hours = {facts.column: facts.values // 9 for facts in entry.columns}
    assert (hours["temperature_2m"], hours["total_precipitation"], hours["snowfall"]) == (744, 737, 737)


def test_zip_with_real_files(pipeline: Pipeline, server: CdsServer, tmp_path: Path, era5_samples: Path) -> None:
    members = sorted((era5_samples / "telangana-2023-09").glob("*.nc"))
    assert len(members) == 2
    archive = tmp_path / "real.zip"
    with zipfile.ZipFile(archive, "w") as made:
        for member in members:
            made.write(member, member.name)
    server.faults.answer_with = archive
    wanted = {"variables": "u10,v10,tp", "area": "20/77/15/82"}
    run = pipeline.run("2023-09", **wanted)
    assert "168 of 720 hours" in run.errors[0].message
    run = pipeline.run("2023-09", **wanted, allow_incomplete=True)
    assert run.errors == ()
    entry = pipeline.held("2023-09")
    assert (entry.state, entry.rows) == ("incomplete", 168 * 21 * 21)


def test_key_is_not_in_any_log_event_or_file(pipeline: Pipeline, server: CdsServer) -> None:
    server.faults.too_many_requests, server.faults.retry_after = 1, "0"
    run = pipeline.run("2020-07")
    server.faults.licence = True
    refused = pipeline.run("2020-08")
    for one in (run, refused):
        for entry in pipeline.instance.all_logs(one.run_id):
            assert server.key not in dg.serialize_value(entry)
    for path in pipeline.home.rglob("*"):
        assert not path.is_file() or server.key.encode() not in path.read_bytes(), path
