"""The real files of the repository: as the catalogue says, small enough, credited, and found where they are needed."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

import netCDF4
import numpy as np
import pytest

from era5_pipeline.cli.demo import FOLDERS
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.runtime.project_files import data_folder
from era5_pipeline_tests.cutting import cut
from era5_pipeline_tests.samples import DATA

if TYPE_CHECKING:
    from pathlib import Path

MOST_BYTES = 6_000_000
# Licence and attribution.
WORDS = (
    *("creativecommons.org/licenses/by/4.0", "Contains modified Copernicus Climate Change Service information"),
    *("Neither the European Commission nor ECMWF is responsible", "10.24381/cds.adbb2d47", "10.24381/1cf1ad76"),
)
_ROW = re.compile(r"^\| `([^`]+)` \|.*\| (\d+) \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def test_the_data_files_are_small_credited_and_listed_with_size_and_digest() -> None:
    catalogue = {
        name: (int(size), digest) for name, size, digest in _ROW.findall((DATA / "README.md").read_text("utf-8"))
    }
    files = {path: path.read_bytes() for path in DATA.rglob("*") if path.is_file() and path != DATA / "README.md"}
    assert catalogue == {
        path.relative_to(DATA).as_posix(): (len(content), hashlib.sha256(content).hexdigest())
        for path, content in files.items()
    }
    assert sum(map(len, files.values())) <= MOST_BYTES
    readme = " ".join((DATA / "README.md").read_text("utf-8").split())
    assert [words for words in WORDS if words not in readme] == []


def test_the_folders_of_the_demo_are_there_and_in_the_wheel() -> None:
    packed = (DATA.parent / "pyproject.toml").read_text("utf-8")
    for name in FOLDERS:
        assert list(data_folder(name).iterdir())
        assert f'"data/{name}" = "era5_pipeline/data/{name}"' in packed


def test_a_missing_data_folder_is_named() -> None:
    with pytest.raises(Era5Error, match="data/era5/atlantis is missing"):
        data_folder("era5/atlantis")


def test_a_cut_piece_keeps_its_layout(tmp_path: Path) -> None:
    source = DATA / "era5" / "telangana-2023-09" / "data_stream-oper_stepType-accum.nc"
    cut(source, tmp_path / "piece.nc", {"tp"}, {"valid_time": slice(24, 48), "latitude": slice(0, 5)})
    with netCDF4.Dataset(source) as whole, netCDF4.Dataset(tmp_path / "piece.nc") as piece:
        assert piece["tp"].shape == (24, 5, 21)
        np.testing.assert_array_equal(piece["tp"][:], whole["tp"][24:48, :5])
        assert piece["tp"].chunking() == [24, 5, 21]
        assert set(piece.variables) == set(whole.variables)
        for name, variable in piece.variables.items():
            assert variable.__dict__ == pytest.approx(whole[name].__dict__, nan_ok=True)
            assert variable.dtype == whole[name].dtype
        assert piece["tp"].filters() == whole["tp"].filters()
        np.testing.assert_array_equal(piece["expver"][:], whole["expver"][24:48])
