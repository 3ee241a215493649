"""The contents of an export: its box of the grid, hours and variables, and what the ledger says of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.data_version import FINAL, PRELIMINARY
from era5_pipeline.model.hours import hours_of_month
from era5_pipeline.model.months import Month

if TYPE_CHECKING:
    from datetime import datetime

    import numpy.typing as npt

    from era5_pipeline.model.data_version import Version
    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.places.place import AskedPlace
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.api.boxes.grid_window import GridWindow

    # What tells one state of the months asked for from another.
    State = dict[tuple[Month, int], tuple[datetime, int]]


@dataclass(frozen=True)
class PartVersion:
    """Version of a part of a month, and the sources and preliminary hours of its columns that are exported."""

    month: Month
    sources: tuple[str, ...]
    version: Version
    preliminary: frozenset[int]


@dataclass(frozen=True, eq=False)
class ExportContents:
    """The contents of an export.

    `hours` are since 1970. `held` are all locations that the table has. `missing_months` and `incomplete_months` are
    those of `BoxContents`, and `lines` say them in words; of a place, the hours say it better. Without a ledger, `held`
    and `state` are None.
    """

    place: AskedPlace | None
    window: GridWindow
    variables: tuple[Variable, ...]
    hours: range
    held: LocationSet | None
    missing_months: dict[str, tuple[Month, ...]]
    incomplete_months: tuple[Month, ...]
    lines: tuple[str, ...]
    parts: tuple[PartVersion, ...]
    credit: str
    state: State | None

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of the table, in its order."""
        return tuple(variable.column for variable in self.variables)

    @property
    def locations(self) -> LocationSet:
        """The grid points of the window."""
        return self.window.locations

    @property
    def first_month(self) -> Month:
        """The month of the first hour."""
        return first_and_last_month(self.hours)[0]

    @property
    def last_month(self) -> Month:
        """The month of the last hour."""
        return first_and_last_month(self.hours)[1]

    def expver(self) -> npt.NDArray[np.str_]:
        """The version (hours,) of each hour as files of ERA5 name it, `0001` or `0005`; empty: not known, or no data.

        An hour is preliminary if it is so at any place, of any column.
        """
        versions = np.zeros(len(self.hours), dtype="U4")
        unknown = {part.month for part in self.parts if part.version == "unknown"}
        for part in self.parts:
            within = hours_of_month(part.month)
            first, end = (min(max(hour - self.hours.start, 0), len(self.hours)) for hour in (within.start, within.stop))
            if part.month not in unknown:
                versions[first:end] = np.where(versions[first:end] == PRELIMINARY, PRELIMINARY, FINAL)
            at = np.array([hour - self.hours.start for hour in part.preliminary if hour in self.hours], dtype=np.intp)
            versions[at] = PRELIMINARY
        return versions


def first_and_last_month(hours: range) -> tuple[Month, Month]:
    """The months of the first and last of these hours, which are counted since 1970."""
    first, last = (np.datetime64(hour, "h").astype("datetime64[M]").item() for hour in (hours[0], hours[-1]))
    return Month(first.year, first.month), Month(last.year, last.month)
