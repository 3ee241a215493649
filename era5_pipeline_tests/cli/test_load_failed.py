"""`era5 load --failed`: the months whose last attempt failed are run again, with the settings that they had."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.backfills import damaged, sample_files
from era5_pipeline_tests.commands import InProcess, assert_explained
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.pipelines import dagster_beside

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse


@pytest.fixture
def here(here: InProcess, tmp_path: Path, host_url: str, warehouse: Warehouse) -> Iterator[InProcess]:
    here.set(ERA5_DATABASE_URL=warehouse.url, ERA5_HOME=str(tmp_path / "home"))
    with dagster_beside(host_url, warehouse.url), without_pictures():
        yield here


def test_nothing_failed(here: InProcess) -> None:
    printed = here.run("load", "--failed")
    assert printed.out == "no month's last attempt failed\n"
    assert here.run("load", "--failed", "--json").json() == []
    assert_explained(here.run("load", "--failed", "--to", "2020-01", code=2), "--to was given without --from")


def test_failed_months_are_loaded_again_once_their_input_is_mended(here: InProcess, tmp_path: Path) -> None:
    files = sample_files(tmp_path / "inbox", "2021-01", "2021-03")
    place = ("--files-dir", str(tmp_path / "inbox"), "--area=-6/106/-6.25/106.5")
    with damaged(files[1]):
        first = here.run("load", "--from", "2021-01", "--to", "2021-03", *place, code=3)
        assert "2021-02" in first.err
        status = here.run("status").out
        assert f"2021-02: the last load was failed ({files[1]}" in status
        assert "era5 load --failed" in status
        (row,) = (line.split() for line in status.splitlines() if line.split()[:1] == ["2021-02"])
        assert row[1] == "failed"
        # Without its options: they are those of the failed run.
        again = here.run("load", "--failed", "--json", code=3)
        assert [result["month"] for result in again.json()] == ["2021-02"]
        assert f"era5: 2021-02 failed before: {files[1]}" in again.err
        assert files[1].name in again.err
        assert here.run("load", "--failed", "--from", "2021-03").out == "no month's last attempt failed\n"
    (result,) = here.run("load", "--failed", "--json").json()
    assert (result["month"], result["state"], result["rows"]) == ("2021-02", "loaded", 672 * 6)
    assert here.run("load", "--failed").out == "no month's last attempt failed\n"
    assert "failed" not in here.run("status").out
    # A month that is loaded, fails, and then has not changed after all.
    with damaged(files[1]):
        here.run("load", "--from", "2021-02", *place, code=3)
        assert "2021-02: the last load was failed" in here.run("status").out
    here.run("load", "--failed")
    assert "failed" not in here.run("status").out
    with damaged(files[1]):
        here.run("load", "--from", "2021-02", *place, code=3)
    assert "nothing changed" in here.run("load", "--from", "2021-02", *place).out
    assert "failed" not in here.run("status").out


def test_months_that_fail_of_the_same_are_one_message(here: InProcess, tmp_path: Path) -> None:
    sample_files(tmp_path / "inbox", "2021-01", "2021-01")
    asked = ("load", "--from", "2021-02", "--to", "2021-05", "--files-dir", str(tmp_path / "inbox"))
    printed = here.run(*asked, code=3)
    assert printed.err.count("2021-02 to 2021-05: ") == 1
    assert "2021-03" not in printed.err
    status = here.run("status").out
    (line,) = (line for line in status.splitlines() if "the last load was failed" in line)
    assert line.startswith("2021-02 to 2021-05: ")


def test_settings_of_the_environment_are_remembered(here: InProcess, tmp_path: Path) -> None:
    (file,) = sample_files(tmp_path / "inbox", "2021-05", "2021-05")
    with pytest.MonkeyPatch.context() as patch, damaged(file):
        for name, value in {"ERA5_FILES_DIR": str(tmp_path / "inbox"), "ERA5_AREA": "-6/106/-6.25/106.25"}.items():
            patch.setenv(name, value)
        here.run("load", "--from", "2021-05", code=3)
    (result,) = here.run("load", "--failed", "--json").json()
    assert (result["month"], result["state"], result["rows"]) == ("2021-05", "loaded", 744 * 4)
