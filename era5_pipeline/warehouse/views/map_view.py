"""The view `weather_monthly_map`, where PostGIS is installed: `weather_monthly` with each cell as a polygon.

For programs that draw maps: a month of it is a layer, with `location_id` as its key.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.warehouse.views.view_access import (
    give_to_owner_of_weather,
    let_readers_of_weather_read,
    schema_of_weather,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import psycopg

NAME = "weather_monthly_map"
_KEYS = ("location_id", "month")
# Half a step of the grid. Cells of the poles end there.
_VIEW = """CREATE OR REPLACE VIEW {view} AS
SELECT {keys},
       {postgis}.ST_MakeEnvelope(
           longitude - 0.125, greatest(latitude - 0.125, -90), longitude + 0.125, least(latitude + 0.125, 90), 4326
       )::{postgis}.geometry(Polygon, 4326) AS cell,
       {columns}
FROM {monthly}"""
COMMENT = (
    "ERA5 by month, as weather_monthly, with the cell of each location, for maps: a layer is one month of it, and "
    "its key is location_id"
)
_CELL = "The cell of 0.25 degrees around the point (EPSG:4326), a geometry of PostGIS"


def create_map_view(connection: psycopg.Connection[Any], postgis: str) -> None:
    """Create or replace the view, with comments, within a transaction; `postgis` is the schema of that extension."""
    schema, columns = schema_of_weather(connection), monthly_columns(connection)
    view, monthly = sql.Identifier(schema, NAME), sql.Identifier(schema, "weather_monthly")
    if not set(_KEYS) <= set(columns):
        return
    comma = sql.SQL(", ")
    connection.execute(
        sql.SQL(_VIEW).format(
            view=view,
            monthly=monthly,
            postgis=sql.Identifier(postgis),
            keys=comma.join(map(sql.Identifier, _KEYS)),
            columns=comma.join(sql.Identifier(name) for name in columns if name not in _KEYS),
        )
    )
    connection.execute(
        sql.SQL("COMMENT ON VIEW {0} IS {1}; COMMENT ON COLUMN {0}.cell IS {2}").format(
            view, sql.Literal(COMMENT), sql.Literal(_CELL)
        )
    )
    for (statement,) in connection.execute(
        "SELECT format('COMMENT ON COLUMN %%s.%%I IS %%L', %s::text, attname, col_description(attrelid, attnum)) "
        "FROM pg_attribute WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
        (view.as_string(connection), monthly.as_string(connection)),
    ).fetchall():
        connection.execute(statement.encode())
    give_to_owner_of_weather(connection, view, "VIEW")
    let_readers_of_weather_read(connection, view)


def monthly_columns(connection: psycopg.Connection[Any]) -> Sequence[str]:
    """The columns of `weather_monthly` in their order; none if there is no such view."""
    rows = connection.execute(
        "SELECT attname FROM pg_attribute JOIN pg_class AS c ON c.oid = attrelid WHERE relname = 'weather_monthly' "
        "AND relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = 'weather'::regclass) "
        "AND attnum > 0 AND NOT attisdropped ORDER BY attnum"
    ).fetchall()
    return [name for (name,) in rows]
