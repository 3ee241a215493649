"""Months of a small area that the source `cds` requests together: what comes, what is refused, what is killed."""

from __future__ import annotations

import errno
import os
import zipfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

import pytest
import xarray as xr

from era5_pipeline.model.errors import LocalDiskError, SourceError
from era5_pipeline.model.months import Month
from era5_pipeline.netcdf.archive import scratch_folder
from era5_pipeline.sources.cds.source import CdsSource
from era5_pipeline_tests.sources.cds.source_under_test import MONTH, SourceUnderTest, inventory, is_fresh

if TYPE_CHECKING:
    from pathlib import Path


TOGETHER = (Month(2020, 1), MONTH, Month(2020, 3))


def asked_months(cds: SourceUnderTest) -> list[list[str]]:
    return [inputs["month"] for inputs in cds.server.submissions]


@pytest.mark.parametrize("data_format", ["netcdf", "grib"])
def test_months_requested_together_are_files_of_a_month(
    cds: SourceUnderTest, tmp_path: Path, data_format: Literal["netcdf", "grib"]
) -> None:
    source = partial(cds.source, data_format=data_format)
    assert list(source().request_groups(TOGETHER)) == [TOGETHER]
    source().request_ahead(TOGETHER)
    source().request_ahead(TOGETHER)
    source().request_ahead((MONTH,))
    raws = [source().fetch(month) for month in TOGETHER]
    assert asked_months(cds) == [["01", "02", "03"]]
    assert [source().known(month) for month in TOGETHER] == raws
    for month, raw in zip(TOGETHER, raws, strict=True):
        held = inventory(raw, tmp_path)
        assert (held.hours.size, len(held.columns)) == (month.hours, 6)
        assert held.expver["temperature_2m"] == {"0001": month.hours}
    # Nothing of the answer is kept, and nothing needs to be requested.
    suffix = {"netcdf": ".zip", "grib": ".grib"}[data_format]
    assert sorted(cds.folder.glob(f"*{suffix}")) == [raw.files[0].path for raw in raws]
    assert cds.leftovers == []
    source().request_ahead(TOGETHER)
    assert len(cds.server.submissions) == 1


@pytest.mark.parametrize("month", TOGETHER, ids=str)
def test_months_that_are_wanted_are_requested_with_the_first_that_is_fetched(
    cds: SourceUnderTest, month: Month
) -> None:
    raws = [cds.fetch(one, together=TOGETHER) for one in (month, *TOGETHER)]
    assert asked_months(cds) == [["01", "02", "03"]]
    assert [raw.month for raw in raws] == [month, *TOGETHER]


def test_months_of_which_not_all_are_wanted_are_requested_alone(cds: SourceUnderTest) -> None:
    cds.fetch(TOGETHER[0], together=TOGETHER[:2])
    cds.fetch(TOGETHER[1])
    # One that is in the folder, or under way, is not requested again with the others.
    cds.fetch(TOGETHER[2], together=TOGETHER)
    assert asked_months(cds) == [["01"], ["02"], ["03"]]


def test_a_month_fetched_alone_is_the_same_as_one_requested_with_others(cds: SourceUnderTest, tmp_path: Path) -> None:
    alone = cds.fetch()
    other = replace(cds, folder=tmp_path / "other")
    together = other.fetch(together=TOGETHER)
    contents = []
    for raw in (alone, together):
        with zipfile.ZipFile(raw.files[0].path) as archive, scratch_folder(tmp_path) as scratch:
            archive.extractall(scratch)
            with xr.open_mfdataset(sorted(scratch.glob("*.nc")), compat="equals", decode_cf=False) as dataset:
                contents.append(dataset.drop_attrs(deep=False).load())
    assert contents[0].identical(contents[1])


def test_a_run_killed_after_the_download_does_not_request_again(
    cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cds.source().request_ahead(TOGETHER)
    with monkeypatch.context() as patch:
        patch.setattr("era5_pipeline.sources.cds.source.cut_months", interrupt)
        with pytest.raises(KeyboardInterrupt):
            cds.fetch(TOGETHER[0])
    assert cds.fetch(TOGETHER[1]).files[0].path.is_file()
    assert len(cds.server.submissions) == 1


def test_a_run_killed_between_the_files_of_two_months_does_not_request_again(
    cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    cds.source().request_ahead(TOGETHER)
    keep = CdsSource._keep_cut
    kept: list[Month] = []

    def keep_one(self: CdsSource, month: Month, *rest: Any) -> None:
        if kept:
            raise KeyboardInterrupt
        kept.append(month)
        keep(self, month, *rest)

    with monkeypatch.context() as patch:
        patch.setattr(CdsSource, "_keep_cut", keep_one)
        with pytest.raises(KeyboardInterrupt):
            cds.fetch(TOGETHER[0])
    raws = [cds.fetch(month) for month in TOGETHER]
    assert len(cds.server.submissions) == 1
    assert sorted(cds.folder.glob("*.zip")) == sorted(raw.files[0].path for raw in raws)
    assert cds.leftovers == []


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def test_months_whose_common_request_failed_are_requested_alone(cds: SourceUnderTest) -> None:
    cds.server.faults.failure, cds.server.faults.fail_jobs = "cost limit exceeded", 1
    cds.source().request_ahead(TOGETHER)
    for month in TOGETHER:
        cds.fetch(month)
    assert asked_months(cds) == [["01", "02", "03"], ["01"], ["02"], ["03"]]
    (said,) = [text for text in cds.said if "requested alone" in text]
    assert said.startswith(
        "2020-01 to 2020-03: one request for them failed (the Climate Data Store refuses the request"
    )


def test_months_whose_common_answer_cannot_be_cut_are_requested_alone(cds: SourceUnderTest, tmp_path: Path) -> None:
    cds.fetch()
    (answer,) = cds.folder.glob("*.zip")
    other = SourceUnderTest(cds.server, tmp_path / "other")
    cds.server.faults.answer_with = answer
    assert other.fetch(together=TOGETHER).files
    (said,) = [text for text in other.said if "requested alone" in text]
    assert "has no hour of 2020-01" in said
    assert asked_months(other)[1:] == [["01", "02", "03"], ["02"]]
    assert other.leftovers == []


def posts_of(cds: SourceUnderTest) -> int:
    return sum(method == "POST" for method, _, _ in cds.server.requests)


def test_a_common_request_that_is_too_large_is_refused_once_and_months_are_requested_alone(
    cds: SourceUnderTest,
) -> None:
    cds.server.faults.max_fields = 4464
    cds.fetch(TOGETHER[0], together=TOGETHER)
    (said,) = [text for text in cds.said if "requested alone" in text]
    assert said.startswith("2020-01 to 2020-03: one request for them failed (the request is too large")
    for month in TOGETHER[1:]:
        cds.fetch(month, together=TOGETHER)
    assert asked_months(cds) == [["01"], ["02"], ["03"]]
    assert posts_of(cds) == 4


@pytest.mark.parametrize(
    ("fault", "says"),
    [
        ("licence", "2020-01 to 2020-03: the licence of ERA5 is not accepted"),
        ("key", "does not accept the key"),
    ],
)
def test_a_refusal_of_the_user_comes_once_and_the_request_is_sent_afterwards(
    cds: SourceUnderTest, fault: str, says: str
) -> None:
    cds.server.faults.licence = fault == "licence"
    # As the service does: what comes before the request needs no key.
    cds.server.faults.fail("submit", status=401, times=int(fault == "key"))
    with pytest.raises(SourceError, match=says):
        cds.fetch(together=TOGETHER)
    assert posts_of(cds) == 1
    cds.server.faults.licence = False
    cds.fetch(together=TOGETHER)
    assert asked_months(cds) == [["01", "02", "03"]]


@pytest.mark.parametrize(("fault", "times"), [("wrong_size", 2), ("garble_downloads", 2), ("corrupt_zip", 1)])
def test_a_common_answer_that_stays_wrong_is_retrieved_afresh(cds: SourceUnderTest, fault: str, times: int) -> None:
    setattr(cds.server.faults, fault, times)
    raws = [cds.fetch(month, together=TOGETHER) for month in TOGETHER]
    assert asked_months(cds) == [["01", "02", "03"]] * 2
    assert [is_fresh(inputs) for inputs in cds.server.submissions] == [False, True]
    assert all(raw.files[0].path.is_file() for raw in raws)
    assert cds.leftovers == []


def test_a_full_disk_while_the_answer_is_cut_leaves_it_to_the_next_run(
    cds: SourceUnderTest, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr("era5_pipeline.netcdf.month_cut.move_into_zip", full_disk)
        with pytest.raises(LocalDiskError, match=r"cutting it out of .* No space left"):
            cds.fetch(together=TOGETHER)
    assert cds.leftovers == []
    assert [cds.fetch(month).month for month in TOGETHER] == list(TOGETHER)
    assert asked_months(cds) == [["01", "02", "03"]]


def full_disk(*_: object) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_refetch_and_a_large_area_are_requested_month_by_month(cds: SourceUnderTest) -> None:
    alone = [(month,) for month in TOGETHER]
    assert list(cds.source(refetch=True).request_groups(TOGETHER)) == alone
    assert list(cds.source(area=None).request_groups(TOGETHER)) == alone
    cds.source().request_ahead(TOGETHER)
    cds.fetch(refetch=True)
    assert asked_months(cds) == [["01", "02", "03"], ["02"]]
    # The month that was fetched again stays as it is.
    known = cds.source().known(MONTH)
    cds.fetch(TOGETHER[0])
    assert cds.source().known(MONTH) == known
    assert len(cds.server.submissions) == 2


def test_a_request_whose_answer_was_lost_is_found_and_serves_all_months(cds: SourceUnderTest) -> None:
    cds.server.faults.drop_submit_reply = 1
    cds.source(patience_hours=1e-9).request_ahead(TOGETHER)
    for month in TOGETHER:
        cds.fetch(month)
    assert asked_months(cds) == [["01", "02", "03"]]


def test_two_runs_do_not_send_the_same_common_request(cds: SourceUnderTest) -> None:
    with ThreadPoolExecutor(2) as threads:
        for sent in [threads.submit(cds.source().request_ahead, TOGETHER) for _ in range(2)]:
            sent.result()
        raws = list(threads.map(cds.fetch, TOGETHER))
    assert asked_months(cds) == [["01", "02", "03"]]
    assert [cds.source().known(month) for month in TOGETHER] == raws
