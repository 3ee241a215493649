"""The real files of the repository: as the catalogue says, small enough, credited, and found where they are needed."""

from __future__ import annotations

import hashlib
import re

import pytest

from era5_pipeline.cli.demo import FOLDERS
from era5_pipeline.datafiles import data_folder
from era5_pipeline.errors import Era5Error
from era5_pipeline_tests.samples import DATA

MOST_BYTES = 6_000_000
_ROW = re.compile(r"^\| `([^`]+)` \|.*\| (\d+) \| `([0-9a-f]{64})` \|$", re.MULTILINE)


def test_every_file_is_in_the_catalogue_as_it_is() -> None:
    catalogue = {
        name: (int(size), digest) for name, size, digest in _ROW.findall((DATA / "README.md").read_text("utf-8"))
    }
    files = {path: path.read_bytes() for path in DATA.rglob("*") if path.is_file() and path != DATA / "README.md"}
    assert catalogue == {
        path.relative_to(DATA).as_posix(): (len(content), hashlib.sha256(content).hexdigest())
        for path, content in files.items()
    }


def test_they_are_small() -> None:
    assert sum(path.stat().st_size for path in DATA.rglob("*") if path.is_file()) <= MOST_BYTES


@pytest.mark.parametrize(
    "words",
    [
        "creativecommons.org/licenses/by/4.0",
        "Contains modified Copernicus Climate Change Service information",
        "Neither the European Commission nor ECMWF is responsible",
        "10.24381/cds.adbb2d47",
        "10.24381/1cf1ad76",
    ],
)
def test_licence_and_attribution_are_beside_them(words: str) -> None:
    assert words in " ".join((DATA / "README.md").read_text("utf-8").split())


def test_the_folders_of_the_demo_are_there_and_in_the_wheel() -> None:
    packed = (DATA.parent / "pyproject.toml").read_text("utf-8")
    for name in FOLDERS:
        assert list(data_folder(name).iterdir())
        assert f'"data/{name}" = "era5_pipeline/data/{name}"' in packed


def test_a_folder_that_an_installation_lacks_is_named() -> None:
    with pytest.raises(Era5Error, match="data/era5/atlantis is missing"):
        data_folder("era5/atlantis")
