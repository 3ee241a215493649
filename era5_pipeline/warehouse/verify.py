"""Whether the table holds the month as the flat file has it: rows, and for each column counts, range and checksum."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from psycopg import sql

from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.postgres.server_errors import server_errors
from era5_pipeline.warehouse.layouts.layout import WEATHER, month_where

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse

# The greatest power of two that a bigint holds.
_BIGINT_LIMIT = 2.0**62


def verify_month(warehouse: Warehouse, flat: FlatMonth) -> tuple[str, ...]:
    """Every difference between the table and the flat month, in words; none: they hold the same.

    One scan of the month. The checksum is exact and does not depend on the order of rows (see `facts`).
    """
    with server_errors(f"verifying {flat.month}"), warehouse.connect() as connection:
        held = _aggregates(connection, flat)
    expected: dict[str, Any] = {"rows": flat.rows, "sum of location_id": flat.location_id_sum}
    for column in BY_COLUMN:
        expected[f"values of {column}"] = 0
    for facts in flat.columns:
        expected[f"values of {facts.column}"] = facts.values
        expected[f"minimum of {facts.column}"] = facts.minimum
        expected[f"maximum of {facts.column}"] = facts.maximum
        expected[f"checksum of {facts.column}"] = facts.checksum
    return tuple(
        f"{what}: {held[what]} in the table, {value} in the file"
        for what, value in expected.items()
        if held[what] != value
    )


def _aggregates(connection: psycopg.Connection[Any], flat: FlatMonth) -> dict[str, Any]:
    selected: dict[str, sql.Composable] = {
        "rows": sql.SQL("count(*)"),
        "sum of location_id": sql.SQL("coalesce(sum(location_id), 0)::bigint"),
    }
    for name in BY_COLUMN:
        selected[f"values of {name}"] = sql.SQL("count({})").format(sql.Identifier(name))
    for facts in flat.columns:
        column, scale = sql.Identifier(facts.column), BY_COLUMN[facts.column].checksum_scale
        selected[f"minimum of {facts.column}"] = sql.SQL("min({})").format(column)
        selected[f"maximum of {facts.column}"] = sql.SQL("max({})").format(column)
        # NaN and what is too great for a bigint are left to minimum and maximum.
        selected[f"checksum of {facts.column}"] = sql.SQL(
            "coalesce(sum(CASE WHEN abs({0}) < {2} THEN floor({0}::float8 * {1})::bigint END), 0)::numeric"
        ).format(column, sql.Literal(scale), sql.Literal(_BIGINT_LIMIT / scale))
    # Binary results: text would round float4 to fewer digits than it has.
    row = connection.execute(
        sql.SQL("SELECT {} FROM {} WHERE {}").format(
            sql.SQL(", ").join(selected.values()), WEATHER, month_where(flat.month)
        ),
        binary=True,
    ).fetchone()
    return dict(zip(selected, row or (), strict=True))
