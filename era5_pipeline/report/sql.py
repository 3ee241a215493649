"""SQL that gives the page's numbers from the table, for readers with access to it: years, precipitation, days."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.model.grid import N_LONGITUDES, location_ids

if TYPE_CHECKING:
    from era5_pipeline.climate.answer import ClimateAnswer


def statements(answer: ClimateAnswer) -> list[tuple[str, str]]:
    """The title and text of each statement, for the variables that the answer has."""
    where = _where(answer)
    found = []
    if "temperature" in answer.elements:
        found += [
            ("The mean temperature of each year", _yearly_temperature(answer, where)),
            ("The days that are counted, and this year's days", _daily_temperature(answer, where)),
        ]
    if "precipitation" in answer.elements:
        found.append(("The precipitation of each year", _yearly_precipitation(answer, where)))
    return found


def _yearly_temperature(answer: ClimateAnswer, where: str) -> str:
    mean = "avg(temperature_2m)" if answer.place.location else f"{_weighted('temperature_2m')} / {_WEIGHTS}"
    return (
        f"SELECT extract(year FROM {_local(answer)})::int AS year,\n"
        f"       {mean} AS mean_temperature,\n"
        "       count(DISTINCT time) AS hours\n"
        f"FROM weather\nWHERE {where}\n  AND temperature_2m IS NOT NULL\nGROUP BY year\nORDER BY year;"
    )


def _daily_temperature(answer: ClimateAnswer, where: str) -> str:
    hours = f"      SELECT time, temperature_2m AS hour\n      FROM weather\n      WHERE {_indented(where)}"
    if answer.place.location is None:
        hours = hours.replace("temperature_2m", f"{_weighted('temperature_2m')} / {_WEIGHTS}", 1)
    hours += "\n        AND temperature_2m IS NOT NULL"
    if answer.place.location is None:
        hours += "\n      GROUP BY time"
    return (
        f"SELECT {_local(answer)}::date AS day,\n"
        "       avg(hour) AS mean, min(hour) AS lowest, max(hour) AS highest\n"
        f"FROM (\n{hours}\n) AS hours\nGROUP BY day\nHAVING count(*) = 24\nORDER BY day;"
    )


def _yearly_precipitation(answer: ClimateAnswer, where: str) -> str:
    total = "sum(total_precipitation::float8)"
    if answer.place.location is None:
        total = f"{_weighted('total_precipitation')} / {_WEIGHTS} * count(DISTINCT time)"
    # The last hour of a year has the next year's time: its total is of the hour before.
    return (
        f"SELECT extract(year FROM {_local(answer, hours_before=1)})::int AS year,\n"
        f"       {total} AS precipitation,\n"
        "       count(DISTINCT time) AS hours\n"
        f"FROM weather\nWHERE {where}\n  AND total_precipitation IS NOT NULL\nGROUP BY year\nORDER BY year;"
    )


_WEIGHTS = "sum(cosd(latitude))"


def _weighted(column: str) -> str:
    """The sum of a column over grid points, by the area of their cells."""
    return f"sum({column} * cosd(latitude))"


def _local(answer: ClimateAnswer, hours_before: int = 0) -> str:
    """The time of a row, or `hours_before` hours earlier, in the offset of the answer's days."""
    minutes = answer.days.offset_minutes - 60 * hours_before
    offset = f" {'+' if minutes > 0 else '-'} interval '{abs(minutes)} minutes'" if minutes else ""
    return f"(time AT TIME ZONE 'UTC'{offset})"


def _where(answer: ClimateAnswer) -> str:
    """The condition for the rows of the place and of the hours that were read."""
    place = answer.place
    times = f"time BETWEEN '{answer.first:%Y-%m-%d %H:%M}Z' AND '{answer.last:%Y-%m-%d %H:%M}Z'"
    if place.location is not None:
        return f"location_id = {place.location.location_id}\n  AND {times}"
    if place.area is None:
        return times
    area = place.area
    # Ids run from west to east, then from south to north: every layout finds rows by them.
    rows = area.latitude_indices()
    conditions = [f"location_id BETWEEN {location_ids(rows[0], 0)} AND {location_ids(rows[-1], N_LONGITUDES - 1)}"]
    west, east = _wrapped(area.west), _wrapped(area.east)
    if area.east - area.west < 360.0:
        both = f"longitude BETWEEN {west:g} AND {east:g}"
        conditions.append(both if west <= east else f"(longitude >= {west:g} OR longitude <= {east:g})")
    return "\n  AND ".join((*conditions, times))


def _wrapped(longitude: float) -> float:
    """A longitude as in the table, from -180 to 180."""
    return longitude if -180.0 <= longitude <= 180.0 else (longitude + 180.0) % 360.0 - 180.0


def _indented(where: str) -> str:
    return where.replace("\n", "\n      ")
