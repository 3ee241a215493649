"""The complete years of many locations, read year by year: what anomalies and trends are made of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.query.climate.yearly_values import MOST_MISSING_HOURS
from era5_pipeline.query.maps.cell_values import read_part, spread

if TYPE_CHECKING:
    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.climate.climate_answer import YearSpan
    from era5_pipeline.query.maps.cell_values import CellValues
    from era5_pipeline.query.maps.map_question import MapStatistic
    from era5_pipeline.query.maps.year_parts import YearPart

    IdArray = npt.NDArray[np.int32]
    FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class YearlyCells:
    """Values of `years` (k,) at `location_ids` (n,), both ascending: k rows (n,) float32, NaN for incomplete years.

    The rows are apart, since 30 years of the globe are 125 MB. `has_values`: whether there is a value of any year,
    complete or not.
    """

    years: tuple[int, ...]
    location_ids: IdArray
    rows: tuple[FloatArray, ...]
    has_values: bool

    @property
    def complete_years(self) -> list[int]:
        """The years that are complete at any location."""
        return [year for year, row in zip(self.years, self.rows, strict=True) if np.isfinite(row).any()]

    def block(self, cells: slice) -> npt.NDArray[np.float64]:
        """The values (k, m) of some of the locations."""
        return np.stack([row[cells] for row in self.rows]).astype(np.float64)


def is_complete(cells: CellValues, expected_hours: int) -> npt.NDArray[np.bool_]:
    """Where a month or year lacks no more than a day's hours, (n,): the rule of `query.climate`."""
    return np.isfinite(cells.values) & (expected_hours - cells.hours <= MOST_MISSING_HOURS)


def read_years(
    connection: psycopg.Connection[Any],
    variable: Variable,
    part: YearPart,
    years: YearSpan,
    statistic: MapStatistic,
    area: Area | None,
) -> YearlyCells:
    """The values of a part of each of these years, where it is complete; locations with none are left out.

    Raises:
        NoDataError: if the database has no summaries of the variable.
    """
    numbers = tuple(range(years.first, years.last + 1))
    ids = np.empty(0, dtype=np.int32)
    rows: list[FloatArray] = []
    has_values = False
    for year in numbers:
        cells = read_part(connection, variable, part, year, statistic, area)
        has_values = has_values or bool(np.isfinite(cells.values).any())
        cells = cells.where(is_complete(cells, part.hours(year)))
        if not np.array_equal(cells.location_ids, ids):
            found = np.union1d(ids, cells.location_ids)
            if found.size > ids.size:
                rows = [spread(row, ids, found, np.nan) for row in rows]
                ids = found
        rows.append(spread(cells.values.astype(np.float32), cells.location_ids, ids, np.nan))
    return YearlyCells(numbers, ids, tuple(rows), has_values)
