"""Tests of `sources/cds/service`."""

from __future__ import annotations

import os
import shutil
import traceback
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import MonthFailedError, SourceError
from era5_pipeline.model.months import Month
from era5_pipeline.sources.cds.service import read_credentials
from era5_pipeline.sources.cds.session import OneOriginSession, OtherHostError
from era5_pipeline_tests.cds_store import CdsServer
from era5_pipeline_tests.cds_store.faults import Redirect
from era5_pipeline_tests.cds_store.server import Job
from era5_pipeline_tests.sources.cds.source_under_test import TODAY, SourceUnderTest, is_fresh

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

KEY = "0f3a7f8e-1f6c-4c33-9d1d-secret000000"
URL = "https://cds.example.org/api"


@pytest.fixture(autouse=True)
def rc(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The path of ~/.cdsapirc, in an environment without any CDSAPI_ variable."""
    for name in [name for name in os.environ if name.startswith("CDSAPI_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path / ".cdsapirc"


@pytest.mark.parametrize("is_named", [False, True])
def test_credentials_from_the_file(rc: Path, monkeypatch: pytest.MonkeyPatch, *, is_named: bool) -> None:
    path = rc.with_name("another") if is_named else rc
    if is_named:
        monkeypatch.setenv("CDSAPI_RC", str(path))
    path.write_text(f"url: {URL}/\nkey: {KEY}\nverify: 0\n")
    found = read_credentials()
    assert (found.url, found.key.get_secret_value(), found.verify) == (URL, KEY, False)


def test_the_environment_wins_over_the_file(rc: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rc.write_text("url: https://other.example.org/api\nkey: another\n")
    monkeypatch.setenv("CDSAPI_URL", URL)
    monkeypatch.setenv("CDSAPI_KEY", KEY)
    found = read_credentials()
    assert (found.url, found.key.get_secret_value(), found.verify) == (URL, KEY, True)
    assert KEY not in f"{found} {found!r} {found.key} {found.key!r}"


@pytest.mark.parametrize("start", ["", "\ufeffurl: https://cds.example.org/api\n"], ids=["none", "with a BOM"])
def test_only_a_key_gets_the_default_address(rc: Path, monkeypatch: pytest.MonkeyPatch, start: str) -> None:
    rc.write_text(f"{start}key: {KEY}\n", encoding="utf-8")
    found = read_credentials()
    rc.unlink()
    monkeypatch.setenv("CDSAPI_KEY", KEY)
    assert found == read_credentials()
    assert (found.url, found.key.get_secret_value()) == ("https://cds.climate.copernicus.eu/api", KEY)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (None, "there is no key"),
        ("url: https://cds.example.org/api\n", "there is no key"),
        ("url: 0f3a7f8e\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: ftp://me:0f3a7f8e@cds.example.org\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: https://cds.example.org/api\nkey: 12345:0f3a7f8e\n", "old Climate Data Store"),
        ("url: https://cds.example.org/api\nkey: a key with blanks\n", "is invalid"),
        ("url: https://cds.example.org/api\nkey:\n", "is invalid"),
        ("url: https://cds.climate.copernicus.eu/api/v2\nkey: 0f3a7f8e\n", "ends with /api/v2"),
        ("url: https://cds.climate.copernicus.eu/api/v2/\nkey: 12345:0f3a7f8e\n", "old Climate Data Store"),
        ("url: https://cds.example.org:port/api\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: https://[::1/api\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: http://cds.climate.copernicus.eu/api\nkey: 0f3a7f8e\n", "plain http"),
        ("url: http://10.0.0.1/api\nkey: 0f3a7f8e\n", "plain http"),
        ("url: http://127.0.0.1.example.org/api\nkey: 0f3a7f8e\n", "plain http"),
        ("url: cds.example.org\nkey: 0f3a7f8e\n", "is not that of"),
        ("url: https://cds.example.org/api\nkey: 0f3a7f8e\nverify: perhaps\n", "invalid line"),
    ],
)
def test_errors_of_credentials_do_not_show_the_key(rc: Path, text: str | None, says: str) -> None:
    if text is not None:
        rc.write_text(text)
    with pytest.raises(SourceError, match=says) as caught:
        read_credentials()
    assert "https://cds.climate.copernicus.eu" in caught.value.remedy
    shown = "".join(traceback.format_exception(caught.value))
    assert "0f3a7f8e" not in shown
    assert "a key with blanks" not in shown


@pytest.mark.parametrize("address", ["localhost", "127.0.0.1", "127.8.9.10", "[::1]"])
def test_plain_http_is_allowed_for_this_machine(rc: Path, address: str) -> None:
    rc.write_text(f"url: http://{address}:8080/api\nkey: {KEY}\n")
    assert read_credentials().url == f"http://{address}:8080/api"


def test_an_unreadable_file_of_credentials(rc: Path) -> None:
    rc.mkdir()
    with pytest.raises(SourceError, match="cannot be read"):
        read_credentials()


@pytest.fixture
def other_server(tmp_path: Path) -> Iterator[CdsServer]:
    """A second test server, at another origin."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    with CdsServer(folder, today=TODAY) as server:
        yield server


def calls(cds: SourceUnderTest, method: str = "GET") -> list[str]:
    return [path for verb, path, _ in cds.server.requests if verb == method]


# --- fresh retrievals ----------------------------------------------------------


def test_each_refetch_makes_the_service_retrieve_the_data_again(cds: SourceUnderTest) -> None:
    cds.fetch()
    for count in (2, 3, 4):
        cds.fetch(refetch=True)
        assert cds.server.retrievals == count
    orders = [tuple(inputs["time"]) for inputs in cds.server.submissions]
    assert len(set(orders)) == 4
    assert not is_fresh(cds.server.submissions[0])


# --- looking for a request whose answer was lost -------------------------------


def other_jobs(cds: SourceUnderTest, number: int, *, ago: timedelta) -> None:
    """Add jobs that the user's other programs have sent."""
    for count in range(number):
        created = datetime.now(tz=UTC) - ago - count * timedelta(seconds=1)
        job = Job(f"00000000-0000-0000-0000-{count:012d}", {"variable": ["2m_temperature"]}, created)
        job.status, job.finished = "successful", created
        cds.server.jobs[job.id] = job


@pytest.mark.parametrize("ago", [timedelta(hours=3), timedelta(seconds=20)])
def test_few_calls_are_needed_to_learn_that_a_request_did_not_arrive(cds: SourceUnderTest, ago: timedelta) -> None:
    other_jobs(cds, 30, ago=ago)
    cds.server.faults.fail("submit", status=503, times=1)
    cds.fetch()
    methods = [method for method, _, _ in cds.server.requests]
    first, second = (index for index, method in enumerate(methods) if method == "POST")
    assert second - first - 1 < 10
    assert len(cds.server.submissions) == 1


@pytest.mark.parametrize("refetch", [False, True])
def test_a_request_whose_answer_was_lost_is_found_among_others(cds: SourceUnderTest, *, refetch: bool) -> None:
    other_jobs(cds, 30, ago=timedelta(minutes=10))
    cds.server.faults.drop_submit_reply = 1
    cds.fetch(refetch=refetch)
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [refetch]
    assert len([path for path in calls(cds) if "/jobs?" in path]) == 1


@pytest.mark.parametrize("ahead", [timedelta(hours=2), -timedelta(hours=2)])
def test_a_lost_answer_is_found_though_this_machines_clock_is_off(cds: SourceUnderTest, ahead: timedelta) -> None:
    cds.server.faults.clock_ahead = ahead
    cds.server.faults.drop_submit_reply = 1
    cds.fetch()
    assert len(cds.server.submissions) == 1


def test_a_job_of_hours_ago_is_not_taken_for_the_lost_one(cds: SourceUnderTest) -> None:
    cds.server.faults.clock_ahead = timedelta(hours=2)
    cds.fetch()
    (job,) = cds.server.jobs.values()
    job.created -= timedelta(hours=2)  # the time by this machine's clock
    shutil.rmtree(cds.folder)
    cds.server.faults.fail("submit", status=503, times=1)
    cds.fetch()
    assert len(cds.server.submissions) == 2


def test_after_a_refusal_the_jobs_are_not_searched(cds: SourceUnderTest) -> None:
    cds.server.faults.too_many_requests = 1
    cds.fetch()
    cds.server.faults.licence = True
    with pytest.raises(SourceError):
        cds.fetch(Month(2020, 3))
    cds.server.faults.licence = False
    cds.fetch(Month(2020, 3))
    assert not [path for path in calls(cds) if "/jobs?" in path]


# --- the key -------------------------------------------------------------------


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("path", [f"{ERA5.cds_name}$", "execution$", "jobs/[^/]+$", "results$", "messages$"])
def test_the_key_is_not_sent_along_a_redirect(
    cds: SourceUnderTest, other_server: CdsServer, status: int, path: str
) -> None:
    origin = other_server.url.removesuffix("/api")
    cds.server.faults.redirect, cds.server.faults.redirects = Redirect(path, status, origin), 1
    if status in (301, 308) and path != "messages$":
        with pytest.raises(SourceError, match=r"another host \(127\.0\.0\.1\)") as caught:
            cds.fetch()
        assert "CDSAPI_URL" in caught.value.remedy
    else:
        cds.fetch()
    assert other_server.requests == []


def test_a_redirect_that_lasts_becomes_an_error(cds: SourceUnderTest, other_server: CdsServer) -> None:
    origin = other_server.url.removesuffix("/api")
    cds.server.faults.redirect, cds.server.faults.redirects = Redirect("", 302, origin), 10_000
    with pytest.raises(SourceError, match="another host"):
        cds.fetch()
    assert len(cds.slept) < 20
    assert other_server.requests == []


def test_a_redirect_to_the_service_itself_is_followed(cds: SourceUnderTest) -> None:
    origin = cds.server.url.removesuffix("/api")
    cds.server.faults.redirect, cds.server.faults.redirects = Redirect("jobs/[^/]+$", 302, origin), 1
    cds.fetch()
    assert cds.slept == []


@pytest.mark.parametrize("url", ["http://localhost:1/x", "https://127.0.0.1:1/x", "http://127.0.0.1:2/x"])
def test_the_key_is_not_sent_to_another_origin_named_in_an_answer(url: str) -> None:
    with OneOriginSession("http://127.0.0.1:1/api") as session, pytest.raises(OtherHostError):
        session.get(url, timeout=5)


def test_a_tls_error_names_the_host(cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDSAPI_URL", cds.server.url.replace("http://", "https://"))
    with pytest.raises(SourceError, match=r"no secure connection to 127\.0\.0\.1") as caught:
        cds.fetch()
    assert "REQUESTS_CA_BUNDLE" in caught.value.remedy


def test_a_tls_error_of_the_file_server_names_that_host(cds: SourceUnderTest) -> None:
    port = cds.server.url.split(":")[2].removesuffix("/api")
    cds.server.faults.href = f"https://localhost:{port}/store/month.zip?X-Signature=a-secret"
    with pytest.raises(SourceError, match="no secure connection to localhost") as caught:
        cds.fetch()
    assert "a-secret" not in "".join(traceback.format_exception(caught.value))


# --- maintenance, dismissed and failed requests --------------------------------


def test_maintenance_is_waited_for(cds: SourceUnderTest) -> None:
    cds.server.faults.disabled = 3
    cds.fetch()
    assert len(cds.slept) == 3
    assert len([text for text in cds.said if "maintenance" in text]) == 3


def dismiss_open_jobs(cds: SourceUnderTest) -> None:
    for job in cds.server.jobs.values():
        if job.status == "accepted":
            cds.server.dismiss(job)


def test_a_dismissed_request_is_sent_again_once(cds: SourceUnderTest) -> None:
    cds.server.faults.accepted_polls = 1

    def dismiss() -> None:
        dismiss_open_jobs(cds)
        cds.while_asleep = lambda: None

    cds.while_asleep = dismiss
    cds.fetch()
    assert len(cds.server.submissions) == 2
    assert any("dismissed by its owner" in text for text in cds.said)
    cds.server.faults.accepted_polls = 10_000
    cds.while_asleep = lambda: dismiss_open_jobs(cds)
    with pytest.raises(MonthFailedError, match="dismissed by its owner"):
        cds.fetch(Month(2020, 3))
    assert len(cds.server.submissions) == 4
