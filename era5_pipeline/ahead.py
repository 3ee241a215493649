"""Making the next items in a thread while the one before them is used."""

from __future__ import annotations

from collections import deque
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

_T = TypeVar("_T")


def made_ahead(items: Iterator[_T], depth: int = 1) -> Generator[_T]:
    """The same items, none of which may be None, made in one thread up to `depth` before they are asked for.

    What making one raises is raised where that one is asked for. Closed, it makes no more.
    """
    with ThreadPoolExecutor(max_workers=1) as pool:
        ahead = deque(pool.submit(next, items, None) for _ in range(depth))
        try:
            while (item := ahead.popleft().result()) is not None:
                ahead.append(pool.submit(next, items, None))
                yield item
        finally:
            pool.shutdown(cancel_futures=True)
