"""The rows of a batch as Python's own values: tuples, dicts, columns of them. NULL is None, times are aware."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

Row = tuple[Any, ...]


def tuples_of(rows: pa.Table) -> list[Row]:
    """The rows as tuples, in the order of the columns."""
    return list(zip(*(column.to_pylist() for column in rows.columns), strict=True))


def dicts_of(rows: pa.Table) -> list[dict[str, Any]]:
    """The rows as dicts by column name."""
    names = rows.column_names
    return [dict(zip(names, row, strict=True)) for row in tuples_of(rows)]


def parts_of(values: list[Row], size: int) -> Iterator[list[Row]]:
    """The rows in parts of up to `size`."""
    for start in range(0, len(values), size):
        yield values[start : start + size]
