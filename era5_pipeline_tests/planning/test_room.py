"""Room for a month on this machine's disk: a small file system of its own, mounted for the test."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.errors import LocalDiskError
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.planning.room import require_room
from era5_pipeline.stages import run_flat, run_raw
from era5_pipeline_tests import era5_files

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

JULY = Month(2023, 7)
# 21 x 21 points: 2.4 MB of raw files, as much again unpacked, 3 MB of Parquet.
AREA = "-5/106/-10/111"
_MEGABYTES = 4


@pytest.fixture
def small_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A file system of a few megabytes."""
    for name in [name for name in os.environ if name.startswith("ERA5_")]:
        monkeypatch.delenv(name)
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={_MEGABYTES}m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, check=False, capture_output=True).returncode != 0:
        pytest.skip("only root may mount a small file system")
    yield folder
    subprocess.run(["umount", "--lazy", str(folder)], check=True)


def settings_on(folder: Path, **values: Any) -> Settings:
    # Another server: only the files are on the small disk.
    chosen = {"source": "sample", "area": AREA, "database_url": "postgresql://nowhere.invalid/x"} | values
    return Settings(home=folder / "home", **chosen)


def files_below(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file() and path.suffix != ".in-use"]


def test_a_month_that_the_disk_cannot_hold_is_not_begun(small_disk: Path) -> None:
    says = r"2023-07 is not begun: it takes about [6-9]\.\d MB \(raw files .* MB, unpacked .* MB, flat file .* MB\)"
    with pytest.raises(LocalDiskError, match=rf"{says}, and 4\.\d MB are free in {small_disk}") as caught:
        run_raw(settings_on(small_disk), JULY)
    assert "ERA5_KEEP" in caught.value.remedy
    assert files_below(small_disk) == []


@pytest.mark.parametrize("wishes", [{"area": "-5/106/-6/107"}, {"variables": "t2m", "area": "-5/106/-7/108"}])
def test_a_smaller_month_goes_through_on_the_same_disk(small_disk: Path, wishes: dict[str, str]) -> None:
    run_raw(settings_on(small_disk, **wishes), JULY)
    assert run_flat(settings_on(small_disk, **wishes), JULY).flat.hours == 744


def test_what_is_there_already_needs_no_room(small_disk: Path) -> None:
    wishes = {"variables": "t2m", "area": "-5/106/-7/108"}
    run_raw(settings_on(small_disk, **wishes), JULY)
    run_flat(settings_on(small_disk, **wishes), JULY)
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    (small_disk / "filling").write_bytes(bytes(free - 100_000))
    assert run_raw(settings_on(small_disk, **wishes), JULY).hours == 744
    assert run_flat(settings_on(small_disk, **wishes), JULY).reused


def test_flattening_is_not_begun_without_room_for_the_flat_file(small_disk: Path, tmp_path: Path) -> None:
    """The user's own files: how many rows they have is known once they were read."""
    weather = era5_files.weather(era5_files.hours_from("2023-07-01T00", 744), names=("t2m", "tp"))
    era5_files.write(tmp_path / "files", weather)
    chosen = settings_on(small_disk, source="files", files_dir=str(tmp_path / "files"), area=None, format="csv")
    run_raw(chosen, JULY)
    free = os.statvfs(small_disk).f_bavail * os.statvfs(small_disk).f_frsize
    (small_disk / "filling").write_bytes(bytes(free - 300_000))
    with pytest.raises(LocalDiskError, match=r"2023-07 is not begun: it takes about .*\(flat file .*\)"):
        run_flat(chosen, JULY)
    assert not (small_disk / "home" / "flat").exists()


def test_the_table_counts_where_the_embedded_server_is_on_the_same_disk(small_disk: Path) -> None:
    wishes = {"variables": "t2m", "area": "-5/106/-8/109"}
    require_room(settings_on(small_disk, **wishes), JULY)
    with pytest.raises(LocalDiskError, match=r"rows in the table \d+\.\d MB"):
        require_room(settings_on(small_disk, database_url=None, **wishes), JULY)
