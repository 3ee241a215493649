"""Prefetch: compute the next items in a thread while the current one is processed."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Generic, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterator

_T = TypeVar("_T")


class Prefetched(Generic[_T]):
    """Iterate over `items` (none of which may be None), computing up to `depth` of them ahead in one thread.

    The thread starts at once. An exception raised while computing an item is raised when that item is requested. The
    caller must call `close`.
    """

    def __init__(self, items: Iterator[_T], depth: int = 1) -> None:
        self._items = items
        self._pool = ThreadPoolExecutor(max_workers=1)
        try:
            self._ahead = deque(self._pool.submit(next, items, None) for _ in range(depth))
        except BaseException:
            # Interrupted while the thread starts, the pool does not know the thread yet, and Python would wait for it
            # without end when it exits.
            self._pool.shutdown(wait=False, cancel_futures=True)
            raise

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> _T:
        item = self._ahead.popleft().result() if self._ahead else None
        if item is None:
            self._ahead.clear()
            raise StopIteration
        self._ahead.append(self._pool.submit(next, self._items, None))
        return item

    def close(self) -> None:
        """Wait for the item being computed, and stop."""
        self._ahead.clear()
        self._pool.shutdown(cancel_futures=True)
