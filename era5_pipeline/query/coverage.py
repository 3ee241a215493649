"""Which months of which variables the table holds, area by area: complete, incomplete or preliminary.

Here: reading it from the ledger. Not here: drawing it (`plots.coverage_plots`), or the hours that a month lacks.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month, month_range
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.runtime.sql_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Mapping

    import psycopg

CoverageState = Literal["complete", "incomplete", "preliminary", "incomplete and preliminary"]

# More sets of locations with equal coverage are reported as one area.
_MOST_ALIKE = 8


@dataclass(frozen=True)
class AreaCoverage:
    """The months of one area: by column, the state of each month that has values of it.

    A month is incomplete if any location lacks an hour, and preliminary if any hour is; complete if neither.
    """

    locations: LocationSet
    states: Mapping[str, Mapping[Month, CoverageState]]

    @property
    def name(self) -> str:
        """The area as text, with the number of its places."""
        named, count = str(self.locations), len(self.locations)
        return named if "places" in named or count == 1 else f"{named}, {count:,} places"

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns of which any month has values, in table order."""
        order = {column: number for number, column in enumerate(BY_COLUMN)}
        return tuple(sorted(self.states, key=lambda column: (order.get(column, len(order)), column)))

    @property
    def first(self) -> Month:
        """The first month of any column."""
        return min(min(months) for months in self.states.values())

    @property
    def last(self) -> Month:
        """The last month of any column."""
        return max(max(months) for months in self.states.values())

    def months(self, column: str, word: Literal["complete", "incomplete", "preliminary"]) -> tuple[Month, ...]:
        """The months in which the column is what the word says, in order: some are both incomplete and preliminary."""
        return tuple(sorted(month for month, state in self.states[column].items() if word in state.split()))

    def missing_months(self, column: str) -> tuple[Month, ...]:
        """The months from `first` to `last` without any value of the column."""
        return tuple(month for month in month_range(self.first, self.last) if month not in self.states[column])

    def to_json(self) -> dict[str, Any]:
        """Make the JSON value that `era5 status --coverage --json` prints."""
        return {
            "area": str(self.locations),
            "locations": len(self.locations),
            "location_ids": [list(run) for run in self.locations.runs],
            "variables": {
                column: {
                    "complete": list(map(str, self.months(column, "complete"))),
                    "incomplete": list(map(str, self.months(column, "incomplete"))),
                    "preliminary": list(map(str, self.months(column, "preliminary"))),
                    "missing": list(map(str, self.missing_months(column))),
                }
                for column in self.columns
            },
        }


def read_coverage(connection: psycopg.Connection[Any]) -> list[AreaCoverage]:
    """Read the coverage of each area by the ledger, the areas with the most values first; none without a ledger."""
    if connection.execute("SELECT to_regclass('era5.ledger')").fetchone() == (None,):
        return []
    areas = []
    for ids, days, states in connection.execute(read_sql("coverage"), {"most_alike": _MOST_ALIKE}).fetchall():
        by_column: dict[str, dict[Month, CoverageState]] = {}
        for day, of_month in zip(days, states, strict=True):
            for column, state in of_month.items():
                by_column.setdefault(column, {})[Month(day.year, day.month)] = state
        areas.append(AreaCoverage(LocationSet(tuple((run.lower, run.upper) for run in ids)), by_column))
    return sorted(areas, key=lambda area: (-_size(area), area.locations.first_id))


def _size(area: AreaCoverage) -> int:
    return len(area.locations) * sum(map(len, area.states.values()))
