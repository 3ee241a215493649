"""Detect truncated netCDF-3 files: the netCDF library reads zeros beyond the end, without an error.

The header says how long the file must be. Source: NetCDF Classic Format Specification (CDF-1, CDF-2, CDF-5). netCDF-4
needs no such check: HDF5 stores the file's length and refuses to open a shorter one.
"""

from __future__ import annotations

import struct
from math import prod
from typing import TYPE_CHECKING, BinaryIO

if TYPE_CHECKING:
    from pathlib import Path

_DIMENSIONS, _VARIABLES, _ATTRIBUTES = 10, 11, 12
# Far more than any file has dimensions or variables. Without a limit, a damaged number before zeros takes minutes.
_MOST_IN_LIST = 1 << 16
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 4, 6: 8, 7: 1, 8: 2, 9: 4, 10: 8, 11: 8}


class _Header:
    """Reads the numbers of a header in order. They are big-endian; their width depends on the format version."""

    def __init__(self, file: BinaryIO, version: int) -> None:
        self._file = file
        self._count_bytes = 8 if version == 5 else 4
        self._offset_bytes = 4 if version == 1 else 8

    def skip(self, size: int) -> None:
        """Skip `size` bytes, and their padding to a multiple of four."""
        self._file.seek(size + -size % 4, 1)

    def number(self) -> int:
        """Read a tag or type."""
        return self._unsigned(4)

    def count(self) -> int:
        """Read a count or length."""
        return self._unsigned(self._count_bytes)

    def offset(self) -> int:
        """Read a position in the file."""
        return self._unsigned(self._offset_bytes)

    def list_of(self, tag: int) -> range:
        """Read the head of a list; returns a range as long as the list."""
        found, size = self.number(), self.count()
        if found != tag and (found, size) != (0, 0):
            raise ValueError(f"tag {found} instead of {tag}")
        return _no_more_than_possible(size)

    def dimensions(self) -> list[int]:
        """Read the numbers of a variable's dimensions."""
        return [self.count() for _ in _no_more_than_possible(self.count())]

    def skip_name(self) -> None:
        self.skip(self.count())

    def skip_attributes(self) -> None:
        for _ in self.list_of(_ATTRIBUTES):
            self.skip_name()
            kind = self.number()
            self.skip(self.count() * _TYPE_BYTES[kind])

    def _unsigned(self, size: int) -> int:
        read = self._file.read(size)
        return int(struct.unpack(">Q" if size == 8 else ">I", read)[0])


def _no_more_than_possible(size: int) -> range:
    if size > _MOST_IN_LIST:
        raise ValueError(f"header: a list of {size:,}")
    return range(size)


def required_bytes(path: Path) -> int | None:
    """The length that the netCDF-3 file at `path` must have to hold all its values.

    None: it is not netCDF-3, or its header leaves the number of records open.

    Raises:
        ValueError: if the header itself is cut off or damaged.
    """
    with path.open("rb") as file:
        magic = file.read(4)
        if magic[:3] != b"CDF" or magic[3] not in (1, 2, 5):
            return None
        header = _Header(file, magic[3])
        try:
            return _required(header)
        except (struct.error, KeyError, IndexError, OSError, OverflowError) as error:
            raise ValueError(f"header: {error}") from error


def _required(header: _Header) -> int | None:
    records = header.count()
    lengths = []
    for _ in header.list_of(_DIMENSIONS):
        header.skip_name()
        lengths.append(header.count())
    header.skip_attributes()
    ends = [0]
    record_variables = []
    for _ in header.list_of(_VARIABLES):
        header.skip_name()
        shape = [lengths[number] for number in header.dimensions()]
        header.skip_attributes()
        width = _TYPE_BYTES[header.number()]
        header.count()  # the padded size: unusable, it overflows 32 bits for large variables
        begin = header.offset()
        if shape and shape[0] == 0:  # the length of the record dimension
            record_variables.append((begin, width * prod(shape[1:])))
        else:
            ends.append(begin + width * prod(shape))
    if record_variables:
        if records in (0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF):
            return None
        # Each variable's part of a record is padded to four bytes, except where there is only one variable.
        only = len(record_variables) == 1
        record = sum(part if only else part + -part % 4 for _, part in record_variables)
        if records:
            ends += [begin + (records - 1) * record + part for begin, part in record_variables]
    return max(ends)
