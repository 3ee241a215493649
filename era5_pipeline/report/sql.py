"""SQL that gives the page's numbers from the table, for readers with access to it: years, precipitation, days."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from era5_pipeline.model.grid import N_LONGITUDES, location_ids, longitudes_of
from era5_pipeline.model.location_set import GridWindow, LocationSet
from era5_pipeline.warehouse.layouts.layout import locations_where

if TYPE_CHECKING:
    from era5_pipeline.climate.answer import ClimateAnswer

# The area of a location's cell, as in `climate.reading.cell_weights`: at a pole, where the cosine is 0, that of a cap.
_WEIGHT = "greatest(cosd(latitude), tand(0.0625) / 2)"
# A year with no more hours than this is not in the page's table.
_FEWEST_HOURS = 24


def statements(answer: ClimateAnswer) -> list[tuple[str, str]]:
    """The title and text of each statement, for the variables that the answer has."""
    found = []
    if "temperature" in answer.elements:
        hours = _hours(answer, "temperature_2m")
        found += [
            ("The mean temperature of each year", _yearly("avg(hour) AS mean_temperature", _local(answer), hours)),
            (
                "The days that are counted, and this year's days",
                f"SELECT {_local(answer)}::date AS day,\n"
                "       avg(hour) AS mean, min(hour) AS lowest, max(hour) AS highest\n"
                f"FROM (\n{hours}\n) AS hours\nGROUP BY day\nHAVING count(*) = 24\nORDER BY day;",
            ),
        ]
    if "precipitation" in answer.elements:
        # The last hour of a year has the next year's time: its total is of the hour before.
        hours = _hours(answer, "total_precipitation", hours_after=1)
        statement = _yearly("sum(hour::float8) AS precipitation", _local(answer, hours_before=1), hours)
        found.append(("The precipitation of each year", statement))
    return found


def _yearly(value: str, time: str, hours: str) -> str:
    return (
        f"SELECT extract(year FROM {time})::int AS year,\n       {value},\n       count(*) AS hours\n"
        f"FROM (\n{hours}\n) AS hours\nGROUP BY year\nHAVING count(*) > {_FEWEST_HOURS}\nORDER BY year;"
    )


def _hours(answer: ClimateAnswer, column: str, hours_after: int = 0) -> str:
    """The query for the value of each hour of the answer's days; of an area, where all of its locations have one."""
    offset = timedelta(minutes=answer.days.offset_minutes)
    first, last = ((time + offset).replace(hour=0, minute=0) for time in (answer.first, answer.last))
    shift = timedelta(hours=hours_after) - offset
    start, end = (f"'{time + shift:%Y-%m-%d %H:%M}Z'" for time in (first, last + timedelta(days=1)))
    where = f"{_locations(answer)}\n  AND time >= {start} AND time < {end}"
    if answer.place.location is not None:
        query = f"SELECT time, {column} AS hour\nFROM weather\nWHERE {where}\n  AND {column} IS NOT NULL"
    else:
        query = (
            f"SELECT time, sum({column} * {_WEIGHT}) / sum({_WEIGHT}) AS hour\nFROM weather\nWHERE {where}\n"
            f"GROUP BY time\nHAVING count({column}) = {answer.place.points}"
        )
    return "  " + query.replace("\n", "\n  ")


def _local(answer: ClimateAnswer, hours_before: int = 0) -> str:
    """The time of a row, or `hours_before` hours earlier, in the offset of the answer's days."""
    minutes = answer.days.offset_minutes - 60 * hours_before
    offset = f" {'+' if minutes > 0 else '-'} interval '{abs(minutes)} minutes'" if minutes else ""
    return f"(time AT TIME ZONE 'UTC'{offset})"


def _locations(answer: ClimateAnswer) -> str:
    """The condition for the rows of the place, or of the locations of the area that were read."""
    place = answer.place
    if place.location is not None:
        return f"location_id = {place.location.location_id}"
    if place.area is None or place.locations != LocationSet.of_area(place.area):
        return locations_where(place.locations).as_string(None)
    # Ids run from west to east, then from south to north: every layout finds rows by them.
    rows, window = place.area.latitude_indices(), GridWindow.of_area(place.area)
    where = f"location_id BETWEEN {location_ids(rows[0], 0)} AND {location_ids(rows[-1], N_LONGITUDES - 1)}"
    if window.columns == N_LONGITUDES:
        return where
    west, east = longitudes_of([window.west_index, (window.west_index + window.columns - 1) % N_LONGITUDES]).tolist()
    both = f"longitude BETWEEN {west:g} AND {east:g}"
    return f"{where}\n  AND {both if west <= east else f'(longitude >= {west:g} OR longitude <= {east:g})'}"
