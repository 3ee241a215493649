"""An object of a store, as a listing shows it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class StoredObject:
    """Its key, its size in bytes, and when it was last written, in nanoseconds."""

    key: str
    bytes: int
    modified_ns: int
