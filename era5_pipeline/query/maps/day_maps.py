"""The map of a day in UTC: the mean, range or total of its 24 hours."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.months import Month
from era5_pipeline.query.available import places_held, require_columns
from era5_pipeline.query.climate.daily_values import HOURS_PER_DAY
from era5_pipeline.query.maps.cell_values import hours_of_day, one_state, read_day
from era5_pipeline.query.maps.field_map import FieldMap
from era5_pipeline.query.maps.map_reading import (
    MapReading,
    PlacedCells,
    statistic_words,
    title_words,
    unit_words,
)
from era5_pipeline.query.maps.missing_cells import lines_of_missing, lines_of_short
from era5_pipeline.query.snapshots import no_rows, only_null

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.maps.cell_values import CellValues
    from era5_pipeline.query.maps.map_question import DayQuestion


def read_day_map(
    connection: psycopg.Connection[Any], question: DayQuestion, variable: Variable, area: Area | None
) -> MapReading:
    """The map of a day, of locations that have all of its hours.

    Raises:
        NoDataError: if no location has; it says what the table holds instead.
    """
    require_columns(connection, (variable,))
    day, statistic = question.day, question.statistic
    with one_state(connection):
        found = read_day(connection, variable, day, statistic, area)
        _require_hours(connection, question, variable, area, found)
        found = found.where(found.hours > 0)
        is_whole = found.hours == HOURS_PER_DAY
        held = found.where(is_whole)
        month = Month.of(hours_of_day(variable, day)[0])
        wanted, kind = places_held(connection, month), f"places that the table holds in {month}"
        absent = lines_of_missing(variable, found.location_ids, area, wanted, kind)
        absent += lines_of_short(found, is_whole, HOURS_PER_DAY, f"{day} (UTC)")
    placed = PlacedCells.of(held.location_ids, held.values)
    field = FieldMap(
        kind="day",
        variable=variable,
        latitudes=placed.latitudes,
        longitudes=placed.longitudes,
        values=placed.values,
        unit=unit_words(variable, statistic, "day"),
        title=f"{title_words(variable)}, {statistic_words(statistic)} of the day",
        when=f"{day:%a %d %b %Y} (UTC)",
        period="day" if statistic == "sum" else "hour",
    )
    midnight = datetime.combine(day, time(), tzinfo=UTC)
    return MapReading(
        field=field,
        absent=tuple(absent),
        remarks=(),
        start=midnight,
        end=midnight + timedelta(days=1),
        summary=f"{statistic} of the {HOURS_PER_DAY} hours of {day} (UTC)",
        table_unit=variable.unit,
    )


def _require_hours(
    connection: psycopg.Connection[Any],
    question: DayQuestion,
    variable: Variable,
    area: Area | None,
    found: CellValues,
) -> None:
    """Require a location with all hours of the day.

    Raises:
        NoDataError: if there is none.
    """
    day = question.day
    start, end = hours_of_day(variable, day)
    if not found.location_ids.size:
        raise no_rows(connection, start, end, area, f"{day}", "that day")
    most = int(found.hours.max())
    if most == 0:
        raise only_null(connection, variable, {Month.of(start)}, area, f"on {day} (UTC)")
    if most < HOURS_PER_DAY:
        last = Month.of(end - timedelta(hours=1))
        if most == HOURS_PER_DAY - 1 and last != Month.of(start):
            remedy = f"The day's last total ends at 00:00 of {last}, and comes with that month: load it, too."
        else:
            remedy = f"Ask for one hour with --time, or load the whole month: era5 load --from {Month.of(start)}."
        raise NoDataError(
            f"{variable.column}: no location has all {HOURS_PER_DAY} hours of {day} (UTC); at most {most} are there",
            remedy=remedy,
        )
