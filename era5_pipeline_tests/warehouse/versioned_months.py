"""Flat months of any version of ERA5 (preliminary, final or mixed) and source, with equal or other values."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

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
        self._made = 0

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
        """Make a month of 2 x 3 points.

        `version` is that of all hours, or one per hour by short name of the variable; `change` is added to one value,
        by short name.
        """
        home = self._folder / str(self._made)
        self._made += 1
        count = hours or Month.parse(month).hours
        paths = []
        for name in names:
            of = era5_files.weather(
                era5_files.hours_from(f"{month}-01T00", count) + first_hour,
                [north, north - 0.25],
                [20.0, 20.25, 20.5],
                [name],
                missing=missing,
                expver=tuple(version[name]) if not isinstance(version, str) else (version,) * count,
            )
            of.fields[name][count // 2, 1, 1] += (change or {}).get(name, 0.0)
            paths += era5_files.write(home, of, stem=name)
            with netCDF4.Dataset(paths[-1], "a") as dataset:
                # As the services do: the same data are a different file each time.
                dataset.setncattr("history", f"asked for the {self._made}th time")
        with era5_files.without_pictures():
            flat = era5_files.flatten(paths, month, home)
        return replace(flat, raw=replace(flat.raw, source=source, area=area))
