"""Plans of queries as the server ran them, and how many rows each part of a plan read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True)
class Scan:
    """A node of a plan that reads a table: how, which, and how many rows (those that a filter removed included)."""

    kind: str
    table: str
    rows: int


def scans_of(url: str, query: str) -> list[Scan]:
    """Run the query and list its scans of tables."""
    with psycopg.connect(url, autocommit=True) as connection:
        statement = f"EXPLAIN (ANALYZE, TIMING off, FORMAT json) {query}"
        row = connection.execute(statement).fetchone()
    assert row is not None
    return list(_scans(row[0][0]["Plan"]))


def _scans(plan: dict[str, Any]) -> Iterator[Scan]:
    if "Relation Name" in plan:
        once = plan["Actual Rows"] + sum(plan.get(f"Rows Removed by {by}", 0) for by in ("Filter", "Index Recheck"))
        yield Scan(plan["Node Type"], plan["Relation Name"], round(once * plan["Actual Loops"]))
    for below in plan.get("Plans", ()):
        yield from _scans(below)
