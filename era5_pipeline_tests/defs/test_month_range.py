"""Months of a point series and of small files, several of them in one run: marks, checks, failures, the ledger."""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager, nullcontext
from dataclasses import replace
from datetime import UTC, datetime
from itertools import groupby
from typing import TYPE_CHECKING, Any

import dagster as dg
import numpy as np
import pytest

from era5_pipeline.defs.assets import FLAT, RAW, WEATHER
from era5_pipeline.defs.code_location import defs
from era5_pipeline.defs.runner import MonthRun, MonthRunner, run_months_together
from era5_pipeline.model.months import Month, months_between
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.sources.zarr import store
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.era5_files import CURRENT, Layout, weather, write
from era5_pipeline_tests.grib_files import Form
from era5_pipeline_tests.pipelines import Pipeline, new_pipeline, plain

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from era5_pipeline_tests.era5_files import Weather

TODAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
CHECKS = {
    *("grid_aligned", "variables_present", "hours_complete", "values_within_bounds", "no_missing_values"),
    *("rows_equal", "columns_equal"),
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CdsServer]:
    with CdsServer(tmp_path_factory.mktemp("cds"), today=TODAY) as server:
        yield server


@pytest.fixture(scope="module")
def pipeline(server_url: str, server: CdsServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    env = {
        "CDSAPI_URL": server.url,
        "CDSAPI_KEY": server.key,
        "ERA5_POINT": "10.8/106.3",
        "ERA5_CDS_POLL_SECONDS": "0.02",
        "ERA5_CDS_RETRY_SECONDS": "0.02",
    }
    with new_pipeline(server_url, tmp_path_factory.mktemp("pipeline"), **env) as pipeline:
        yield pipeline


def together(pipeline: Pipeline, first: str, last: str) -> list[MonthRun]:
    runs: list[MonthRun] = []
    run_months_together(
        pipeline.instance, months_between(first, last), overrides={}, around=lambda _: nullcontext(), on_run=runs.append
    )
    return runs


def partitions(pipeline: Pipeline, asset: dg.AssetKey) -> set[str]:
    return pipeline.instance.get_materialized_partitions(asset)


def ledger(pipeline: Pipeline) -> dict[str, int]:
    with Warehouse(pipeline.url).connect() as connection:
        return {str(held.month): held.rows for held in read_ledger(connection) if held.parts}


def test_each_month_of_a_run_has_its_ledger_row_marks_and_checks(pipeline: Pipeline, server: CdsServer) -> None:
    runs = together(pipeline, "2020-11", "2021-02")
    months = {"2020-11": 720, "2020-12": 744, "2021-01": 744, "2021-02": 672}
    assert [str(run.month) for run in runs] == list(months)
    assert len({run.run_id for run in runs}) == 1
    assert len(server.submissions) == 1
    held = ledger(pipeline)
    for month, rows in months.items():
        assert pipeline.rows(month) == rows == held[month]
        for asset in (RAW, FLAT, WEATHER):
            assert f"{month}-01" in partitions(pipeline, asset)
    evaluated = {
        (event.asset_check_evaluation_data.partition, event.asset_check_evaluation_data.check_name)
        for event in pipeline.events(runs[0], dg.DagsterEventType.ASSET_CHECK_EVALUATION)
        if event.asset_check_evaluation_data.passed
    }
    assert evaluated == {(f"{month}-01", check) for month in months for check in CHECKS}
    (record,) = pipeline.instance.get_run_records(dg.RunsFilter(run_ids=[runs[0].run_id]))
    assert record.dagster_run.status is dg.DagsterRunStatus.SUCCESS
    assert record.dagster_run.tags["era5/months"] == "2020-11 to 2021-02"
    assert record.dagster_run.tags["era5/source"] == "point"


def test_a_month_through_the_assets_reads_the_kept_series(pipeline: Pipeline, server: CdsServer) -> None:
    together(pipeline, "2019-01", "2019-01")
    asked = len(server.submissions)
    run = pipeline.run("2019-02")
    assert run.errors == ()
    assert pipeline.rows("2019-02") == 672
    assert len(server.submissions) == asked
    assert set(pipeline.checks(run)) == CHECKS
    entry = pipeline.held("2019-02")
    assert (entry.source, entry.version, entry.area) == ("point", "unknown", None)
    assert "snowfall" not in entry.column_names
    assert entry.warnings == ("the dataset of point series does not have snowfall: it is NULL",)


def test_a_month_that_cannot_be_loaded_ends_the_run_and_leaves_nothing(pipeline: Pipeline) -> None:
    # The area has snowfall and states its version: the series of a place in it is less.
    assert pipeline.run("2018-03", source="cds", area="11/106/10.5/106.5").errors == ()
    before = pipeline.entry("2018-03")
    runs = together(pipeline, "2018-02", "2018-04")
    assert [str(run.month) for run in runs] == ["2018-02"]
    assert pipeline.entry("2018-03") == before
    assert "2018-04" not in ledger(pipeline)
    assert not {"2018-04-01"} & partitions(pipeline, RAW)
    alone = pipeline.run("2018-03")
    (error,) = alone.errors
    assert "the table holds more than the new files" in error.message
    assert "would lose the variable snowfall, the version (final)" in error.message
    assert [str(run.month) for run in together(pipeline, "2018-04", "2018-05")] == ["2018-04", "2018-05"]


def test_the_first_month_is_loaded_though_its_first_day_has_no_rain(pipeline: Pipeline) -> None:
    (run,) = together(pipeline, "1940-01", "1940-01")
    assert run.errors == ()
    entry = pipeline.held("1940-01")
    assert (entry.state, entry.rows) == ("loaded", 744)
    values = {facts.column: facts.values for facts in entry.columns}
    assert values["temperature_2m"] == 744
    assert values["total_precipitation"] == 744 - 24


def test_young_months_are_revised_into_months_without_a_version(pipeline: Pipeline, server: CdsServer) -> None:
    import time_machine

    with time_machine.travel(TODAY, tick=True):
        server.final_until = datetime(2026, 8, 31, 23, tzinfo=UTC)
        assert len(together(pipeline, "2026-08", "2026-09")) == 2
    entry = pipeline.held("2026-09")
    assert entry.version == "preliminary"
    server.final_until, server.today = datetime(2027, 1, 31, 23, tzinfo=UTC), datetime(2027, 4, 2, 12, tzinfo=UTC)
    with time_machine.travel(server.today, tick=True):
        for month in ("2026-08", "2026-09"):
            assert pipeline.run(month, refetch=True).errors == ()
    server.today = TODAY
    for month, changed in (("2026-08", ()), ("2026-09", ("temperature_2m",))):
        entry = pipeline.held(month)
        assert (entry.version, entry.preliminary_hours) == ("unknown", {})
        assert entry.revision is not None
        assert entry.revision.columns_changed == changed


def load(
    pipeline: Pipeline,
    *months: str,
    unchanged: frozenset[Month] = frozenset(),
    around: Callable[[Month], AbstractContextManager[None]] = lambda _: nullcontext(),
    **overrides: Any,
) -> list[MonthRun]:
    """Load the months as a command does."""
    runs: list[MonthRun] = []
    MonthRunner(
        pipeline.instance,
        [(Month.parse(month), overrides) for month in months],
        unchanged,
        around=around,
        on_run=runs.append,
        on_unchanged=lambda _: None,
    ).run()
    return runs


def in_turn(
    pipeline: Pipeline, *months: str, unchanged: frozenset[Month] = frozenset(), **overrides: Any
) -> list[list[str]]:
    """Load the months as a command does; return those of each run."""
    runs = load(pipeline, *months, unchanged=unchanged, **overrides)
    assert [run.errors for run in runs] == [()] * len(runs)
    return [[str(run.month) for run in of_id] for _, of_id in groupby(runs, key=lambda run: run.run_id)]


def test_a_calendar_month_of_several_years_is_one_run(pipeline: Pipeline) -> None:
    julys = ["2013-07", "2014-07", "2015-07"]
    assert in_turn(pipeline, *julys) == [julys]
    assert julys == [month for month in ledger(pipeline) if month.startswith(("2013", "2014", "2015"))]
    (run,) = pipeline.instance.get_runs(limit=1)
    assert run.tags["era5/months"] == "2013-07, 2014-07, 2015-07"


def test_months_that_no_calendar_months_pick_are_several_runs(pipeline: Pipeline) -> None:
    winter = ["2009-12", "2010-01", "2010-12", "2011-01"]
    assert in_turn(pipeline, *winter, "2011-03") == [winter, ["2011-03"]]
    # A month between them that is loaded already is left alone.
    left_alone = frozenset({Month(2010, 1)})
    assert in_turn(pipeline, *winter, unchanged=left_alone) == [["2009-12", "2010-12"], ["2011-01"]]


def run_job(
    pipeline: Pipeline, first: str, last: str, calendar_months: tuple[int, ...] = ()
) -> dg.ExecuteInProcessResult:
    """The job as somebody launches it in the web UI."""
    config = {"first": first, "last": last, **({"calendar_months": list(calendar_months)} if calendar_months else {})}
    return defs.resolve_job_def("load_months").execute_in_process(
        instance=pipeline.instance,
        run_config={"ops": {"load_in_turn": {"config": config}}},
        raise_on_error=False,
    )


def test_the_job_alone_goes_on_after_a_month_that_fails_and_names_it(pipeline: Pipeline) -> None:
    assert pipeline.run("2017-06", source="cds", area="11/106/10.5/106.5").errors == ()
    result = run_job(pipeline, "2017-05", "2017-07")
    assert not result.success
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    described = failure.step_failure_data.user_failure_data
    assert described is not None
    assert "not loaded: 1 month\n2017-06: the table holds more" in str(described.description)
    assert {"2017-05", "2017-07"} <= ledger(pipeline).keys()
    assert run_job(pipeline, "2017-07", "2017-08").success
    assert "2017-08" in ledger(pipeline)


def test_the_job_ends_at_a_store_that_does_not_answer(pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "_FIRST_WAIT_SECONDS", 0.0)
    monkeypatch.delenv("ERA5_POINT")
    monkeypatch.setenv("ERA5_ZARR_URL", "http://127.0.0.1:9/era5.zarr")
    monkeypatch.setenv("ERA5_SOURCE", "zarr")
    result = run_job(pipeline, "2001-01", "2001-03")
    (failure,) = [event for event in result.all_events if event.is_step_failure]
    described = failure.step_failure_data.user_failure_data
    assert described is not None
    assert str(described.description).startswith(
        "not loaded: 1 month\nhttp://127.0.0.1:9/era5.zarr: .zmetadata cannot be"
    )


def test_the_job_takes_calendar_months_and_refuses_wrong_ones(pipeline: Pipeline) -> None:
    assert run_job(pipeline, "2005", "2006", (6, 8)).success
    assert [m for m in ledger(pipeline) if m.startswith(("2005", "2006"))] == [
        "2005-06",
        "2005-08",
        "2006-06",
        "2006-08",
    ]
    for first, wrong, said in (("2004", 13, "13 is not a calendar month"), ("2004-01", 7, "is calendar month 7")):
        result = run_job(pipeline, first, first, (wrong,))
        (failure,) = [event for event in result.all_events if event.is_step_failure]
        described = failure.step_failure_data.user_failure_data
        assert described is not None
        assert said in str(described.description)


# ---- months of the user's own files


def places(first: str, months: int) -> Weather:
    """Every hour of three places from a month on."""
    begin = np.datetime64(first, "M")
    end = begin + np.timedelta64(months, "M")
    hours = np.arange(begin.astype("datetime64[h]"), end.astype("datetime64[h]")).astype(np.int64)
    return weather(hours, (10.0,), (20.0, 20.25, 20.5), ("t2m", "tp"))


def write_months(folder: Path, first: str, months: int, layout: Layout = CURRENT) -> list[str]:
    """Write a file for each month; return the months."""
    begin = np.datetime64(first, "M")
    names = [str(month) for month in np.arange(begin, begin + np.timedelta64(months, "M"))]
    for name in names:
        write(folder, places(name, 1), layout, stem=name)
    return names


def as_months(folder: Path) -> list[str]:
    return write_months(folder, "1990-11", 4)


def as_years(folder: Path) -> list[str]:
    write(folder, places("1990-11", 2), stem="1990")
    write(folder, places("1991-01", 2), stem="1991")
    return ["1990-11", "1990-12", "1991-01", "1991-02"]


def as_grib_of_a_point(folder: Path) -> list[str]:
    of = places("1990-12", 2)
    temperature = {"t2m": of.fields["t2m"][:, :, :1]}
    write(folder, replace(of, longitudes=of.longitudes[:1], fields=temperature), replace(CURRENT, grib=Form()))
    return ["1990-12", "1991-01"]


_MEASURED = ("seconds", "rows per second", "rows_per_second", "peak_rss_bytes", "verify_seconds", "seconds waiting")
_OF_A_LOAD = ("reused", "changed", "replaced", "replaced_rows", "columns_changed", "confirmed", "kept_locations")


def records(pipeline: Pipeline, month: str) -> dict[str, Any]:
    """What Dagster and the ledger say of a month, but for what each load measures, and what it replaced."""
    found: dict[str, Any] = {}
    for asset in (RAW, FLAT, WEATHER):
        of_month = dg.AssetRecordsFilter(asset, asset_partitions=[f"{month}-01"])
        (record,) = pipeline.instance.fetch_materializations(of_month, limit=1).records
        assert record.asset_materialization is not None
        facts = plain(record.asset_materialization.metadata)
        found[asset.path[-1]] = {name: facts[name] for name in facts if name not in (*_MEASURED, *_OF_A_LOAD)}
        found |= {
            evaluation.check_name: (evaluation.passed, evaluation.description, evaluation.blocking)
            for entry in pipeline.instance.all_logs(record.run_id, of_type=dg.DagsterEventType.ASSET_CHECK_EVALUATION)
            if entry.dagster_event is not None
            and (evaluation := entry.dagster_event.asset_check_evaluation_data).partition in (None, f"{month}-01")
        }
    entry = pipeline.held(month)
    found["ledger"] = (entry.fingerprints, entry.rows, entry.state, entry.version, entry.column_names, entry.warnings)
    return found


@pytest.mark.parametrize("made", [as_months, as_years, as_grib_of_a_point])
def test_small_months_of_files_are_one_run_with_the_records_of_a_run_each(
    pipeline: Pipeline, tmp_path: Path, made: Callable[[Path], list[str]]
) -> None:
    months = made(tmp_path / "era5")
    of_files: dict[str, Any] = {"source": "files", "files_dir": str(tmp_path / "era5"), "force": True, "replace": True}
    assert in_turn(pipeline, *months, **of_files) == [months]
    at_once = {month: records(pipeline, month) for month in months}
    assert at_once[months[0]].keys() > CHECKS
    for month in (months[0], months[-1]):
        assert pipeline.run(month, **of_files).errors == ()
        assert records(pipeline, month) == at_once[month]


def test_a_bad_month_among_small_ones_fails_alone(pipeline: Pipeline, tmp_path: Path) -> None:
    months = write_months(tmp_path, "1993-01", 6)
    bad = places("1993-03", 1)
    half = {name: values[:300] for name, values in bad.fields.items()}
    write(tmp_path, replace(bad, hours=bad.hours[:300], fields=half), stem="1993-03")
    runs = load(pipeline, *months, source="files", files_dir=str(tmp_path))
    assert [str(run.month) for run in runs] == months
    assert [run.month for run in runs if run.errors] == [Month(1993, 3)]
    assert "hours" in runs[2].errors[0].message
    # After a month that failed, the next one is tried alone first.
    assert [len({run.run_id for run in of}) for of in (runs[:2], runs[2:4], runs[4:])] == [1, 2, 1]
    assert set(months) - ledger(pipeline).keys() == {"1993-03"}
    assert load(pipeline, "1993-03", source="files", files_dir=str(tmp_path), allow_incomplete=True)[0].errors == ()


def test_an_interrupt_among_small_months_keeps_the_loaded_ones(pipeline: Pipeline, tmp_path: Path) -> None:
    months = write_months(tmp_path, "1994-01", 4)

    @contextmanager
    def around(month: Month) -> Iterator[None]:
        if str(month) == "1994-03":
            os.kill(os.getpid(), signal.SIGINT)
        yield

    with pytest.raises(KeyboardInterrupt):
        load(pipeline, *months, around=around, source="files", files_dir=str(tmp_path))
    held = {month for month in ledger(pipeline) if month.startswith("1994")}
    assert held == {"1994-01", "1994-02"}
    assert {f"{month}-01" for month in held} == {key for key in partitions(pipeline, WEATHER) if key[:4] == "1994"}
    assert in_turn(pipeline, *months[2:], source="files", files_dir=str(tmp_path)) == [months[2:]]
