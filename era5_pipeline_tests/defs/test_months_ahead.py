"""Months prepared in another process: the same as here, in order, nothing half-done whenever either process ends."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from era5_pipeline.defs.months_ahead import MonthsAhead, Prepared, pays_off, prepared_months
from era5_pipeline.model.errors import NotYetAvailableError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month, months_between
from era5_pipeline.model.settings import Settings
from era5_pipeline.runtime.progress import listening
from era5_pipeline_tests.era5_files import left_behind
from era5_pipeline_tests.warehouse.loads import wait_until
from era5_pipeline_tests.zarr_stores import BOXES, chunks_in, hours_between, write_store

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.commands import InProcess

MONTHS = months_between("2019-01", "2019-12")
AREA = Area(50.5, 0.0, 50.0, 0.25)
# In chunks of 90 days.
LONG = replace(BOXES, chunk=(2160, 8, 8))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("long") / "store"
    write_store(folder, LONG, hours_between(MONTHS[0], MONTHS[-1]), ("temperature_2m",))
    return folder


def settings_for(store: Path, home: Path, **more: Any) -> Settings:
    return Settings(
        **{"home": home, "source": "zarr", "zarr_url": str(store), "area": str(AREA), "variables": "t2m", **more}
    )


def facts(prepared: Prepared | None) -> Any:
    """The results that must be the same wherever the month is prepared."""
    assert prepared is not None
    assert prepared.raw is not None
    assert prepared.flat is not None
    flat = prepared.flat.flat
    return prepared.month, prepared.raw.raw.fingerprint, prepared.raw.outcomes, flat.columns, flat.rows, flat.sha256


def test_months_are_the_same_as_those_prepared_here(store: Path, tmp_path: Path) -> None:
    said: list[str] = []
    here = [facts(one) for one in prepared_months(settings_for(store, tmp_path / "here"), MONTHS, said.append)]
    settings = settings_for(store, tmp_path / "ahead")
    # Without what is known of pieces that were just written: each month alone looks into its files.
    alone = [facts(one) for m in MONTHS for one in prepared_months(settings_for(store, tmp_path / "alone"), [m], print)]
    with closing(MonthsAhead(settings, MONTHS, said.append)) as ahead:
        assert [facts(ahead.take(month)) for month in MONTHS] == here == alone
    assert left_behind(settings.home) == []


def test_a_month_that_fails_says_why_and_the_next_ones_follow(store: Path, tmp_path: Path) -> None:
    months = (MONTHS[-1], Month(2020, 1), MONTHS[0])
    with closing(MonthsAhead(settings_for(store, tmp_path), months, print)) as ahead:
        facts(ahead.take(months[0]))
        failed = ahead.take(months[1])
        assert failed is not None
        assert isinstance(failed.error, NotYetAvailableError)
        assert (failed.raw, failed.flat) == (None, None)
        assert failed.error.message.startswith("2020-01 is not available yet")
        facts(ahead.take(months[2]))
    assert left_behind(tmp_path) == []


def test_what_the_process_says_and_reports_is_passed_on(store: Path, tmp_path: Path) -> None:
    shutil.copytree(store, tmp_path / "store")
    for chunk in chunks_in(tmp_path / "store"):
        chunk.unlink()
    said: list[str] = []
    reported: list[tuple[Any, ...]] = []
    settings = settings_for(tmp_path / "store", tmp_path / "home", allow_incomplete=True)
    with (
        listening(lambda *report: reported.append(report)),
        closing(MonthsAhead(settings, MONTHS[:1], said.append)) as ahead,
    ):
        ahead.take(MONTHS[0])
    assert any("2019-01" in text and "lacks values of t2m at 2019-01-01T00 to 2019-01-31T23" in text for text in said)
    assert {stage for stage, *_ in reported} >= {"raw"}


def child_of(process: psutil.Process) -> psutil.Process:
    (child,) = (one for one in process.children() if "months_ahead" in " ".join(one.cmdline()))
    return child


def test_without_the_process_the_caller_goes_on_by_itself(store: Path, tmp_path: Path) -> None:
    settings = settings_for(store, tmp_path)
    with closing(MonthsAhead(settings, MONTHS, print)) as ahead:
        first = facts(ahead.take(MONTHS[0]))
        child_of(psutil.Process()).kill()
        taken = [ahead.take(month) for month in MONTHS[1:]]
        # Those that it had sent, and then none.
        known = [one for one in taken if one is not None]
        assert taken == [*known, *[None] * (len(taken) - len(known))]
        assert len(known) < len(taken)
    again = [facts(one) for one in prepared_months(settings, MONTHS, print)]
    assert again[0] == first
    assert left_behind(tmp_path) == []


CALLER = """
import sys
from era5_pipeline.defs.months_ahead import MonthsAhead
from era5_pipeline.model.months import months_between
from era5_pipeline.model.settings import Settings
home, store, area = sys.argv[1:]
settings = Settings(home=home, source="zarr", zarr_url=store, area=area, variables="t2m")
months = months_between("2019-01", "2019-12")
ahead = MonthsAhead(settings, months, print)
ahead.take(months[0])
print("taken", flush=True)
sys.stdin.read()
"""


def test_the_process_ends_with_a_caller_that_is_killed(store: Path, tmp_path: Path) -> None:
    command = (sys.executable, "-c", CALLER, str(tmp_path), str(store), str(AREA))
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as caller:
        assert caller.stdout is not None
        while caller.stdout.readline() != "taken\n":
            assert caller.poll() is None
        child = child_of(psutil.Process(caller.pid))
        caller.kill()
    wait_until(lambda: not child.is_running() or child.status() == psutil.STATUS_ZOMBIE)
    assert left_behind(tmp_path) == []


@pytest.mark.parametrize("seconds", [0.0, 0.5, 2.0])
def test_closing_ends_the_process_at_any_moment(store: Path, tmp_path: Path, seconds: float) -> None:
    ahead = MonthsAhead(settings_for(store, tmp_path), MONTHS, print)
    child = child_of(psutil.Process())
    time.sleep(seconds)
    ahead.close()
    assert not child.is_running()
    assert left_behind(tmp_path) == []


def test_only_many_small_months_of_one_store_are_worth_it(store: Path, tmp_path: Path) -> None:
    settings, many = settings_for(store, tmp_path), months_between("1990-01", "1999-12")
    assert pays_off(settings, many) == ((os.cpu_count() or 1) > 1)
    assert not pays_off(settings, MONTHS)
    assert not pays_off(settings_for(store, tmp_path, area="60/0/20/40"), many)
    assert not pays_off(settings_for(store, tmp_path, source="sample", zarr_url=None), many)


@pytest.mark.parametrize("end", [None, signal.SIGKILL])
def test_a_load_prepares_its_months_ahead_and_goes_on_without_the_process(
    here: InProcess, store: Path, monkeypatch: pytest.MonkeyPatch, end: signal.Signals | None
) -> None:
    monkeypatch.setattr("era5_pipeline.defs.months_ahead._MANY_MONTHS", 2)
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    taken: list[Prepared | None] = []
    take = MonthsAhead.take

    def taking(ahead: MonthsAhead, month: Month) -> Prepared | None:
        if end is not None and len(taken) == 1:
            os.kill(child_of(psutil.Process()).pid, end)
        taken.append(take(ahead, month))
        return taken[-1]

    monkeypatch.setattr(MonthsAhead, "take", taking)
    here.run(
        *("load", "--from", "2019-01", "--to", "2019-12", "--store", str(store), "--area", str(AREA)),
        *("--variables", "t2m"),
    )
    assert len(taken) == len(MONTHS)
    assert (None in taken) == (end is not None)
    assert {month: entry["rows"] for month, entry in here.months().items()} == {
        str(month): 6 * month.hours for month in MONTHS
    }
    here.run("verify")
    assert left_behind(here.home) == []
