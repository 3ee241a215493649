"""A reader that queries one location's month every 20 ms, and records its longest wait."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Self

from psycopg import sql

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.warehouse.layouts.layout import WEATHER, month_where

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse

_PAUSE_SECONDS = 0.02


class Reader:
    """Queries in a thread while the context is open; `longest_ms` is the longest wait.

    Raises:
        CannotRunError: on exit, if a query failed or returned only a part of the month.
    """

    def __init__(self, warehouse: Warehouse, flat: FlatMonth, location: int) -> None:
        self.longest_ms = 0.0
        self._warehouse = warehouse
        self._hours = flat.hours
        self._query = sql.SQL("SELECT count(*) FROM {} WHERE location_id = {} AND {}").format(
            WEATHER, sql.Literal(location), month_where(flat.month)
        )
        self._stop = threading.Event()
        self._error = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._error:
            raise CannotRunError(f"a reader: {self._error}")

    def _run(self) -> None:
        try:
            with self._warehouse.connect() as connection:
                while not self._stop.wait(_PAUSE_SECONDS):
                    started = time.monotonic()
                    row = connection.execute(self._query).fetchone()
                    self.longest_ms = max(self.longest_ms, (time.monotonic() - started) * 1000)
                    if row != (self._hours,):
                        self._error = f"saw {row} hours of {self._hours}"
        except Exception as error:  # noqa: BLE001  # raised on exit
            self._error = str(error)
