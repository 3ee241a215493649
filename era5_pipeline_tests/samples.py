"""Pytest plugin with real ERA5 files: those below `data/`, in some tests also those of the folder ERA5_SAMPLES."""

from __future__ import annotations

import os
import zipfile
from pathlib import Path

import pytest

DATA = Path(__file__).parents[1] / "data"
_MORE = os.environ.get("ERA5_SAMPLES")


@pytest.fixture(scope="session")
def era5_samples() -> Path:
    """The folder of the repository's area files."""
    return DATA / "era5"


@pytest.fixture(scope="session")
def point_series() -> Path:
    """The folder of the repository's point series."""
    return DATA / "timeseries"


def every_real_file() -> list[Path]:
    """The files of the repository, and those of ERA5_SAMPLES."""
    folders = [DATA / "era5", DATA / "timeseries"]
    if _MORE:
        more = Path(_MORE).expanduser().absolute()
        if not more.is_dir():
            raise FileNotFoundError(f"ERA5_SAMPLES: there is no folder {more}")
        folders.append(more)
    endings = {".nc", ".zip", ".csv"}
    return [path for folder in folders for path in sorted(folder.rglob("*")) if path.suffix in endings]


def more_real_files(name: str) -> list[Path]:
    """The files of this name in the folder of ERA5_SAMPLES; none if it is not set."""
    return sorted(Path(_MORE).expanduser().absolute().rglob(name)) if _MORE else []


def unpacked(path: Path, folder: Path) -> list[Path]:
    """The file itself, or the members of the ZIP that it is, in `folder`."""
    if not zipfile.is_zipfile(path):
        return [path]
    with zipfile.ZipFile(path) as archive:
        return [Path(archive.extract(name, folder)) for name in archive.namelist()]
