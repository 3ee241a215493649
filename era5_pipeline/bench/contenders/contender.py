"""The base class of alternatives to the warehouse, the generated year that they store, and emptying the page cache."""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, ClassVar

from era5_pipeline.bench.generated_months import area_of
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.months import Month
from era5_pipeline.sources.sample.sample_source import SampleSource
from era5_pipeline.sources.source import Request

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.sources.source import RawMonth

COLUMN = "temperature_2m"
# In files of ERA5, in kelvin.
SHORT_NAME, KELVIN = "t2m", 273.15
YEAR = 2023
MEAN_MONTH = Month(YEAR, 7)
_HOURS = 744


@dataclass(frozen=True)
class GeneratedYear:
    """The twelve months of a year, of about `rows` rows each, as netCDF and as Parquet; made when first asked for."""

    folder: Path
    rows: int

    @property
    def months(self) -> tuple[Month, ...]:
        """Its months."""
        return tuple(Month(YEAR, number) for number in range(1, 13))

    @cached_property
    def raw(self) -> list[RawMonth]:
        """The months as the files that the Climate Data Store would send."""
        source = SampleSource(self.folder / "raw", Request(None, area_of(self.rows / _HOURS)))
        return [source.fetch(month) for month in self.months]

    @cached_property
    def flat(self) -> list[FlatMonth]:
        """The months as flat files; for contenders that begin with these, flattening counts as loading."""
        return self.flatten(self.folder / "flat")

    def flatten(self, folder: Path) -> list[FlatMonth]:
        """Flatten the months into a folder."""
        return [flatten_month(raw, folder, home=self.folder, flat_format="parquet") for raw in self.raw]

    @cached_property
    def place(self) -> tuple[int, float, float]:
        """The place that is asked for: its number, latitude and longitude."""
        import pyarrow.parquet as pq  # noqa: PLC0415  # counting the cells does without it

        rows = pq.read_table(self.flat[0].path, columns=["location_id", "latitude", "longitude"])
        middle = rows.slice(rows.num_rows // 2, 1).to_pylist()[0]
        return middle["location_id"], middle["latitude"], middle["longitude"]


class Contender(ABC):
    """A way to keep the year and to ask it; `libraries` are modules that it needs and the package does not."""

    name: ClassVar[str]
    libraries: ClassVar[tuple[str, ...]] = ()

    def why_missing(self) -> str | None:
        """Why it cannot be used here; None if it can."""
        lacking = [name for name in self.libraries if find_spec(name) is None]
        return f"the library {lacking[0]} is not installed" if lacking else None

    @abstractmethod
    def load(self, year: GeneratedYear, folder: Path) -> int:
        """Take the year from its netCDF files; returns the bytes that it takes on disk."""

    @abstractmethod
    def open(self) -> None:
        """Open it, as a program does when it starts."""

    @abstractmethod
    def place_year(self, place: tuple[int, float, float]) -> list[float]:
        """The year's temperatures of a place, hour by hour, in degrees Celsius."""

    @abstractmethod
    def month_mean(self) -> float:
        """The mean temperature of all places and hours of July, in degrees Celsius."""

    @abstractmethod
    def files(self) -> Iterable[Path]:
        """The files that it reads, for emptying the page cache of them."""

    @abstractmethod
    def close(self) -> None:
        """Close it, if it was opened."""


class FolderContender(Contender):
    """A contender that keeps the year in a folder of its own, and reads it through something that is opened."""

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._opened: Any = None

    @property
    def _at(self) -> Path:
        assert self._folder is not None  # noqa: S101  # loaded before
        return self._folder

    def files(self) -> Iterable[Path]:
        """All files of its folder."""
        return [path for path in self._at.rglob("*") if path.is_file()]

    def close(self) -> None:
        """Close what was opened."""
        if self._opened is not None:
            self._opened.close()
            self._opened = None


def folder_bytes(folder: Path) -> int:
    """The bytes of all files in a folder."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def forget_cached(files: Iterable[Path]) -> None:
    """Ask the kernel to drop these files from its page cache; it may keep some."""
    os.sync()
    for file in files:
        with suppress(OSError):
            descriptor = os.open(file, os.O_RDONLY)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def fresh_folder(folder: Path) -> Path:
    """The folder, empty."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    return folder
