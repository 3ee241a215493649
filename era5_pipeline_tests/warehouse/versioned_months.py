"""Flat months of any version of ERA5 (preliminary, final or mixed) and source, with equal or other values."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Self

import netCDF4

from era5_pipeline.model.months import Month
from era5_pipeline_tests import era5_files

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth

FINAL, PRELIMINARY = "0001", "0005"


class VersionedMonths:
    """Make flat months, each from its own files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._made: dict[tuple[object, ...], FlatMonth] = {}
        self._asked: Counter[tuple[object, ...]] = Counter()

    def again(self) -> Self:
        """Give what was made before to whoever asks from here on, such as the next test."""
        self._asked.clear()
        return self

    def __call__(
        self,
        version: str | Mapping[str, Sequence[str]] = FINAL,
        *,
        month: str = "2024-12",
        names: tuple[str, ...] = ("t2m", "tp"),
        change: Mapping[str, float] | None = None,
        source: str = "cds",
        hours: int | None = None,
        first_hour: int = 0,
        north: float = 10.5,
        missing: float = 0.0,
        area: str | None = None,
    ) -> FlatMonth:
        """Make a month of 2 x 3 points: another one each time, of other files, although all is the same.

        `version` is that of all hours, or one per hour by short name of the variable; `change` is added to one value,
        by short name.
        """
        if isinstance(version, str):
            versions = dict.fromkeys(names, (version,) * (hours or Month.parse(month).hours))
        else:
            versions = {name: tuple(version[name]) for name in names}
        changes = tuple((change or {}).items())
        asked = (*versions.items(), month, changes, source, hours, first_hour, north, missing, area)
        self._asked[asked] += 1
        key = (*asked, self._asked[asked])
        if key not in self._made:
            home = self._folder / str(len(self._made))
            self._made[key] = self._make(
                home, versions, month, dict(changes), first_hour=first_hour, north=north, missing=missing
            )
        flat = self._made[key]
        return replace(flat, raw=replace(flat.raw, source=source, area=area))

    def _make(
        self,
        home: Path,
        versions: Mapping[str, tuple[str, ...]],
        month: str,
        change: Mapping[str, float],
        *,
        first_hour: int,
        north: float,
        missing: float,
    ) -> FlatMonth:
        paths = []
        for name, version in versions.items():
            count = len(version)
            of = era5_files.weather(
                era5_files.hours_from(f"{month}-01T00", count) + first_hour,
                [north, north - 0.25],
                [20.0, 20.25, 20.5],
                [name],
                missing=missing,
                expver=version,
            )
            of.fields[name][count // 2, 1, 1] += change.get(name, 0.0)
            paths += era5_files.write(home, of, stem=name)
            with netCDF4.Dataset(paths[-1], "a") as dataset:
                # As the services do: the same data are a different file each time.
                dataset.setncattr("history", f"asked for in {home.name}")
        with era5_files.without_pictures():
            return era5_files.flatten(paths, month, home)
