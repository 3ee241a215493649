"""The map of a trend: the change per decade of the year, a season or a calendar month, and where it is significant."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.query.available import places_held, require_columns
from era5_pipeline.query.climate.trends import FEWEST_YEARS, describe_years
from era5_pipeline.query.maps.cell_trends import trends_of_cells
from era5_pipeline.query.maps.cell_values import one_state
from era5_pipeline.query.maps.field_map import FieldMap
from era5_pipeline.query.maps.map_reading import MapReading, PlacedCells, title_words, unit_words
from era5_pipeline.query.maps.missing_cells import (
    lines_of_few_years,
    lines_of_missing,
    lines_without_summaries,
    no_summaries,
)
from era5_pipeline.query.maps.yearly_cells import read_years

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.maps.cell_trends import CellTrends
    from era5_pipeline.query.maps.map_question import TrendQuestion


def read_trend_map(
    connection: psycopg.Connection[Any], question: TrendQuestion, variable: Variable, area: Area | None
) -> MapReading:
    """The map of a trend per decade over the complete years; locations with too few of them have no value.

    Raises:
        NoDataError: if no location has a trend; it says which years are complete, or that there are no summaries.
    """
    require_columns(connection, (variable,))
    part, years = question.part, question.years
    months = [month for year in range(years.first, years.last + 1) for month in part.months(year)]
    name = part.in_years(years)
    with one_state(connection):
        cells = read_years(connection, variable, part, years, question.statistic, area)
        if not cells.has_values:
            raise no_summaries(connection, variable, months, area, name)
        complete = cells.complete_years
        trends = trends_of_cells(cells)
        without = lines_without_summaries(connection, months, area)
        is_drawn = np.isfinite(trends.slopes)
        if not is_drawn.any():
            raise _no_trend(name, complete, trends, without)
        remarks = []
        if len(complete) < len(years):
            lacking = [year for year in range(years.first, years.last + 1) if year not in complete]
            remarks.append(
                f"{len(complete)} of {len(years)} years are complete; in no trend: {describe_years(lacking)}"
            )
        absent, fewer = lines_of_few_years(trends.years, FEWEST_YEARS, len(complete), f"complete years of {name}")
        absent += lines_of_missing(
            variable, cells.location_ids, area, places_held(connection), "places that the table holds"
        )
        dependent = int(((trends.years >= FEWEST_YEARS) & ~is_drawn).sum())
        if dependent:
            absent.append(f"at {dependent:,} locations each year depends too much on the one before for a trend")
        remarks += [*fewer, *without]
        drawn = cells.location_ids[is_drawn]
    placed = PlacedCells.of(drawn, trends.slopes[is_drawn])
    marks = PlacedCells.of(drawn, trends.significant[is_drawn].astype(np.float64))
    count = int(trends.significant.sum())
    unit = unit_words(variable, question.statistic, part.period)
    field = FieldMap(
        kind="trend",
        variable=variable,
        latitudes=placed.latitudes,
        longitudes=placed.longitudes,
        values=placed.values,
        unit=f"{unit}, per decade" if " in " in unit else f"{unit} per decade".strip(),
        title=f"{title_words(variable)}, trend",
        when=f"{name}, {len(complete)} complete years; dots: significant (p < 0.05), pale: not",
        is_difference=True,
        stippled=marks.values == 1.0,
    )
    return MapReading(
        field=field,
        absent=tuple(absent),
        remarks=tuple(remarks),
        start=months[0].start,
        end=months[-1].end,
        summary=f"trend of {name} ({len(complete)} complete years), significant at {count:,} of {drawn.size:,}",
        table_unit=f"{variable.unit} per decade",
    )


def _no_trend(name: str, complete: list[int], trends: CellTrends, without: list[str]) -> NoDataError:
    """The error for too few complete years; `without` says which months have no summaries."""
    most = int(trends.years.max()) if complete else 0
    which = f" of {describe_years(complete)}" if complete else ""
    more = f" ({without[0]})" if without else ""
    return NoDataError(
        f"{name}: a trend needs at least {FEWEST_YEARS} complete years, and no location has more "
        f"than {most}{which}{more}",
        remedy="Load more years, or ask for others that the table holds.",
    )
