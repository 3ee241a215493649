"""Keep a store open, and read its next chunks in a thread while the months of those before are processed."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from contextvars import copy_context
from typing import TYPE_CHECKING

from era5_pipeline.runtime.progress import while_waited_for

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from era5_pipeline.netcdf.contents import Contents
    from era5_pipeline.sources.zarr.layout import Layout
    from era5_pipeline.sources.zarr.reading import Gathered
    from era5_pipeline.sources.zarr.store import ReadOnlyStore


class ReadAhead:
    """A store that is kept open, with its address, and the unit of its chunks that is read in a thread, if any.

    The caller must call `close`.
    """

    def __init__(self) -> None:
        self.store: tuple[str, ReadOnlyStore, Layout] | None = None
        # Those of the first file with so many hours, of these columns and with or without versions.
        self.contents: dict[tuple[int, tuple[str, ...], bool], Contents] = {}
        self._open = ExitStack()
        self._pool = ThreadPoolExecutor(1)
        self._ahead: tuple[int, Future[Gathered]] | None = None
        self._is_waited_for = False

    def keep(self, url: str, store: ReadOnlyStore, layout: Layout, until: ExitStack) -> None:
        """Keep the store open until another is kept; `until` closes it."""
        self._discard()
        self.store = (url, store, layout)
        self._open = until

    def begin(self, number: int, read: Callable[[], Gathered]) -> None:
        """Begin to read a unit, unless one is being read; progress is reported only while `take` waits for it."""
        if self._ahead is None:
            context = copy_context()
            reported = while_waited_for(read, lambda: self._is_waited_for)
            self._ahead = (number, self._pool.submit(lambda: context.run(reported)))

    def take(self, number: int) -> Gathered | None:
        """Wait for the unit and return it; None if it is not the one that is read, which is dropped then.

        An error of reading it is raised here.
        """
        if self._ahead is None:
            return None
        (ahead, future), self._ahead = self._ahead, None
        if ahead != number:
            future.cancel()
            return None
        self._is_waited_for = True
        try:
            return future.result()
        finally:
            self._is_waited_for = False

    def close(self) -> None:
        """Close the store; what is being read, or waits for a retry, ends."""
        self._discard()
        self._pool.shutdown()

    def _discard(self) -> None:
        self._ahead = self.store = None
        self._open.close()
