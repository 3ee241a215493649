"""Views for other programs: locations, units and descriptions, cell polygons with PostGIS; and their privileges."""

from __future__ import annotations

from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from psycopg import errors as pg
from psycopg import sql
from psycopg.types.json import Jsonb

from era5_pipeline.flat.monthly import WIND
from era5_pipeline.model.cf_names import STANDARD_NAMES, cell_method, cf_unit
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.roles import grant_to_table_readers, transfer_to_table_owner, weather_schema
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    import psycopg

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.variables import StepType, Variable

# --- The view `weather_daily`, and the function of that name, which returns its rows for a period ---
#
# A condition on the location is pushed through the view to the scan of the hours. A condition on the day is not, as a
# day is computed from its hours: the view reads all months of a place, the function only those of the period.


# For values of the hour that ends at the valid time, by step type: the aggregate of the day's hours from 01:00 to
# 23:00, and how the last hour, which ends at 00:00 of the next day, joins it. `n` is the number of hours.
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
DAILY_COMMENT = (
    "{dataset} by day (UTC): one row for each location and day, computed from the hours when it is read. The value of "
    "00:00 for the hour before it, such as precipitation, counts to the day that ended then. Give a location; "
    "for a period: {weather}_daily('2023-07-01', '2023-07-31')"
)
_PERIOD_COMMENT = (
    "The rows of the view {weather}_daily from the first day to the last: reads only the hours of this period"
)
_COMMENTS = {
    "location_id": "Number of the grid point, as in {weather}: {schema}.at(latitude, longitude)",
    "latitude": "Degrees north. To find a place, location_id is faster",
    "longitude": "Degrees east. To find a place, location_id is faster",
    "day": "The day, in UTC",
    "hours": "Number of hours from 00:00 to 23:00 that have a row; 24 if none is missing",
    "wind_speed_10m_mean": "Mean of the hourly wind speed 10 m above the surface; m/s",
    "wind_speed_10m_max": "Greatest hourly wind speed 10 m above the surface; m/s",
    "wind_direction_10m_prevailing": (
        "Direction from which the mean wind comes (that of the mean components); degrees clockwise from north, "
        "NULL in a calm"
    ),
}


def create_daily_view(connection: psycopg.Connection[Any]) -> None:
    """Create or replace the view and the function, with comments, within a transaction.

    Columns keep their order, and other variables follow, as in `weather`, so the view is replaced in place.
    """
    dataset, schema, variables = dataset_of(connection), weather_schema(connection), _in_order_of_table(connection)
    view = sql.Identifier(schema, f"{dataset.table}_daily")
    select = partial(_select, dataset, sql.Identifier(schema, dataset.table), variables)
    connection.execute(sql.SQL("CREATE OR REPLACE VIEW {} AS {}").format(view, select()))
    function = sql.SQL("{}(date, date)").format(view)
    connection.execute(
        sql.SQL(
            "CREATE OR REPLACE FUNCTION {view}(first_day date, last_day date) RETURNS SETOF {view} "
            "LANGUAGE sql STABLE PARALLEL SAFE AS {body}"
        ).format(view=view, body=sql.Literal(select(is_period=True).as_string(connection)))
    )
    comments = [
        (sql.SQL("VIEW {}").format(view), DAILY_COMMENT),
        (sql.SQL("FUNCTION {}").format(function), _PERIOD_COMMENT),
    ]
    comments += [
        (sql.SQL("COLUMN {}.{}").format(view, sql.Identifier(name)), text)
        for name, text in (_COMMENTS | dict(_column_comments(variables))).items()
    ]
    statements = (sql.SQL("COMMENT ON {} IS {};").format(of, sql.Literal(dataset.sql(text))) for of, text in comments)
    connection.execute(sql.SQL("\n").join(statements))
    transfer_to_table_owner(connection, view, "VIEW")
    transfer_to_table_owner(connection, function, "FUNCTION")
    grant_to_table_readers(connection, view)


def daily_columns(variables: Iterable[Variable]) -> frozenset[str]:
    """The columns of the view for these variables."""
    return frozenset(_COMMENTS) | {name for name, _ in _column_comments(variables)}


def _in_order_of_table(connection: psycopg.Connection[Any]) -> Sequence[Variable]:
    """The variables of the table in the order in which their columns were added."""
    rows = connection.execute(
        dataset_of(connection).sql(
            "SELECT attname, attnum FROM pg_attribute WHERE attrelid = '{weather}'::regclass AND NOT attisdropped"
        )
    ).fetchall()
    positions = dict(rows)
    return sorted(variables_in_table(connection), key=lambda variable: positions[variable.column])


def _select(
    dataset: Dataset, weather: sql.Identifier, variables: Sequence[Variable], *, is_period: bool = False
) -> sql.Composed:
    of_hours = [variable for variable in variables if variable.step_type != "instant"]
    lines = sql.SQL(",\n               ")
    return sql.SQL(read_sql("weather_daily", dataset)).format(
        weather_table=weather,
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
    """For a variable with hourly totals, means or extremes: the names of its statistic and of the hour count."""
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
        yield "mean", f"mean over the day's hours, from 00:00 to 23:00; {unit}"
        yield "min", f"minimum over the day's hours; {unit}"
        yield "max", f"maximum over the day's hours; {unit}"
        yield "hours", "number of the day's hours that have a value; 24 if none is missing"
        return
    words = {"sum": "total", "mean": "mean", "max": "greatest value", "min": "least value"}
    statistic, hours = _statistics(variable)
    yield statistic, f"{words[statistic]} of the day, of the hours that end from 01:00 to 00:00 of the next day; {unit}"
    yield hours, "number of hours in it; 24 if none is missing. The last one comes with the next day"


# --- The view `weather_monthly_map`, with PostGIS: `weather_monthly` with each cell as a polygon ---
#
# For mapping programs: a month of it is a layer, with `location_id` as its key.


_KEYS = ("location_id", "month")
# Polar cells end at the pole.
_VIEW = """CREATE OR REPLACE VIEW {view} AS
SELECT {keys},
       {postgis}.ST_MakeEnvelope(
           longitude - {half_step}, greatest(latitude - {half_step}, -90), longitude + {half_step}, least(latitude + {half_step}, 90), 4326
       )::{postgis}.geometry(Polygon, 4326) AS cell,
       {columns}
FROM {monthly}"""  # noqa: E501
MAP_COMMENT = (
    "{dataset} by month, as {weather}_monthly, with the cell of each location, for maps: a layer is one month of it, "
    "and its key is location_id"
)
_CELL = "The cell of {step} degrees around the point (EPSG:4326), a geometry of PostGIS"


def create_map_view(connection: psycopg.Connection[Any], postgis: str) -> None:
    """Create or replace the view, with comments, within a transaction; `postgis` is the extension's schema."""
    dataset, schema, columns = dataset_of(connection), weather_schema(connection), monthly_columns(connection)
    view = sql.Identifier(schema, f"{dataset.table}_monthly_map")
    monthly = sql.Identifier(schema, f"{dataset.table}_monthly")
    if not set(_KEYS) <= set(columns):
        return
    comma = sql.SQL(", ")
    connection.execute(
        sql.SQL(dataset.sql(_VIEW)).format(
            view=view,
            monthly=monthly,
            postgis=sql.Identifier(postgis),
            keys=comma.join(map(sql.Identifier, _KEYS)),
            columns=comma.join(sql.Identifier(name) for name in columns if name not in _KEYS),
        )
    )
    connection.execute(
        sql.SQL("COMMENT ON VIEW {0} IS {1}; COMMENT ON COLUMN {0}.cell IS {2}").format(
            view, sql.Literal(dataset.sql(MAP_COMMENT)), sql.Literal(dataset.sql(_CELL))
        )
    )
    for (statement,) in connection.execute(
        "SELECT format('COMMENT ON COLUMN %%s.%%I IS %%L', %s::text, attname, col_description(attrelid, attnum)) "
        "FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (view.as_string(connection), monthly.as_string(connection)),
    ).fetchall():
        connection.execute(statement.encode())
    transfer_to_table_owner(connection, view, "VIEW")
    grant_to_table_readers(connection, view)


def monthly_columns(connection: psycopg.Connection[Any]) -> Sequence[str]:
    """The columns of `weather_monthly` in order; empty if the view does not exist."""
    rows = connection.execute(
        dataset_of(connection).sql(
            "SELECT attname FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid "
            "WHERE relname = '{weather}_monthly' "
            "AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = '{weather}'::regclass) "
            "AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
        )
    ).fetchall()
    return [name for (name,) in rows]


# --- Units and descriptions as rows: the table `era5.catalogue`, the views `era5.variable` and `era5.table_column` ---
#
# Comments are for people using psql. Programs that join units, or see the database through another program, read these
# relations.


RELATIONS = ("catalogue", "variable", "table_column", "missing_hours", "preliminary_hours")
_FIELDS = (
    *("column_name", "unit", "cf_unit", "short_name", "param_id", "cds_name", "long_name", "standard_name"),
    *("cell_method", "extent", "description"),
)
_OURS = "SELECT {fields} FROM jsonb_populate_recordset(NULL::{schema}.catalogue, %s)"


def catalogue_rows(dataset: Dataset) -> Sequence[Mapping[str, Any]]:
    """The rows of the table `catalogue`, one per loadable variable."""
    return [_row(variable) for variable in dataset.catalogue.variables]


def create_variable_views(connection: psycopg.Connection[Any]) -> None:
    """Create or replace the table and the views, with comments, and fill the table; within a transaction."""
    dataset = dataset_of(connection)
    weather = sql.Identifier(weather_schema(connection), dataset.table).as_string(connection)
    connection.execute(sql.SQL(read_sql("variable_views", dataset)).format(weather_table=sql.Literal(weather)))
    connection.execute(read_sql("hour_views", dataset))
    grant_to_table_readers(connection, *(sql.Identifier(dataset.schema, name) for name in RELATIONS))


def fill_catalogue(connection: psycopg.Connection[Any]) -> None:
    """Write the variables that this version knows, if the table has them differently or not at all."""
    dataset, fields = dataset_of(connection), sql.SQL(", ").join(map(sql.Identifier, _FIELDS))
    ours = sql.SQL(dataset.sql(_OURS)).format(fields=fields)
    changes = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in _FIELDS[1:])
    rows = Jsonb(catalogue_rows(dataset))
    differs = sql.SQL(dataset.sql("SELECT EXISTS ({} EXCEPT SELECT {} FROM {schema}.catalogue)")).format(ours, fields)
    if connection.execute(differs, (rows,)).fetchone() == (True,):
        connection.execute(
            sql.SQL(
                dataset.sql("INSERT INTO {schema}.catalogue ({}) {} ON CONFLICT (column_name) DO UPDATE SET {}")
            ).format(fields, ours, changes),
            (rows,),
        )


def _row(variable: Variable) -> Mapping[str, Any]:
    values = (
        *(variable.column, variable.unit, cf_unit(variable), variable.short_name, variable.param_id),
        *(variable.cds_name, variable.long_name, STANDARD_NAMES.get(variable.column)),
        *(cell_method(variable), variable.extent, variable.description),
    )
    return dict(zip(_FIELDS, values, strict=True))


# A load does not wait longer for a lock, nor fail because of a view: the next load retries. The objects behind a view
# may be missing if the user may not create them.
_LOCK_MS = 1000
# Without the owner's privileges, or on a read-only server, the load does without them or reports it itself.
MAY_FAIL = (pg.InsufficientPrivilege, pg.ReadOnlySqlTransaction, pg.LockNotAvailable)
_OF_VIEWS = (
    pg.InvalidFunctionDefinition,  # a foreign function weather_daily
    pg.InvalidTableDefinition,  # a column of the table was renamed: the view stays unchanged until it is dropped
)


def ensure_views(connection: psycopg.Connection[Any]) -> None:
    """Create missing views, and replace those with a missing column or comment, if this user may.

    Foreign relations of such names are left alone. The connection must be in autocommit mode.
    """
    dataset = dataset_of(connection)
    daily, map_view = f"{dataset.table}_daily", f"{dataset.table}_monthly_map"
    names = {"in_era5": list(RELATIONS), "beside_weather": [daily, map_view]}
    row = connection.execute(read_sql("described_columns", dataset), names).fetchone()
    comments, columns, postgis = row if row is not None else ({}, {}, None)

    def is_to_be_made(name: str, comment: str, wanted: Iterable[str]) -> bool:
        return name not in comments or (
            comments[name] == dataset.sql(comment) and not set(wanted) <= set(columns[name])
        )

    if not all(comments.get(name) and columns[name] for name in RELATIONS):
        with brief_attempt(connection, *_OF_VIEWS):
            create_variable_views(connection)
            fill_catalogue(connection)
    else:
        with brief_attempt(connection, *_OF_VIEWS):
            fill_catalogue(connection)
    if is_to_be_made(daily, DAILY_COMMENT, daily_columns(variables_in_table(connection))):
        with brief_attempt(connection, *_OF_VIEWS):
            create_daily_view(connection)
    if postgis is not None and is_to_be_made(map_view, MAP_COMMENT, ["cell", *monthly_columns(connection)]):
        with brief_attempt(connection, *_OF_VIEWS):
            create_map_view(connection, postgis)


@contextmanager
def brief_attempt(connection: psycopg.Connection[Any], *also: type[pg.Error]) -> Iterator[None]:
    """Run a transaction that does not wait long for locks, and may fail, `also` by these errors."""
    with suppress(*MAY_FAIL, *also), connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_LOCK_MS}ms",))
        yield


# --- The view `era5.location`, with the land share of each cell if it is known; with PostGIS, also geometries ---
#
# The statements are in `sql/locations.sql`.


def ensure_locations(connection: psycopg.Connection[Any]) -> None:
    """Create the view, its table and the function, unless they exist; usually a single query.

    If PostGIS was installed after the view was created, the view gains these columns.
    """
    row = connection.execute(read_sql("missing_locations", dataset_of(connection))).fetchone()
    is_complete, postgis = row if row is not None else (True, None)
    if is_complete:
        return
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_LOCK_MS}ms",))
        dataset = dataset_of(connection)
        connection.execute(_statements(dataset, postgis))
        _fill_land(connection)


def _statements(dataset: Dataset, postgis: str | None) -> sql.Composed:
    """The statements that create the objects; `postgis` is the extension's schema, if installed."""
    statements = sql.SQL(read_sql("locations", dataset))
    if postgis is None:
        return statements.format(geography=sql.SQL(""), describe_geography=sql.SQL(""))
    column = sql.SQL(
        ",\n       {point}::{postgis}.geography(Point, 4326) AS geography"
        ",\n       {point}::{postgis}.geometry(Point, 4326) AS geom"
    )
    schema = sql.Identifier(postgis)
    point = sql.SQL(
        dataset.sql(
            "{0}.ST_SetSRID({0}.ST_MakePoint((id - 1) % {grid_columns} * {step} - {west}, "
            "land.latitude_index * {step} - 90), 4326)"
        )
    ).format(schema)
    return statements.format(
        geography=column.format(postgis=schema, point=point),
        describe_geography=sql.SQL(
            dataset.sql(
                "COMMENT ON COLUMN {schema}.location.geography IS 'The point, for PostGIS: ST_DWithin, ST_Distance'; "
                "COMMENT ON COLUMN {schema}.location.geom IS "
                "'The point as a geometry (EPSG:4326), for maps: QGIS reads it';"
            )
        ),
    )


# The rows of the table are needed all the same: the view has the latitudes from there.
_SHARES_UNKNOWN = (
    "ALTER TABLE {schema}.land ALTER percent DROP NOT NULL; "
    "COMMENT ON COLUMN {schema}.land.percent IS 'NULL: not known of cells of {step} degrees'; "
    "COMMENT ON COLUMN {schema}.location.land_share IS "
    "'NULL: how much of a cell of {step} degrees is land is not known; {dataset} has values at this point'"
)


def _fill_land(connection: psycopg.Connection[Any]) -> None:
    """Write the land percentages, one row per latitude; NULL of a grid whose cells' shares are not known."""
    # numpy and the 1 MB file are needed only once in a database's life.
    from era5_pipeline.model.cells import land_percent  # noqa: PLC0415

    dataset = dataset_of(connection)
    is_known = dataset.grid == ERA5_GRID
    if not is_known:
        connection.execute(dataset.sql(_SHARES_UNKNOWN))
    connection.execute(
        dataset.sql(
            "INSERT INTO {schema}.land "
            "SELECT row, substring(%b::bytea FROM row * {grid_columns} + 1 FOR {grid_columns}) "
            "FROM generate_series(0, {last_row}) AS row "
            "ON CONFLICT (latitude_index) DO UPDATE SET percent = excluded.percent"
        ),
        (land_percent().tobytes() if is_known else None,),
    )
