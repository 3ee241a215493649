"""The source against a server that speaks the service's protocol, through the real client."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import traceback
import zipfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
import time_machine

from era5_pipeline.flat.inventory import Inventory, take_inventory
from era5_pipeline.model.errors import LocalDiskError, MonthFailedError, NotYetAvailableError, SourceError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.netcdf.archive import scratch_folder
from era5_pipeline.runtime.progress import listening
from era5_pipeline.sources.cds.note import read_note
from era5_pipeline_tests.cds_store.faults import LIMITED
from era5_pipeline_tests.sources.cds.asking import AREA, LARGER, MONTH, TODAY, Asking, is_fresh

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.sources.source import RawMonth, Source
    from era5_pipeline_tests.cds_store import CdsServer
    from era5_pipeline_tests.cds_store.faults import Where


def inventory(raw: RawMonth, home: Path) -> Inventory:
    with scratch_folder(home) as scratch:
        return take_inventory(raw, scratch)


def test_it_is_a_source(asking: Asking) -> None:
    source: Source = asking.source()
    assert source.name == "cds"


def test_a_month_comes_as_one_request(asking: Asking, tmp_path: Path) -> None:
    raw = asking.fetch()
    assert len(asking.server.submissions) == 1
    (file,) = raw.files
    assert file.path.suffix == ".zip"
    assert file.path.parent == asking.folder
    assert file.bytes == file.path.stat().st_size
    held = inventory(raw, tmp_path)
    assert held.hours.size == MONTH.hours == 29 * 24
    assert len(held.columns) == 6
    assert int(held.coverage.sum()) == 9
    assert asking.leftovers == []


def test_one_kind_of_variable_comes_as_netcdf(asking: Asking, tmp_path: Path) -> None:
    raw = asking.fetch(MONTH, "temperature_2m")
    assert raw.files[0].path.suffix == ".nc"
    assert raw.variables == ("temperature_2m",)
    assert inventory(raw, tmp_path).columns == ("temperature_2m",)


def test_what_is_here_is_not_asked_for_again(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    first = asking.fetch()
    assert asking.source().known(MONTH) == first
    asked = len(asking.server.requests)
    monkeypatch.delenv("CDSAPI_KEY")
    monkeypatch.delenv("CDSAPI_URL")
    assert asking.fetch() == first
    assert len(asking.server.requests) == asked


def test_a_file_that_was_removed_is_known_and_fetched_again(asking: Asking) -> None:
    first = asking.fetch()
    first.files[0].path.unlink()
    assert asking.source().known(MONTH) == first
    assert asking.fetch().files[0].path.is_file()
    assert len(asking.server.submissions) == 2


def test_other_areas_and_variables_are_other_months(asking: Asking) -> None:
    asking.fetch(MONTH, "temperature_2m")
    asking.fetch(MONTH, "temperature_2m", area=Area(-6.0, 106.0, -6.0, 106.0))
    asking.fetch(MONTH, "zonal_wind_10m")
    assert len(asking.server.submissions) == 3
    assert len(list(asking.folder.glob("*.nc"))) == 3


def test_a_queue_is_waited_for_and_told_of(asking: Asking) -> None:
    asking.server.faults.accepted_polls, asking.server.faults.running_polls = 6, 6
    asking.fetch()
    assert len(asking.slept) == 12
    assert asking.slept == sorted(asking.slept)  # it looks less and less often
    assert asking.slept[-1] <= 60
    assert any("in the queue" in text for text in asking.said)
    assert any("being worked on" in text for text in asking.said)


def test_a_queue_longer_than_the_patience_keeps_the_request(asking: Asking) -> None:
    asking.server.faults.accepted_polls = 10_000
    with pytest.raises(SourceError, match="in the queue") as caught:
        asking.fetch(patience_hours=1.0)
    assert "taken up" in caught.value.remedy
    assert sum(asking.slept) == pytest.approx(3600)
    asking.server.faults.accepted_polls = 0
    asking.server.finish_jobs()
    asking.fetch()
    assert len(asking.server.submissions) == 1


def test_progress_is_in_bytes(asking: Asking) -> None:
    reports = []
    with listening(lambda *report: reports.append(report)):
        raw = asking.fetch()
    assert reports[-1] == ("raw", raw.bytes, raw.bytes, "bytes")


# --- what stays ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "says", "remedy"),
    [
        ("licence", "licence of ERA5 is not accepted", "https?://"),
        ("cost", "too large", "fewer variables"),
        ("invalid", "refuses the request", "--variables"),
    ],
)
def test_what_the_service_refuses_stops_at_once(asking: Asking, fault: str, says: str, remedy: str) -> None:
    setattr(asking.server.faults, fault, True)
    with pytest.raises(SourceError, match=says) as caught:
        asking.fetch()
    assert str(MONTH) in caught.value.message
    assert re.search(remedy, caught.value.remedy)
    assert asking.slept == []
    assert asking.server.submissions == []


def test_a_wrong_key_stops_at_once_and_is_not_shown(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDSAPI_KEY", "00000000-wrong-key")
    with pytest.raises(SourceError, match="does not accept the key") as caught:
        asking.fetch()
    assert "CDSAPI_KEY" in caught.value.remedy
    assert asking.slept == []
    assert "00000000-wrong-key" not in f"{caught.value}{caught.value.__cause__}{asking.said}"


def test_a_key_of_the_old_store_is_not_even_sent(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDSAPI_KEY", "12345:00000000-0000")
    asked = len(asking.server.requests)
    with pytest.raises(SourceError, match="old Climate Data Store"):
        asking.fetch()
    assert len(asking.server.requests) == asked


def test_another_service_at_the_address(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDSAPI_URL", asking.server.url + "/elsewhere")
    with pytest.raises(SourceError, match="does not know the address"):
        asking.fetch()


def test_a_month_that_is_not_available_yet(asking: Asking) -> None:
    asking.server.today = datetime(2026, 11, 3, tzinfo=UTC)
    with time_machine.travel(asking.server.today, tick=False), pytest.raises(NotYetAvailableError) as caught:
        asking.fetch(Month(2026, 11))
    assert "2026-10-29" in caught.value.message
    assert asking.slept == []
    # The next day is another day.
    asking.server.today = datetime(2026, 11, 9, tzinfo=UTC)
    with time_machine.travel(asking.server.today, tick=False):
        asking.fetch(Month(2026, 11))
    assert len(asking.server.submissions) == 1


# --- what passes ---------------------------------------------------------------


@pytest.mark.parametrize("words", LIMITED)
def test_rejected_twice_then_accepted(asking: Asking, words: str) -> None:
    asking.server.faults.reject_jobs, asking.server.faults.rejection = 2, words
    asking.fetch()
    assert len(asking.server.submissions) == 3
    assert len(asking.slept) == 2
    assert asking.slept[1] > asking.slept[0] >= 30
    rejected = [text for text in asking.said if words in text]
    assert len(rejected) == 2
    assert all("asking anew in" in text and "waited" in text for text in rejected)


def test_rejected_for_ever_ends_with_the_patience(asking: Asking) -> None:
    asking.server.faults.reject_jobs = 10_000
    with pytest.raises(SourceError, match=r"gave up.*temporarily limited"):
        asking.fetch(patience_hours=3.0)
    assert sum(asking.slept) == pytest.approx(3 * 3600)
    assert max(asking.slept) <= 1800 * 1.25


@pytest.mark.parametrize("seconds", [7, 400])
def test_too_many_requests_wait_as_long_as_told(asking: Asking, seconds: int) -> None:
    asking.server.faults.too_many_requests = 1
    asking.server.faults.retry_after = str(seconds)
    asking.fetch()
    (slept,) = asking.slept
    assert seconds <= slept <= max(seconds, 30) * 1.25
    assert any("too many requests" in text for text in asking.said)


@pytest.mark.parametrize("header", ["31536000", "inf", "1e300", "Fri, 31 Dec 9999 23:59:59 -1200"])
def test_no_wait_is_longer_than_the_patience(asking: Asking, header: str) -> None:
    asking.server.faults.too_many_requests, asking.server.faults.retry_after = 10_000, header
    with pytest.raises(SourceError, match="too many requests"):
        asking.fetch(patience_hours=1.0)
    assert sum(asking.slept) == pytest.approx(3600)


@pytest.mark.parametrize("status", [500, 502, 503, 504, 521])
@pytest.mark.parametrize("where", ["submit", "poll", "results", "download"])
def test_errors_of_the_server_pass(asking: Asking, status: int, where: Where) -> None:
    asking.server.faults.fail(where, status=status, times=2)
    asking.fetch()
    assert len(asking.slept) == 2
    assert len(asking.server.submissions) == 1
    assert all(f"status {status}" in text for text in asking.said if "trying again" in text)


@pytest.mark.parametrize("where", ["results", "download"])
def test_waits_grow_though_each_look_at_the_request_goes_well(asking: Asking, where: Where) -> None:
    asking.server.faults.fail(where, status=503, times=5)
    asking.fetch()
    assert len(asking.slept) == 5
    for number, seconds in enumerate(asking.slept):
        assert 30 * 2**number <= seconds <= 1.25 * 30 * 2**number


def test_waits_stay_short_while_bytes_come(asking: Asking) -> None:
    asking.server.faults.cut_download_after, asking.server.faults.cut_downloads = 150_000, 4
    asking.fetch(area=LARGER)
    assert len(asking.slept) == 4
    assert max(asking.slept) <= 30 * 1.25


def test_an_earlier_request_does_not_do_for_data_made_anew(asking: Asking) -> None:
    asking.server.faults.accepted_polls = 10_000
    with pytest.raises(SourceError):
        asking.fetch(patience_hours=0.01)
    asking.server.faults.accepted_polls = 0
    asking.fetch(refetch=True)
    assert [is_fresh(inputs) for inputs in asking.server.submissions] == [False, True]


def test_a_server_that_is_down_is_waited_for(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    url = asking.server.url
    monkeypatch.setenv("CDSAPI_URL", "http://127.0.0.1:9/api")  # nobody listens on "discard"
    with pytest.raises(SourceError, match="gave up: no connection"):
        asking.fetch(patience_hours=0.1)
    assert any("refused" in text for text in asking.said)
    monkeypatch.setenv("CDSAPI_URL", url)
    asking.fetch()


def test_an_answer_to_sending_that_was_lost_is_no_second_request(asking: Asking) -> None:
    asking.server.faults.drop_submit_reply = 1
    asking.fetch()
    assert len(asking.server.submissions) == 1


def test_a_request_that_is_unknown_right_after_it_was_sent(asking: Asking) -> None:
    asking.server.faults.lose_jobs = 2
    asking.fetch()
    assert len(asking.server.submissions) == 1


def test_a_request_that_is_unknown_now_and_then_keeps_its_place(asking: Asking) -> None:
    asking.server.faults.accepted_polls = 100

    def lose() -> None:
        asking.server.faults.lose_jobs = len(asking.slept) % 3 == 0

    asking.while_asleep = lose
    asking.fetch()
    assert len(asking.server.submissions) == 1
    assert sum("does not know the request" in text for text in asking.said) > 10


def test_news_of_the_service_are_told_once(asking: Asking) -> None:
    asking.server.faults.accepted_polls, asking.server.faults.news = 20, "Maintenance on Tuesday"
    asking.fetch()
    assert sum("Maintenance on Tuesday" in text for text in asking.said) == 1


def test_results_that_have_expired_are_asked_for_anew(asking: Asking) -> None:
    asking.server.faults.expire_results = 1
    asking.fetch()
    assert len(asking.server.submissions) == 2
    assert any("expired" in text for text in asking.said)


def test_a_request_that_the_service_forgot_is_sent_anew(asking: Asking) -> None:
    asking.server.faults.accepted_polls = 10_000
    with pytest.raises(SourceError):
        asking.fetch(patience_hours=0.01)
    asking.server.faults.accepted_polls = 0
    asking.server.jobs.clear()
    asking.fetch()
    assert len(asking.server.submissions) == 2


def test_a_request_that_fails_at_the_service_is_sent_anew_a_few_times(asking: Asking) -> None:
    asking.server.faults.fail_jobs = 1
    asking.fetch()
    assert len(asking.server.submissions) == 2
    asking.server.faults.fail_jobs = 10
    with pytest.raises(SourceError, match="failed at the service"):
        asking.fetch(Month(2020, 3))


# --- bytes ---------------------------------------------------------------------


def downloads(server: CdsServer) -> list[dict[str, str]]:
    """Headers, in small letters, of the requests for the file."""
    return [
        {name.lower(): value for name, value in headers.items()}
        for method, path, headers in server.requests
        if method == "GET" and "/retrieve/" not in path and "/catalogue/" not in path
    ]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_is_cut_off_goes_on(asking: Asking, ranges: bool) -> None:
    whole = asking.fetch(MONTH, area=LARGER).files[0].sha256
    shutil.rmtree(asking.folder)
    asking.server.faults.ranges = ranges
    asking.server.faults.cut_download_after, asking.server.faults.cut_downloads = 200_000, 2
    seen = len(downloads(asking.server))
    assert asking.fetch(MONTH, area=LARGER).files[0].sha256 == whole
    got = downloads(asking.server)[seen:]
    assert len(got) == 3
    assert ["range" in headers for headers in got] == [False, True, True]
    assert not any("private-token" in headers for headers in got)
    assert any("cut off" in text for text in asking.said)


def test_what_came_before_a_kill_is_not_fetched_again(asking: Asking) -> None:
    asking.server.faults.cut_download_after, asking.server.faults.cut_downloads = 200_000, 10_000
    with pytest.raises(SourceError, match="cut off"):
        asking.fetch(area=LARGER, patience_hours=0.001)
    (part,) = asking.folder.glob("*.part")
    held = part.stat().st_size
    assert held >= 131_072
    asking.server.faults.cut_downloads = 0
    seen = len(downloads(asking.server))
    asking.fetch(area=LARGER)
    (headers,) = downloads(asking.server)[seen:]
    assert headers["range"] == f"bytes={held}-"
    assert len(asking.server.submissions) == 1
    assert asking.leftovers == []


def test_a_wrong_size_is_never_kept(asking: Asking) -> None:
    asking.server.faults.wrong_size = 10_000
    with pytest.raises(MonthFailedError, match="were announced"):
        asking.fetch(patience_hours=1.0)
    assert list(asking.folder.glob("*.zip")) == []
    asking.server.faults.wrong_size = 0
    assert asking.fetch().files[0].path.is_file()


def test_bytes_that_changed_on_their_way_are_fetched_again(asking: Asking) -> None:
    right = asking.fetch().files[0].sha256
    shutil.rmtree(asking.folder)
    asking.server.faults.garble_downloads = 2
    seen = len(asking.server.submissions)
    assert asking.fetch().files[0].sha256 == right
    assert any("another checksum" in text for text in asking.said)
    assert len(asking.server.submissions) == seen + 1
    asking.server.faults.garble_downloads = 10_000
    with pytest.raises(MonthFailedError, match="another checksum"):
        asking.fetch(Month(2020, 3))
    assert list(asking.folder.glob("2020-03*.zip")) == []


def test_a_checksum_that_was_wrong_once(asking: Asking) -> None:
    asking.server.faults.wrong_checksum = 1
    asking.fetch()
    assert any("another checksum" in text for text in asking.said)
    assert len(asking.server.submissions) == 1


def test_a_whole_file_that_comes_twice_is_kept_whatever_was_announced(asking: Asking) -> None:
    """What is announced follows from how the service's store was written to: it need not be one that we know."""
    asking.server.faults.wrong_checksum = 10_000
    raw = asking.fetch()
    assert raw.files[0].path.is_file()
    assert len(downloads(asking.server)) == 2
    assert any("twice with the same bytes" in text and "0" * 32 in text for text in asking.said)
    note = json.loads(next(asking.folder.glob("*.json")).read_text())
    assert note["fetched"]["checksum"] is None


def test_a_damaged_file_is_not_kept_though_it_comes_twice(asking: Asking) -> None:
    asking.server.faults.wrong_checksum, asking.server.faults.corrupt_zip = 10_000, 10
    with pytest.raises(MonthFailedError, match="ZIP is damaged"):
        asking.fetch()
    assert list(asking.folder.glob("*.zip")) == []


def test_without_a_checksum_nothing_of_an_earlier_run_is_trusted(asking: Asking) -> None:
    """What was written before the power went may be zeros, of the right length."""
    asking.server.faults.no_checksum = True
    asking.server.faults.cut_download_after, asking.server.faults.cut_downloads = 200_000, 10_000
    with pytest.raises(SourceError, match="cut off"):
        asking.fetch(area=LARGER, patience_hours=0.001)
    (part,) = asking.folder.glob("*.part")
    part.write_bytes(bytes(part.stat().st_size))
    asking.server.faults.cut_downloads = 1
    seen = len(downloads(asking.server))
    (file,) = asking.fetch(area=LARGER).files
    # From its beginning; where this run was cut off itself, it went on.
    assert ["range" in headers for headers in downloads(asking.server)[seen:]] == [False, True]
    assert zipfile.is_zipfile(file.path)


def test_the_address_of_a_file_with_its_signature_is_kept_nowhere(asking: Asking) -> None:
    asking.server.faults.cut_download_after, asking.server.faults.cut_downloads = 20_000, 10_000
    with pytest.raises(SourceError, match="cut off") as caught:
        asking.fetch(area=LARGER, patience_hours=0.001)
    assert "a-secret" not in "".join(traceback.format_exception(caught.value)) + "".join(asking.said)


@pytest.mark.parametrize("href", ["s3://store/month.zip", "http://[::1", "http://127.0.0.1:99999/month.zip"])
def test_an_address_that_cannot_be_meant_is_no_matter_of_patience(asking: Asking, href: str) -> None:
    asking.server.faults.href = href
    with pytest.raises(MonthFailedError):
        asking.fetch()
    assert len(asking.slept) < 10
    asking.server.faults.href = None
    asking.fetch()


def test_a_damaged_zip_is_asked_for_anew_once(asking: Asking) -> None:
    asking.server.faults.corrupt_zip = 1
    asking.fetch()
    assert len(asking.server.submissions) == 2
    assert is_fresh(asking.server.submissions[1])
    asking.server.faults.corrupt_zip = 10
    with pytest.raises(SourceError, match="ZIP is damaged"):
        asking.fetch(Month(2020, 3))
    assert not list(asking.folder.glob("2020-03*.zip"))
    assert asking.leftovers == []


def test_a_page_in_place_of_the_file(asking: Asking) -> None:
    asking.server.faults.html_instead = True
    with pytest.raises(SourceError, match="web page"):
        asking.fetch()


@pytest.mark.parametrize(("fault", "says"), [("zip_slip", "outside of it"), ("zip_bomb", "would swell")])
def test_a_hostile_zip_is_refused_at_once(asking: Asking, tmp_path: Path, fault: str, says: str) -> None:
    before = sorted(path for path in tmp_path.rglob("*") if asking.folder not in path.parents)
    setattr(asking.server.faults, fault, True)
    with pytest.raises(SourceError, match=says):
        asking.fetch()
    assert asking.slept == []
    assert asking.leftovers == []
    assert list(asking.folder.glob("*.zip")) == []
    after = sorted(path for path in tmp_path.rglob("*") if asking.folder not in path.parents)
    assert [path for path in after if path != asking.folder] == [path for path in before if path != asking.folder]


def test_a_full_disk_is_told_of_before_anything_is_fetched(asking: Asking, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage(asking.folder.parent)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    seen = len(downloads(asking.server))
    with pytest.raises(LocalDiskError, match="1,000 are free"):
        asking.fetch()
    assert len(downloads(asking.server)) == seen


# --- two runs, and runs that were killed ---------------------------------------

_RUN = """
import sys
from pathlib import Path
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.sources.cds.cds_source import CdsSource, Manners
from era5_pipeline.sources.source import Request
request = Request(None, Area.parse(sys.argv[2]))
source = CdsSource(Path(sys.argv[1]), request, manners=Manners(0.05, 0.05), say=lambda t: print(t, flush=True))
print(source.fetch(Month(2020, 2)).files[0].sha256, flush=True)
"""


@contextmanager
def running_elsewhere(asking: Asking, area: Area = AREA) -> Iterator[subprocess.Popen[str]]:
    """The month being fetched in a process of its own, which is gone afterwards."""
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(asking.folder), str(area)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"CDSAPI_URL": asking.server.url, "CDSAPI_KEY": asking.server.key},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def job_under_way(asking: Asking) -> bool:
    return any(read_note(path).job for path in asking.folder.glob("*.json"))


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_killed_run_is_taken_up_in_the_queue(asking: Asking) -> None:
    asking.server.faults.accepted_polls = 10_000
    with running_elsewhere(asking) as process:
        until(lambda: job_under_way(asking))
        process.send_signal(signal.SIGKILL)
    asking.server.finish_jobs()
    asking.fetch()
    assert len(asking.server.submissions) == 1
    assert any("taking up request" in text for text in asking.said)


def test_a_run_that_is_killed_while_it_downloads_goes_on(asking: Asking) -> None:
    asking.server.faults.slow_download = 0.02
    with running_elsewhere(asking, LARGER) as process:
        until(lambda: any(part.stat().st_size for part in asking.folder.glob("*.part")))
        process.send_signal(signal.SIGKILL)
    asking.server.faults.slow_download = 0.0
    raw = asking.fetch(area=LARGER)
    assert len(asking.server.submissions) == 1
    assert "range" in downloads(asking.server)[-1]
    assert raw.files[0].path.is_file()


def test_two_runs_of_a_month_ask_once(asking: Asking) -> None:
    asking.server.faults.accepted_polls = 10_000
    with running_elsewhere(asking) as first, running_elsewhere(asking) as second:
        until(lambda: job_under_way(asking))
        assert sorted("another run is fetching it" in first_line(run) for run in (first, second)) == [False, True]
        asking.server.finish_jobs()
        said = [run.communicate(timeout=60)[0] for run in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0), said
    assert len(asking.server.submissions) == 1
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


# --- ERA5T, short months, the first month --------------------------------------


def test_a_recent_month_is_not_taken_from_the_cache(asking: Asking) -> None:
    with time_machine.travel(TODAY, tick=False):
        asking.fetch(Month(2026, 9))
        asking.fetch(Month(2020, 2))
    assert [is_fresh(inputs) for inputs in asking.server.submissions] == [True, False]


def test_a_short_month_is_not_given_again(asking: Asking, tmp_path: Path) -> None:
    october = Month(2026, 10)
    asking.server.today = datetime(2026, 10, 20, tzinfo=UTC)
    with time_machine.travel(asking.server.today, tick=False):
        raw = asking.fetch(october)
        assert inventory(raw, tmp_path).hours.size == 14 * 24 + 1
        asking.source().judged(raw, whole=False)
        assert asking.source().known(october) is None
    asking.server.today = datetime(2026, 11, 8, tzinfo=UTC)
    with time_machine.travel(asking.server.today, tick=False):
        again = asking.fetch(october)
    assert inventory(again, tmp_path).hours.size == 744
    asking.source().judged(again, whole=True)
    assert asking.source().known(october) == again
    assert not raw.files[0].path.exists()


def test_the_boundary_month_has_both_versions(asking: Asking, tmp_path: Path) -> None:
    asking.server.final_until = datetime(2026, 7, 31, 23, tzinfo=UTC)
    held = inventory(asking.fetch(Month(2026, 8)), tmp_path).expver
    assert held["temperature_2m"] == {"0005": 744}
    assert held["total_precipitation"] == {"0001": 7, "0005": 737}


def test_a_file_that_does_not_say_its_version(asking: Asking, tmp_path: Path) -> None:
    asking.server.faults.no_expver = True
    assert inventory(asking.fetch(), tmp_path).expver["temperature_2m"] == {"unknown": MONTH.hours}


def test_fetched_anew_while_the_old_file_stays_until_the_new_one_is_there(asking: Asking) -> None:
    october = Month(2026, 10)
    with time_machine.travel(TODAY, tick=False):
        old = asking.fetch(october)
    later = TODAY + timedelta(days=120)
    asking.server.today = later
    asking.server.faults.accepted_polls = 1
    there: list[bool] = []
    asking.while_asleep = lambda: there.append(old.files[0].path.exists())
    with time_machine.travel(later, tick=False):
        new = asking.fetch(october, refetch=True)
    assert there == [True]
    assert new.files[0].sha256 != old.files[0].sha256
    assert not old.files[0].path.exists()
    assert is_fresh(asking.server.submissions[-1])


def test_the_first_month_of_all(asking: Asking, tmp_path: Path) -> None:
    first = Month(1940, 1)
    held = inventory(asking.fetch(first), tmp_path)
    assert held.column_hours("temperature_2m").size == 744
    assert held.column_hours("total_precipitation").size == 737
    assert not any(held.missing_hours(variable).size for variable in in_table_order(held.columns))


def test_the_key_is_nowhere(asking: Asking) -> None:
    asking.server.faults.reject_jobs = 1
    asking.fetch()
    written = b"".join(path.read_bytes() for path in asking.folder.rglob("*") if path.is_file())
    assert asking.server.key.encode() not in written
    assert asking.server.key not in "".join(asking.said) + repr(asking.source())
