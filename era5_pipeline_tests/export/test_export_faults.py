"""Faults in the middle of an export: a full disk, a kill, Ctrl-C, a server that restarts; nothing half remains."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pandas as pd
import pytest
from zarr.storage import LocalStore

from era5_pipeline.export.formats import export_format
from era5_pipeline.export.run import export
from era5_pipeline.model.errors import LocalDiskError, TransientError
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.runtime import progress
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import ERA5, environment
from era5_pipeline_tests.era5_files import full_disk

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.own_servers import OwnServer

NAMES = ("out.csv", "out.csv.gz", "out.parquet", "out.nc", "out.zarr")
SECONDS = 240.0


@pytest.fixture(scope="module")
def loaded(shared_database_url: str, flat_months: FlatMonths) -> Warehouse:
    """446,400 rows, on the embedded server."""
    warehouse = Warehouse(shared_database_url)
    load_month(warehouse, flat_months(points=(20, 30)))
    return warehouse


def written(warehouse: Warehouse, path: Path) -> None:
    export(warehouse, path, export_format(path, None), None, piece_bytes=500_000)


def make_old(path: Path) -> None:
    """Something that was exported before."""
    if path.suffix == ".zarr":
        path.mkdir()
        (path / ".zgroup").write_text("{}")
    else:
        path.write_text("precious")


def assert_old(path: Path) -> None:
    assert (path / ".zgroup").read_text() == "{}" if path.suffix == ".zarr" else path.read_text() == "precious"
    assert [one.name for one in path.parent.iterdir()] == [path.name]


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_keeps_what_was_there(loaded: Warehouse, name: str) -> None:
    with full_disk(1 << 20) as disk:
        make_old(disk / name)
        with pytest.raises(LocalDiskError, match="No space left") as caught:
            written(loaded, disk / name)
        assert "Nothing was left half-written" in caught.value.remedy
        assert "ERA5_HOME" not in caught.value.remedy
        assert_old(disk / name)


def test_nothing_is_written_after_a_disk_was_full(loaded: Warehouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though the disk takes its time for other chunks of the piece than the one that does not fit."""
    put = LocalStore.set
    asked: list[str] = []
    done: list[str] = []

    async def slow(self: LocalStore, key: str, value: Any) -> None:
        asked.append(key)
        if len(asked) % 2:
            await asyncio.sleep(0.2)
        try:
            await put(self, key, value)
        finally:
            done.append(key)

    monkeypatch.setattr(LocalStore, "set", slow)
    with full_disk(1 << 18) as disk:
        with pytest.raises(LocalDiskError, match="No space left"):
            written(loaded, disk / "out.zarr")
        begun = list(asked)
        time.sleep(0.5)
        assert sorted(done) == sorted(begun) == sorted(asked)
        assert list(disk.iterdir()) == []


@contextmanager
def limited_file_size(limit: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.mark.parametrize("name", NAMES)
def test_a_limit_of_file_sizes_is_an_error_of_the_disk(loaded: Warehouse, tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    make_old(path)
    limit = 20_000 if name.endswith("zarr") else 400_000
    with pytest.raises(LocalDiskError, match="File too large"), limited_file_size(limit):
        export(loaded, path, export_format(path, None), None)
    assert_old(path)


def test_a_limit_of_file_sizes_is_told_by_the_command(loaded: Warehouse, tmp_path: Path) -> None:
    path = tmp_path / "out.nc"
    make_old(path)
    done = subprocess.run(
        [ERA5, "export", "--out", str(path)],
        env=environment(tmp_path, ERA5_DATABASE_URL=loaded.url),
        cwd="/",
        capture_output=True,
        text=True,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000)),
    )
    assert done.returncode == LocalDiskError.exit_code, done.stderr
    assert "File too large" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr
    assert_old(path)


def test_a_folder_that_may_not_be_written_is_an_error_of_the_disk(loaded: Warehouse, tmp_path: Path) -> None:
    if os.geteuid() == 0:
        subprocess.run(["chattr", "+i", str(tmp_path)], check=True)
    else:
        tmp_path.chmod(0o500)
    try:
        with pytest.raises(LocalDiskError):
            written(loaded, tmp_path / "out.nc")
    finally:
        if os.geteuid() == 0:
            subprocess.run(["chattr", "-i", str(tmp_path)], check=True)
        else:
            tmp_path.chmod(0o700)


# The export waits in the middle, at its fourth piece of some twenty, until it may go on: however long a busy machine
# takes to interrupt it, it is not complete by then. An interrupt waits for the piece that is being read.
WAITING = """
import sys, time
from pathlib import Path
from era5_pipeline.cli import main
from era5_pipeline.export import run
folder, read, pieces = Path(sys.argv.pop()), run.read_piece, []
def waiting(*arguments):
    pieces.append(arguments)
    if len(pieces) == 4:
        (folder / "waits").touch()
        while not (folder / "goes on").exists():
            time.sleep(0.05)
    time.sleep(0.2)
    return read(*arguments)
run.read_piece = waiting
run.export.__kwdefaults__["piece_bytes"] = 500_000
sys.argv = ["era5", "export", "--out", sys.argv[1]]
main()
"""


@dataclass(frozen=True)
class Exporting:
    """The command in the middle of an export to a file; an old one is there."""

    process: subprocess.Popen[str]
    path: Path
    folder: Path

    def go_on(self) -> None:
        (self.folder / "goes on").touch()


@pytest.fixture
def exporting(
    loaded: Warehouse, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Exporting]:
    """The command in the middle of an export to the file of the test's parameter."""
    path, folder = tmp_path / request.param, tmp_path_factory.mktemp("export")
    make_old(path)
    with subprocess.Popen(
        [sys.executable, "-c", WAITING, str(path), str(folder)],
        env=environment(tmp_path, ERA5_DATABASE_URL=loaded.url, PYTHONPATH=os.pathsep.join(sys.path)),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        deadline = time.monotonic() + SECONDS
        while not (folder / "waits").exists():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        try:
            yield Exporting(process, path, folder)
        finally:
            process.kill()


# A file and a folder. The others, without a process: test_a_full_disk_keeps_what_was_there.
@pytest.mark.parametrize(
    ("exporting", "number"),
    [
        pytest.param(
            name,
            number,
            id=f"{name}-{signal.Signals(number).name}",
            marks=[] if number == signal.SIGINT and name in ("out.nc", "out.zarr") else pytest.mark.endurance,
        )
        for number in (signal.SIGINT, signal.SIGTERM)
        for name in NAMES
    ],
    indirect=["exporting"],
)
def test_an_interrupt_leaves_nothing(exporting: Exporting, number: signal.Signals) -> None:
    exporting.process.send_signal(number)
    exporting.go_on()
    out, err = exporting.process.communicate(timeout=SECONDS)
    assert (exporting.process.returncode, out, err) == (130, "", "")
    assert_old(exporting.path)


@pytest.mark.parametrize("exporting", ["out.nc", "out.zarr"], indirect=True)
def test_after_kill_9_the_next_export_removes_what_was_left(exporting: Exporting, loaded: Warehouse) -> None:
    path, folder = exporting.path, exporting.path.parent
    exporting.process.kill()
    exporting.process.wait(SECONDS)
    assert sorted(one.name.partition("-")[0] for one in folder.iterdir()) == [".unfinished", path.name]
    written(loaded, folder / "other.parquet")
    assert sorted(one.name for one in folder.iterdir()) == ["other.parquet", path.name]
    (folder / "other.parquet").unlink()
    assert_old(path)


def test_a_server_that_restarts_leaves_nothing_and_answers_again(
    own_warehouse: Warehouse, own_server: OwnServer, flat_months: FlatMonths, tmp_path: Path
) -> None:
    flat = flat_months(points=(6, 8), names=("t2m",))
    load_month(own_warehouse, flat)
    path = tmp_path / "out.parquet"
    make_old(path)
    pieces: list[int] = []

    def restart(stage: progress.Stage, done: int, total: int, unit: str) -> None:
        pieces.append(done)
        if len(pieces) == 2:
            own_server.stop("immediate")

    with progress.listening(restart), pytest.raises(TransientError, match="reading the table"):
        export(own_warehouse, path, "parquet", None, piece_bytes=60_000)
    assert_old(path)
    own_server.start()
    export(own_warehouse, path, "parquet", None, piece_bytes=60_000)
    found: Any = pd.read_parquet(path)
    assert len(found) == flat.rows
