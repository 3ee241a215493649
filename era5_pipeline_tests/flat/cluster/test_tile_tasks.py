"""What a worker of a Dask cluster is asked, and what it answers where it cannot."""

from __future__ import annotations

import pickle
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.flat import tiles
from era5_pipeline.flat.cluster.dask_client import own_versions
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.flat.tiles import Tile
from era5_pipeline.model.errors import UsageError
from era5_pipeline.runtime.progress import listening
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.dask_clusters import dask_cluster
from era5_pipeline_tests.era5_files import Layout, hours_from, left_behind, raw_month, weather, write

if TYPE_CHECKING:
    from era5_pipeline.sources.source import RawMonth

_SECONDS = 120.0
NAMES = ("t2m", "u10")


def zipped_month(folder: Path) -> RawMonth:
    north, east = [20 - 0.25 * n for n in range(12)], [50 + 0.25 * n for n in range(12)]
    of = weather(hours_from("2023-07-01T00", 100), north, east, NAMES)
    return raw_month(write(folder, of, Layout("in one ZIP", zipped=True, suffix=".zip")), "2023-07")


def test_a_task_is_small(tmp_path: Path) -> None:
    paths = write(tmp_path, weather(hours_from("2023-07-01T00", 1)))
    (file,) = raw_month(paths, "2023-07").files
    days = [replace(file, path=Path(f"/a/folder/with/a/long/name/raw/arco/2023-07-{day:02d}.nc")) for day in range(31)]
    raw = replace(raw_month(paths, "2023-07"), files=tuple(days))
    tile = Tile(np.arange(721, dtype=np.int32), np.arange(1440, dtype=np.int32))
    assert len(pickle.dumps((raw, tile, own_versions()))) < 20_000


def test_a_worker_that_does_not_see_the_raw_files_says_which_and_what_to_do(tmp_path: Path) -> None:
    raw = zipped_month(tmp_path / "raw")
    elsewhere = tmp_path / "elsewhere.zip"
    with dask_cluster(1) as cluster:
        inventory = take_inventory(raw, tmp_path)
        path = raw.files[0].path
        path.rename(elsewhere)  # this process has the inventory already, as after `raw`
        with pytest.raises(UsageError) as raised:
            flatten_month(
                raw,
                tmp_path / "flat",
                home=tmp_path,
                flat_format="parquet",
                inventory=inventory,
                dask_scheduler=cluster.address,
            )
    assert raised.value.message.startswith("2023-07: the Dask worker tcp://127.0.0.1:")
    assert f"does not see the raw file {path} (No such file or directory)" in raised.value.message
    assert "same path" in raised.value.remedy
    assert left_behind(tmp_path) == []
    assert not list((tmp_path / "flat").iterdir())


def test_a_worker_of_another_version_that_joins_later_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "TARGET_POINT_HOURS", 1000)
    monkeypatch.setattr(tiles, "LARGEST_POINT_HOURS", 1000)
    raw = zipped_month(tmp_path / "raw")
    with dask_cluster(1) as cluster:

        def exchange(*_: object, **__: object) -> None:
            if len(cluster.workers) == 1:
                cluster.kill_worker(0)
                cluster.start_worker(other_version_of="era5_pipeline")

        with pytest.raises(UsageError, match=r"has 1\.2\.3 of era5_pipeline") as raised, listening(exchange):
            flatten_month(raw, tmp_path / "flat", home=tmp_path, flat_format="parquet", dask_scheduler=cluster.address)
    assert "one environment or one image" in raised.value.remedy
    assert not list((tmp_path / "flat").iterdir())


def test_a_worker_unpacks_a_month_once_and_removes_it_when_no_more_tiles_come(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiles, "TARGET_POINT_HOURS", 1000)
    monkeypatch.setattr(tiles, "LARGEST_POINT_HOURS", 1000)
    raw = zipped_month(tmp_path / "raw")
    preload = "from era5_pipeline.flat.cluster import tile_tasks\ntile_tasks._IDLE_SECONDS = 15.0\n"
    with dask_cluster(1, preload=preload) as cluster:
        folders: set[Path] = set()

        def look(*_: object, **__: object) -> None:
            folders.update(cluster.local_directory.rglob("unpacked-*"))

        with listening(look):
            flat = flatten_month(
                raw, tmp_path / "flat", home=tmp_path, flat_format="parquet", dask_scheduler=cluster.address
            )
        assert flat.rows == 12 * 12 * 100
        assert len(folders) == 1
        deadline = time.monotonic() + _SECONDS
        while list(cluster.local_directory.rglob("unpacked-*")):
            assert time.monotonic() < deadline
            time.sleep(0.2)


def test_without_a_cluster_nothing_of_it_is_imported(tmp_path: Path) -> None:
    raw = zipped_month(tmp_path / "raw")
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
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=_SECONDS,
    )
    assert done.stdout == "['dask']\n"
