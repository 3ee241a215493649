"""The three assets on real and generated months: recorded metadata, and months that their checks refuse."""

from __future__ import annotations

import base64
import io
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import dagster as dg
import pytest
from dagster._core.storage.partition_status_cache import AssetPartitionStatus
from PIL import Image

from era5_pipeline.defs import metadata
from era5_pipeline.defs.assets import MONTHS, RAW
from era5_pipeline.draw.maps import preview_map
from era5_pipeline.flat import formats
from era5_pipeline.runtime import progress
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.pipelines import SMALL, Pipeline, new_pipeline, plain

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

ALL_CHECKS = {
    *("grid_aligned", "variables_present", "hours_complete"),
    *("values_within_bounds", "no_missing_values"),
    *("rows_equal", "columns_equal"),
}
ALWAYS_RECORDED = {"rows", "hours", "bytes", "seconds", "rows_per_second", "sha256", "expver", "hours_expected"}


@pytest.fixture(scope="module")
def pipeline(server_url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pipeline]:
    home = tmp_path_factory.mktemp("assets")
    with new_pipeline(server_url, home) as pipeline, pytest.MonkeyPatch.context() as patch:
        patch.setattr("era5_pipeline.draw.maps.preview_map", preview_map)  # with their pictures
        yield pipeline


def assert_loaded(pipeline: Pipeline, month: str, rows: int, overrides: dict[str, Any]) -> dict[str, dict[str, Any]]:
    run = pipeline.run(month, **overrides)
    assert run.errors == ()
    facts = pipeline.materialized(run)
    raw, flat, load = run.results.raw, run.results.flat, run.results.load
    assert raw is not None
    assert flat is not None
    assert load is not None
    # Dagster's metadata equal the results of the stages.
    assert facts == {
        "raw": plain(metadata.raw_metadata(raw)),
        "flat": plain(metadata.flat_metadata(flat)),
        "weather": plain(metadata.weather_metadata(load)),
    }
    for stage, values in facts.items():
        assert set(values) >= ALWAYS_RECORDED, stage
        assert values["rows"] == rows
        assert values["bytes"] > 0
        assert values["seconds"] > 0
        assert values["rows_per_second"] == pytest.approx(rows / values["seconds"], rel=0.1)
        assert values["hours"] == values["hours_expected"]
    for stage in ("flat", "weather"):
        assert facts[stage]["dagster/partition_row_count"] == rows
        assert len(facts[stage]["sha256"]) == 64
        assert_picture(facts[stage]["preview"])
    assert pipeline.checks(run) == dict.fromkeys(ALL_CHECKS, True)
    assert pipeline.rows(month) == rows
    assert [pipeline.attempts(run, stage) for stage in ("raw", "flat", "weather")] == [1, 1, 1]
    return facts


def assert_picture(markdown: str) -> None:
    before, _, encoded = markdown.partition("data:image/png;base64,")
    assert before.endswith("\n\n![preview](")  # below its caption and credit
    with Image.open(io.BytesIO(base64.b64decode(encoded.removesuffix(")"), validate=True))) as picture:
        picture.load()
        assert picture.format == "PNG"
        assert picture.convert("L").getextrema() != (255, 255)


def test_generated_month(pipeline: Pipeline) -> None:
    facts = assert_loaded(pipeline, "2024-02", 696 * 9, SMALL)
    assert facts["raw"]["source"] == facts["weather"]["source"] == "sample"
    assert facts["weather"]["state"] == "loaded"
    assert facts["weather"]["changed"] is True
    assert facts["weather"]["replaced_rows"] == 0
    assert facts["weather"]["layout"] == "partitions"
    assert set(facts["flat"]["expver"]) == set(era5_files.COLUMNS)
    again = pipeline.run("2024-02", **SMALL)
    assert again.results.flat is not None
    assert again.results.load is not None
    assert again.results.flat.reused is True
    assert (again.results.load.loaded.changed, again.results.load.loaded.rows) == (False, 696 * 9)


def test_each_run_records_what_the_lake_has_of_the_month(server_url: str, tmp_path: Path) -> None:
    """Also one that finds the month there: the run before it may have been killed between commit and record."""
    lake = tmp_path / "lake"
    lake.mkdir()
    with new_pipeline(server_url, tmp_path, ERA5_LAKE=str(lake)) as pipeline:
        facts, again = (pipeline.materialized(pipeline.run("2024-02", **SMALL))["lake"] for _ in range(2))
    (file,) = lake.rglob("*.parquet")
    assert (facts.pop("changed"), again.pop("changed")) == (True, False)
    assert facts == again
    assert (facts["dagster/partition_row_count"], facts["files"], facts["bytes"]) == (696 * 9, 1, file.stat().st_size)


def log_lines(pipeline: Pipeline, run_id: str) -> list[str]:
    """What the assets wrote into the run's log."""
    return [entry.user_message for entry in pipeline.instance.all_logs(run_id) if entry.dagster_event is None]


def test_the_log_shows_the_progress_of_long_stages_only(
    pipeline: Pipeline, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    large = {"source": "sample", "area": "5/0/-5/179.75", "sample_hours": 8, "allow_incomplete": True}
    short = pipeline.run("2024-03", **SMALL)
    assert not [line for line in log_lines(pipeline, short.run_id) if " left" in line]
    monkeypatch.setattr(progress, "EVERY_SECONDS", 0.0)
    monkeypatch.setattr(formats, "ROW_GROUP_ROWS", 50_000)  # flatten reports one by one
    lines = log_lines(pipeline, pipeline.run("2024-04", **large).run_id)
    for name, unit in (("raw files", "hours"), ("flatten", "rows"), ("load", "rows")):
        found = [line for line in lines if line.startswith(f"{name}: ")]
        assert found, lines
        for line in found:
            assert re.fullmatch(
                rf"{name}: \d+ %, [\d,]+ of [\d,]+ {unit}, [\d,.e+]+ {unit}/s, [\d.]+ (s|min|h) left", line
            )
    assert " left" not in "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("folder", "month", "rows", "columns"),
    [
        pytest.param("gulf-2023", "2023-02", 672 * 63, {"temperature_2m"}, id="current layout"),
        pytest.param("norway-2018-10-packed", "2018-10", 744 * 70, None, id="legacy packed, three variables"),
        pytest.param("telangana-2023-jja", "2023-06", 720 * 16, {"total_precipitation"}, id="accumulated"),
    ],
)
def test_real_month(
    pipeline: Pipeline, era5_samples: Path, folder: str, month: str, rows: int, columns: set[str] | None
) -> None:
    facts = assert_loaded(pipeline, month, rows, {"source": "files", "files_dir": str(era5_samples / folder)})
    assert columns is None or set(facts["weather"]["expver"]) == columns
    (file,) = facts["raw"]["sha256"]
    assert file.startswith(str(era5_samples / folder))


def test_incomplete_month_is_refused_unless_allowed(pipeline: Pipeline, era5_samples: Path) -> None:
    files = {"source": "files", "files_dir": str(era5_samples / "telangana-2023-09")}
    run = pipeline.run("2023-09", **files)
    assert pipeline.materialized(run) == {}
    assert pipeline.checks(run) == {"grid_aligned": True, "variables_present": True, "hours_complete": False}
    assert (pipeline.rows("2023-09"), pipeline.entry("2023-09")) == (0, None)
    (error,) = run.errors
    assert error.exit_code == 4
    assert "2023-09 is incomplete: 168 of 720 hours" in error.message
    assert "--allow-incomplete" in error.remedy
    # The month is not green, and the first that the failure's event shows is the sentence with its remedy.
    (event,) = pipeline.events(run, dg.DagsterEventType.STEP_FAILURE)
    failure = event.step_failure_data.user_failure_data
    assert failure is not None
    assert failure.description == f"{error.message}\n{error.remedy}"
    assert [(name, value.value) for name, value in list(failure.metadata.items())[:3]] == [
        ("message", error.message),
        ("remedy", error.remedy),
        ("exit_code", 4),
    ]
    assert failure.metadata["hours"].value == 168
    status = pipeline.instance.get_status_by_partition(RAW, ["2023-09-01"], MONTHS)
    assert status == {"2023-09-01": AssetPartitionStatus.FAILED}

    run = pipeline.run("2023-09", **files, allow_incomplete=True)
    assert run.errors == ()
    assert pipeline.checks(run) == dict.fromkeys(ALL_CHECKS, True)
    assert pipeline.materialized(run)["weather"]["state"] == "incomplete"
    entry = pipeline.held("2023-09")
    assert (entry.state, entry.hours, entry.hours_expected, entry.rows) == ("incomplete", 168, 720, 168 * 441)
    assert pipeline.rows("2023-09") == 168 * 441


@pytest.mark.parametrize(
    ("folder", "month", "options", "check", "said"),
    [
        ("delhi-2018-offgrid", "2018-01", {"force": True}, "grid_aligned", "is not on ERA5's 0.25 degree grid"),
        (
            "gulf-2023",
            "2023-05",
            {"variables": "default", "strict_variables": True},
            "variables_present",
            "total_precipitation",
        ),
        # In none of the files: refused before the month is looked at.
        ("gulf-2023", "2023-05", {"variables": "t2m,tp"}, None, "total_precipitation"),
    ],
)
def test_month_off_the_grid_or_without_a_variable_is_refused(
    pipeline: Pipeline,
    era5_samples: Path,
    folder: str,
    month: str,
    options: dict[str, Any],
    check: str | None,
    said: str,
) -> None:
    files = {"source": "files", "files_dir": str(era5_samples / folder), "allow_incomplete": check == "grid_aligned"}
    run = pipeline.run(month, **files, **options)
    assert check is None or pipeline.checks(run)[check] is False
    assert said in run.errors[0].message
    assert pipeline.materialized(run) == {}
    assert pipeline.rows(month) == 0


def test_impossible_values_are_refused(pipeline: Pipeline, tmp_path: Path) -> None:
    of = era5_files.weather(era5_files.hours_from("2021-06-01T00", 720), names=("t2m", "tcc"))
    wrong = of.fields["tcc"].copy()
    wrong[100, 1, 2] = 3.5
    era5_files.write(tmp_path, replace(of, fields={**of.fields, "tcc": wrong}))
    run = pipeline.run("2021-06", source="files", files_dir=str(tmp_path), allow_incomplete=True)
    assert set(pipeline.materialized(run)) == {"raw"}
    assert pipeline.checks(run) == {
        **dict.fromkeys(("grid_aligned", "variables_present", "hours_complete", "no_missing_values"), True),
        "values_within_bounds": False,
    }
    assert pipeline.rows("2021-06") == 0
    (error,) = run.errors
    assert error.exit_code == 4
    assert "total_cloud_cover has 1 values outside" in error.message
    assert "2021-06-05" in error.message
