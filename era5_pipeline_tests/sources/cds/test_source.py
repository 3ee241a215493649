"""The source `cds` on a test server with the service's protocol, through the real client."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import traceback
import zipfile
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import time_machine
import xarray as xr

from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import LocalDiskError, MonthFailedError, NotYetAvailableError, SourceError, UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import VARIABLES, in_table_order
from era5_pipeline.runtime.progress import listening
from era5_pipeline.sources.cds.note import read_note
from era5_pipeline.sources.sample_weather import SampleWeather
from era5_pipeline_tests.cds_store.faults import LIMITED
from era5_pipeline_tests.era5_files import assert_same_rows, flat_rows
from era5_pipeline_tests.sources.cds.source_under_test import (
    AREA,
    LARGER,
    MONTH,
    TODAY,
    SourceUnderTest,
    inventory,
    is_fresh,
)
from era5_pipeline_tests.warehouse.loads import wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.cds_store import CdsServer
    from era5_pipeline_tests.cds_store.faults import Where


def test_a_month_is_one_request(cds: SourceUnderTest, tmp_path: Path) -> None:
    reports = []
    with listening(lambda *report: reports.append(report)):
        raw = cds.fetch()
    assert len(cds.server.submissions) == 1
    assert reports[-1] == ("raw", raw.bytes, raw.bytes, "bytes")
    (file,) = raw.files
    assert file.path.suffix == ".zip"
    assert file.path.parent == cds.folder
    assert file.bytes == file.path.stat().st_size
    held = inventory(raw, tmp_path)
    assert held.hours.size == MONTH.hours == 29 * 24
    assert len(held.columns) == 6
    assert int(held.coverage.sum()) == 9
    assert cds.leftovers == []


def test_a_month_as_grib_has_the_same_values(cds: SourceUnderTest, tmp_path: Path) -> None:
    # An instant and an accumulation; all six: flat/test_flatten, test_every_layout_gives_the_same_rows.
    names = ("temperature_2m", "total_precipitation")
    netcdf, grib = (cds.fetch(MONTH, *names, data_format=form) for form in ("netcdf", "grib"))
    assert [inputs["data_format"] for inputs in cds.server.submissions] == ["netcdf", "grib"]
    assert grib.files[0].path.suffix == ".grib"
    assert cds.source(*names, data_format="grib").known(MONTH) == grib
    assert cds.fetch(MONTH, *names, data_format="grib") == grib
    assert len(cds.server.submissions) == 2
    held = inventory(grib, tmp_path)
    assert (held.hours.size, len(held.columns)) == (MONTH.hours, 2)
    halves = {piece.field.column: piece.field.half_step for piece in held.pieces}
    one, other = (
        flat_rows(flatten_month(raw, tmp_path / raw.files[0].path.suffix, home=tmp_path, flat_format="parquet").path)
        for raw in (netcdf, grib)
    )
    # A message of nine values has its own least value, which edition 1 rounds, too.
    assert_same_rows(other, one.sorted(), {column: 1.01 * half + 5e-4 for column, half in halves.items()})
    assert cds.leftovers == []


def test_a_grib_that_is_cut_off_is_requested_again_once(cds: SourceUnderTest, tmp_path: Path) -> None:
    whole = cds.fetch(data_format="grib", area=LARGER).files[0].path
    cut = tmp_path / "cut.grib"
    cut.write_bytes(whole.read_bytes()[:-1000])
    cds.server.faults.answer_with = cut
    with pytest.raises(MonthFailedError, match="GRIB is cut off or damaged"):
        cds.fetch(data_format="grib")
    assert len(cds.server.submissions) == 1 + 2
    cds.server.faults.answer_with = None
    assert cds.fetch(data_format="grib").files[0].path.suffix == ".grib"


def test_a_month_in_the_folder_is_not_requested_again(cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    first = cds.fetch()
    assert cds.source().known(MONTH) == first
    asked = len(cds.server.requests)
    with monkeypatch.context() as patch:
        patch.delenv("CDSAPI_KEY")
        patch.delenv("CDSAPI_URL")
        assert cds.fetch() == first
    assert len(cds.server.requests) == asked
    # A file that was removed is still known, and fetched again.
    first.files[0].path.unlink()
    assert cds.source().known(MONTH) == first
    assert cds.fetch().files[0].path.is_file()
    assert len(cds.server.submissions) == 2


def test_other_areas_and_variables_are_other_requests(cds: SourceUnderTest) -> None:
    cds.fetch(MONTH, "temperature_2m")
    cds.fetch(MONTH, "temperature_2m", area=Area(-6.0, 106.0, -6.0, 106.0))
    cds.fetch(MONTH, "zonal_wind_10m")
    assert len(cds.server.submissions) == 3
    assert len(list(cds.folder.glob("*.nc"))) == 3


def test_waiting_in_the_queue_is_reported(cds: SourceUnderTest) -> None:
    cds.server.faults.accepted_polls, cds.server.faults.running_polls = 6, 6
    cds.fetch()
    assert len(cds.slept) == 12
    assert cds.slept == sorted(cds.slept)  # it looks less and less often
    assert cds.slept[-1] <= 60
    assert any("in the queue" in text for text in cds.said)
    assert any("being worked on" in text for text in cds.said)


def test_a_queue_longer_than_the_retry_limit_keeps_the_request(cds: SourceUnderTest) -> None:
    cds.server.faults.accepted_polls = 10_000
    with pytest.raises(SourceError, match="in the queue") as caught:
        cds.fetch(patience_hours=1.0)
    assert "resume" in caught.value.remedy
    assert sum(cds.slept) == pytest.approx(3600)
    cds.server.faults.accepted_polls = 0
    cds.server.finish_jobs()
    cds.fetch()
    assert len(cds.server.submissions) == 1


# --- permanent errors -----------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "names", "says", "remedy", "without"),
    [
        ("licence", (), "licence of ERA5 is not accepted", "https?://", "fewer"),
        ("cost", (), "too large", "fewer variables", "licence"),
        # One variable cannot be fewer.
        ("cost", ("temperature_2m",), "too large", "--source arco", "fewer"),
        ("invalid", (), "refuses the request", "--variables", "licence"),
        ("unknown_dataset", (), f"does not have the dataset {ERA5.cds_name}", f"datasets/{ERA5.cds_name}", "fewer"),
        # No matter of the account.
        ("disabled", (), "has been withdrawn", f"datasets/{ERA5.cds_name}", "account"),
    ],
)
def test_a_refused_request_is_not_retried(
    cds: SourceUnderTest, fault: str, names: tuple[str, ...], says: str, remedy: str, without: str
) -> None:
    cds.server.faults.disabled_reason = "This dataset has been withdrawn."
    setattr(cds.server.faults, fault, True)
    with pytest.raises(SourceError, match=says) as caught:
        cds.fetch(MONTH, *names)
    assert str(MONTH) in caught.value.message
    assert re.search(remedy, caught.value.remedy)
    assert without not in caught.value.remedy
    assert cds.slept == []
    assert cds.server.submissions == []


def test_a_wrong_key_is_neither_retried_nor_shown(cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDSAPI_KEY", "00000000-wrong-key")
    with pytest.raises(SourceError, match="does not accept the key") as caught:
        cds.fetch()
    assert "CDSAPI_KEY" in caught.value.remedy
    assert cds.slept == []
    assert "00000000-wrong-key" not in f"{caught.value}{caught.value.__cause__}{cds.said}"


def test_an_address_without_the_service(cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDSAPI_URL", cds.server.url + "/elsewhere")
    with pytest.raises(SourceError, match="is not at this address") as caught:
        cds.fetch()
    assert "CDSAPI_URL" in caught.value.remedy


def test_a_month_that_is_not_available_yet_can_be_fetched_later(cds: SourceUnderTest) -> None:
    cds.server.today = datetime(2026, 11, 3, tzinfo=UTC)
    with time_machine.travel(cds.server.today, tick=False), pytest.raises(NotYetAvailableError) as caught:
        cds.fetch(Month(2026, 11))
    assert "2026-10-29" in caught.value.message
    assert cds.slept == []
    cds.server.today = datetime(2026, 11, 9, tzinfo=UTC)
    with time_machine.travel(cds.server.today, tick=False):
        cds.fetch(Month(2026, 11))
    assert len(cds.server.submissions) == 1


# --- retryable errors -----------------------------------------------------------


@pytest.mark.parametrize("words", LIMITED)
def test_rejected_twice_then_accepted(cds: SourceUnderTest, words: str) -> None:
    cds.server.faults.reject_jobs, cds.server.faults.rejection = 2, words
    cds.fetch()
    assert len(cds.server.submissions) == 3
    assert len(cds.slept) == 2
    assert cds.slept[1] > cds.slept[0] >= 30
    rejected = [text for text in cds.said if words in text]
    assert len(rejected) == 2
    assert all("sending a new request in" in text and "waited" in text for text in rejected)


def test_a_request_that_fails_at_the_service_is_sent_again_a_few_times(cds: SourceUnderTest) -> None:
    cds.server.faults.fail_jobs = 1
    cds.fetch()
    assert len(cds.server.submissions) == 2
    cds.server.faults.fail_jobs = 10
    with pytest.raises(SourceError, match="failed at the service"):
        cds.fetch(Month(2020, 3))


@pytest.mark.parametrize("header", ["31536000", "inf", "1e300", "Fri, 31 Dec 9999 23:59:59 -1200"])
def test_no_wait_is_longer_than_the_retry_limit(cds: SourceUnderTest, header: str) -> None:
    cds.server.faults.too_many_requests, cds.server.faults.retry_after = 10_000, header
    with pytest.raises(SourceError, match="too many requests"):
        cds.fetch(patience_hours=1.0)
    assert sum(cds.slept) == pytest.approx(3600)


# Other statuses: test_answers.
@pytest.mark.parametrize(("where", "status"), [("submit", 500), ("poll", 502), ("results", 504), ("download", 521)])
def test_server_errors_are_retried(cds: SourceUnderTest, where: Where, status: int) -> None:
    cds.server.faults.fail(where, status=status, times=2)
    cds.fetch()
    assert len(cds.slept) == 2
    assert len(cds.server.submissions) == 1
    assert all(f"status {status}" in text for text in cds.said if "trying again" in text)


@pytest.mark.parametrize("where", ["results", "download"])
def test_waits_grow_although_each_poll_succeeds(cds: SourceUnderTest, where: Where) -> None:
    cds.server.faults.fail(where, status=503, times=5)
    cds.fetch()
    assert len(cds.slept) == 5
    for number, seconds in enumerate(cds.slept):
        assert 30 * 2**number <= seconds <= 1.25 * 30 * 2**number


def test_waits_stay_short_while_bytes_are_received(cds: SourceUnderTest) -> None:
    cds.server.faults.cut_download_after, cds.server.faults.cut_downloads = 150_000, 4
    cds.fetch(area=LARGER)
    assert len(cds.slept) == 4
    assert max(cds.slept) <= 30 * 1.25


def test_a_refetch_does_not_take_up_a_plain_request(cds: SourceUnderTest) -> None:
    cds.server.faults.accepted_polls = 10_000
    with pytest.raises(SourceError):
        cds.fetch(patience_hours=0.01)
    cds.server.faults.accepted_polls = 0
    cds.fetch(refetch=True)
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [False, True]


def test_a_server_that_is_down_is_retried_up_to_the_limit(
    cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = cds.server.url
    monkeypatch.setenv("CDSAPI_URL", "http://127.0.0.1:9/api")  # nobody listens on "discard"
    with pytest.raises(SourceError, match=r"gave up: no connection to http://127\.0\.0\.1:9 ") as caught:
        cds.fetch(patience_hours=0.1)
    assert any("refused" in text for text in cds.said)
    assert "CDSAPI_URL" in caught.value.remedy
    assert "bytes" not in caught.value.remedy  # none were received, and nothing was sent
    monkeypatch.setenv("CDSAPI_URL", url)
    cds.fetch()


def test_a_request_that_is_unknown_now_and_then_keeps_its_place(cds: SourceUnderTest) -> None:
    cds.server.faults.accepted_polls = 100
    cds.server.faults.lose_jobs = 2  # right after it was sent

    def lose() -> None:
        cds.server.faults.lose_jobs = len(cds.slept) % 3 == 0

    cds.while_asleep = lose
    cds.fetch()
    assert len(cds.server.submissions) == 1
    assert sum("does not know the request" in text for text in cds.said) > 10


def test_messages_of_the_service_are_reported_once(cds: SourceUnderTest) -> None:
    cds.server.faults.accepted_polls, cds.server.faults.news = 20, "Maintenance on Tuesday"
    cds.fetch()
    assert sum("Maintenance on Tuesday" in text for text in cds.said) == 1


def test_expired_results_are_requested_again(cds: SourceUnderTest) -> None:
    cds.server.faults.expire_results = 1
    cds.fetch()
    assert len(cds.server.submissions) == 2
    assert any("expired" in text for text in cds.said)


def test_a_request_unknown_to_the_service_is_sent_again(cds: SourceUnderTest) -> None:
    cds.server.faults.accepted_polls = 10_000
    with pytest.raises(SourceError):
        cds.fetch(patience_hours=0.01)
    cds.server.faults.accepted_polls = 0
    cds.server.jobs.clear()
    cds.fetch()
    assert len(cds.server.submissions) == 2


# --- downloads ------------------------------------------------------------------


def downloads(server: CdsServer) -> list[dict[str, str]]:
    """Headers of the requests for the file; names in lower case."""
    return [
        {name.lower(): value for name, value in headers.items()}
        for method, path, headers in server.requests
        if method == "GET" and "/retrieve/" not in path and "/catalogue/" not in path
    ]


@pytest.mark.parametrize("ranges", [True, False])
def test_a_download_that_is_cut_off_is_resumed(cds: SourceUnderTest, ranges: bool) -> None:
    whole = cds.fetch(MONTH, area=LARGER).files[0].sha256
    shutil.rmtree(cds.folder)
    cds.server.faults.ranges = ranges
    cds.server.faults.cut_download_after, cds.server.faults.cut_downloads = 200_000, 2
    seen = len(downloads(cds.server))
    assert cds.fetch(MONTH, area=LARGER).files[0].sha256 == whole
    got = downloads(cds.server)[seen:]
    assert len(got) == 3
    assert ["range" in headers for headers in got] == [False, True, True]
    assert not any("private-token" in headers for headers in got)
    assert any("cut off" in text for text in cds.said)


def test_bytes_of_an_earlier_run_are_not_downloaded_again(cds: SourceUnderTest) -> None:
    cds.server.faults.cut_download_after, cds.server.faults.cut_downloads = 200_000, 10_000
    with pytest.raises(SourceError, match="cut off") as caught:
        cds.fetch(area=LARGER, patience_hours=0.001)
    # The signed URL of the file is neither shown nor logged.
    assert "a-secret" not in "".join(traceback.format_exception(caught.value)) + "".join(cds.said)
    (part,) = cds.folder.glob("*.part")
    held = part.stat().st_size
    assert held >= 131_072
    cds.server.faults.cut_downloads = 0
    seen = len(downloads(cds.server))
    cds.fetch(area=LARGER)
    (headers,) = downloads(cds.server)[seen:]
    assert headers["range"] == f"bytes={held}-"
    assert len(cds.server.submissions) == 1
    assert cds.leftovers == []


def test_a_wrong_size_is_never_kept(cds: SourceUnderTest) -> None:
    cds.server.faults.wrong_size = 10_000
    with pytest.raises(MonthFailedError, match="were announced"):
        cds.fetch(patience_hours=1.0)
    assert list(cds.folder.glob("*.zip")) == []
    cds.server.faults.wrong_size = 0
    assert cds.fetch().files[0].path.is_file()


@pytest.mark.parametrize("silently", [False, True])
@pytest.mark.parametrize("ranges", [False, True])
def test_a_result_cut_off_in_the_store_is_asked_for_afresh(
    cds: SourceUnderTest, *, silently: bool, ranges: bool
) -> None:
    """Asked for with the same inputs, the service's cache would answer with the same file for ever."""
    faults = cds.server.faults
    faults.truncate_answers, faults.truncated_silently, faults.ranges = 1, silently, ranges
    assert cds.fetch().files[0].path.is_file()
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [False, True]
    assert cds.server.retrievals == 2
    assert any("sending a new request" in text for text in cds.said)


def test_the_next_run_does_not_take_the_result_that_was_cut_off(cds: SourceUnderTest) -> None:
    cds.server.faults.truncate_answers = 10
    with pytest.raises(MonthFailedError, match="were announced") as caught:
        cds.fetch()
    assert "a new request will be sent" in caught.value.remedy
    cds.server.faults.truncate_answers = 0
    cds.fetch()
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [False, True, True]
    assert cds.server.retrievals == 3


def test_a_result_that_is_gone_is_not_asked_of_the_cache_again(cds: SourceUnderTest) -> None:
    """The service's cache lists it, and would answer every request with the same inputs by it."""
    cds.fetch()
    shutil.rmtree(cds.folder)
    cds.server.lose_files()
    cds.server.submissions.clear()
    assert cds.fetch().files[0].path.is_file()
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [False, True]
    assert cds.server.retrievals == 2


def test_after_results_that_were_gone_the_next_run_asks_afresh(cds: SourceUnderTest) -> None:
    cds.server.faults.fail("download", status=404, times=10)
    with pytest.raises(MonthFailedError, match="is gone") as caught:
        cds.fetch()
    assert "cannot answer from its cache" in caught.value.remedy
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [False, True, True]
    cds.server.faults.fail("download", status=404, times=0)
    cds.fetch()
    assert is_fresh(cds.server.submissions[-1])


def test_a_file_changed_in_transit_is_downloaded_again(cds: SourceUnderTest) -> None:
    right = cds.fetch().files[0].sha256
    shutil.rmtree(cds.folder)
    cds.server.faults.garble_downloads = 1
    seen = len(cds.server.submissions)
    assert cds.fetch().files[0].sha256 == right
    assert any("checksum" in text for text in cds.said)
    assert len(cds.server.submissions) == seen + 1
    cds.server.faults.garble_downloads = 10_000
    with pytest.raises(MonthFailedError, match="checksum"):
        cds.fetch(Month(2020, 3))
    assert list(cds.folder.glob("2020-03*.zip")) == []


def test_a_file_received_twice_is_kept_despite_its_checksum(cds: SourceUnderTest) -> None:
    """The announced checksum depends on how the service's store was written: it may be of an unknown kind."""
    cds.server.faults.wrong_checksum = 10_000
    raw = cds.fetch()
    assert raw.files[0].path.is_file()
    assert len(downloads(cds.server)) == 2
    assert any("twice with the same bytes" in text and "0" * 32 in text for text in cds.said)
    assert not any("whole" in text for text in cds.said)  # only its size is known
    note = json.loads(next(cds.folder.glob("*.json")).read_text())
    assert note["fetched"]["checksum"] is None


def test_a_damaged_file_received_twice_is_not_kept(cds: SourceUnderTest) -> None:
    cds.server.faults.wrong_checksum, cds.server.faults.corrupt_zip = 10_000, 10
    with pytest.raises(MonthFailedError, match="ZIP is damaged"):
        cds.fetch()
    assert list(cds.folder.glob("*.zip")) == []


def test_without_a_checksum_bytes_of_an_earlier_run_are_downloaded_again(cds: SourceUnderTest) -> None:
    """After a power failure, a file may hold zeros at its full length."""
    cds.server.faults.no_checksum = True
    cds.server.faults.cut_download_after, cds.server.faults.cut_downloads = 200_000, 10_000
    with pytest.raises(SourceError, match="cut off"):
        cds.fetch(area=LARGER, patience_hours=0.001)
    (part,) = cds.folder.glob("*.part")
    part.write_bytes(bytes(part.stat().st_size))
    cds.server.faults.cut_downloads = 1
    seen = len(downloads(cds.server))
    (file,) = cds.fetch(area=LARGER).files
    # First from the start; then resumed, where this run itself was cut off.
    assert ["range" in headers for headers in downloads(cds.server)[seen:]] == [False, True]
    assert zipfile.is_zipfile(file.path)


@pytest.mark.parametrize("href", ["s3://store/month.zip", "http://[::1", "http://127.0.0.1:99999/month.zip"])
def test_an_invalid_url_of_the_results_is_retried_only_a_few_times(cds: SourceUnderTest, href: str) -> None:
    cds.server.faults.href = href
    with pytest.raises(MonthFailedError):
        cds.fetch()
    assert len(cds.slept) < 10
    cds.server.faults.href = None
    cds.fetch()


def test_a_damaged_zip_is_requested_again_once(cds: SourceUnderTest) -> None:
    cds.server.faults.corrupt_zip = 1
    cds.fetch()
    assert len(cds.server.submissions) == 2
    assert is_fresh(cds.server.submissions[1])
    cds.server.faults.corrupt_zip = 10
    with pytest.raises(SourceError, match="ZIP is damaged"):
        cds.fetch(Month(2020, 3))
    assert not list(cds.folder.glob("2020-03*.zip"))
    assert cds.leftovers == []


@pytest.mark.parametrize(("fault", "says"), [("zip_slip", "outside of it"), ("zip_bomb", "would unpack")])
def test_a_hostile_zip_is_refused_at_once(cds: SourceUnderTest, tmp_path: Path, fault: str, says: str) -> None:
    before = sorted(path for path in tmp_path.rglob("*") if cds.folder not in path.parents)
    setattr(cds.server.faults, fault, True)
    with pytest.raises(SourceError, match=says):
        cds.fetch()
    assert cds.slept == []
    assert cds.leftovers == []
    assert list(cds.folder.glob("*.zip")) == []
    after = sorted(path for path in tmp_path.rglob("*") if cds.folder not in path.parents)
    assert [path for path in after if path != cds.folder] == [path for path in before if path != cds.folder]


def test_a_full_disk_is_reported_before_the_download(cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    full = shutil.disk_usage(cds.folder.parent)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: full)
    seen = len(downloads(cds.server))
    with pytest.raises(LocalDiskError, match="1,000 are free"):
        cds.fetch()
    assert len(downloads(cds.server)) == seen


# --- simultaneous and killed runs -----------------------------------------------

_RUN = """
import sys
from pathlib import Path
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.sources.cds.source import CdsSource
from era5_pipeline.sources.cds.retry_policy import RetrySettings
from era5_pipeline.sources.source import Request
request = Request(None, Area.parse(sys.argv[2]))
retries = RetrySettings(0.05, 0.05)
source = CdsSource(Path(sys.argv[1]), request, retry_settings=retries, say=lambda text: print(text, flush=True))
print(source.fetch(Month(2020, 2)).files[0].sha256, flush=True)
"""


@contextmanager
def fetching_process(cds: SourceUnderTest, area: Area = AREA) -> Iterator[subprocess.Popen[str]]:
    """Fetch the month in another process, which is killed at the end."""
    process = subprocess.Popen(
        [sys.executable, "-c", _RUN, str(cds.folder), str(area)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=os.environ | {"CDSAPI_URL": cds.server.url, "CDSAPI_KEY": cds.server.key},
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def job_under_way(cds: SourceUnderTest) -> bool:
    return any(read_note(path).job for path in cds.folder.glob("*.json"))


def test_the_request_of_a_killed_run_is_taken_up(cds: SourceUnderTest) -> None:
    cds.server.faults.accepted_polls = 10_000
    with fetching_process(cds) as process:
        wait_until(lambda: job_under_way(cds))
        process.send_signal(signal.SIGKILL)
    cds.server.finish_jobs()
    cds.fetch()
    assert len(cds.server.submissions) == 1
    assert any("resuming request" in text for text in cds.said)


def test_the_download_of_a_killed_run_is_resumed(cds: SourceUnderTest) -> None:
    cds.server.faults.slow_download = 0.02
    with fetching_process(cds, LARGER) as process:
        wait_until(lambda: any(part.stat().st_size for part in cds.folder.glob("*.part")))
        process.send_signal(signal.SIGKILL)
    cds.server.faults.slow_download = 0.0
    raw = cds.fetch(area=LARGER)
    assert len(cds.server.submissions) == 1
    assert "range" in downloads(cds.server)[-1]
    assert raw.files[0].path.is_file()


def test_two_runs_of_a_month_send_one_request(cds: SourceUnderTest) -> None:
    cds.server.faults.accepted_polls = 10_000
    with fetching_process(cds) as first, fetching_process(cds) as second:
        wait_until(lambda: job_under_way(cds))
        assert sorted("another run is fetching it" in first_line(run) for run in (first, second)) == [False, True]
        cds.server.finish_jobs()
        said = [run.communicate(timeout=600)[0] for run in (first, second)]
        assert (first.returncode, second.returncode) == (0, 0), said
    assert len(cds.server.submissions) == 1
    assert said[0].splitlines()[-1] == said[1].splitlines()[-1]


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline()


# --- preliminary data, incomplete months, the first month ------------------------


def test_only_a_recent_month_is_requested_fresh(cds: SourceUnderTest) -> None:
    with time_machine.travel(TODAY, tick=False):
        cds.fetch(Month(2026, 9))
        cds.fetch(Month(2020, 2))
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [True, False]


def test_an_incomplete_month_is_fetched_again(cds: SourceUnderTest, tmp_path: Path) -> None:
    october = Month(2026, 10)
    cds.server.today = datetime(2026, 10, 20, tzinfo=UTC)
    with time_machine.travel(cds.server.today, tick=False):
        raw = cds.fetch(october)
        assert inventory(raw, tmp_path).hours.size == 14 * 24 + 1
        cds.source().record_completeness(raw, is_complete=False)
        assert cds.source().known(october) is None
    cds.server.today = datetime(2026, 11, 8, tzinfo=UTC)
    with time_machine.travel(cds.server.today, tick=False):
        again = cds.fetch(october)
    assert inventory(again, tmp_path).hours.size == 744
    cds.source().record_completeness(again, is_complete=True)
    assert cds.source().known(october) == again
    assert not raw.files[0].path.exists()


def test_a_month_can_have_final_and_preliminary_hours(cds: SourceUnderTest, tmp_path: Path) -> None:
    cds.server.final_until = datetime(2026, 7, 31, 23, tzinfo=UTC)
    held = inventory(cds.fetch(Month(2026, 8)), tmp_path).expver
    assert held["temperature_2m"] == {"0005": 744}
    assert held["total_precipitation"] == {"0001": 7, "0005": 737}


def test_a_refetch_keeps_the_old_file_until_the_new_one_is_complete(cds: SourceUnderTest) -> None:
    october = Month(2026, 10)
    with time_machine.travel(TODAY, tick=False):
        old = cds.fetch(october)
    later = TODAY + timedelta(days=120)
    cds.server.today = later
    cds.server.faults.accepted_polls = 1
    there: list[bool] = []
    cds.while_asleep = lambda: there.append(old.files[0].path.exists())
    with time_machine.travel(later, tick=False):
        new = cds.fetch(october, refetch=True)
    assert there == [True]
    assert new.files[0].sha256 != old.files[0].sha256
    assert not old.files[0].path.exists()
    assert is_fresh(cds.server.submissions[-1])


def test_january_1940_is_complete(cds: SourceUnderTest, tmp_path: Path) -> None:
    first = Month(1940, 1)
    held = inventory(cds.fetch(first), tmp_path)
    assert held.column_hours("temperature_2m").size == 744
    assert held.column_hours("total_precipitation").size == 737
    assert not any(held.missing_hours(variable).size for variable in in_table_order(held.columns))


def test_the_key_is_neither_written_nor_shown(cds: SourceUnderTest) -> None:
    cds.server.faults.reject_jobs = 1
    cds.fetch()
    written = b"".join(path.read_bytes() for path in cds.folder.rglob("*") if path.is_file())
    assert cds.server.key.encode() not in written
    assert cds.server.key not in "".join(cds.said) + repr(cds.source())


MANY = tuple(variable.column for variable in VARIABLES[:30])


def test_more_variables_than_a_request_may_have_are_several_requests(cds: SourceUnderTest, tmp_path: Path) -> None:
    raw = cds.fetch(MONTH, *MANY)
    asked = [submission["variable"] for submission in cds.server.submissions]
    assert [len(names) for names in asked] == [15, 15]
    assert [name for names in asked for name in names] == [variable.cds_name for variable in VARIABLES[:30]]
    assert (len(raw.files), raw.variables) == (2, MANY)
    held = inventory(raw, tmp_path)
    assert set(held.columns) == set(MANY)
    assert not any(held.missing_hours(variable).size for variable in in_table_order(held.columns))
    # Neither is asked for again, nor after one was found to lack hours is the other.
    assert cds.fetch(MONTH, *MANY) == raw == cds.source(*MANY).known(MONTH)
    assert len(cds.server.submissions) == 2
    raw.files[1].path.unlink()
    again = cds.fetch(MONTH, *MANY)
    assert again.files[0] == raw.files[0]
    assert again.files[1].path.is_file()
    assert [submission["variable"] for submission in cds.server.submissions[2:]] == [asked[1]]
    # A portion that is incomplete makes the month incomplete.
    source = cds.source(*MANY)
    source.record_completeness(again, is_complete=False)
    assert source.known(MONTH) is None
    source.record_completeness(again, is_complete=True)
    assert source.known(MONTH) == again


def test_a_failed_portion_leaves_the_other_to_the_next_run(cds: SourceUnderTest) -> None:
    cds.server.faults.fail_jobs = 99
    with pytest.raises(MonthFailedError):
        cds.fetch(MONTH, *MANY)
    cds.server.faults.fail_jobs = 0
    assert len(cds.fetch(MONTH, *MANY).files) == 2


# --- ERA5-Land ------------------------------------------------------------------

OF_LAND = Area(-6.0, 106.0, -6.5, 106.5, grid=ERA5_LAND.grid)


def test_a_month_of_era5_land_comes_with_the_hour_before_it(cds: SourceUnderTest) -> None:
    raw = cds.fetch(area=OF_LAND, dataset=ERA5_LAND)
    assert raw.dataset == ERA5_LAND
    assert {job.dataset for job in cds.server.jobs.values()} == {"reanalysis-era5-land"}
    assert [inputs["time"][0] for inputs in cds.server.submissions] == ["00:00", "23:00"]
    of_month, before = (xr.open_dataset(file.path) for file in raw.files)
    times = np.concatenate([before["valid_time"].values.reshape(-1), of_month["valid_time"].values])
    assert (np.diff(times) == np.timedelta64(1, "h")).all()
    assert str(times[0])[:13] == "2020-01-31T23"
    assert set(map(str, before.data_vars)) == {"tp", "sf"}
    # As many hours as the month has, by the difference of sums; at 01 UTC the sum is the hour's own.
    sums = np.concatenate([before["tp"].values.reshape(1, 6, 6), of_month["tp"].values]).astype(np.float64)
    hours = times.astype("datetime64[h]").astype(np.int64)
    amounts = np.where((hours[1:] % 24 == 1)[:, np.newaxis, np.newaxis], sums[1:], np.diff(sums, axis=0))
    variables = ERA5_LAND.catalogue.find_all("tp")
    weather = SampleWeather(of_month["latitude"].values, of_month["longitude"].values, ERA5_LAND.grid)
    expected = weather.at(hours[1:], variables)["total_precipitation"].astype(np.float64)
    is_land = np.isfinite(amounts)
    assert 0 < is_land[0].sum() < 36
    assert (is_land == is_land[0]).all()
    assert np.abs(amounts - expected)[is_land].max() < 1e-8
    assert expected[is_land].max() > 1e-5
    # Neither is requested again, and both are known.
    assert cds.source(area=OF_LAND, dataset=ERA5_LAND).known(MONTH) == raw
    assert cds.fetch(area=OF_LAND, dataset=ERA5_LAND) == raw
    assert len(cds.server.submissions) == 2
    raw.files[1].path.unlink()
    assert cds.fetch(area=OF_LAND, dataset=ERA5_LAND).files[1].path.is_file()
    assert len(cds.server.submissions) == 3


def test_months_of_era5_land_are_the_same_whichever_is_fetched_first(cds: SourceUnderTest, tmp_path: Path) -> None:
    march = Month(2020, 3)
    other = SourceUnderTest(cds.server, tmp_path / "other")
    options: dict[str, Any] = {"area": OF_LAND, "dataset": ERA5_LAND, "together": (MONTH, march)}
    in_order = [cds.fetch(month, **options) for month in (MONTH, march)]
    assert [other.fetch(month, **options).fingerprint for month in (march, MONTH)] == [
        raw.fingerprint for raw in reversed(in_order)
    ]


def test_a_month_of_era5_land_without_sums_is_one_request(cds: SourceUnderTest) -> None:
    assert len(cds.fetch(MONTH, "temperature_2m", area=OF_LAND, dataset=ERA5_LAND).files) == 1
    assert len(cds.server.submissions) == 1


def test_an_incomplete_month_of_era5_land_is_fetched_again_with_the_hour_before_it(cds: SourceUnderTest) -> None:
    source = cds.source("total_precipitation", area=OF_LAND, dataset=ERA5_LAND)
    raw = source.fetch(MONTH)
    source.record_completeness(raw, is_complete=False)
    assert source.known(MONTH) is None
    assert len(source.fetch(MONTH).files) == 2
    again = cds.server.submissions[2:]
    assert [is_fresh(inputs) for inputs in again] == [True, True]
    assert [len(inputs["time"]) for inputs in again] == [24, 24]
    assert [inputs["day"] == ["31"] for inputs in again] == [False, True]


def test_era5_land_begins_in_1950(cds: SourceUnderTest) -> None:
    source = cds.source(area=OF_LAND, dataset=ERA5_LAND)
    with pytest.raises(UsageError, match="1949-12 is before ERA5-Land begins") as caught:
        source.fetch(Month(1949, 12))
    assert "1950-01" in caught.value.remedy
    assert len(source.fetch(Month(1950, 1)).files) == 1
    assert [source.offered_months(TODAY, 5)[n] for n in (0, -1)] == [Month(1950, 1), Month(2026, 10)]
    assert cds.source().offered_months(TODAY, 5)[0] == Month(1940, 1)
