"""A reader who asks every 20 ms for one location's month, and notes how long it waited."""

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
    """Asks from entering to leaving; `longest_ms` is the longest wait.

    Raises:
        CannotRunError: on leaving, if it was refused an answer or ever saw a part of the month.
    """

    def __init__(self, warehouse: Warehouse, flat: FlatMonth, location: int) -> None:
        self.longest_ms = 0.0
        self._warehouse = warehouse
        self._hours = flat.hours
        self._query = sql.SQL("SELECT count(*) FROM {} WHERE location_id = {} AND {}").format(
            WEATHER, sql.Literal(location), month_where(flat.month)
        )
        self._stop = threading.Event()
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._trouble:
            raise CannotRunError(f"a reader: {self._trouble}")

    def _run(self) -> None:
        try:
            with self._warehouse.connect() as connection:
                while not self._stop.wait(_PAUSE_SECONDS):
                    started = time.monotonic()
                    row = connection.execute(self._query).fetchone()
                    self.longest_ms = max(self.longest_ms, (time.monotonic() - started) * 1000)
                    if row != (self._hours,):
                        self._trouble = f"saw {row} hours of {self._hours}"
        except Exception as error:  # noqa: BLE001  # told by who started it
            self._trouble = str(error)
