"""Icechunk repositories of ERA5's layout as Zarr stores: from a folder, over HTTP and from S3, and their faults."""

from __future__ import annotations

import gc
import json
import re
import shutil
import socket
import sys
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import zarr

from era5_pipeline.model.errors import LocalDiskError, SourceError, TransientError, UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.runtime.progress import listening
from era5_pipeline.sources.source import RawMonth
from era5_pipeline.sources.zarr import icechunk_objects, objects
from era5_pipeline.sources.zarr.icechunk_objects import IcechunkAddress, require_icechunk
from era5_pipeline_tests.arco_store import served
from era5_pipeline_tests.era5_files import full_disk
from era5_pipeline_tests.local_http import connect_proxy
from era5_pipeline_tests.postgres.test_tls import make_authority, make_certificate
from era5_pipeline_tests.sources.zarr.test_source import source, values_in
from era5_pipeline_tests.stores import aws_environment
from era5_pipeline_tests.zarr_stores import (
    BOXES,
    COLUMNS,
    SPATIAL,
    TEMPORAL,
    expected,
    hours_between,
    upload,
    weather,
    write_repository,
    write_store,
)

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.sources.zarr.source import ZarrSource
    from era5_pipeline_tests.stores import S3Server

MONTH = Month(2020, 2)
HOURS = range(hours_of_month(MONTH).start - 24, hours_of_month(MONTH).stop + 24)
AREA = Area(51.0, -1.0, 49.5, 1.25)
NEEDS_ICECHUNK = pytest.mark.skipif(sys.version_info < (3, 12), reason="Icechunk 2 needs Python 3.12")


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A month, and a day on each side, cut in time and cut in space."""
    folder = tmp_path_factory.mktemp("icechunk") / "era5"
    write_repository(folder, HOURS, temporal=TEMPORAL, spatial=SPATIAL)
    return folder


def address_of(folder: Path, what: str = "single/temporal") -> str:
    return f"icechunk+file://{folder}//{what}"


def chunks_of(folder: Path) -> list[Path]:
    """The objects with values, the largest last."""
    return sorted((folder / "chunks").iterdir(), key=lambda path: path.stat().st_size)


# --- addresses ---


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("s3://era5/p/q//single/temporal", IcechunkAddress("s3://era5/p/q", "single/temporal", branch="main")),
        ("file:///a/b//g@branch:next", IcechunkAddress("file:///a/b", "g", branch="next")),
        ("https://host/a//g/@tag:v1.0", IcechunkAddress("https://host/a", "g", tag="v1.0")),
        (
            "s3://era5//g@T9H8SG2PVXWNY0QNJPJG",
            IcechunkAddress("s3://era5", "g", snapshot="T9H8SG2PVXWNY0QNJPJG"),
        ),
    ],
)
def test_an_address_names_place_group_and_state(text: str, address: IcechunkAddress) -> None:
    assert IcechunkAddress.parse(f"icechunk+{text}") == address


@pytest.mark.parametrize(
    "text",
    [
        "s3://era5/p",
        "s3:////g",
        "file://folder//g",
        "ftp://h/p//g",
        "s3://era5//",
        "s3://era5//g@",
        "s3://era5//g@tag:",
        "https:////g",
    ],
)
def test_other_addresses_are_refused_with_the_form(text: str) -> None:
    with pytest.raises(UsageError, match=r"snapshot|place and a group|bucket") as refused:
        IcechunkAddress.parse(f"icechunk+{text}")
    assert "s3://" in refused.value.remedy


# --- values ---


@NEEDS_ICECHUNK
@pytest.mark.parametrize("by", ["folder", "http", "s3"])
def test_values_are_those_of_the_repository_by_every_way(
    repository: Path, by: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if by == "s3":
        place, server = request.getfixturevalue("s3_address"), request.getfixturevalue("s3_server")
        upload(repository, server.client(), place)
        raw = source(f"icechunk+{place}//single/temporal", tmp_path).fetch(MONTH)
    elif by == "http":
        with served(repository, with_ranges=True) as web:
            raw = source(f"icechunk+{web.url}//single/temporal", tmp_path).fetch(MONTH)
    else:
        raw = source(address_of(repository), tmp_path).fetch(MONTH)
    for column in COLUMNS:
        np.testing.assert_array_equal(values_in(raw, column), expected(column, hours_of_month(MONTH), AREA))


@NEEDS_ICECHUNK
def test_values_cut_in_space_are_those_cut_in_time(repository: Path, tmp_path: Path) -> None:
    in_time, in_space = (
        source(address_of(repository, f"single/{cut}"), tmp_path).fetch(MONTH) for cut in ("temporal", "spatial")
    )
    for column in COLUMNS:
        np.testing.assert_array_equal(values_in(in_time, column), values_in(in_space, column))


@NEEDS_ICECHUNK
def test_a_snapshot_is_read_as_it_was(tmp_path: Path) -> None:
    folder, hours = tmp_path / "era5", range(HOURS.start, HOURS.start + 240)
    first = write_repository(folder, hours)
    write_repository(folder, hours, values={column: one + 1 for column, one in weather(hours).items()})
    old = source(address_of(folder, f"single/temporal@{first}"), tmp_path / "raw").fetch(MONTH)
    new = source(address_of(folder), tmp_path / "raw").fetch(MONTH)
    wanted = expected("temperature_2m", range(HOURS.start + 24, hours.stop), AREA)
    np.testing.assert_array_equal(values_in(old, "temperature_2m"), wanted)
    np.testing.assert_array_equal(values_in(new, "temperature_2m"), wanted + 1)


# --- the snapshot that a load was begun with ---


def of_month(opened: ZarrSource, month: Month) -> tuple[RawMonth, np.ndarray]:
    """Fetch a month alone; return it and the difference of its temperatures from those of the first state."""
    raw = opened.fetch(month, (month,))
    hours = hours_of_month(month)
    return raw, np.unique(values_in(raw, "temperature_2m") - expected("temperature_2m", hours, AREA))


@dataclass
class GrowingRepository:
    """A repository whose later states have other values, and maybe more months."""

    folder: Path

    def write(self, last: Month, change: float = 0) -> str:
        hours = hours_between(Month(2020, 1), last)
        return write_repository(
            self.folder, hours, values={column: one + change for column, one in weather(hours).items()}
        )

    @property
    def repository(self) -> Any:
        import icechunk  # not on every Python

        return icechunk.Repository.open(icechunk.local_filesystem_storage(str(self.folder)))


@pytest.fixture
def growing(tmp_path: Path) -> GrowingRepository:
    return GrowingRepository(tmp_path / "era5")


@NEEDS_ICECHUNK
def test_a_load_goes_on_with_the_snapshot_that_it_was_begun_with(growing: GrowingRepository, tmp_path: Path) -> None:
    first = growing.write(Month(2020, 2))
    said: list[str] = []
    january, _ = of_month(source(address_of(growing.folder), tmp_path, say=said.append), Month(2020, 1))
    assert january.snapshot is not None
    assert january.snapshot.id == first
    assert said == [f"{address_of(growing.folder)}: snapshot {january.snapshot}"]
    growing.write(Month(2020, 2), change=1)
    february, change = of_month(source(address_of(growing.folder), tmp_path), Month(2020, 2))
    assert february.snapshot == january.snapshot
    assert change.tolist() == [0]
    assert RawMonth.from_json(json.loads(json.dumps(february.to_json()))) == february


@NEEDS_ICECHUNK
def test_newer_months_are_read_from_the_newest_snapshot_each_from_one(
    growing: GrowingRepository, tmp_path: Path
) -> None:
    growing.write(Month(2020, 2))
    opened = source(address_of(growing.folder), tmp_path)
    january, _ = of_month(opened, Month(2020, 1))
    # A part of February is in a chunk with January, and was read with it.
    second = growing.write(Month(2020, 3), change=1)
    march, change = of_month(opened, Month(2020, 3))
    assert (march.snapshot and march.snapshot.id, change.tolist()) == (second, [1])
    february, change = of_month(opened, Month(2020, 2))
    assert (february.snapshot and february.snapshot.id, change.tolist()) == (second, [1])
    assert opened.known(Month(2020, 1)) == january


@NEEDS_ICECHUNK
def test_months_that_are_fetched_again_are_of_the_newest_snapshot(
    growing: GrowingRepository, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    growing.write(Month(2020, 2))
    of_month(source(address_of(growing.folder), tmp_path), Month(2020, 1))
    second = growing.write(Month(2020, 2), change=1)
    monkeypatch.setattr("era5_pipeline.sources.zarr.source._Process.began", datetime.now(tz=UTC).isoformat())
    opened = source(address_of(growing.folder), tmp_path, refetch=True)
    for month in (Month(2020, 1), Month(2020, 2)):
        raw, change = of_month(opened, month)
        assert (raw.snapshot and raw.snapshot.id, change.tolist()) == (second, [1])
        growing.write(Month(2020, 2), change=2)  # of no interest to a load that has begun


@NEEDS_ICECHUNK
def test_a_snapshot_that_is_gone_is_replaced_by_the_newest_and_that_is_said(
    growing: GrowingRepository, tmp_path: Path
) -> None:
    first = growing.write(Month(2020, 2))
    of_month(source(address_of(growing.folder), tmp_path), Month(2020, 1))
    second = growing.write(Month(2020, 2), change=1)
    later = datetime.now(tz=UTC) + timedelta(days=1)
    growing.repository.expire_snapshots(later)
    growing.repository.garbage_collect(later)
    said: list[str] = []
    raw, change = of_month(source(address_of(growing.folder), tmp_path, say=said.append), Month(2020, 2))
    assert (raw.snapshot and raw.snapshot.id, change.tolist()) == (second, [1])
    assert re.search(rf"the snapshot {first} of [-\d]+ is gone: the newest is read instead", said[0])


# --- faults ---


@NEEDS_ICECHUNK
@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("single/temporal@branch:none", "has no branch none"),
        ("single/temporal@tag:none", "has no tag none"),
        ("single/temporal@T9H8SG2PVXWNY0QNJPJG", "has no snapshot T9H8SG2PVXWNY0QNJPJG"),
        ("single/other", "there is no Zarr store at"),
    ],
)
def test_what_is_not_there_is_named(repository: Path, tmp_path: Path, what: str, message: str) -> None:
    with pytest.raises(SourceError, match=message):
        source(address_of(repository, what), tmp_path).fetch(MONTH)


@NEEDS_ICECHUNK
@pytest.mark.parametrize("what", ["nothing", "empty", "plain"])
def test_a_folder_without_a_repository_is_named_and_left_as_it_is(tmp_path: Path, what: str) -> None:
    folder = tmp_path / what
    if what == "empty":
        folder.mkdir()
    elif what == "plain":
        write_store(folder, BOXES, range(HOURS.start, HOURS.start + 48))
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(SourceError, match=f"there is no Icechunk repository at file://{folder}") as caught:
        source(address_of(folder), tmp_path / "raw").fetch(MONTH)
    assert "plain Zarr store has an address without icechunk+" in caught.value.remedy
    assert [path for path in sorted(tmp_path.rglob("*")) if "raw" not in path.parts] == before


@NEEDS_ICECHUNK
def test_a_repository_with_the_address_of_a_plain_store_is_recognised(repository: Path, tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="is an Icechunk repository, and its address does not say so") as caught:
        source(repository, tmp_path).fetch(MONTH)
    assert "icechunk+file:///FOLDER//GROUP" in caught.value.remedy


@NEEDS_ICECHUNK
def test_a_repository_of_the_first_format_is_read(tmp_path: Path) -> None:
    import icechunk  # not on every Python

    icechunk.Repository.create(icechunk.local_filesystem_storage(str(tmp_path / "era5")), spec_version=1)
    hours = range(HOURS.start, HOURS.start + 96)
    write_repository(tmp_path / "era5", hours)
    assert not (tmp_path / "era5" / "repo").exists()
    raw = source(address_of(tmp_path / "era5"), tmp_path / "raw").fetch(MONTH)
    wanted = expected("temperature_2m", range(HOURS.start + 24, hours.stop), AREA)
    np.testing.assert_array_equal(values_in(raw, "temperature_2m"), wanted)


@NEEDS_ICECHUNK
@pytest.mark.parametrize(
    ("lacking", "message", "remedy"),
    [
        (["latitude"], "t2m has no latitude", "another group"),
        (["valid_time"], "t2m has no time coordinate", "another group"),
        (["t2m"], "has no 2m_temperature\n", "--variables"),
        (["t2m", "tp"], "has none of 2m_temperature, total_precipitation", "--store"),
    ],
)
def test_what_a_group_lacks_is_named(tmp_path: Path, lacking: list[str], message: str, remedy: str) -> None:
    def without(session: Any) -> None:
        group = zarr.open_group(session.store, path="single/temporal")
        for name in lacking:
            del group[name]

    write_repository(tmp_path / "era5", range(HOURS.start, HOURS.start + 48), also=without)
    with pytest.raises(SourceError, match=message) as caught:
        source(address_of(tmp_path / "era5"), tmp_path / "raw").fetch(MONTH)
    assert remedy in caught.value.remedy


@NEEDS_ICECHUNK
@pytest.mark.parametrize("kind", ["repo", "snapshots", "manifests", "chunks"])
@pytest.mark.parametrize("fault", ["cut off", "junk", "lost"])
def test_a_damaged_or_lost_object_is_no_fault_of_the_network(
    repository: Path, tmp_path: Path, kind: str, fault: str
) -> None:
    folder = tmp_path / "era5"
    shutil.copytree(repository, folder)
    for path in [folder / "repo"] if kind == "repo" else (folder / kind).iterdir():
        content = path.read_bytes()
        path.write_bytes(content[: len(content) // 2] if fault == "cut off" else b"junk" * 1000)
        if fault == "lost":
            path.unlink()
    said: list[str] = []
    with pytest.raises(SourceError) as caught:
        source(address_of(folder), tmp_path / "raw", say=said.append).fetch(MONTH)
    assert "reading again in" not in " ".join(said)
    if (kind, fault) == ("repo", "lost"):
        assert "there is no Icechunk repository" in caught.value.message
    else:
        assert ("is lost" if fault == "lost" else "damaged") in caught.value.message
        assert re.search("[Tt]ell whoever keeps the store", caught.value.remedy)
    assert not list((tmp_path / "raw").rglob("*.nc"))


@NEEDS_ICECHUNK
def test_a_lost_chunk_is_an_error_and_not_missing_values(repository: Path, tmp_path: Path) -> None:
    shutil.copytree(repository, tmp_path / "era5")
    chunks_of(tmp_path / "era5")[-1].unlink()
    area = Area(52.0, -2.5, 47.0, 2.5)
    with pytest.raises(SourceError, match=r"the chunk \[\d+, \d+, \d+\] of single/temporal/t\w+ is lost") as caught:
        source(address_of(tmp_path / "era5"), tmp_path / "raw", area=area).fetch(MONTH)
    assert "Another snapshot may have it: --refetch" in caught.value.remedy
    assert not list((tmp_path / "raw").rglob("*.nc"))


@NEEDS_ICECHUNK
@pytest.mark.parametrize("times", [1, 1_000_000])
def test_what_is_damaged_on_its_way_is_found_by_a_second_read(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """A bit that flips once is read again; one that always does is as it is in the store."""
    monkeypatch.setattr("era5_pipeline.sources.zarr.reading._SAMPLE", 1)
    said: list[str] = []
    with served(repository, with_ranges=True) as web:
        web.fail("flip", times, where=f"/chunks/{chunks_of(repository)[-1].name}")
        area = Area(52.0, -2.5, 47.0, 2.5)
        raw = source(f"icechunk+{web.url}//single/temporal", tmp_path, area=area, say=said.append).fetch(MONTH)
    is_right = [
        np.array_equal(values_in(raw, column), expected(column, hours_of_month(MONTH), area)) for column in COLUMNS
    ]
    assert all(is_right) is (times == 1)
    assert any("was read twice, with different values; reading it again (1 of 3 tries)" in text for text in said) is (
        times == 1
    )


@NEEDS_ICECHUNK
@pytest.mark.parametrize("in_memory", [True, False])
def test_a_full_disk_is_said_and_after_room_was_made_the_month_is_whole(
    repository: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    """It is full when reading begins, and when the file of the month is written."""
    monkeypatch.setattr("era5_pipeline.sources.zarr.reading._IN_MEMORY_BYTES", (1 << 30) if in_memory else 0)
    area = Area(52.0, -2.5, 47.0, 2.5)
    with full_disk(12 << 20) as disk:
        ballast, opened = disk / "ballast", source(address_of(repository), disk / "raw", area=area)
        ballast.write_bytes(bytes(11 << 20))
        with pytest.raises(LocalDiskError, match="2020-02 was not started: its chunks hold") as caught:
            opened.fetch(MONTH)
        assert "set ERA5_HOME to a folder on a larger disk" in caught.value.remedy
        ballast.unlink()

        def fill(*_: Any) -> None:
            with suppress(OSError), ballast.open("ab", buffering=0) as file:
                while file.write(bytes(4096)):
                    pass

        with pytest.raises(LocalDiskError, match="No space left"), listening(fill):
            opened.fetch(MONTH)
        assert not list(disk.rglob("*.nc"))
        ballast.unlink()
        raw = opened.fetch(MONTH)
        np.testing.assert_array_equal(
            values_in(raw, "temperature_2m"), expected("temperature_2m", hours_of_month(MONTH), area)
        )
        assert not list(disk.rglob("*.part"))
        gc.collect()  # of the error, whose frames hold the mapped file


@NEEDS_ICECHUNK
def test_a_chunk_that_was_never_written_is_missing_values(tmp_path: Path) -> None:
    values = weather(HOURS)
    values["temperature_2m"][400:] = np.nan
    write_repository(tmp_path / "era5", HOURS, values=values)
    raw = source(address_of(tmp_path / "era5"), tmp_path / "raw").fetch(MONTH)
    got = values_in(raw, "temperature_2m")
    assert np.isfinite(got[: 400 - 24]).all()
    assert np.isnan(got[400 - 24 :]).all()


@NEEDS_ICECHUNK
@pytest.mark.parametrize("status", [429, 503])
def test_a_store_that_throttles_is_asked_again_and_that_is_said(repository: Path, tmp_path: Path, status: int) -> None:
    said: list[str] = []
    with served(repository, with_ranges=True) as web:
        web.fail("refuse", 2, where="/chunks/.*", status=status)
        raw = source(f"icechunk+{web.url}//single/temporal", tmp_path, say=said.append).fetch(MONTH)
    assert raw.files
    assert any(f"status code: {status}" in text and "reading again in" in text for text in said)


@NEEDS_ICECHUNK
@pytest.mark.parametrize(
    ("place", "how"),
    [
        ("http://127.0.0.1:9/era5", "Connection refused"),
        ("https://store.invalid/era5", "dns error: "),
        ("s3://era5-of-nobody/era5", "Connection refused"),
    ],
)
def test_a_store_that_is_not_reached_ends_the_month_after_six_tries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str, how: str
) -> None:
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    said: list[str] = []
    with pytest.raises(TransientError, match=rf"its snapshot cannot be read .*{how}") as caught:
        source(f"icechunk+{place}//single/temporal", tmp_path, say=said.append).fetch(MONTH)
    assert [f"({number} of 6 tries)" in text for number, text in enumerate(said, 1)] == [True] * 5
    assert "Check the network" in caught.value.remedy


@NEEDS_ICECHUNK
@pytest.mark.parametrize("place", ["http://127.0.0.1:{port}", "s3://bucket/era5"])
def test_a_store_that_says_nothing_is_not_waited_for_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, place: str
) -> None:
    monkeypatch.setattr(icechunk_objects, "_READ_MS", 100)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{port}")
        with pytest.raises(TransientError, match="timed out"):
            source(f"icechunk+{place.format(port=port)}//single/temporal", tmp_path).fetch(MONTH)


@NEEDS_ICECHUNK
def test_a_proxy_of_the_environment_is_used_and_a_dead_one_named(
    repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("no_proxy", "")
    address = "icechunk+http://store.invalid//single/temporal"
    with served(repository, with_ranges=True) as web:
        monkeypatch.setenv("http_proxy", web.url)
        assert source(address, tmp_path).fetch(MONTH).files
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    with pytest.raises(TransientError, match=r"the proxy does not answer: .*http_proxy is http://127\.0\.0\.1:9"):
        source(address, tmp_path / "other").fetch(MONTH)
    with served(repository, with_ranges=True) as web:
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert source(f"icechunk+{web.url}//single/temporal", tmp_path / "near").fetch(MONTH).files


@NEEDS_ICECHUNK
def test_https_through_a_proxy_and_past_it(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host, address = "store.invalid:443", "icechunk+https://store.invalid//single/temporal"
    authority = make_authority(tmp_path, "own")
    make_certificate(tmp_path, "own", "server", "server", "DNS:store.invalid,IP:127.0.0.1")
    with (
        served(repository, with_ranges=True, certificate=tmp_path / "server.crt") as web,
        connect_proxy(int(web.url.rpartition(":")[2])) as proxy,
    ):
        named = rf"https_proxy is 127\.0\.0\.1:{proxy.port}\)"
        monkeypatch.setenv("https_proxy", proxy.url)
        monkeypatch.setenv("no_proxy", "")
        with pytest.raises(SourceError, match=r"certificate is not valid here: .*UnknownIssuer") as caught:
            source(address, tmp_path / "unknown").fetch(MONTH)
        assert "SSL_CERT_FILE" in caught.value.remedy
        monkeypatch.delenv("SSL_CERT_DIR", raising=False)
        monkeypatch.setenv("SSL_CERT_FILE", str(authority))
        assert source(address, tmp_path / "through").fetch(MONTH).files
        assert set(proxy.asked) == {host}

        proxy.status = 407
        for url in (address, address.removeprefix("icechunk+"), "icechunk+s3://era5-of-nobody/era5//single/temporal"):
            before = len(web.requested)
            with pytest.raises(SourceError, match=f"the proxy refuses: .*{named}") as caught:
                source(url, tmp_path / "unknown").fetch(MONTH)
            assert "USER:PASSWORD" in caught.value.remedy
            assert len(web.requested) == before
        proxy.status = 403
        with pytest.raises(TransientError, match=f"in 6 tries .*the proxy refuses: .*{named}"):
            source(address, tmp_path / "refused").fetch(MONTH)
        with pytest.raises(SourceError, match=f"the proxy refuses: status 403; {named}"):
            source(address.removeprefix("icechunk+"), tmp_path / "refused").fetch(MONTH)

        proxy.status = 0
        monkeypatch.setattr(objects, "_CONNECT_SECONDS", 0.1)
        with pytest.raises(TransientError, match=f"the proxy does not answer: no connection in time; {named}"):
            source(address.removeprefix("icechunk+"), tmp_path / "silent").fetch(MONTH)

        proxy.asked.clear()
        monkeypatch.setenv("no_proxy", "127.0.0.1")
        assert source(f"icechunk+{web.url}//single/temporal", tmp_path / "past").fetch(MONTH).files
        assert proxy.asked == []


@NEEDS_ICECHUNK
def test_a_store_that_may_not_be_read_is_not_asked_again(repository: Path, tmp_path: Path) -> None:
    with served(repository, with_ranges=True) as web:
        web.fail("refuse", where=".*", status=403)
        with pytest.raises(SourceError, match="status 403"):
            source(f"icechunk+{web.url}//single/temporal", tmp_path).fetch(MONTH)


@NEEDS_ICECHUNK
def test_keys_of_s3_that_are_wrong_are_no_endless_wait(
    repository: Path, strict_s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = strict_s3_server.bucket()
    upload(repository, strict_s3_server.client(), f"s3://{bucket}/era5")
    with (
        aws_environment(strict_s3_server.url, strict_s3_server.key, "wrong"),
        pytest.raises(SourceError, match="status 403"),
    ):
        source(f"icechunk+s3://{bucket}/era5//single/temporal", tmp_path).fetch(MONTH)


# --- the extra ---


def test_an_old_python_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(icechunk_objects, "_OLDEST_PYTHON", (4, 0))
    with pytest.raises(UsageError, match=r"need Python 3\.12 or later"):
        require_icechunk()


@NEEDS_ICECHUNK
def test_a_missing_library_is_named_with_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "pcodec" else name)
    with pytest.raises(UsageError, match="the library pcodec, not installed") as refused:
        require_icechunk()
    assert "era5-pipeline[icechunk]" in refused.value.remedy
