"""Statistics of one column, collected while a month is flattened.

Here: counting, tile by tile and table by table. Not here: making the rows (`flatten`), or judging the result
(`checks`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

import numpy as np

from era5_pipeline.flat.digests import digest_text
from era5_pipeline.flat.flat_month import FLAT_FORM, ColumnFacts, checksum_of
from era5_pipeline.flat.merge import HourVersions, describe_place
from era5_pipeline.model.data_version import PRELIMINARY
from era5_pipeline.model.hours import describe_hours, hour_of
from era5_pipeline.netcdf.contents import hours_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.flat.digests import RowWeights
    from era5_pipeline.flat.inventory import Inventory
    from era5_pipeline.flat.tiles import Tile
    from era5_pipeline.model.variables import Variable

    Floats = npt.NDArray[np.float32]
    Doubles = npt.NDArray[np.float64]
    Flags = npt.NDArray[np.bool_]
    Counts = npt.NDArray[np.int64]


@dataclass
class ColumnStatistics:
    """Statistics of one column, which should have values at `expected_hours` (n,) and `expected_places` (721, 1440)."""

    variable: Variable
    inventory: Inventory
    versions: HourVersions
    expected_hours: Flags
    expected_places: Flags
    values: int = 0
    total: float = 0.0
    # Sums of values and of weights, each value weighted by the cosine of its latitude, as the area of its cell is.
    weighted_total: float = 0.0
    weight: float = 0.0
    minimum: float = np.inf
    maximum: float = -np.inf
    checksum: int = 0
    missing: int = 0
    first_missing: str | None = None
    out_of_bounds: int = 0
    first_out_of_bounds: str | None = None
    # Starts with the form of the rows: rows made by other rules have another digest, even with equal values.
    digest: int = FLAT_FORM
    # Locations that have a value at any hour; and, (hours,), how many of them have one at that hour.
    locations_with_values: int = 0
    values_by_hour: Counts = field(init=False)

    def __post_init__(self) -> None:
        self.values_by_hour = np.zeros(self.inventory.hours.size, dtype=np.int64)

    @classmethod
    def empty(cls, variable: Variable, inventory: Inventory) -> Self:
        """Statistics of a column before the first tile."""
        return cls(
            variable,
            inventory,
            HourVersions(inventory.hours.size),
            expected_hours=np.isin(inventory.hours, inventory.column_hours(variable.column))
            & (inventory.hours >= hour_of(variable.first_valid)),
            expected_places=inventory.column_coverage(variable.column),
        )

    def count_anomalies(self, values: Floats, tile: Tile) -> None:
        """Count missing values and values out of bounds in a tile: (latitude, longitude, hour)."""
        self._count_missing(np.isnan(values), tile)
        self._count_out_of_bounds(values, tile)

    def _count_missing(self, missing: Flags, tile: Tile) -> None:
        if self.variable.extent == "sometimes" or not missing.any():
            return
        if self.variable.extent == "sea":
            # ERA5 has no value of it there at any hour: that is land, and no gap.
            missing &= np.any(~missing & self.expected_hours, axis=-1, keepdims=True)
        # Compared with all places and hours of the column, so that files which each cover part of the month and part
        # of the area leave no gap unnoticed.
        missing &= self.expected_hours
        missing &= self.expected_places[np.ix_(tile.latitude_index, tile.longitude_index)][..., np.newaxis]
        self.missing += int(missing.sum())
        self.first_missing = self.first_missing or self._first(missing, tile)

    def _count_out_of_bounds(self, values: Floats, tile: Tile) -> None:
        with np.errstate(invalid="ignore"):
            low, high = self._bounds
            if np.nanmin(values, initial=high) >= low and np.nanmax(values, initial=low) <= high:
                return
            outside = (values < low) | (values > high)
        self.out_of_bounds += int(outside.sum())
        self.first_out_of_bounds = self.first_out_of_bounds or self._first(outside, tile)

    @property
    def _bounds(self) -> tuple[np.float32, np.float32]:
        """The bounds as values are stored: float32 of 0.05 is more than 0.05."""
        return np.float32(self.variable.minimum), np.float32(self.variable.maximum)

    def _first(self, flags: Flags, tile: Tile) -> str | None:
        if not flags.any():
            return None
        latitude, longitude, hour = np.unravel_index(int(flags.argmax()), flags.shape)
        return describe_place(tile, self.inventory.hours, (int(latitude), int(longitude), int(hour)))

    def add(self, values: Floats, missing: Flags | None, weights: RowWeights, areas: Doubles) -> None:
        """Add the values of rows, (location, hour); `missing` says where they are NaN, None: nowhere.

        `areas` (location,) are in proportion to the area that each location stands for.
        """
        self.digest += weights.digest(values)
        self.locations_with_values += len(values) if missing is None else int((~missing).any(axis=1).sum())
        self.values_by_hour += len(values) if missing is None else (~missing).sum(axis=0)
        present = values if missing is None else values[~missing]
        if not present.size:
            return
        self.values += present.size
        # One pass for both sums. numpy adds whole rows in pairs, so that each keeps the precision of float64.
        if missing is None:
            by_location = values.sum(axis=1, dtype=np.float64)
            self.weight += float(areas.sum()) * values.shape[1]
        else:
            by_location = np.where(missing, np.float32(0), values).sum(axis=1, dtype=np.float64)
            self.weight += float(areas @ (~missing).sum(axis=1))
        self.total += float(by_location.sum())
        self.weighted_total += float(areas @ by_location)
        self.minimum = min(self.minimum, float(present.min()))
        self.maximum = max(self.maximum, float(present.max()))
        # Values out of bounds are refused: their checksum is never compared, and could overflow.
        low, high = self._bounds
        if low <= self.minimum and self.maximum <= high:
            self.checksum += checksum_of(present, self.variable.checksum_scale)

    def facts(self) -> ColumnFacts:
        """The statistics as facts of the flat month."""
        column = self.variable.column
        has_values = self.values > 0
        missing, first_missing = self.missing, self.first_missing
        if self.variable.extent == "sea" and not has_values:
            # No place showed to be sea: an area of land, or files without values.
            missing, first_missing = int(self.expected_places.sum() * self.expected_hours.sum()), "every place and hour"
        return ColumnFacts(
            column=column,
            values=self.values,
            minimum=self.minimum if has_values else None,
            maximum=self.maximum if has_values else None,
            mean=self.total / self.values if has_values else None,
            # Rounded, so that it is the same however the month is cut into tiles; float32 has seven digits.
            area_mean=float(f"{self.weighted_total / self.weight:.9g}") if has_values else None,
            checksum=self.checksum,
            hours=int(self.inventory.column_hours(column).size),
            locations=self.inventory.column_locations(column),
            expver=self.versions.counts(),
            missing=missing,
            first_missing=first_missing,
            out_of_bounds=self.out_of_bounds,
            first_out_of_bounds=self.first_out_of_bounds,
            preliminary_hours=describe_hours(self.inventory.hours[self.versions.positions(PRELIMINARY)]),
            digest=digest_text(self.digest),
            missing_hours=describe_hours(self._missing_hours()),
        )

    def _missing_hours(self) -> npt.NDArray[np.int64]:
        """Hours of the month, (n,) ascending, that ERA5 has of the variable and that some location lacks.

        Of what is there only at sea, locations without any value are land; of what is there only sometimes, an hour
        that the files have is not lacking.
        """
        if self.variable.extent == "sometimes":
            everywhere = np.isin(self.inventory.hours, self.inventory.column_hours(self.variable.column))
        else:
            is_sea = self.variable.extent == "sea" and self.locations_with_values
            locations = self.locations_with_values if is_sea else int(self.inventory.coverage.sum())
            everywhere = self.values_by_hour == locations
        expected = hours_of(self.inventory.month)
        expected = expected[expected >= hour_of(self.variable.first_valid)]
        return np.setdiff1d(expected, self.inventory.hours[everywhere])
