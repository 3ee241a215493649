"""A digest of a column's values: exact to the bit, and independent of the order and grouping of rows.

Here: the arithmetic. Not here: adding it up tile by tile (`statistics`), or acting on a difference
(`warehouse.changes`).

Each row contributes its value's bits times an odd weight of its location times an odd weight of its hour; the rows are
added modulo 2**64. A single changed value therefore always changes the digest; several changes cancel each other with a
probability below 2**-48. An absent row contributes nothing, unlike a row with a missing value or a zero.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Floats = npt.NDArray[np.float32]
    Flags = npt.NDArray[np.bool_]
    Weights = npt.NDArray[np.uint64]

MODULUS = 1 << 64
# Values processed at a time: 128 kB as uint64, which fit into the processor's cache. All at once takes a third longer.
_CACHED_VALUES = 1 << 14
_MISSING = np.uint32(0x7FC00000)  # one bit pattern for every NaN: which one a file uses has no meaning
_HALF = np.uint32(16)
# Different streams, so that a location and an hour of the same number have different weights.
_LOCATIONS, _HOURS = 1, 2


@dataclass(frozen=True)
class RowWeights:
    """The weights of rows: each of `location_ids` (n,) at each of `hours` (m,) since 1970.

    `present` (n, m) says which of these rows exist, None: all of them.
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
            np.einsum("ij,j->i", bits, self._of_hours, out=of_locations[portion])
        return (int(np.dot(of_locations, self._of_locations)) + self._of_rows) % MODULUS

    @cached_property
    def _of_locations(self) -> Weights:
        return _weights(self.location_ids, _LOCATIONS)

    @cached_property
    def _of_hours(self) -> Weights:
        return _weights(self.hours, _HOURS)

    @cached_property
    def _of_rows(self) -> int:
        """The contribution of the rows' existence, whatever their values: the bits of 0.0 are zero."""
        if self.present is None:
            return int(self._of_locations.sum()) * int(self._of_hours.sum())
        return int(np.dot(self.present.astype(np.uint64) @ self._of_hours, self._of_locations))


def digest_text(digest: int) -> str:
    """The digest as text, 16 hexadecimal digits, as stored in facts and ledger."""
    return f"{digest % MODULUS:016x}"


def _mixed(values: Floats) -> npt.NDArray[np.uint32]:
    """The bits of the values, the upper half mixed into the lower one (reversibly).

    In a product modulo 2**64, the upper bits of a factor affect few bits: a change of sign would hardly count.
    """
    bits = np.ascontiguousarray(values).view(np.uint32)
    missing = np.isnan(values)
    if missing.any():
        bits = np.where(missing, _MISSING, bits)
    return bits ^ (bits >> _HALF)


def _weights(numbers: npt.NDArray[np.integer], stream: int) -> Weights:
    """A pseudo-random odd number (SplitMix64) for each of `numbers`."""
    mixed = numbers.astype(np.int64).view(np.uint64) + np.uint64(stream << 60)
    mixed *= np.uint64(0x9E3779B97F4A7C15)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed ^= mixed >> np.uint64(shift)
        mixed *= np.uint64(factor)
    mixed ^= mixed >> np.uint64(31)
    return mixed | np.uint64(1)
