"""A field to draw with what goes with it: what is missing, the time that it covers, and words for the terminal."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.grid import latitude_indices, location_ids, longitude_indices
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.query.snapshots import on_rectangle

if TYPE_CHECKING:
    from datetime import datetime

    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.maps.field_map import FieldMap, FloatArray
    from era5_pipeline.query.maps.map_question import MapStatistic

_WORDS: dict[MapStatistic, str] = {"mean": "mean", "min": "lowest hour", "max": "highest hour", "sum": "total"}


@dataclass(frozen=True, eq=False)
class MapReading:
    """A field; the data are of `start <= time < end` (aware).

    `absent` say in words which locations are grey, and why; `remarks` what else is to be known of the values drawn.
    `summary` says what was read, in the words of a terminal: `mean of 2023-07-15 (UTC)`; `table_unit` is the unit of
    the values there. `left_out` says which locations far away are not on the map.
    """

    field: FieldMap
    absent: tuple[str, ...]
    remarks: tuple[str, ...]
    start: datetime
    end: datetime
    summary: str
    table_unit: str
    left_out: str | None = None

    @property
    def locations(self) -> LocationSet:
        """The locations that have a value on the map."""
        rows, columns = np.nonzero(np.isfinite(self.field.values))
        degrees_east = (self.field.longitudes + 180.0) % 360.0 - 180.0
        of_rows, of_columns = latitude_indices(self.field.latitudes), longitude_indices(degrees_east)
        return LocationSet.of_ids(location_ids(of_rows[rows], of_columns[columns]))

    @property
    def lines(self) -> list[str]:
        """Lines that name what is missing."""
        return [*self.absent, *self.remarks]

    @property
    def notes(self) -> list[str]:
        """The same, as a picture says it."""
        return [
            *(f"Grey: no data; {line}" for line in self.absent),
            *(f"{line[0].upper()}{line[1:]}" for line in (*self.remarks, *([self.left_out] if self.left_out else []))),
        ]

    @property
    def counted(self) -> str:
        """The number of locations with a value, and the least and greatest, with their unit."""
        values = self.field.values[np.isfinite(self.field.values)]
        low, high = float(values.min()), float(values.max())
        if self.field.is_difference:
            # Differences are small beside the values that the variable's rounding is meant for.
            digits = 2 if max(-low, high) >= 0.1 else 4
            texts = [f"{round(value, digits) + 0.0:+.{digits}f}" for value in (low, high)]
        else:
            texts = [self.field.variable.rounded(value) for value in (low, high)]
        return f"{values.size:,} locations, {texts[0]} to {texts[1]} {self.table_unit}"


@dataclass(frozen=True, eq=False)
class PlacedCells:
    """Values on a rectangle of the grid, as a `FieldMap` has them."""

    latitudes: FloatArray
    longitudes: FloatArray
    values: FloatArray

    @classmethod
    def of(cls, location_ids: npt.NDArray[np.int32], values: npt.NDArray[np.float64]) -> PlacedCells:
        """Values (k,) at locations (k,), k > 0."""
        return cls(*on_rectangle(location_ids, values.astype(np.float32)))


def statistic_words(statistic: MapStatistic) -> str:
    """A statistic as a picture names it."""
    return _WORDS[statistic]


def title_words(variable: Variable) -> str:
    """The name of a variable in pictures."""
    # The folder of plots imports matplotlib, which only a map that is drawn costs.
    from era5_pipeline.query.plots.variable_styles import variable_title  # noqa: PLC0415

    return variable_title(variable)


def unit_words(variable: Variable, statistic: MapStatistic, period: str) -> str:
    """The unit of a statistic for a colour bar: `mm in the day`; of a total's mean or extreme `mm in an hour`."""
    from era5_pipeline.query.plots.variable_styles import unit_text  # noqa: PLC0415  # as above

    unit = unit_text(variable.unit)
    if statistic == "sum":
        return f"{unit} in the {period}"
    return f"{unit} in an hour" if variable.step_type == "accum" else unit
