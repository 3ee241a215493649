"""A difference between a month in the table and its flat file, as `warehouse.verify` finds and `checks` reports it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from decimal import Decimal

    Number = int | float | Decimal | None

DifferenceKind = Literal["rows", "sum of location_id", "values", "minimum", "maximum", "checksum", "summaries"]


@dataclass(frozen=True)
class Difference:
    """A measure that is not the same in table and file; `column` is None for measures of whole rows."""

    kind: DifferenceKind
    column: str | None
    table: Number
    file: Number

    def __str__(self) -> str:
        """Name the measure and both numbers."""
        measure = self.kind if self.column is None else f"{self.kind} of {self.column}"
        return f"{measure}: {self.table} in the table, {self.file} in the file"
