"""Units and descriptions as rows: the table `era5.catalogue`, the views `era5.variable` and `era5.table_column`.

Comments are for people at psql. A program that joins units, or that sees the database through another one, reads these.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql
from psycopg.types.json import Jsonb

from era5_pipeline.model.conventions.cf_names import STANDARD_NAMES, cell_method, cf_unit
from era5_pipeline.model.variables import VARIABLES
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.views.view_access import let_readers_of_weather_read, schema_of_weather

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import psycopg

    from era5_pipeline.model.variables import Variable

RELATIONS = ("catalogue", "variable", "table_column", "missing_hours", "preliminary_hours")
_FIELDS = (
    *("column_name", "unit", "cf_unit", "short_name", "param_id", "cds_name", "long_name", "standard_name"),
    *("cell_method", "extent", "description"),
)
_OURS = "SELECT {fields} FROM jsonb_populate_recordset(NULL::era5.catalogue, %s)"


def catalogue_rows() -> Sequence[Mapping[str, Any]]:
    """The rows of `era5.catalogue`, one for each variable that can be loaded."""
    return [_row(variable) for variable in VARIABLES]


def create_variable_views(connection: psycopg.Connection[Any]) -> None:
    """Create or replace the table and the views, with comments, and fill the table; within a transaction."""
    weather = sql.Identifier(schema_of_weather(connection), "weather").as_string(connection)
    connection.execute(sql.SQL(read_sql("variable_views")).format(weather=sql.Literal(weather)))
    connection.execute(read_sql("hour_views"))
    let_readers_of_weather_read(connection, *(sql.Identifier("era5", name) for name in RELATIONS))


def fill_catalogue(connection: psycopg.Connection[Any]) -> None:
    """Write the variables that this version knows, where the table has them otherwise or not at all."""
    fields = sql.SQL(", ").join(map(sql.Identifier, _FIELDS))
    ours = sql.SQL(_OURS).format(fields=fields)
    changes = sql.SQL(", ").join(sql.SQL("{0} = excluded.{0}").format(sql.Identifier(name)) for name in _FIELDS[1:])
    rows = Jsonb(catalogue_rows())
    differs = sql.SQL("SELECT EXISTS ({} EXCEPT SELECT {} FROM era5.catalogue)").format(ours, fields)
    if connection.execute(differs, (rows,)).fetchone() == (True,):
        connection.execute(
            sql.SQL("INSERT INTO era5.catalogue ({}) {} ON CONFLICT (column_name) DO UPDATE SET {}").format(
                fields, ours, changes
            ),
            (rows,),
        )


def _row(variable: Variable) -> Mapping[str, Any]:
    values = (
        *(variable.column, variable.unit, cf_unit(variable), variable.short_name, variable.param_id),
        *(variable.cds_name, variable.long_name, STANDARD_NAMES.get(variable.column)),
        *(cell_method(variable), variable.extent, variable.description),
    )
    return dict(zip(_FIELDS, values, strict=True))
