"""Statistics of one column, collected during flattening, and digests that do not depend on row order."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Self

import numpy as np

from era5_pipeline.flat.day_accumulations import lower_bound
from era5_pipeline.flat.flat_month import FLAT_FORM, ColumnFacts, checksum_of
from era5_pipeline.flat.tiles import HourVersions, describe_place
from era5_pipeline.model.completeness import missing_hours
from era5_pipeline.model.source_kinds import PRELIMINARY
from era5_pipeline.model.times import describe_hours
from era5_pipeline.model.variables import QUANTITIES

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from era5_pipeline.flat.inventory import Inventory
    from era5_pipeline.flat.tiles import Indices
    from era5_pipeline.model.grid import Grid
    from era5_pipeline.model.variables import Variable

    Floats = npt.NDArray[np.float32]
    Flags = npt.NDArray[np.bool_]
    Weights = npt.NDArray[np.uint64]
    Doubles = npt.NDArray[np.float64]
    Counts = npt.NDArray[np.int64]
    Hours = npt.NDArray[np.int64]

# --- A digest of a column's values: exact to the bit, and independent of the order and grouping of rows ---
#
# Each row contributes its value's bits times an odd weight for its location times an odd weight for its hour; the rows
# are added modulo 2**64. A single changed value therefore always changes the digest; several changes cancel each other
# with a probability below 2**-48. An absent row contributes nothing, unlike a row with a missing value or a zero.


MODULUS = 1 << 64
# Values per step: 128 kB as uint64, which fit in the processor's cache. All at once takes a third longer.
_CACHED_VALUES = 1 << 14
_MISSING = np.uint32(0x7FC00000)  # one bit pattern for all NaNs: which one a file uses has no meaning
_HALF = np.uint32(16)
# Separate streams, so that a location and an hour with the same number have different weights.
_LOCATIONS, _HOURS = 1, 2
# Of the range of packed numbers: a jump of most of it from an hour to the next, where jumps of about half of it are
# rarer, is no weather. A number too large for its bits becomes one at the other end of the range, as where months of
# other packings are written with the packing of the first.
_JUMP, _HALF_JUMP = 0.75, (0.35, 0.65)
# Of temperatures, winds and pressures.
_STEADY_UNITS = frozenset(QUANTITIES[name].unit for name in ("temperature", "speed", "pressure"))


@dataclass(frozen=True)
class RowWeights:
    """The weights of rows: each of `location_ids` (n,) at each of `hours` (m,) since 1970.

    `present` (n, m) says which of these rows exist; None: all.
    """

    location_ids: npt.NDArray[np.integer]
    hours: npt.NDArray[np.integer]
    present: Flags | None = None

    def digest(self, values: Floats) -> int:
        """The contribution of these rows to a column's digest, 0 to 2**64 - 1; `values` (n, m), NaN where missing."""
        of_locations = np.empty(len(values), dtype=np.uint64)
        step = max(1, _CACHED_VALUES // max(1, self.hours.size))
        for start in range(0, len(values), step):
            portion = slice(start, start + step)
            bits = _mixed(values[portion]).astype(np.uint64)
            if self.present is not None:
                bits *= self.present[portion]
            np.einsum("ij,j->i", bits, self.of_hours, out=of_locations[portion])
        return self.joined(of_locations)

    def joined(self, of_locations: Weights) -> int:
        """The digest of rows whose bits, times the weights of their hours, are summed by location: (n,)."""
        return (int(np.dot(of_locations, self._of_locations)) + self._of_rows) % MODULUS

    @cached_property
    def _of_locations(self) -> Weights:
        return location_weights(self.location_ids)

    @cached_property
    def of_hours(self) -> Weights:
        """The weight of each hour, (m,)."""
        return hour_weights(self.hours)

    @cached_property
    def _of_rows(self) -> int:
        """The contribution of the rows' existence, whatever their values, because the bits of 0.0 are zero."""
        if self.present is None:
            return int(self._of_locations.sum()) * int(self.of_hours.sum())
        return int(np.dot(self.present.astype(np.uint64) @ self.of_hours, self._of_locations))


def digest_of_rows(times: npt.NDArray[np.datetime64], location_ids: npt.NDArray[np.integer], values: Floats) -> int:
    """The contribution of single rows (n,) to a column's digest, in any order; `values` are NaN where missing."""
    hours = times.astype("datetime64[h]").astype(np.int64)
    first = int(hours.min(initial=0))
    of_hours = hour_weights(np.arange(first, int(hours.max(initial=first)) + 1))[hours - first]
    rows = (_mixed(values).astype(np.uint64) + np.uint64(1)) * of_hours * location_weights(location_ids)
    return int(rows.sum(dtype=np.uint64))


def digest_text(digest: int) -> str:
    """Write the digest as 16 hexadecimal digits, as in facts and ledger."""
    return f"{digest % MODULUS:016x}"


def _mixed(values: Floats) -> npt.NDArray[np.uint32]:
    """The bits of the values, with the upper half (reversibly) mixed into the lower one.

    In a product modulo 2**64, the upper bits of a factor affect few bits: a sign change would hardly count.
    """
    bits = np.ascontiguousarray(values).view(np.uint32)
    missing = np.isnan(values)
    if missing.any():
        bits = np.where(missing, _MISSING, bits)
    return bits ^ (bits >> _HALF)


def location_weights(location_ids: npt.NDArray[np.integer]) -> Weights:
    """The weight of each location in a digest."""
    return _weights(location_ids, _LOCATIONS)


def hour_weights(hours: npt.NDArray[np.integer]) -> Weights:
    """The weight of each hour, since 1970, in a digest."""
    return _weights(hours, _HOURS)


def _weights(numbers: npt.NDArray[np.integer], stream: int) -> Weights:
    """A pseudo-random odd number (SplitMix64) for each number."""
    mixed = numbers.astype(np.int64).view(np.uint64) + np.uint64(stream << 60)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed | np.uint64(1)


@dataclass(frozen=True, eq=False)
class Anomalies:
    """Missing and out-of-bounds values of one column in some rows, and the first place of each.

    `jumps` counts hours whose value differs from that of the hour before by most of what packed numbers can express,
    `half_jumps` those that differ by about half of it.
    """

    missing: int = 0
    first_missing: str | None = None
    out_of_bounds: int = 0
    first_out_of_bounds: str | None = None
    jumps: int = 0
    half_jumps: int = 0
    first_jump: str | None = None


@dataclass(frozen=True, eq=False)
class LocationSums:
    """The number, sum and range of the values at each of some locations, (location,).

    Without values, the sum is 0 and the range NaN.
    """

    hours: Counts
    totals: Doubles
    minima: Floats
    maxima: Floats


@dataclass(frozen=True, eq=False)
class RowSums:
    """The contribution of some rows to the statistics of one column.

    `locations_with_values` have a value at any hour; `values_by_hour` (hours,) counts the locations with a value at
    each hour. `weighted_total` and `weight` weight each value by the cosine of its latitude, like its cell's area.
    """

    digest: int
    locations_with_values: int
    values_by_hour: Counts
    by_location: LocationSums
    values: int = 0
    total: float = 0.0
    weighted_total: float = 0.0
    weight: float = 0.0
    minimum: float = np.inf
    maximum: float = -np.inf
    checksum: int = 0


@dataclass(frozen=True, eq=False)
class ColumnRules:
    """Expectations for one column: its `hours` (n,) of the month, and where and when it has values.

    It should have values at `expected_hours` (n,) and at `expected_places` (rows, columns) of the grid. With
    `is_compiled`, its values are summed by compiled functions. `packed_range` is the least range that packed numbers
    of a file can express, 0 if none is packed. `sums_step` is the step of packed sums since 00 UTC that the values were
    taken from, 0 if there were none or files do not state it.
    """

    variable: Variable
    hours: Hours
    expected_hours: Flags
    expected_places: Flags
    grid: Grid
    is_compiled: bool = False
    packed_range: float = 0.0
    sums_step: float = 0.0

    @classmethod
    def of(cls, variable: Variable, inventory: Inventory) -> Self:
        """The rules for a column of the inventory."""
        return cls(
            variable,
            inventory.hours,
            expected_hours=np.isin(inventory.hours, inventory.column_hours(variable.column))
            & (inventory.hours >= inventory.first_hour(variable)),
            expected_places=inventory.column_coverage(variable.column),
            grid=inventory.grid,
            is_compiled=inventory.is_large,
            packed_range=_range_of(variable, inventory),
            sums_step=inventory.packing_steps[variable.column] if inventory.is_summed(variable.column) else 0.0,
        )

    def anomalies(self, values: Floats, sums: RowSums, places: tuple[Indices, Indices]) -> Anomalies:
        """Count missing and out-of-bounds values of rows, (location, hour), which have these sums.

        `places` are the latitude and longitude index of each location. The values are looked at only if their sums show
        that there may be any.
        """
        hours, (low, high) = sums.by_location.hours, self.bounds
        outside = missing = None
        if sums.values and not (low <= sums.minimum and sums.maximum <= high):
            with np.errstate(invalid="ignore"):
                outside = (values < low) | (values > high)
        is_short = hours < values.shape[1]
        if self.variable.extent == "sea":
            is_short &= hours > 0  # ERA5 never has values at the others: they are land, not a gap
        if self.variable.extent != "sometimes" and is_short.any():
            missing = self._missing(np.isnan(values), places)
        jumps, half_jumps, first_jump = self._jumps(values, sums.by_location, places)
        return Anomalies(
            jumps=jumps,
            half_jumps=half_jumps,
            first_jump=first_jump,
            missing=0 if missing is None else int(missing.sum()),
            first_missing=None if missing is None else self._first(missing, places),
            out_of_bounds=0 if outside is None else int(outside.sum()),
            first_out_of_bounds=None if outside is None else self._first(outside, places),
        )

    def _missing(self, missing: Flags, places: tuple[Indices, Indices]) -> Flags:
        if self.variable.extent == "sea":
            missing &= np.any(~missing & self.expected_hours, axis=-1, keepdims=True)
        # Compare with all places and hours of the column, so that gaps are noticed even if each file covers only part
        # of the month and part of the area.
        missing &= self.expected_hours
        missing &= self.expected_places[places][:, np.newaxis]
        return missing

    def _jumps(
        self, values: Floats, of_locations: LocationSums, places: tuple[Indices, Indices]
    ) -> tuple[int, int, str | None]:
        """Count the jumps of rows; only of the locations whose values span as much: elsewhere there are none."""
        if not self.packed_range:
            return 0, 0, None
        with np.errstate(invalid="ignore"):
            wide = np.flatnonzero(of_locations.maxima - of_locations.minima >= _JUMP * self.packed_range)
            if not wide.size:
                return 0, 0, None
            by = np.abs(np.diff(values[wide], axis=1)) / self.packed_range
            jumps = by >= _JUMP
            half_jumps = (by >= _HALF_JUMP[0]) & (by <= _HALF_JUMP[1])
        places_of = (places[0][wide], places[1][wide])
        # The hour after.
        first = self._first(np.pad(jumps, ((0, 0), (1, 0))), places_of)
        return int(jumps.sum()), int(half_jumps.sum()), first

    @property
    def bounds(self) -> tuple[np.float32, np.float32]:
        """The bounds as float32, like stored values: float32(0.05) is more than 0.05."""
        low = lower_bound(self.variable, self.sums_step) if self.sums_step else self.variable.minimum
        return np.float32(low), np.float32(self.variable.maximum)

    def _first(self, flags: Flags, places: tuple[Indices, Indices]) -> str | None:
        if not flags.any():
            return None
        location, hour = np.unravel_index(int(flags.argmax()), flags.shape)
        return describe_place(self.grid, int(places[0][location]), int(places[1][location]), int(self.hours[hour]))

    def sums(self, values: Floats, weights: RowWeights, areas: Doubles) -> RowSums:
        """Sum the values of rows, (location, hour), NaN where missing.

        `areas` (location,) are proportional to the area that each location represents.
        """
        if self.is_compiled and weights.present is None:
            return self._compiled_sums(values, weights, areas)
        empty = np.isnan(values)
        missing = empty if empty.any() else None
        by_location = _by_location(values, missing)
        sums = RowSums(
            digest=weights.digest(values),
            locations_with_values=int(np.count_nonzero(by_location.hours)),
            values_by_hour=np.full(values.shape[1], len(values)) if missing is None else (~missing).sum(axis=0),
            by_location=by_location,
        )
        present = values if missing is None else values[~missing]
        return self._summed(sums, areas, lambda: checksum_of(present, self.variable.checksum_scale))

    def _compiled_sums(self, values: Floats, weights: RowWeights, areas: Doubles) -> RowSums:
        """The same, several times as fast."""
        from era5_pipeline.flat.compiled_sums import sum_rows  # noqa: PLC0415  # slow to import, optional

        places, hours = values.shape
        digests = np.empty(places, dtype=np.uint64)
        by_location = LocationSums(
            hours=np.empty(places, dtype=np.int64),
            totals=np.empty(places),
            minima=np.empty(places, dtype=np.float32),
            maxima=np.empty(places, dtype=np.float32),
        )
        by_hour = np.zeros(hours, dtype=np.int64)
        checksum = sum_rows(
            *(np.ascontiguousarray(values), weights.of_hours, self.variable.checksum_scale, digests),
            *(by_location.hours, by_location.totals, by_location.minima, by_location.maxima, by_hour),
        )
        sums = RowSums(
            digest=weights.joined(digests),
            locations_with_values=int(np.count_nonzero(by_location.hours)),
            values_by_hour=by_hour,
            by_location=by_location,
        )
        return self._summed(sums, areas, lambda: int(checksum))

    def _summed(self, sums: RowSums, areas: Doubles, checksum: Callable[[], int]) -> RowSums:
        """Add what follows from the sums by location."""
        found, hours = sums.by_location, sums.values_by_hour.size
        values = int(found.hours.sum())
        if not values:
            return sums
        is_complete = values == found.hours.size * hours
        minimum, maximum = float(np.nanmin(found.minima)), float(np.nanmax(found.maxima))
        # Values out of bounds are refused: their checksum is never compared, and could overflow.
        low, high = self.bounds
        return replace(
            sums,
            values=values,
            total=float(found.totals.sum()),
            weighted_total=_weighted(areas, found.totals),
            weight=float(areas.sum()) * hours if is_complete else _weighted(areas, found.hours),
            minimum=minimum,
            maximum=maximum,
            checksum=checksum() if low <= minimum and maximum <= high else 0,
        )


def _range_of(variable: Variable, inventory: Inventory) -> float:
    """The least range of packed numbers of values that do not jump by themselves, as clouds and rain do; 0: none."""
    if variable.step_type != "instant" or variable.unit not in _STEADY_UNITS:
        return 0.0
    ranges = [piece.field.packed_range for piece in inventory.column_pieces(variable.column)]
    return min((one for one in ranges if one), default=0.0)


def _weighted(areas: Doubles, of_locations: Doubles | Counts) -> float:
    """The sum of both, multiplied.

    Not by `@`: BLAS computes it in threads of its own, which then spin for a while. They took a third of the processor
    time of flattening (24 hours of the globe, two cores: 3.0 s instead of 2.0).
    """
    return float((areas * of_locations).sum())


def _by_location(values: Floats, missing: Flags | None) -> LocationSums:
    """Sum each location's values, (location, hour); `missing` marks the NaNs; None without any."""
    # numpy sums whole rows pairwise, so each sum keeps float64 precision.
    if missing is None:
        return LocationSums(
            hours=np.full(len(values), values.shape[1], dtype=np.int64),
            totals=values.sum(axis=1, dtype=np.float64),
            minima=values.min(axis=1),
            maxima=values.max(axis=1),
        )
    return LocationSums(
        hours=(~missing).sum(axis=1),
        totals=np.where(missing, np.float32(0), values).sum(axis=1, dtype=np.float64),
        minima=np.fmin.reduce(values, axis=1),
        maxima=np.fmax.reduce(values, axis=1),
    )


@dataclass
class ColumnStatistics:
    """Statistics of one column of the month, accumulated tile by tile, in row order."""

    rules: ColumnRules
    inventory: Inventory
    versions: HourVersions
    values: int = 0
    total: float = 0.0
    weighted_total: float = 0.0
    weight: float = 0.0
    minimum: float = np.inf
    maximum: float = -np.inf
    checksum: int = 0
    missing: int = 0
    first_missing: str | None = None
    out_of_bounds: int = 0
    first_out_of_bounds: str | None = None
    jumps: int = 0
    half_jumps: int = 0
    first_jump: str | None = None
    # Starts with the form of the rows, so that rows made by other rules have another digest, even if equal.
    digest: int = FLAT_FORM
    locations_with_values: int = 0
    values_by_hour: Counts = field(init=False)

    def __post_init__(self) -> None:
        self.values_by_hour = np.zeros(self.inventory.hours.size, dtype=np.int64)

    @classmethod
    def empty(cls, variable: Variable, inventory: Inventory) -> Self:
        """The statistics of a column before the first tile."""
        return cls(ColumnRules.of(variable, inventory), inventory, HourVersions(inventory.hours.size))

    def add_anomalies(self, found: Anomalies) -> None:
        """Add the anomalies of the next rows."""
        self.missing += found.missing
        self.first_missing = self.first_missing or found.first_missing
        self.out_of_bounds += found.out_of_bounds
        self.first_out_of_bounds = self.first_out_of_bounds or found.first_out_of_bounds
        self.jumps += found.jumps
        self.half_jumps += found.half_jumps
        self.first_jump = self.first_jump or found.first_jump

    def add(self, rows: RowSums) -> None:
        """Add the sums of the next rows."""
        self.digest += rows.digest
        self.locations_with_values += rows.locations_with_values
        self.values_by_hour += rows.values_by_hour
        self.values += rows.values
        self.total += rows.total
        self.weighted_total += rows.weighted_total
        self.weight += rows.weight
        self.minimum = min(self.minimum, rows.minimum)
        self.maximum = max(self.maximum, rows.maximum)
        low, high = self.rules.bounds
        if low <= self.minimum and self.maximum <= high:
            self.checksum += rows.checksum

    def facts(self) -> ColumnFacts:
        """The statistics as facts of the flat month."""
        column = self.rules.variable.column
        has_values = self.values > 0
        missing, first_missing = self.missing, self.first_missing
        if self.rules.variable.extent == "sea" and not has_values:
            # No place was found to be sea: an area of land, or files without values.
            missing = int(self.rules.expected_places.sum() * self.rules.expected_hours.sum())
            first_missing = "every place and hour"
        return ColumnFacts(
            column=column,
            values=self.values,
            minimum=self.minimum if has_values else None,
            maximum=self.maximum if has_values else None,
            mean=self.total / self.values if has_values else None,
            # Rounded, so that it does not depend on how the month is cut into tiles; float32 has seven digits.
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
            origin=self.inventory.column_origin(column),
            jumps=self.jumps if self.jumps > self.half_jumps else 0,
            first_jump=self.first_jump if self.jumps > self.half_jumps else None,
            sums_step=self.rules.sums_step,
        )

    def _missing_hours(self) -> npt.NDArray[np.int64]:
        """Hours of the month, (n,) ascending, that ERA5 has for the variable and that are missing at some location.

        For sea-only variables, locations without any value are land; for variables that exist only sometimes, no hour
        present in the files counts as missing.
        """
        if self.rules.variable.extent == "sometimes":
            everywhere = np.isin(self.inventory.hours, self.inventory.column_hours(self.rules.variable.column))
        else:
            is_sea = self.rules.variable.extent == "sea" and self.locations_with_values
            locations = self.locations_with_values if is_sea else self.inventory.locations
            everywhere = self.values_by_hour == locations
        held, is_series = self.inventory.hours[everywhere], self.inventory.is_series
        return missing_hours(self.inventory.month, self.rules.variable, held, is_series=is_series)
