"""Start the embedded server again when it was killed while somebody needs it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import WarehouseError
from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer

if TYPE_CHECKING:
    from collections.abc import Callable

    from era5_pipeline.model.settings import Settings

# So often within this time; a server that ends more often has a problem that a start does not solve.
_RESTARTS, _COUNTED_SECONDS = 5, 600.0


class EmbeddedDatabaseWatch:
    """Looks after the embedded server of the settings' home, in a process that holds a lease of it.

    Does nothing where ERA5_DATABASE_URL names a server.
    """

    def __init__(self, settings: Settings, warn: Callable[[str], None]) -> None:
        self._server = None if settings.database_url is not None else EmbeddedServer(settings.home)
        self._warn = warn
        self._ended: list[float] = []

    def look(self) -> None:
        """Start the server if it does not run.

        A start in vain, as of a server that is killed while it recovers, counts as one of the ends.

        Raises:
            WarehouseError: if it does not start, or ends too often.
        """
        if self._server is None or self._server.is_running():
            return
        now = time.monotonic()
        self._ended = [*(at for at in self._ended if now - at < _COUNTED_SECONDS), now]
        if len(self._ended) > _RESTARTS:
            raise WarehouseError(
                f"the embedded PostgreSQL ended {len(self._ended)} times within ten minutes",
                remedy=f"Fix what its log reports, then try again: {self._server.log_path}",
            )
        self._warn("the embedded PostgreSQL does not answer: starting it again")
        try:
            with self._server.lease():
                pass  # the caller's own lease keeps it running
        except WarehouseError as error:
            # Subclasses say what a start cannot mend: a full disk, another version's data folder.
            if type(error) is not WarehouseError or len(self._ended) == _RESTARTS:
                raise
            self._warn(error.message.partition(";")[0])
