"""The inventory that raw keeps for flat: reused only for the same month and unchanged files, never left on disk."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.flat.kept_inventory import InventoryKeeper
from era5_pipeline.model.errors import BadFileError
from era5_pipeline_tests.era5_files import CURRENT, hours_from, raw_month, weather, write

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.sources.source import RawMonth

ZIPPED = replace(CURRENT, zipped=True, one_variable_per_file=True, suffix=".zip")


@pytest.fixture
def raw(tmp_path: Path) -> RawMonth:
    """July 2023, two hours of two variables, in a ZIP."""
    return raw_month(
        write(tmp_path / "files", weather(hours_from("2023-07-01T00", 2), names=["t2m", "tp"]), ZIPPED), "2023-07"
    )


def unpacked_files(home: Path) -> list[Path]:
    return [path for path in (home / "scratch").rglob("*") if path.is_file()]


def test_the_inventory_is_kept_with_its_unpacked_files_until_they_are_closed(tmp_path: Path, raw: RawMonth) -> None:
    keeper = InventoryKeeper()
    inventory = keeper.take(raw, tmp_path)
    kept = keeper.claim()
    assert kept.of(raw) is inventory
    assert sorted(unpacked_files(tmp_path)) == sorted(piece.file.path for piece in inventory.pieces)
    kept.close()
    assert list((tmp_path / "scratch").iterdir()) == []


def test_it_is_handed_over_once(tmp_path: Path, raw: RawMonth) -> None:
    keeper = InventoryKeeper()
    keeper.take(raw, tmp_path)
    keeper.claim().close()
    assert keeper.claim().of(raw) is None


def test_nothing_is_kept_before_the_first_month(raw: RawMonth) -> None:
    assert InventoryKeeper().claim().of(raw) is None


def same_size_other_time(path: Path) -> None:
    os.utime(path, ns=(0, path.stat().st_mtime_ns + 1))


CHANGES: dict[str, Callable[[Path], object]] = {
    "rewritten": same_size_other_time,
    "grown": lambda path: path.write_bytes(path.read_bytes() + b"more"),
    "removed": lambda path: path.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_does_not_count_once_a_raw_file_has_changed(tmp_path: Path, raw: RawMonth, change: str) -> None:
    keeper = InventoryKeeper()
    keeper.take(raw, tmp_path)
    CHANGES[change](raw.files[0].path)
    assert keeper.claim().of(raw) is None


def test_it_does_not_count_for_another_request(tmp_path: Path, raw: RawMonth) -> None:
    keeper = InventoryKeeper()
    keeper.take(raw, tmp_path)
    assert keeper.claim().of(replace(raw, variables=("temperature_2m",))) is None


def test_it_does_not_count_once_an_unpacked_file_is_gone(tmp_path: Path, raw: RawMonth) -> None:
    keeper = InventoryKeeper()
    keeper.take(raw, tmp_path)
    unpacked_files(tmp_path)[0].unlink()
    assert keeper.claim().of(raw) is None


def test_the_next_month_takes_its_place(tmp_path: Path, raw: RawMonth) -> None:
    keeper = InventoryKeeper()
    keeper.take(raw, tmp_path)
    inventory = keeper.take(raw, tmp_path)
    assert len(unpacked_files(tmp_path)) == 2
    assert keeper.claim().of(raw) is inventory


def test_a_month_that_cannot_be_read_is_not_kept(tmp_path: Path, raw: RawMonth) -> None:
    keeper = InventoryKeeper()
    keeper.take(raw, tmp_path)
    raw.files[0].path.write_bytes(b"")
    with pytest.raises(BadFileError):
        keeper.take(raw, tmp_path)
    assert keeper.claim().of(raw) is None
    assert list((tmp_path / "scratch").iterdir()) == []


KEEP = """
import json, sys
from pathlib import Path
from era5_pipeline.flat.kept_inventory import InventoryKeeper
from era5_pipeline.sources.source import RawMonth
keeper = InventoryKeeper()
keeper.take(RawMonth.from_json(json.loads(sys.argv[1])), Path(sys.argv[2]))
assert any((Path(sys.argv[2]) / "scratch").iterdir())
"""


def test_the_unpacked_files_are_removed_when_the_process_exits(tmp_path: Path, raw: RawMonth) -> None:
    subprocess.run([sys.executable, "-c", KEEP, json.dumps(raw.to_json()), str(tmp_path)], check=True)
    assert list((tmp_path / "scratch").iterdir()) == []
