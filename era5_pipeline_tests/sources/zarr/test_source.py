"""The source `zarr` on three layouts of the same weather, from a folder, over HTTP and from S3."""

from __future__ import annotations

import asyncio
import dataclasses
import random
import shutil
import subprocess
import sys
import threading
from collections import Counter
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pyarrow.parquet as pq
import pytest
from numcodecs import BZ2, LZ4, Blosc, GZip, Zlib, Zstd

from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.errors import (
    MonthFailedError,
    NoDataError,
    NotYetAvailableError,
    SourceError,
    TransientError,
    UsageError,
)
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.times import hour_of, hours_of_month
from era5_pipeline.model.variables import BY_COLUMN, in_table_order
from era5_pipeline.netcdf.cds_files import Axes
from era5_pipeline.runtime.progress import listening
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.sources.sample import weather_blocks
from era5_pipeline.sources.source import RawMonth, Request
from era5_pipeline.sources.zarr import reading
from era5_pipeline.sources.zarr.presets import StoreAccess
from era5_pipeline.sources.zarr.source import ZarrSource
from era5_pipeline.stages import run_flat, run_raw
from era5_pipeline_tests.arco_store import Web, served
from era5_pipeline_tests.era5_files import without_pictures
from era5_pipeline_tests.sources.cds.source_under_test import inventory
from era5_pipeline_tests.stores import aws_environment, new_user
from era5_pipeline_tests.warehouse.loads import wait_until
from era5_pipeline_tests.zarr_stores import (
    BOXES,
    COLUMNS,
    CUTS,
    HOURLY,
    SHARDED,
    TEMPORAL,
    Cut,
    chunks_in,
    expected,
    hours_between,
    set_fill_value,
    upload,
    weather,
    write_store,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.stores import S3Server

MONTH = Month(2020, 2)
SHORT = range(hours_of_month(MONTH).start - 24, hours_of_month(MONTH).start + 48)
AREA = Area(51.0, -1.0, 49.5, 1.25)


async def no_pause(_: float) -> None:
    """Go on at once."""


def source(url: str | Path, folder: Path, *names: str, **options: Any) -> ZarrSource:
    area = options.pop("area", AREA)
    access = StoreAccess(str(url), options.pop("user", None), options.pop("token", None))
    request = Request(in_table_order(names or COLUMNS), area)
    options.setdefault("pause", no_pause)
    return ZarrSource(access, folder, request, **options)


def values_in(raw: RawMonth, column: str) -> np.ndarray:
    """The values of a raw month, (hour, latitude, longitude)."""
    parts = []
    for file in raw.files:
        with netCDF4.Dataset(file.path) as dataset:
            parts.append(np.ma.filled(dataset[BY_COLUMN[column].short_name][:], np.nan))
    return np.concatenate(parts)


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The three stores, with the month and a day on each side."""
    folder = tmp_path_factory.mktemp("zarr")
    hours = hours_of_month(MONTH)
    for name, cut in CUTS.items():
        write_store(folder / name, cut, range(hours.start - 24, hours.stop + 24))
    return {name: folder / name for name in CUTS}


@pytest.fixture(scope="module")
def short_stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The three stores, which end with the second day of the month: an hour a chunk is many requests."""
    folder = tmp_path_factory.mktemp("short")
    for name, cut in CUTS.items():
        write_store(folder / name, cut, SHORT)
    return {name: folder / name for name in CUTS}


# The objects of "hourly" are read whole, as those of "boxes", and uploading so many takes seconds.
@pytest.mark.parametrize(
    ("by", "cut"),
    [(by, cut) for by in ("http", "http without Range", "s3") for cut in CUTS if (by, cut) != ("s3", "hourly")],
)
def test_every_layout_is_read_from_every_kind_of_server(
    short_stores: dict[str, Path], cut: str, by: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    if by == "s3":
        address, server = request.getfixturevalue("s3_address"), request.getfixturevalue("s3_server")
        upload(short_stores[cut], server.client(), address)
        raw = source(address, tmp_path).fetch(MONTH)
    else:
        with served(short_stores[cut], with_ranges=by == "http") as web:
            raw = source(web.url, tmp_path).fetch(MONTH)
    for column in COLUMNS:
        hours = range(hours_of_month(MONTH).start, SHORT.stop)
        np.testing.assert_array_equal(values_in(raw, column), expected(column, hours, AREA))


def test_every_layout_gives_the_same_rows(stores: dict[str, Path], tmp_path: Path) -> None:
    tables = []
    for name, folder in stores.items():
        settings = Settings(
            home=tmp_path / name, source="zarr", zarr_url=str(folder), area=str(AREA), variables=",".join(COLUMNS)
        )
        result = run_raw(settings, MONTH)
        assert all(outcome.passed for outcome in result.outcomes)
        assert result.raw.variables == COLUMNS
        for column in COLUMNS:
            wanted = expected(column, hours_of_month(MONTH), AREA)
            np.testing.assert_array_equal(values_in(result.raw, column), wanted)
        with without_pictures():
            tables.append(pq.read_table(run_flat(settings, MONTH).flat.path))
    assert tables[0].num_rows == MONTH.hours * 7 * 10
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])


# --- each chunk once -----------------------------------

# A year, in chunks of 90 days and 8 x 8 places.
MONTHS = [Month.from_number(Month(2019, 1).number + n) for n in range(12)]
LONG = dataclasses.replace(BOXES, chunk=(2160, 8, 8))
LONG_SHARDED = dataclasses.replace(SHARDED, chunk=(360, 4, 4), shard=(2160, 8, 8))


@pytest.fixture(scope="module")
def long_stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("long")
    for name, cut in (("boxes", LONG), ("sharded", LONG_SHARDED)):
        write_store(folder / name, cut, hours_between(MONTHS[0], MONTHS[-1]), ("temperature_2m",))
    return {name: folder / name for name in ("boxes", "sharded")}


def requests_for_values(web: Web) -> Counter[tuple[str, str]]:
    """How often each object, or part of one, with values of the temperature was requested."""
    return Counter(
        (path, part) for path, part in zip(web.requested, web.ranges, strict=True) if path.startswith("/t2m/c")
    )


@pytest.mark.parametrize(
    ("cut", "order"),
    [
        *(("boxes", order) for order in ("ascending", "descending", "random", "one by one")),
        ("sharded", "random"),
    ],
)
def test_a_year_requests_each_chunk_once(long_stores: dict[str, Path], tmp_path: Path, cut: str, order: str) -> None:
    months = list(reversed(MONTHS)) if order == "descending" else list(MONTHS)
    if order == "random":
        random.Random(5).shuffle(months)
    with served(long_stores[cut], with_ranges=True) as web:
        chosen = source(web.url, tmp_path, "temperature_2m")
        # As the daemon does, which starts a run for each month, or as a command, which wants them all.
        together = () if order == "one by one" else MONTHS
        raws = {month: chosen.fetch(month, together) for month in months}
        counts = requests_for_values(web)
    assert set(counts.values()) == {1}
    # Of 3 x 3 boxes, the area is in 1 x 2 or more; every time chunk of them.
    assert len({path for path, _ in counts}) >= 5 * 2
    for month in (MONTHS[0], MONTHS[2], MONTHS[-1]):
        got = values_in(raws[month], "temperature_2m")
        np.testing.assert_array_equal(got, expected("temperature_2m", hours_of_month(month), AREA))
        assert chosen.known(month) == raws[month]


def test_only_the_months_that_are_wanted_get_files(long_stores: dict[str, Path], tmp_path: Path) -> None:
    chosen = source(long_stores["boxes"], tmp_path, "temperature_2m")
    chosen.fetch(Month(2019, 1), together=[Month(2019, 1), Month(2019, 3)])
    assert {path.parent.name[:7] for path in tmp_path.rglob("*.nc")} == {"2019-01", "2019-03"}
    # A month across two chunks of time has two files.
    raw = chosen.fetch(Month(2019, 6))
    assert [file.path.name for file in raw.files] == ["c00001.nc", "c00002.nc"]


@pytest.mark.parametrize("in_memory", [True, False])
def test_a_run_that_was_killed_inside_a_chunk_reads_on(
    long_stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: bool
) -> None:
    monkeypatch.setattr(reading, "_BLOCK_BYTES", 4 * 2160 * 8 * 8)
    monkeypatch.setattr(reading, "_IN_MEMORY_BYTES", (1 << 30) if in_memory else 0)

    def kill(stage: str, done: int, total: int, unit: str) -> None:
        del stage, total, unit
        if done == 3:
            raise KeyboardInterrupt

    area = Area(52.0, -2.5, 47.0, 2.5)
    with served(long_stores["boxes"], with_ranges=True) as web:
        with pytest.raises(KeyboardInterrupt), listening(kill):
            source(web.url, tmp_path, "temperature_2m", area=area).fetch(Month(2019, 1))
        assert not list(tmp_path.rglob("*.nc"))
        raw = source(web.url, tmp_path, "temperature_2m", area=area).fetch(Month(2019, 1))
        counts = Counter(requests_for_values(web).values())
    assert counts == (Counter({1: 6, 2: 3}) if in_memory else Counter({1: 9}))
    got = values_in(raw, "temperature_2m")
    np.testing.assert_array_equal(got, expected("temperature_2m", hours_of_month(Month(2019, 1)), area))
    assert not list(tmp_path.rglob("*.part"))


def test_two_processes_at_once_read_each_chunk_once(long_stores: dict[str, Path], tmp_path: Path) -> None:
    # A fork each: importing takes them longer than the months.
    program = """
import os, sys
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import read_settings
from era5_pipeline.sources.open_source import source_of
from era5_pipeline.sources.zarr import source
def forked(months, file):
    process = os.fork()
    if process == 0:
        sys.stdout = open(file, "w")
        source = source_of(read_settings(), print)
        for month in months.split():
            print(source.fetch(Month.parse(month)).fingerprint)
        sys.exit()
    return process
processes = [forked(months, str(number)) for number, months in enumerate(sys.argv[1:])]
sys.exit(sum(os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) != 0 for process in processes))
"""
    with served(long_stores["boxes"], with_ranges=True) as web:
        environment = {
            "ERA5_HOME": str(tmp_path),
            "ERA5_SOURCE": "zarr",
            "ERA5_ZARR_URL": web.url,
            "ERA5_AREA": str(AREA),
            "ERA5_VARIABLES": "t2m",
            "PYTHONPATH": ":".join(sys.path),
        }
        months = "2019-01 2019-02 2019-03", "2019-03 2019-02 2019-01"
        command = [sys.executable, "-c", program, *months]
        subprocess.run(command, env=environment, cwd=tmp_path, check=True, timeout=600)
        outputs = [(tmp_path / str(number)).read_text().splitlines() for number in range(2)]
        counts = requests_for_values(web)
    assert set(counts.values()) == {1}
    fingerprints = [[line for line in output if len(line) == 64] for output in outputs]
    assert fingerprints[0] == fingerprints[1][::-1]


# --- faults -----------------------------------


@pytest.fixture
def web(short_stores: dict[str, Path]) -> Iterator[Web]:
    with served(short_stores["boxes"], with_ranges=True) as web:
        yield web


VALUES = "/t2m/c/.*"


def test_a_proxy_of_the_environment_is_used(web: Web, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", web.url)
    monkeypatch.setenv("no_proxy", "")
    assert source("http://store.invalid", tmp_path).fetch(MONTH).files


def test_a_dead_proxy_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
    monkeypatch.setenv("no_proxy", "")
    with pytest.raises(TransientError, match=r"the proxy does not answer: .*http_proxy is http://127\.0\.0\.1:9"):
        source("http://store.invalid", tmp_path).fetch(MONTH)


def test_a_file_that_cannot_be_read_is_named(short_stores: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(short_stores["boxes"], tmp_path / "store")
    (path, *_) = chunks_in(tmp_path / "store")
    path.unlink()
    path.symlink_to(path.name)
    with pytest.raises(SourceError, match=rf"{path.name} cannot be read .*symbolic links"):
        source(tmp_path / "store", tmp_path / "raw").fetch(MONTH)


def test_an_answer_damaged_on_its_way_is_read_again(web: Web, tmp_path: Path) -> None:
    web.fail("garble", 1, where=VALUES)
    raw = source(web.url, tmp_path).fetch(MONTH)
    assert np.isfinite(values_in(raw, "temperature_2m")).all()


def damaged(stores: dict[str, Path], cut: str, to: Path, change: Any) -> Path:
    """A copy of a store, one of whose objects of the temperature is changed."""
    shutil.copytree(stores[cut], to)
    (path, *_) = [path for path in chunks_in(to) if path.relative_to(to).parts[0] in ("t2m", "2m_temperature")]
    path.write_bytes(change(path.read_bytes()))
    return to


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("by_http", [False, True])
def test_half_a_chunk_is_an_error_that_names_it(
    short_stores: dict[str, Path], tmp_path: Path, cut: str, by_http: bool
) -> None:
    folder = damaged(short_stores, cut, tmp_path / "store", lambda content: content[: len(content) // 2])
    area = Area(52.0, -2.5, 47.0, 2.5)
    with (
        served(folder, with_ranges=True) as web,
        pytest.raises(MonthFailedError, match=r"the chunk .* cannot be decoded"),
    ):
        source(web.url if by_http else folder, tmp_path / "raw", area=area).fetch(Month(2020, 1))
    assert not list((tmp_path / "raw").rglob("*.nc"))


@pytest.mark.parametrize(("part", "said"), [(0.2, "checksum|Checksum|corrupt"), (1.0, "checksum do not match")])
def test_a_wrong_checksum_is_an_error_that_names_the_chunk(
    short_stores: dict[str, Path], tmp_path: Path, part: float, said: str
) -> None:
    """Zstd's in a chunk, and CRC-32C of the index of a shard."""

    def change(content: bytes) -> bytes:
        position = min(len(content) - 6, int(part * len(content)))
        return content[:position] + bytes([content[position] ^ 0x40]) + content[position + 1 :]

    folder = damaged(short_stores, "sharded", tmp_path / "store", change)
    with pytest.raises(MonthFailedError, match=rf"the chunk t2m/c/0/0/0 .* cannot be decoded .*({said})"):
        source(folder, tmp_path / "raw", area=Area(52.0, -2.5, 47.0, 2.5)).fetch(Month(2020, 1))


@pytest.mark.parametrize("fill", [0.0, "NaN", 1e20])
@pytest.mark.parametrize("cut", ["hourly", "boxes", "sharded"])
def test_places_without_a_chunk_are_missing_whatever_they_are_filled_with(
    short_stores: dict[str, Path], tmp_path: Path, cut: str, fill: Any
) -> None:
    folder = tmp_path / "store"
    shutil.copytree(short_stores[cut], folder)
    if cut != "sharded":
        set_fill_value(folder, fill)
    (folder / ".zmetadata").unlink(missing_ok=True)
    name = "total_precipitation" if cut == "hourly" else "tp"
    for path in chunks_in(folder):
        if path.relative_to(folder).parts[0] == name and (cut != "hourly" or path.name.split(".")[0] in ("24", "25")):
            path.unlink()
    said: list[str] = []
    raw = source(folder, tmp_path / "raw", say=said.append).fetch(MONTH)
    rain = values_in(raw, "total_precipitation")
    lost = 2 if cut == "hourly" else 48
    assert np.isnan(rain[:lost]).all()
    assert np.isfinite(rain[lost:]).all()
    assert np.isfinite(values_in(raw, "temperature_2m")).all()
    until = "2020-02-01T01" if cut == "hourly" else "2020-02-02T23"
    assert said[-1].endswith(f"lacks values of tp at 2020-02-01T00 to {until}")


def test_a_chunk_missing_inside_a_shard_is_missing(tmp_path: Path) -> None:
    """zarr leaves out chunks that hold nothing but the fill value, and its index says so."""
    values = weather(SHORT)
    values["temperature_2m"][24:48] = np.nan
    write_store(tmp_path / "store", SHARDED, SHORT, values=values)
    said: list[str] = []
    raw = source(tmp_path / "store", tmp_path / "raw", say=said.append).fetch(MONTH)
    assert np.isnan(values_in(raw, "temperature_2m")[:24]).all()
    assert said[-1].endswith("lacks values of t2m at 2020-02-01T00 to 2020-02-01T23")


def test_months_with_missing_chunks_are_refused_or_loaded_as_null(
    short_stores: dict[str, Path], tmp_path: Path
) -> None:
    folder = tmp_path / "store"
    shutil.copytree(short_stores["hourly"], folder)
    (folder / "2m_temperature" / "30.0.0").unlink()
    settings = Settings(
        home=tmp_path, source="zarr", zarr_url=str(folder), area=str(AREA), variables="t2m", allow_incomplete=True
    )
    run_raw(settings, MONTH)
    with without_pictures():
        result = run_flat(settings, MONTH)
        assert result.flat.columns[0].missing == 70
        strict = run_flat(settings.model_copy(update={"allow_incomplete": False}), MONTH)
    assert [outcome.name for outcome in strict.outcomes if not outcome.passed] == ["no_missing_values"]


def test_a_key_without_the_right_to_list_makes_absent_objects_forbidden(
    short_stores: dict[str, Path], strict_s3_server: S3Server, tmp_path: Path
) -> None:
    bucket = strict_s3_server.bucket()
    upload(short_stores["boxes"], strict_s3_server.client(), f"s3://{bucket}/era5")
    reads = {"Effect": "Allow", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    key, secret = new_user(strict_s3_server, {"Version": "2012-10-17", "Statement": [reads]})
    with aws_environment(strict_s3_server.url, key, secret):
        raw = source(f"s3://{bucket}/era5", tmp_path).fetch(MONTH)
    assert np.isfinite(values_in(raw, "temperature_2m")).all()
    with aws_environment(strict_s3_server.url, *new_user(strict_s3_server)), pytest.raises(SourceError) as caught:
        source(f"s3://{bucket}/era5", tmp_path / "other").fetch(MONTH)
    assert "absent" in caught.value.remedy
    assert "s3:ListBucket" in caught.value.remedy


# --- the token -----------------------------------

TOKEN = "b7e2c0de-secret-9f41"


@pytest.mark.parametrize(
    ("user", "header"), [(None, f"Bearer {TOKEN}"), ("edh", "Basic ZWRoOmI3ZTJjMGRlLXNlY3JldC05ZjQx")]
)
def test_the_token_is_sent_in_the_header(web: Web, tmp_path: Path, user: str | None, header: str) -> None:
    web.wanted_authorization, web.status = header, 401
    raw = source(web.url, tmp_path, token=TOKEN, user=user).fetch(MONTH)
    assert raw.files
    with pytest.raises(SourceError, match="status 401") as caught:
        source(web.url, tmp_path / "other", token="another").fetch(MONTH)
    assert "ERA5_ZARR_TOKEN_FILE" in caught.value.remedy


@pytest.mark.parametrize("fault", ["none", "401", "403", "500", "redirect"])
def test_the_token_is_nowhere_but_in_requests_to_the_store(
    short_stores: dict[str, Path], tmp_path: Path, fault: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    home = tmp_path / "home"
    said: list[str] = []
    with served(short_stores["boxes"]) as web, served(short_stores["boxes"]) as other:
        settings = Settings(
            home=home,
            source="zarr",
            zarr_url=web.url,
            zarr_token_file=tmp_path / "token",
            area=str(AREA),
            variables=",".join(COLUMNS),
            allow_incomplete=True,
        )
        web.location = other.url
        if fault != "none":
            web.fail("redirect" if fault == "redirect" else "refuse", 1 if fault == "500" else 99, where=VALUES)
            web.status = int(fault) if fault.isdigit() else 500
        try:
            run_raw(settings, MONTH, said.append)
        except SourceError as error:
            said += [str(error), repr(error), repr(error.__cause__)]
        assert set(web.authorizations) == {f"Bearer {TOKEN}"}
        assert other.requested == []
    said += [repr(settings), settings.model_dump_json(), caplog.text, repr(source(web.url, home, token=TOKEN))]
    said += [path.read_text(errors="replace") for path in home.rglob("*") if path.is_file()]
    assert not [text for text in said if TOKEN in text]
    if fault == "redirect":
        assert any("redirects to 127.0.0.1, where the token was not sent" in text for text in said)


def test_without_a_token_a_redirect_is_followed(web: Web, short_stores: dict[str, Path], tmp_path: Path) -> None:
    with served(short_stores["boxes"]) as other:
        web.fail("redirect", where=VALUES)
        web.location = other.url
        raw = source(web.url, tmp_path).fetch(MONTH)
    assert np.isfinite(values_in(raw, "temperature_2m")).all()


def test_a_token_is_not_sent_unencrypted_to_another_machine(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="unencrypted"):
        source("http://store.invalid/era5.zarr", tmp_path, token=TOKEN).fetch(MONTH)


# --- what is in a store -----------------------------------


def test_packed_values_are_unpacked(tmp_path: Path) -> None:
    attributes = {"scale_factor": 0.002, "add_offset": 280.0, "_FillValue": -32768}
    cut = dataclasses.replace(BOXES, dtype="i2", attributes=attributes)
    values = weather(SHORT, ("temperature_2m",))
    values["temperature_2m"][30, 8, 8] = np.nan
    write_store(tmp_path / "store", cut, SHORT, ("temperature_2m",), values)
    raw = source(tmp_path / "store", tmp_path / "raw", "temperature_2m").fetch(MONTH)
    got = values_in(raw, "temperature_2m")
    want = expected("temperature_2m", range(hours_of_month(MONTH).start, SHORT.stop), AREA).copy()
    want[6, 4, 2] = np.nan
    assert np.isnan(got[6, 4, 2])
    np.testing.assert_allclose(got, want, atol=0.00101)


def test_recent_months_of_a_store_without_versions_are_preliminary(tmp_path: Path) -> None:
    now = Month.of(datetime.now(tz=UTC))
    for month, version in ((Month.from_number(now.number - 2), "0005"), (Month(2020, 2), "unknown")):
        first = hour_of(month.start)
        write_store(tmp_path / version, BOXES, range(first, first + 24), ("temperature_2m",))
        raw = source(tmp_path / version, tmp_path / "raw", "temperature_2m").fetch(month)
        assert inventory(raw, tmp_path).expver == {"temperature_2m": {version: 24}}


def test_attributes_of_arco_era5_bound_the_hours_and_tell_their_version(tmp_path: Path) -> None:
    stated = {"valid_time_start": "1940-01-01", "valid_time_stop": "2020-01-31", "valid_time_stop_era5t": "2020-02-01"}
    write_store(tmp_path / "store", dataclasses.replace(BOXES, group_attributes=stated), SHORT, ("temperature_2m",))
    raw = source(tmp_path / "store", tmp_path / "raw", "temperature_2m").fetch(MONTH)
    assert inventory(raw, tmp_path).expver == {"temperature_2m": {"0005": 24}}


def test_a_month_that_the_store_does_not_reach(short_stores: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(NotYetAvailableError, match=r"2020-03 is not available yet .*2020-02-02 23:00"):
        source(short_stores["boxes"], tmp_path).fetch(Month(2020, 3))
    with pytest.raises(NoDataError, match=r"2019-12: .* begins at 2020-01-31 00:00"):
        source(short_stores["boxes"], tmp_path).fetch(Month(2019, 12))


def test_a_variable_that_is_not_there_is_refused_if_it_was_named(short_stores: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="has no snowfall"):
        source(short_stores["boxes"], tmp_path, "temperature_2m", "snowfall").fetch(MONTH)
    unnamed = dataclasses.replace(source(short_stores["boxes"], tmp_path), request=Request(None, AREA))
    raw = unnamed.fetch(MONTH)
    assert raw.variables == COLUMNS
    assert "the Zarr store does not have snowfall: it is NULL" in raw.warnings


def test_without_an_area_all_places_of_the_store_are_read(short_stores: dict[str, Path], tmp_path: Path) -> None:
    raw = source(short_stores["hourly"], tmp_path, area=None).fetch(MONTH)
    hours = range(hours_of_month(MONTH).start, SHORT.stop)
    np.testing.assert_array_equal(values_in(raw, "temperature_2m"), expected("temperature_2m", hours))


def test_an_area_beyond_the_store_is_refused(short_stores: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"it has 47 to 52 N, -2.5 to 2.5 E"):
        source(short_stores["boxes"], tmp_path, area=Area(53.0, -1.0, 50.0, 1.0)).fetch(MONTH)


def test_a_complete_month_is_known_without_its_files_and_the_store(stores: dict[str, Path], tmp_path: Path) -> None:
    shutil.copytree(stores["boxes"], tmp_path / "store")
    chosen = source(tmp_path / "store", tmp_path / "raw")
    assert chosen.known(MONTH) is None
    raw = chosen.fetch(MONTH)
    shutil.rmtree(tmp_path / "store")
    assert chosen.fetch(MONTH) == raw
    raw.files[0].path.unlink()
    assert chosen.known(MONTH) == raw
    with pytest.raises(SourceError):  # it has to be read again
        chosen.fetch(MONTH)
    assert source(tmp_path / "store", tmp_path / "raw", area=Area(50.0, 0.0, 49.0, 1.0)).known(MONTH) is None
    chosen.record_completeness(raw, is_complete=False)
    assert chosen.known(MONTH) is None


FETCH_IN_A_COPY = """
import os, pathlib, sys
from era5_pipeline_tests.sources.zarr.test_source import MONTH, source
print("imported", flush=True)
sys.stdin.readline()
if os.fork() == 0:
    store, folder = map(pathlib.Path, sys.argv[1:])
    print(*(source(store, folder, refetch=refetch).fetch(MONTH).fingerprint for refetch in (False, True)), flush=True)
    os._exit(0)
os.wait()
"""


def test_pieces_of_an_earlier_process_are_read_again_with_refetch(
    short_stores: dict[str, Path], tmp_path: Path
) -> None:
    """Also by a run, which is a copy of a process that began before the pieces were read."""
    folder = tmp_path / "store"
    shutil.copytree(short_stores["boxes"], folder)
    command = [sys.executable, "-c", FETCH_IN_A_COPY, str(folder), str(tmp_path / "raw")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stdout.readline() == "imported\n"
        before = source(folder, tmp_path / "raw").fetch(MONTH).fingerprint
        values = {column: of_column + 1 for column, of_column in weather(SHORT).items()}
        write_store(folder, BOXES, SHORT, values=values)
        process.stdin.write("\n")
        process.stdin.flush()
        kept, again = process.stdout.readline().split()
    assert kept == before != again


def test_invalidating_a_month_leaves_the_others(long_stores: dict[str, Path], tmp_path: Path) -> None:
    chosen = source(long_stores["boxes"], tmp_path, "temperature_2m")
    first, second = chosen.fetch(MONTHS[0]), chosen.fetch(MONTHS[1])
    chosen.invalidate(first)
    assert chosen.known(MONTHS[0]) is None
    assert chosen.known(MONTHS[1]) == second
    with served(long_stores["boxes"]) as web:
        assert source(long_stores["boxes"], tmp_path, "temperature_2m").fetch(MONTHS[1]) == second
        assert web.requested == []
    assert chosen.fetch(MONTHS[0]) == first


def test_a_unit_that_the_disk_cannot_hold_is_not_started(
    long_stores: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("era5_pipeline.sources.zarr.source.shutil.disk_usage", lambda _: type("U", (), {"free": 1000}))
    with pytest.raises(Exception, match="2019-01 was not started: its chunks hold 2,160 hours of each place"):
        source(long_stores["boxes"], tmp_path, "temperature_2m").fetch(MONTHS[0])


@pytest.mark.parametrize(
    "compressor",
    [Blosc(), Blosc(cname="zstd"), Zstd(), Zlib(1), GZip(1), BZ2(1), LZ4(), ()],
    ids=lambda one: one.codec_id if one else "none",
)
def test_a_truncated_chunk_of_format_2_is_never_taken_for_weather(tmp_path: Path, compressor: Any) -> None:
    cut: Cut = dataclasses.replace(HOURLY, chunk=(24, 8, 8), compressor=compressor)
    write_store(tmp_path / "store", cut, SHORT)
    for path in chunks_in(tmp_path / "store"):
        path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(MonthFailedError, match="cannot be decoded"):
        source(tmp_path / "store", tmp_path / "raw").fetch(MONTH)


# --- months in turn --------------------------------------------------------------

TURN = (Month(2020, 1), Month(2020, 2), Month(2020, 3))


@pytest.fixture(scope="module")
def quarter(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store of three months in chunks of half a month."""
    folder = tmp_path_factory.mktemp("quarter") / "store"
    write_store(folder, dataclasses.replace(TEMPORAL, chunk=(364, 64, 64)), hours_between(TURN[0], TURN[-1]))
    return folder


def test_the_store_is_opened_once_for_months_in_turn_and_the_next_chunks_are_read_meanwhile(
    quarter: Path, tmp_path: Path
) -> None:
    with served(quarter) as web, source(web.url, tmp_path).in_turn() as chosen:
        first = chosen.fetch(TURN[0], TURN)
        # The chunks of January, and the next ones, which nobody has asked for.
        ahead = {f"{column}/c/3/0/0" for column in ("t2m", "tp")}
        wait_until(lambda: ahead <= {path.strip("/") for path in web.requested})
        raws = [first, *(chosen.fetch(month, TURN) for month in TURN[1:])]
        requests = Counter(web.requested)
        assert {requests[path] for path in requests if "/c/" in path or path == "/zarr.json"} == {1}
    for month, raw in zip(TURN, raws, strict=True):
        for column in COLUMNS:
            np.testing.assert_array_equal(values_in(raw, column), expected(column, hours_of_month(month), AREA))


def test_what_fails_ahead_is_the_error_of_its_month_and_read_again_when_it_is_fetched_again(
    quarter: Path, tmp_path: Path
) -> None:
    said: list[str] = []
    with served(quarter) as web, source(web.url, tmp_path, say=said.append).in_turn() as chosen:
        web.fail("refuse", where=r".*/c/[3-9]/.*")
        chosen.fetch(TURN[0], TURN)
        with pytest.raises(TransientError):
            chosen.fetch(TURN[1], TURN)
        assert any("6 tries" in text for text in said)
        web.fail("refuse", times=0)
        raw = chosen.fetch(TURN[1], TURN)
    np.testing.assert_array_equal(values_in(raw, COLUMNS[0]), expected(COLUMNS[0], hours_of_month(TURN[1]), AREA))


def test_the_end_of_a_turn_ends_the_wait_for_a_retry(quarter: Path, tmp_path: Path) -> None:
    paused, ended = threading.Event(), threading.Event()

    async def pause(_: float) -> None:
        paused.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            ended.set()
            raise

    with served(quarter) as web:
        with source(web.url, tmp_path, pause=pause).in_turn() as chosen:
            web.fail("refuse", where=r".*/c/[3-9]/.*")
            chosen.fetch(TURN[0], TURN)
            assert paused.wait(60)
        assert ended.is_set()


# --- ERA5-Land ------------------------------------------------------------------


@pytest.mark.parametrize("chunk_hours", [720, 24 * 29])
def test_months_of_sums_come_with_the_hour_before_them(tmp_path: Path, chunk_hours: int) -> None:
    march, hours = Month(2020, 3), range(hours_of_month(MONTH).start - 48, hours_of_month(Month(2020, 3)).stop)
    axes = Axes.of(Area(51.0, 359.8, 50.5, 0.3, grid=ERA5_LAND.grid))
    variables = ERA5_LAND.catalogue.find_all("t2m,tp")
    blocks = list(weather_blocks(axes, hours, variables, ERA5_LAND))
    values = {v.column: np.concatenate([fields[v.column] for _, fields in blocks]) for v in variables}
    folder = tmp_path / "reanalysis-era5-land-no-antartica-v0.zarr"
    cut = dataclasses.replace(HOURLY, chunk=(chunk_hours, 64, 64), short_names=True, is_eastward=True)
    columns = tuple(v.column for v in variables)
    write_store(folder, cut, hours, columns, values, (axes.latitudes, axes.longitudes))
    settings = Settings(
        _env_file=None,
        home=tmp_path / "home",
        source="zarr",
        zarr_url=str(folder),
        dataset="era5-land",
        variables="t2m,tp",
        area="51/-0.2/50.5/0.3",
    )
    opened = source_of(settings)
    for months in ((MONTH, march), (march, MONTH)):
        for month in months:
            raw = opened.fetch(month)
            assert raw.dataset == ERA5_LAND
            wanted = hours_of_month(month)
            first = wanted.start - 1 - hours.start
            for column in columns:
                held = values[column][first : first + month.hours + 1]
                np.testing.assert_array_equal(values_in(raw, column), held)
            assert opened.known(month) == raw
        shutil.rmtree(folder, ignore_errors=True)  # nothing is read again


def test_the_first_month_of_era5_land_has_no_hour_before_it(tmp_path: Path) -> None:
    request = Request(area=Area(51.0, 0.0, 50.5, 0.3, grid=ERA5_LAND.grid), dataset=ERA5_LAND)
    opened = ZarrSource(StoreAccess(str(tmp_path)), tmp_path, request)
    assert opened._hours(Month(1950, 1)) == hours_of_month(Month(1950, 1))
    assert len(opened._hours(Month(1950, 2))) == 28 * 24 + 1
    assert len(source(tmp_path, tmp_path)._hours(Month(1950, 2))) == 28 * 24
