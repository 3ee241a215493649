"""The view `era5.location`, with the share of land of each cell; where PostGIS is installed, with geometries.

Here: creating it, the table of land below it and the function `era5.nearest`, where they are missing. The statements
are in `sql/locations.sql`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.runtime.sql_files import read_sql

if TYPE_CHECKING:
    import psycopg

# A load does not wait longer for a lock: the next one tries again.
_LOCK_MS = 1000


def ensure_locations(connection: psycopg.Connection[Any]) -> None:
    """Create the view, its table and the function, unless they are there; usually that is one query.

    Where PostGIS was installed since the view was made, it gains these columns.

    Raises:
        psycopg.Error: if this user may not, or the objects are locked.
    """
    row = connection.execute(read_sql("missing_locations")).fetchone()
    is_complete, postgis = row if row is not None else (True, None)
    if is_complete:
        return
    with connection.transaction():
        connection.execute("SELECT set_config('lock_timeout', %s, true)", (f"{_LOCK_MS}ms",))
        connection.execute(_statements(postgis))
        _fill_land(connection)


def _statements(postgis: str | None) -> sql.Composed:
    """The statements that create the objects; `postgis` is the schema of that extension, if it is installed."""
    statements = sql.SQL(read_sql("locations"))
    if postgis is None:
        return statements.format(geography=sql.SQL(""), describe_geography=sql.SQL(""))
    column = sql.SQL(
        ",\n       {point}::{postgis}.geography(Point, 4326) AS geography"
        ",\n       {point}::{postgis}.geometry(Point, 4326) AS geom"
    )
    schema = sql.Identifier(postgis)
    point = sql.SQL(
        "{0}.ST_SetSRID({0}.ST_MakePoint((id - 1) % 1440 * 0.25 - 179.75, land.latitude_index * 0.25 - 90), 4326)"
    ).format(schema)
    return statements.format(
        geography=column.format(postgis=schema, point=point),
        describe_geography=sql.SQL(
            "COMMENT ON COLUMN era5.location.geography IS 'The point, for PostGIS: ST_DWithin, ST_Distance'; "
            "COMMENT ON COLUMN era5.location.geom IS 'The point as a geometry (EPSG:4326), for maps: QGIS reads it';"
        ),
    )


def _fill_land(connection: psycopg.Connection[Any]) -> None:
    """Write the percentages of land, a row for each latitude."""
    # numpy and the file of a megabyte are needed once in the life of a database.
    from era5_pipeline.model.places.grid_cells import land_percent  # noqa: PLC0415

    connection.execute(
        "INSERT INTO era5.land SELECT row, substring(%b::bytea FROM row * 1440 + 1 FOR 1440) "
        "FROM generate_series(0, 720) AS row "
        "ON CONFLICT (latitude_index) DO UPDATE SET percent = excluded.percent",
        (land_percent().tobytes(),),
    )
