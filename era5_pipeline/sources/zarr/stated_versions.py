"""Versions that a store states by hour: its arrays `expver` and `status`, along time alone or at places too.

Only what is understood counts: ECMWF's numbers, or the CF attributes `flag_values` and `flag_meanings`. An hour is
final if all of the arrays say so, and preliminary if one does; of any other, the store states no version.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.source_kinds import FINAL, PRELIMINARY
from era5_pipeline.netcdf.contents import UNKNOWN_EXPVER, expver_text

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import numpy.typing as npt
    import zarr

    Codes = npt.NDArray[np.uint8]

VERSION_ARRAYS = ("expver", "status")
_UNKNOWN, _FINAL, _PRELIMINARY = 0, 1, 2
_VERSIONS = (UNKNOWN_EXPVER, FINAL, PRELIMINARY)
# What the numbers mean where no attribute says it: `status` as others saw it in Earthmover's repository.
_NUMBERS = {"expver": {FINAL: _FINAL, PRELIMINARY: _PRELIMINARY}, "status": {"0000": _FINAL}}
_MEANINGS = {
    **dict.fromkeys(("final", "era5", "consolidated", "validated"), _FINAL),
    **dict.fromkeys(("preliminary", "era5t", "provisional"), _PRELIMINARY),
}


@dataclass(frozen=True, eq=False)
class StatedArray:
    """One of the arrays, whose dimension `time_axis` is time, None without one; `codes` are those of its values.

    `is_absent` returns True for the key of a chunk that was asked for and is not in the store. `unclear` collects what
    was read and not understood.
    """

    name: str
    array: zarr.Array[Any]
    time_axis: int | None
    codes: Mapping[str, int]
    is_absent: Callable[[str], bool]
    unclear: set[str] = field(default_factory=set)
    _read: dict[int, Codes] = field(default_factory=dict, repr=False)

    def at(self, positions: range) -> Codes:
        """The code of each position of the time axis; each chunk of it is read once."""
        if not self.codes:
            return np.zeros(len(positions), np.uint8)
        if self.time_axis is None:
            return np.repeat(self._chunk(0), len(positions))
        size = self._chunk_shape[self.time_axis]
        first = positions.start // size
        codes = [self._chunk(number) for number in range(first, (positions.stop - 1) // size + 1)]
        return np.concatenate(codes)[positions.start - first * size :][: len(positions)]

    @property
    def _chunk_shape(self) -> tuple[int, ...]:
        return self.array.shards or self.array.chunks

    def _chunk(self, number: int) -> Codes:
        if number not in self._read:
            self._read[number] = self._codes_of_chunk(number)
        return self._read[number]

    def _codes_of_chunk(self, number: int) -> Codes:
        # At places too: those of the first chunk, which must agree. ERA5 replaces whole hours.
        at = tuple(number if axis == self.time_axis else 0 for axis in range(self.array.ndim))
        part = tuple(slice(n * size, (n + 1) * size) for n, size in zip(at, self._chunk_shape, strict=True))
        try:
            values = np.asarray(self.array.get_basic_selection(part))
        except Era5Error:
            raise
        except Exception as error:  # noqa: BLE001  # each codec raises its own for a damaged chunk
            self.unclear.add(f"{self.name} cannot be decoded ({' '.join(str(error).split())})")
            return np.zeros(self._chunk_shape[self.time_axis or 0] if self.array.ndim else 1, np.uint8)
        by_hour = values.reshape(1, -1) if self.time_axis is None else np.moveaxis(values, self.time_axis, 0)
        by_hour = by_hour.reshape(len(by_hour), -1)
        if self.is_absent(f"{self.name}/{self.array.metadata.encode_chunk_key(at)}"):
            # What zarr fills in is no word of the store: hours that nobody has labelled yet would be final.
            return np.zeros(len(by_hour), np.uint8)
        text_of = {value: expver_text(value) for value in set(by_hour[:, 0].tolist())}
        if unknown := sorted({*text_of.values()} - {*self.codes}):
            self.unclear.add(f"values of {self.name} have no known meaning ({', '.join(unknown)[:80]})")
        codes = np.array([self.codes.get(text_of[value], _UNKNOWN) for value in by_hour[:, 0].tolist()], np.uint8)
        return np.where((by_hour == by_hour[:, :1]).all(axis=1), codes, np.uint8(_UNKNOWN))


@dataclass(frozen=True, eq=False)
class StatedVersions:
    """The versions by all of a store's arrays that may state one."""

    arrays: tuple[StatedArray, ...]

    def at(self, positions: range) -> tuple[str, ...]:
        """The version at each position of the time axis, "unknown" where the store states none."""
        codes = np.array([array.at(positions) for array in self.arrays])
        found = np.where((codes == _FINAL).all(axis=0), _FINAL, _UNKNOWN)
        found[(codes == _PRELIMINARY).any(axis=0)] = _PRELIMINARY
        return tuple(_VERSIONS[code] for code in found.tolist())

    @property
    def unclear(self) -> tuple[str, ...]:
        """Sentences about the arrays and values, read so far, whose meaning is not known."""
        return tuple(sorted(text for array in self.arrays for text in array.unclear))


def stated_array(
    name: str, array: zarr.Array[Any], own: tuple[str, ...], time: str, hours: int, is_absent: Callable[[str], bool]
) -> StatedArray:
    """One of the arrays, with the dimensions `own`; the store's axis `time` has so many hours."""
    codes, unclear = codes_of(name, array.attrs), set[str]()
    is_by_hour = len(own) == array.ndim and time in own and array.shape[own.index(time)] == hours
    if not codes:
        unclear.add(f"the meanings of {name} are not known")
    elif array.ndim and not is_by_hour:
        unclear.add(f"{name} is not by hour ({', '.join(own)})")
        codes = {}
    return StatedArray(name, array, own.index(time) if is_by_hour else None, codes, is_absent, unclear)


def codes_of(name: str, attributes: Mapping[str, Any]) -> dict[str, int]:
    """Map an array's values to codes by its CF flags, without them by ECMWF's numbers; unknown ones are left out."""
    if "flag_meanings" not in attributes and "flag_values" not in attributes:
        return dict(_NUMBERS[name])
    given = attributes.get("flag_values", ())
    values = re.split(r"[\s,]+", given.strip()) if isinstance(given, str) else np.atleast_1d(given).tolist()
    meanings = str(attributes.get("flag_meanings", "")).casefold().split()
    if len(values) != len(meanings):
        return {}
    known = {expver_text(value): _MEANINGS.get(meaning) for value, meaning in zip(values, meanings, strict=True)}
    return {value: code for value, code in known.items() if code is not None}
