"""Tests of `flat/cluster`."""

from __future__ import annotations

import logging
import pickle
import socket
import subprocess
import sys
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import dask
import numpy as np
import pytest
from distributed import Client

from era5_pipeline import __version__
from era5_pipeline.flat import cluster as cluster_module
from era5_pipeline.flat import tiles
from era5_pipeline.flat.cluster import connected, own_versions, require_versions
from era5_pipeline.flat.flatten import flatten_month, has_preview, preview_file
from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.flat.tiles import Tile
from era5_pipeline.model.errors import BadFileError, Era5Error, InputError, TransientError, UsageError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.runtime.progress import listening
from era5_pipeline.stages import run_flat, run_raw
from era5_pipeline_tests.commands import ROOT, InProcess, assert_says
from era5_pipeline_tests.dask_clusters import dask_cluster, kill
from era5_pipeline_tests.era5_files import (
    CURRENT,
    GRIB_LAYOUTS,
    LAYOUTS,
    LEGACY,
    Layout,
    hours_from,
    left_behind,
    raw_month,
    weather,
    without_pictures,
    write,
)
from era5_pipeline_tests.postgres.test_tls import make_authority, make_certificate
from era5_pipeline_tests.warehouse.loads import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from subprocess import Popen

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.flat.flatten import MiddleHour
    from era5_pipeline.flat.inventory import Inventory
    from era5_pipeline.runtime.progress import Progress
    from era5_pipeline.sources.source import RawMonth
    from era5_pipeline_tests.dask_clusters import DaskCluster


@pytest.mark.parametrize("listens", [False, True])
def test_a_scheduler_that_does_not_answer_is_a_temporary_error(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    *,
    listens: bool,
) -> None:
    monkeypatch.setattr(cluster_module, "CONNECT_SECONDS", 1)  # all of the patience is waited out
    names = ("distributed", "distributed.client")
    before = [logging.getLogger(name).level for name in names]
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # nobody else gets the port; where it does not listen, connections are refused
        if listens:
            held.listen()
        address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(TransientError, match="no Dask scheduler answers") as raised, connected(address):
            pass
    assert_says(raised.value.message, address, *(() if listens else ("Connection refused",)))
    assert_says(raised.value.remedy, "dask scheduler", "ERA5_DASK_SCHEDULER")
    assert capsys.readouterr().err == ""
    assert caplog.records == []
    assert [logging.getLogger(name).level for name in names] == before


@pytest.mark.parametrize("package", ["era5_pipeline", "dask", "distributed"])
@pytest.mark.parametrize("found", ["1.2.3", None])
def test_a_program_of_another_version_is_refused(package: str, found: str | None) -> None:
    own = own_versions()
    with pytest.raises(UsageError) as raised:
        require_versions("that program", own | {package: found}, own)
    assert_says(raised.value.message, "that program", found or "has no", package, own[package])
    assert "one environment or one image" in raised.value.remedy


def test_a_cluster_with_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = make_authority(tmp_path, "right")
    make_certificate(tmp_path, "right", "node", "node", "IP:127.0.0.1")
    tls = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(authority)}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT"] = str(tmp_path / "node.crt")
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] = str(tmp_path / "node.key")
    with dask_cluster(1, protocol="tls", **tls) as cluster:
        assert cluster.address.startswith("tls://")
        with pytest.raises(UsageError, match="cannot be used") as raised, connected(cluster.address):
            pass  # without certificates
        assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in raised.value.remedy
        for name, path in tls.items():
            monkeypatch.setenv(name, path)
        dask.config.refresh()
        try:
            with connected(cluster.address) as client:
                assert sum(client.nthreads().values()) == 1  # type: ignore[no-untyped-call]
        finally:
            monkeypatch.undo()
            dask.config.refresh()


def test_an_address_of_another_form_is_a_usage_error(here: InProcess) -> None:
    for address in ("127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://127.0.0.1", "tcp://:8786"):
        here.set(ERA5_DASK_SCHEDULER=address)
        printed = here.run("plan", "--from", "2023-07", "--to", "2023-07", code=2)
        assert "ERA5_DASK_SCHEDULER: Input should be tcp://HOST:PORT or tls://HOST:PORT" in printed.err


_SECONDS = 240.0
NAMES = ("t2m", "u10", "tp")
ZIPPED = Layout("in one ZIP", zipped=True, suffix=".zip")


@pytest.fixture(scope="module")
def running() -> Iterator[DaskCluster]:
    with dask_cluster(0) as started:
        yield started


@pytest.fixture
def cluster(running: DaskCluster) -> DaskCluster:
    """A scheduler and two workers; those that an earlier test killed are started again."""
    running.start_missing(workers=2)
    return running


@pytest.fixture(autouse=True)
def many_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small tiles, so that small months have several."""
    monkeypatch.setattr(tiles, "TARGET_POINT_HOURS", 1000)
    monkeypatch.setattr(tiles, "LARGEST_POINT_HOURS", 3000)


def test_a_task_is_small(tmp_path: Path) -> None:
    paths = write(tmp_path, weather(hours_from("2023-07-01T00", 1)))
    (file,) = raw_month(paths, "2023-07").files
    days = [replace(file, path=Path(f"/a/folder/with/a/long/name/raw/arco/2023-07-{day:02d}.nc")) for day in range(31)]
    raw = replace(raw_month(paths, "2023-07"), files=tuple(days))
    tile = Tile(np.arange(721, dtype=np.int32), np.arange(1440, dtype=np.int32))
    assert len(pickle.dumps((raw, tile, own_versions()))) < 20_000


def test_a_worker_that_does_not_see_the_raw_files_says_which_and_what_to_do(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    raw = month_of_weather(tmp_path / "raw", ZIPPED, hours=100)
    inventory = take_inventory(raw, tmp_path)
    path = raw.files[0].path
    path.rename(tmp_path / "elsewhere.zip")  # this process has the inventory already, as after `raw`
    error = error_of(raw, tmp_path, cluster.address, inventory)
    assert isinstance(error, UsageError)
    assert error.message.startswith("2023-07: the Dask worker tcp://127.0.0.1:")
    assert f"does not see the raw file {path} (No such file or directory)" in error.message
    assert "same path" in error.remedy


def test_a_worker_unpacks_a_month_once_and_removes_it_when_no_more_tiles_come(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    raw = month_of_weather(tmp_path / "raw", ZIPPED, hours=100)
    folders: set[Path] = set()

    def look(*_: object, **__: object) -> None:
        folders.update(cluster.local_directory.rglob("unpacked-*"))

    with Client(cluster.address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        with listening(look):
            there = flattened(raw, tmp_path / "first", cluster.address)
        assert there[0]["rows"] == 12 * 15 * 100
        assert folders
        of_workers = [folder.relative_to(cluster.local_directory).parts[1] for folder in folders]
        assert len(set(of_workers)) == len(of_workers)

        # The tiles of the second run find it unpacked, and remove it soon after the last of them.
        client.run(setattr, cluster_module, "_IDLE_SECONDS", 0.1)
        try:
            assert flattened(raw, tmp_path / "second", cluster.address) == there
            wait_until(lambda: not list(cluster.local_directory.rglob("unpacked-*")))
        finally:
            client.run(setattr, cluster_module, "_IDLE_SECONDS", cluster_module._IDLE_SECONDS)


def test_without_a_cluster_nothing_of_it_is_imported(tmp_path: Path) -> None:
    raw = month_of_weather(tmp_path / "raw", ZIPPED, hours=100)
    (tmp_path / "raw.pickle").write_bytes(pickle.dumps(raw))
    program = """
import pickle, sys
from pathlib import Path
import era5_pipeline.stages
from era5_pipeline.flat.flatten import flatten_month
home = Path.cwd()
flatten_month(pickle.loads((home / "raw.pickle").read_bytes()), home / "flat", home=home, flat_format="parquet")
print(sorted({name.partition(".")[0] for name in sys.modules} & {"distributed", "tornado", "dask"}))
"""
    command = [sys.executable, "-c", program]
    said = subprocess.check_output(command, cwd=tmp_path, env={"PYTHONPATH": str(ROOT)}, text=True, timeout=_SECONDS)
    assert said == "['dask']\n"


def drawn(middle: MiddleHour) -> bytes:
    return middle.location_ids.tobytes() + middle.values.tobytes()


def flattened(
    raw: RawMonth,
    home: Path,
    scheduler: str | None,
    inventory: Inventory | None = None,
) -> tuple[dict[str, Any], bytes]:
    """The facts of the month, which include its digest, and the values of its preview."""
    more: dict[str, Any] = {"draw": drawn, "inventory": inventory, "dask_scheduler": scheduler}
    flat = flatten_month(raw, home / "flat", home=home, flat_format="parquet", **more)
    assert left_behind(home) == []
    path = preview_file(home / "flat", raw.month)
    preview = path.read_bytes() if has_preview(flat.locations) else b""
    assert flat.summaries is not None
    facts = {name: fact for name, fact in asdict(flat).items() if name not in OF_THE_PLACE}
    return facts | {"summaries": flat.summaries.sha256}, preview


OF_THE_PLACE = ("path", "seconds", "raw_seconds", "peak_rss_bytes")


def month_of_weather(folder: Path, layout: Layout = CURRENT, hours: int = 30) -> RawMonth:
    """A month of 12 x 15 points; some values are missing."""
    north, east = [20 - 0.25 * n for n in range(12)], [50 + 0.25 * n for n in range(15)]
    of = weather(hours_from("2023-07-01T00", hours), north, east, NAMES, missing=0.01)
    return raw_month(write(folder, of, layout), "2023-07")


# Those that differ in what a worker opens, and in how tiles are cut: one file or many, unpacked, packed, chunks. All
# layouts are read in test_flatten, some in many tilings, by the code that workers run.
FEW_LAYOUTS = [layout for layout in LAYOUTS if layout.one_hour_per_file or layout.zipped or layout.chunks] + [
    CURRENT,
    LEGACY,
    GRIB_LAYOUTS[0],
    *(layout for layout in LAYOUTS if layout.expver == "dimension" and layout.file_format == "NETCDF4"),
]


@pytest.mark.parametrize("layout", FEW_LAYOUTS, ids=str)
def test_a_month_is_the_same_to_the_byte_whatever_the_layout_of_its_files(
    cluster: DaskCluster, tmp_path: Path, layout: Layout
) -> None:
    raw = month_of_weather(tmp_path / "raw", layout, hours=12)
    here = flattened(raw, tmp_path / "here", None)
    assert here[0]["rows"] == 12 * 15 * 12
    assert flattened(raw, tmp_path / "there", cluster.address) == here


def test_an_area_across_two_files_with_preliminary_hours_is_the_same_to_the_byte(
    cluster: DaskCluster, tmp_path: Path
) -> None:
    hours = hours_from("2023-07-01T00", 24)
    north = [20 - 0.25 * n for n in range(10)]
    west = weather(hours, north, [50 + 0.25 * n for n in range(9)], NAMES, expver=("0001",) * 20 + ("0005",) * 4)
    east = weather(hours, north, [53 + 0.25 * n for n in range(9)], NAMES, seed=2)
    paths = write(tmp_path / "raw", west, stem="west") + write(tmp_path / "raw", east, LEGACY, stem="east")
    raw = raw_month(paths, "2023-07", area="19.5/51/18/54")
    here = flattened(raw, tmp_path / "here", None)
    assert {tuple(column["expver"]) for column in here[0]["columns"]} == {("0001", "0005", "unknown")}
    assert flattened(raw, tmp_path / "there", cluster.address) == here


def test_the_setting_chooses_the_cluster(cluster: DaskCluster, tmp_path: Path) -> None:
    month = Month(2023, 7)
    flats: list[FlatMonth] = []
    with without_pictures():
        for place, scheduler in (("here", None), ("there", cluster.address)):
            chosen: dict[str, Any] = {"source": "sample", "area": "20/50/18/52", "sample_hours": 24}
            chosen |= {"allow_incomplete": True, "dask_scheduler": scheduler}
            settings = Settings(_env_file=None, home=tmp_path / place, **chosen)
            run_raw(settings, month)
            flats.append(run_flat(settings, month).flat)
    assert flats[0].sha256 == flats[1].sha256
    log = (cluster.folder / "scheduler.log").read_text()
    assert "Receive client connection" in log


# ---- errors of the files


def error_of(raw: RawMonth, home: Path, scheduler: str | None, inventory: Inventory | None = None) -> Era5Error:
    with pytest.raises(Era5Error) as raised:
        flattened(raw, home, scheduler, inventory=inventory)
    assert left_behind(home) == []
    assert not list((home / "flat").glob("*"))
    return raised.value


def test_bad_files_are_refused_as_here(cluster: DaskCluster, tmp_path: Path) -> None:
    hours = hours_from("2023-07-01T00", 24)
    paths = write(tmp_path, weather(hours), stem="a") + write(tmp_path, weather(hours, seed=2), stem="b")
    damaged = month_of_weather(tmp_path / "raw", replace(CURRENT, chunks=(30, 2, 3)))
    content = bytearray(damaged.files[0].path.read_bytes())
    content[len(content) // 2 : len(content) // 2 + 2000] = bytes(2000)
    damaged.files[0].path.write_bytes(content)
    for raw, kind in ((raw_month(paths, "2023-07"), InputError), (damaged, BadFileError)):
        here, there = error_of(raw, tmp_path / "here", None), error_of(raw, tmp_path / "there", cluster.address)
        assert type(here) is type(there) is kind
        assert there.remedy == here.remedy
        if isinstance(here, BadFileError) and isinstance(there, BadFileError):
            assert there.path == here.path == str(damaged.files[0].path)
        else:
            assert str(here) == str(there)
            assert_says(there.message, "a.nc", "b.nc")


# ---- memory


def test_a_bounded_number_of_tiles_is_under_way(cluster: DaskCluster, tmp_path: Path) -> None:
    raw = month_of_weather(tmp_path / "raw", replace(CURRENT, chunks=(10, 2, 3)), hours=100)
    tasks: list[int] = []
    with Client(cluster.address, set_as_default=False) as observer:  # type: ignore[no-untyped-call]

        def count(*_: object, **__: object) -> None:
            tasks.append(observer.run_on_scheduler(lambda dask_scheduler: len(dask_scheduler.tasks)))

        with listening(count):
            flattened(raw, tmp_path / "there", cluster.address)
    assert len(tasks) > 20
    # Two for each of two workers, and two that are received or written.
    assert max(tasks) <= 6


# ---- workers and schedulers that are lost


def during(action: Callable[[], object]) -> Progress:
    """A listener that acts once, when the first rows are written."""
    begun = threading.Event()

    def listener(*_: object, **__: object) -> None:
        if not begun.is_set():
            begun.set()
            action()

    return listener


def test_a_month_fails_when_all_workers_are_gone_and_waits_for_one_that_comes_late(
    cluster: DaskCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    raw = month_of_weather(tmp_path / "raw", hours=100)

    def kill_all() -> None:
        for worker in cluster.living:
            kill(worker)

    with monkeypatch.context() as patch, listening(during(kill_all)):
        patch.setattr(cluster_module, "NO_WORKERS_SECONDS", 1.0)
        error = error_of(raw, tmp_path / "there", cluster.address)
    assert isinstance(error, TransientError)
    assert_says(error.message, "2023-07", cluster.address, "no worker for 1 s")
    assert f"dask worker {cluster.address}" in error.remedy

    late = threading.Timer(1.0, cluster.start_worker)
    late.start()
    assert flattened(raw, tmp_path / "there", cluster.address) == flattened(raw, tmp_path / "here", None)
    late.join()


def test_a_tile_that_kills_every_worker_is_not_tried_for_ever(tmp_path: Path) -> None:
    raw = month_of_weather(tmp_path / "raw")
    deadly = "import os\nfrom era5_pipeline.flat import cluster\ncluster.fill = lambda *_: os._exit(9)\n"
    with dask_cluster(1, preload=deadly, DASK_DISTRIBUTED__SCHEDULER__ALLOWED_FAILURES="0") as cluster:
        error = error_of(raw, tmp_path / "there", cluster.address)
    assert isinstance(error, UsageError)
    assert error.message.startswith("2023-07: several Dask workers died")
    assert "--memory-limit" in error.remedy


def test_a_month_is_complete_although_a_worker_was_killed_in_the_middle(cluster: DaskCluster, tmp_path: Path) -> None:
    raw = month_of_weather(tmp_path / "raw", hours=100)
    here = flattened(raw, tmp_path / "here", None)
    killed, other = cluster.living
    with listening(during(lambda: kill(killed))):
        assert flattened(raw, tmp_path / "there", cluster.address) == here
    assert killed.poll() is not None
    assert other.poll() is None


# After a test that leaves one worker, and before one that needs one.
def test_a_worker_of_another_version_is_refused_when_it_joins_and_when_it_is_there(
    running: DaskCluster, tmp_path: Path
) -> None:
    raw = month_of_weather(tmp_path / "raw", ZIPPED, hours=100)
    running.start_missing(workers=1)
    own = running.living
    other: list[Popen[bytes]] = []

    def exchange(*_: object, **__: object) -> None:
        if not other:
            for worker in own:
                kill(worker)
            other.append(running.start_worker(other_version_of="era5_pipeline"))

    try:
        with pytest.raises(UsageError, match=r"has 1\.2\.3 of era5_pipeline") as raised, listening(exchange):
            flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format="parquet", dask_scheduler=running.address)
        assert "one environment or one image" in raised.value.remedy
        assert not list((tmp_path / "flat").iterdir())

        with pytest.raises(UsageError) as raised, connected(running.address):
            pass
        said = ("the Dask worker tcp://127.0.0.1:", "has 1.2.3 of era5_pipeline", __version__)
        assert_says(raised.value.message, *said)
    finally:
        for worker in other:
            kill(worker)


# The last one: it leaves neither scheduler nor workers.
def test_a_month_fails_when_the_scheduler_is_killed(running: DaskCluster, tmp_path: Path) -> None:
    running.start_missing(workers=1)
    raw = month_of_weather(tmp_path / "raw", hours=100)
    with listening(during(lambda: kill(running.scheduler))):
        error = error_of(raw, tmp_path / "there", running.address)
    assert isinstance(error, TransientError)
    assert_says(error.message, running.address, "lost")
    assert "run the month again" in error.remedy


def test_no_month_is_closed_while_another_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The netCDF library is not thread-safe: a good file was damaged, if another was closed while it was opened."""
    monkeypatch.setattr(cluster_module, "_IDLE_SECONDS", 0.05)
    months = cluster_module._OpenMonths()
    raws = [
        raw_month([*write(tmp_path / month, weather(hours_from(f"{month}-01T00", 24)))], month)
        for month in ("2023-07", "2023-08")
    ]
    with months.opened(raws[0], tmp_path):
        pass
    with months.opened(raws[1], tmp_path):
        time.sleep(0.5)
        assert set(months._kept) == set(raws)
    wait_until(lambda: not months._kept)
    months.close()
