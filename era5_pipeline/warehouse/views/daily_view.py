"""The view `weather_daily`, and the function of that name, which gives its rows for a period.

A condition on the location reaches the scan of the hours through the view. A condition on the day does not, because a
day is computed from its hours: the view reads all months of a place, the function those of the period alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.flat.monthly.summary_columns import WIND
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table
from era5_pipeline.warehouse.views.view_access import (
    give_function_to_owner_of_weather,
    give_to_owner_of_weather,
    let_readers_of_weather_read,
    schema_of_weather,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import psycopg

    from era5_pipeline.model.variables import StepType, Variable

NAME = "weather_daily"
# Of values of the hour that ends at the time, by step type: the aggregate of the day's hours from 01:00 to 23:00, and
# how the last hour, which ends at 00:00 of the next day, joins it. `n` is the number of hours.
_PARTS: Mapping[StepType, str] = {
    "accum": "sum({v}::float8)",
    "avg": "sum({v}::float8)",
    "max": "max({v})",
    "min": "min({v})",
}
_WHOLE: Mapping[StepType, str] = {
    "accum": "CASE WHEN {n} > 0 THEN coalesce({part}, 0) + coalesce({last}, 0) END",
    "avg": "CASE WHEN {n} > 0 THEN (coalesce({part}, 0) + coalesce({last}, 0)) / ({n}) END",
    "max": "greatest({part}, {last})",
    "min": "least({part}, {last})",
}
_NAMES: Mapping[StepType, str] = {"accum": "sum", "avg": "mean", "max": "max", "min": "min"}
_INSTANT = {"mean": "avg({v})", "min": "min({v})", "max": "max({v})", "hours": "count({v})::smallint"}
_AT_MIDNIGHT = "(time AT TIME ZONE 'UTC')::time = '00:00'"
_HOURLY = (
    "\n        WHERE time >= first_day::timestamp AT TIME ZONE 'UTC'"
    "\n          AND time <= (last_day + 1)::timestamp AT TIME ZONE 'UTC'"
)
COMMENT = (
    "ERA5 by day (UTC): one row for each location and day, computed from the hours when it is read. The value of "
    "00:00 for the hour before it, such as precipitation, counts to the day that ended then. Give a location; "
    "for a period: weather_daily('2023-07-01', '2023-07-31')"
)
_PERIOD_COMMENT = (
    "The rows of the view weather_daily from the first day to the last: reads the hours of this period alone"
)
_COMMENTS = {
    "location_id": "Number of the grid point, as in weather: era5.at(latitude, longitude)",
    "latitude": "Degrees north. To find a place, location_id is faster",
    "longitude": "Degrees east. To find a place, location_id is faster",
    "day": "The day, in UTC",
    "hours": "Number of hours from 00:00 to 23:00 that have a row; 24 if none is missing",
    "wind_speed_10m_mean": "Mean of the hourly wind speed 10 m above the surface; m/s",
    "wind_speed_10m_max": "Greatest hourly wind speed 10 m above the surface; m/s",
    "wind_direction_10m_prevailing": (
        "Direction from which the mean wind comes (that of the mean components); degrees clockwise from north, "
        "NULL if there is none"
    ),
}


def create_daily_view(connection: psycopg.Connection[Any]) -> None:
    """Create or replace the view and the function, with comments, within a transaction.

    Columns stay in their order, and those of other variables follow, as in `weather`: so the view is replaced in place.
    """
    schema, variables = schema_of_weather(connection), _in_order_of_table(connection)
    view, weather = sql.Identifier(schema, NAME), sql.Identifier(schema, "weather")
    connection.execute(sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(view, _select(weather, variables)))
    function = sql.SQL("{}(date, date)").format(view)
    connection.execute(
        sql.SQL(
            "CREATE OR REPLACE FUNCTION {view}(first_day date, last_day date) RETURNS SETOF {view} "
            "LANGUAGE sql STABLE PARALLEL SAFE AS {body}"
        ).format(view=view, body=sql.Literal(_select(weather, variables, is_period=True).as_string(connection)))
    )
    comments = [(sql.SQL("VIEW {}").format(view), COMMENT), (sql.SQL("FUNCTION {}").format(function), _PERIOD_COMMENT)]
    comments += [
        (sql.SQL("COLUMN {}.{}").format(view, sql.Identifier(name)), text)
        for name, text in (_COMMENTS | dict(_column_comments(variables))).items()
    ]
    statements = (sql.SQL("COMMENT ON {} IS {};").format(of, sql.Literal(text)) for of, text in comments)
    connection.execute(sql.SQL("\n").join(statements))
    give_to_owner_of_weather(connection, view, "VIEW")
    give_function_to_owner_of_weather(connection, function)
    let_readers_of_weather_read(connection, view)


def daily_columns(variables: Iterable[Variable]) -> frozenset[str]:
    """The columns of the view for these variables."""
    return frozenset(_COMMENTS) | {name for name, _ in _column_comments(variables)}


def _in_order_of_table(connection: psycopg.Connection[Any]) -> Sequence[Variable]:
    """The variables of the table in the order in which their columns were added."""
    rows = connection.execute(
        "SELECT attname, attnum FROM pg_attribute WHERE attrelid = 'weather'::regclass AND NOT attisdropped"
    ).fetchall()
    positions = dict(rows)
    return sorted(variables_in_table(connection), key=lambda variable: positions[variable.column])


def _select(weather: sql.Identifier, variables: Sequence[Variable], *, is_period: bool = False) -> sql.Composed:
    of_hours = [variable for variable in variables if variable.step_type != "instant"]
    lines = sql.SQL(",\n               ")
    return sql.SQL(read_sql("weather_daily")).format(
        weather=weather,
        speed=sql.SQL("sqrt({0}::float8 * {0} + {1}::float8 * {1})").format(*map(sql.Identifier, WIND)),
        columns=lines.join(column for variable in variables for column in _columns(variable)),
        with_last_hours=lines.join(
            [
                *(
                    sql.Identifier(f"{v.column}_{name}")
                    for v in variables
                    if v.step_type == "instant"
                    for name in _INSTANT
                ),
                *(part for variable in of_hours for part in _with_last_hour(variable)),
            ]
        ),
        aggregates=lines.join(part for variable in variables for part in _aggregates(variable)),
        hourly=sql.SQL(_HOURLY if is_period else ""),
        days=sql.SQL("\nWHERE day <= last_day" if is_period else ""),
    )


def _aggregates(variable: Variable) -> Iterable[sql.Composable]:
    column = sql.Identifier(variable.column)
    if variable.step_type == "instant":
        for name, aggregate in _INSTANT.items():
            yield sql.SQL(aggregate + " AS {name}").format(v=column, name=sql.Identifier(f"{variable.column}_{name}"))
        return
    names = _names(variable)
    later = f" FILTER (WHERE NOT {_AT_MIDNIGHT}) AS "
    yield sql.SQL(_PARTS[variable.step_type] + later + "{part}").format(v=column, **names)
    yield sql.SQL("count({v})" + later + "{count}").format(v=column, **names)
    yield sql.SQL(f"max({{v}}) FILTER (WHERE {_AT_MIDNIGHT}) AS {{first}}").format(v=column, **names)


def _with_last_hour(variable: Variable) -> Iterable[sql.Composable]:
    names = _names(variable)
    yield names["part"]
    yield names["count"]
    yield sql.SQL("CASE WHEN lead(day) OVER by_day = day + 1 THEN lead({first}) OVER by_day END AS {last}").format(
        **names
    )


def _columns(variable: Variable) -> Iterable[sql.Composable]:
    if variable.step_type == "instant":
        yield from (sql.Identifier(f"{variable.column}_{name}") for name in _INSTANT)
        return
    names = _names(variable)
    hours = sql.SQL("{count} + ({last} IS NOT NULL)::integer").format(**names)
    statistic, hours_name = (sql.Identifier(f"{variable.column}_{name}") for name in _statistics(variable))
    yield sql.SQL(_WHOLE[variable.step_type] + " AS {name}").format(n=hours, name=statistic, **names)
    yield sql.SQL("({})::smallint AS {}").format(hours, hours_name)


def _statistics(variable: Variable) -> tuple[str, str]:
    """Of a variable whose values are of an hour: the names of its statistic, and of the number of hours."""
    name = _NAMES[variable.step_type]
    return name, "sum_hours" if name == "sum" else "hours"


def _names(variable: Variable) -> Mapping[str, sql.Identifier]:
    return {word: sql.Identifier(f"{variable.column}_{word}") for word in ("part", "count", "first", "last")}


def _column_comments(variables: Iterable[Variable]) -> Iterable[tuple[str, str]]:
    for variable in variables:
        for name, text in _texts(variable):
            yield f"{variable.column}_{name}", f"{variable.description}: {text}"


def _texts(variable: Variable) -> Iterable[tuple[str, str]]:
    unit = variable.unit
    if variable.step_type == "instant":
        yield "mean", f"mean of the day's hours, from 00:00 to 23:00; {unit}"
        yield "min", f"least value of the day's hours; {unit}"
        yield "max", f"greatest value of the day's hours; {unit}"
        yield "hours", "number of the day's hours that have a value; 24 if none is missing"
        return
    words = {"sum": "total", "mean": "mean", "max": "greatest value", "min": "least value"}
    statistic, hours = _statistics(variable)
    yield statistic, f"{words[statistic]} of the day, of the hours that end from 01:00 to 00:00 of the next day; {unit}"
    yield hours, "number of hours in it; 24 if none is missing. The last one comes with the next day"
