from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.sources.source import Request, locked_month, try_lock_month

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


@pytest.mark.parametrize("source", ["arco", "earthmover", "cds,arco"])
def test_a_source_without_the_data_set_is_refused_before_it_is_opened(source: str) -> None:
    settings = Settings(_env_file=None, source=source, dataset="era5-land", files_dir="/nowhere")
    with pytest.raises(UsageError, match=r"the source (arco|earthmover) has no ERA5-Land"):
        source_of(settings)


def test_a_request_is_for_variables_of_its_data_set() -> None:
    settings = Settings(_env_file=None, source="files", dataset="era5-land", variables="sd,evabs")
    assert Request.of(settings).columns == ("snow_depth_water_equivalent", "evaporation_from_bare_soil")
    assert [v.short_name for v in Request(dataset=ERA5_LAND).wanted] == ["t2m", "u10", "v10", "tp", "sf"]
    with pytest.raises(UsageError, match="ERA5-Land has no 'tcc'"):
        Request.of(settings.model_copy(update={"variables": "tcc"}))
