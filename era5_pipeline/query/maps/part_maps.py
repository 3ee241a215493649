"""Maps of a month, a season or a year from monthly summaries, and their anomalies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.query.available import places_held, require_columns
from era5_pipeline.query.climate.anomalies import FEWEST_YEARS_OF_BASELINE, baseline_of
from era5_pipeline.query.maps.cell_values import one_state, read_part
from era5_pipeline.query.maps.field_map import FieldMap
from era5_pipeline.query.maps.map_reading import (
    MapReading,
    PlacedCells,
    statistic_words,
    title_words,
    unit_words,
)
from era5_pipeline.query.maps.missing_cells import (
    lines_of_few_years,
    lines_of_missing,
    lines_of_short,
    lines_without_summaries,
    no_summaries,
)
from era5_pipeline.query.maps.yearly_cells import is_complete, read_years

if TYPE_CHECKING:
    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.climate.climate_answer import YearSpan
    from era5_pipeline.query.maps.cell_values import CellValues
    from era5_pipeline.query.maps.map_question import AnomalyQuestion, PartQuestion
    from era5_pipeline.query.maps.year_parts import YearPart
    from era5_pipeline.query.maps.yearly_cells import YearlyCells


def read_part_map(
    connection: psycopg.Connection[Any], question: PartQuestion, variable: Variable, area: Area | None
) -> MapReading:
    """The map of a part of a year. Where hours lack, it is of those that are there, and the reading says so.

    Raises:
        NoDataError: if no location has a value; it says what the table holds instead, or that there are no summaries.
    """
    require_columns(connection, (variable,))
    part, year, statistic = question.part, question.year, question.statistic
    when, months, expected = part.in_year(year), part.months(year), part.hours(year)
    with one_state(connection):
        cells = _read_valued(connection, question, variable, area)
        absent = _lines_of_absent(connection, variable, cells.location_ids, area, months)
        remarks = lines_of_short(cells, is_complete(cells, expected), expected, when)
        remarks += lines_without_summaries(connection, months, area)
    placed = PlacedCells.of(cells.location_ids, cells.values)
    field = FieldMap(
        kind="month" if part.period == "month" else "season" if part.period == "season" else "year",
        variable=variable,
        latitudes=placed.latitudes,
        longitudes=placed.longitudes,
        values=placed.values,
        unit=unit_words(variable, statistic, part.period),
        title=f"{title_words(variable)}, {statistic_words(statistic)} of the {part.period}",
        when=f"{when} (UTC)",
        period=part.period if statistic == "sum" else "hour",
    )
    return MapReading(
        field=field,
        absent=tuple(absent),
        remarks=tuple(remarks),
        start=months[0].start,
        end=months[-1].end,
        summary=f"{statistic} of {when}, {_hours(cells)} of {expected:,} hours",
        table_unit=variable.unit,
    )


def read_anomaly_map(
    connection: psycopg.Connection[Any], question: AnomalyQuestion, variable: Variable, area: Area | None
) -> MapReading:
    """The map of a part of a year, less the mean of the same part over the complete years of the baseline.

    A location needs ten of these years; the part of the year asked for is complete, too.

    Raises:
        NoDataError: if no location has both; it says what the table holds instead, or that there are no summaries.
    """
    require_columns(connection, (variable,))
    part, year, statistic, years = question.part, question.year, question.statistic, question.baseline
    when, months, expected = part.in_year(year), part.months(year), part.hours(year)
    with one_state(connection):
        cells = _read_valued(connection, question, variable, area)
        enough = is_complete(cells, expected)
        if not enough.any():
            raise NoDataError(
                f"{when} is incomplete: at most {int(cells.hours.max()):,} of {expected:,} hours are there, and an "
                "anomaly is that of a complete one",
                remedy=f"Load the rest of it: era5 load --from {months[0]} --to {months[-1]}.",
            )
        normals = read_years(connection, variable, part, years, statistic, area)
        baseline = baseline_of(years, normals.complete_years)
        if not baseline.is_used:
            raise _no_baseline(connection, part, years, area, baseline.note or "")
        held = cells.where(enough)
        differences, counts = _differences(held, normals)
        drawn = held.where(np.isfinite(differences))
        if not drawn.location_ids.size:
            why = f"no location has {FEWEST_YEARS_OF_BASELINE} complete years of the baseline {years}"
            raise _no_baseline(connection, part, years, area, why)
        absent, remarks = lines_of_few_years(
            counts, FEWEST_YEARS_OF_BASELINE, baseline.complete, f"complete years of the baseline {years}"
        )
        absent += lines_of_short(cells, enough, expected, when)
        absent += _lines_of_absent(connection, variable, cells.location_ids, area, months)
        remarks += [baseline.note] if baseline.note else []
        of_years = [month for one in range(years.first, years.last + 1) for month in part.months(one)]
        remarks += lines_without_summaries(connection, of_years, area)
    placed = PlacedCells.of(drawn.location_ids, differences[np.isfinite(differences)])
    count = f"{baseline.complete} complete year{'' if baseline.complete == 1 else 's'}"
    field = FieldMap(
        kind="anomaly",
        variable=variable,
        latitudes=placed.latitudes,
        longitudes=placed.longitudes,
        values=placed.values,
        unit=unit_words(variable, statistic, part.period),
        title=f"{title_words(variable)}, anomaly",
        when=f"{when} less the mean of {part.in_years(years)} ({count})",
        is_difference=True,
    )
    return MapReading(
        field=field,
        absent=tuple(absent),
        remarks=tuple(remarks),
        start=min(months[0].start, of_years[0].start),
        end=max(months[-1].end, of_years[-1].end),
        summary=f"anomaly of {when} from the mean of {part.in_years(years)} ({count})",
        table_unit=variable.unit,
    )


def _read_valued(
    connection: psycopg.Connection[Any],
    question: PartQuestion | AnomalyQuestion,
    variable: Variable,
    area: Area | None,
) -> CellValues:
    """The locations that have a value in that part of that year.

    Raises:
        NoDataError: if there is none.
    """
    part, year = question.part, question.year
    cells = read_part(connection, variable, part, year, question.statistic, area)
    cells = cells.where(np.isfinite(cells.values))
    if not cells.location_ids.size:
        raise no_summaries(connection, variable, part.months(year), area, part.in_year(year))
    return cells


def _differences(cells: CellValues, normals: YearlyCells) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]:
    """Values (n,) less the mean of the complete years, NaN where there are too few; and how many years each has."""
    total = np.zeros(normals.location_ids.size)
    count = np.zeros(normals.location_ids.size, dtype=np.int64)
    for row in normals.rows:
        held = np.isfinite(row)
        total[held] += row[held]
        count += held
    at = np.minimum(np.searchsorted(normals.location_ids, cells.location_ids), normals.location_ids.size - 1)
    is_there = normals.location_ids[at] == cells.location_ids
    years = np.where(is_there, count[at], 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        differences = np.where(years >= FEWEST_YEARS_OF_BASELINE, cells.values - total[at] / count[at], np.nan)
    return differences, years


def _no_baseline(
    connection: psycopg.Connection[Any], part: YearPart, years: YearSpan, area: Area | None, why: str
) -> NoDataError:
    months = [month for year in range(years.first, years.last + 1) for month in part.months(year)]
    lines = lines_without_summaries(connection, months, area)
    more = f" ({lines[0]})" if lines else ""
    return NoDataError(
        f"no anomaly of {part.name if part.period != 'year' else 'the year'}: {why.rstrip('.')}{more}",
        remedy="Load more years, or choose others that the table holds: --baseline FIRST-LAST.",
    )


def _lines_of_absent(
    connection: psycopg.Connection[Any],
    variable: Variable,
    location_ids: npt.NDArray[np.int32],
    area: Area | None,
    months: tuple[Month, ...],
) -> list[str]:
    wanted = places_held(connection, months[0])
    for month in months[1:]:
        wanted = wanted | places_held(connection, month)
    held = f"{months[0]}" if len(months) == 1 else f"{months[0]} to {months[-1]}"
    return lines_of_missing(variable, location_ids, area, wanted, f"places that the table holds in {held}")


def _hours(cells: CellValues) -> str:
    low, high = int(cells.hours.min()), int(cells.hours.max())
    return f"{low:,}" if low == high else f"{low:,} to {high:,}"
