"""Facts of one column, gathered while a month is flattened.

Here: counting, tile by tile and table by table. Not here: making the rows (`flatten`), or judging what was counted
(`quality`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

import numpy as np

from era5_pipeline.flat.digests import digest_text
from era5_pipeline.flat.flat_month import FLAT_FORM, ColumnFacts, checksum_of
from era5_pipeline.flat.merge import Versions, describe_place
from era5_pipeline.model.data_version import PRELIMINARY
from era5_pipeline.model.hours import describe_hours, hour_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.flat.digests import RowWeights
    from era5_pipeline.flat.inventory import Inventory
    from era5_pipeline.flat.tiles import Tile
    from era5_pipeline.model.variables import Variable

    Floats = npt.NDArray[np.float32]
    Flags = npt.NDArray[np.bool_]


@dataclass
class Tally:
    """Facts of one column; it ought to have values at the hours (n,) and places (721, 1440) that are due."""

    variable: Variable
    inventory: Inventory
    versions: Versions
    due_hours: Flags
    due_places: Flags
    values: int = 0
    total: float = 0.0
    minimum: float = np.inf
    maximum: float = -np.inf
    checksum: int = 0
    missing: int = 0
    first_missing: str | None = None
    out_of_bounds: int = 0
    first_out_of_bounds: str | None = None
    # Rows made by other rules are other rows, even where their values are the same.
    digest: int = FLAT_FORM

    @classmethod
    def of(cls, variable: Variable, inventory: Inventory) -> Self:
        """A tally of nothing yet."""
        return cls(
            variable,
            inventory,
            Versions(inventory.hours.size),
            due_hours=np.isin(inventory.hours, inventory.column_hours(variable.column))
            & (inventory.hours >= hour_of(variable.first_valid)),
            due_places=inventory.column_coverage(variable.column),
        )

    def note_oddities(self, values: Floats, tile: Tile) -> None:
        """Look for what is missing or out of bounds in a tile: (latitude, longitude, hour)."""
        missing = np.isnan(values)
        if missing.any():
            # Against every place and hour that the column has, so that files which cover a month in part here and in
            # part there leave no hole unnoticed.
            missing &= self.due_hours
            missing &= self.due_places[np.ix_(tile.latitude_index, tile.longitude_index)][..., np.newaxis]
            self.missing += int(missing.sum())
            self.first_missing = self.first_missing or self._first(missing, tile)
        with np.errstate(invalid="ignore"):
            low, high = np.float32(self.variable.minimum), np.float32(self.variable.maximum)
            if np.nanmin(values, initial=high) >= low and np.nanmax(values, initial=low) <= high:
                return
            outside = (values < low) | (values > high)
        self.out_of_bounds += int(outside.sum())
        self.first_out_of_bounds = self.first_out_of_bounds or self._first(outside, tile)

    def _first(self, flags: Flags, tile: Tile) -> str | None:
        if not flags.any():
            return None
        latitude, longitude, hour = np.unravel_index(int(flags.argmax()), flags.shape)
        return describe_place(tile, self.inventory.hours, (int(latitude), int(longitude), int(hour)))

    def add(self, values: Floats, missing: Flags | None, weights: RowWeights) -> None:
        """Count the values of rows, (location, hour); `missing` says where they are NaN, None: nowhere."""
        self.digest += weights.digest(values)
        held = values if missing is None else values[~missing]
        if not held.size:
            return
        self.values += held.size
        self.total += float(held.sum(dtype=np.float64))
        self.minimum = min(self.minimum, float(held.min()))
        self.maximum = max(self.maximum, float(held.max()))
        # Values beyond the bounds are refused; their checksum is never compared and could overflow.
        if self.variable.minimum <= self.minimum and self.maximum <= self.variable.maximum:
            self.checksum += checksum_of(held, self.variable.checksum_scale)

    def facts(self) -> ColumnFacts:
        """What was counted."""
        column = self.variable.column
        held = self.values > 0
        return ColumnFacts(
            column=column,
            values=self.values,
            minimum=self.minimum if held else None,
            maximum=self.maximum if held else None,
            mean=self.total / self.values if held else None,
            checksum=self.checksum,
            hours=int(self.inventory.column_hours(column).size),
            locations=self.inventory.column_locations(column),
            expver=self.versions.counts(),
            missing=self.missing,
            first_missing=self.first_missing,
            out_of_bounds=self.out_of_bounds,
            first_out_of_bounds=self.first_out_of_bounds,
            preliminary_hours=describe_hours(self.inventory.hours[self.versions.positions(PRELIMINARY)]),
            digest=digest_text(self.digest),
        )
