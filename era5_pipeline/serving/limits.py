"""Limits of the HTTP server: what one answer may have, and how many requests are worked on at once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from era5_pipeline.model.settings import Settings


@dataclass(frozen=True)
class ServingLimits:
    """Limits of one process of the server.

    `connections`: to the database, and so the requests that are answered at once. `waiting_requests`: how many more may
    wait for their turn, each `wait_seconds`. `statement_seconds`: how long a statement may take. `values`: how many
    values an answer may have. `url_bytes`: how long a path with its query may be.
    """

    connections: int = 8
    waiting_requests: int = 200
    wait_seconds: float = 5.0
    statement_seconds: float = 30.0
    values: int = 5_000_000
    url_bytes: int = 16_384

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """The limits of the settings, ERA5_SERVE_..."""
        return cls(
            connections=settings.serve_connections,
            waiting_requests=settings.serve_waiting_requests,
            wait_seconds=settings.serve_wait_seconds,
            statement_seconds=settings.serve_statement_seconds,
            values=settings.serve_values,
        )

    def require_values(self, count: int) -> None:
        """Refuse an answer of more values than one may have: hours times variables times places.

        Raises:
            UsageError: naming both numbers.
        """
        if count > self.values:
            raise UsageError(
                f"the answer would have {count:,} values, and the limit is {self.values:,}",
                remedy="Ask for fewer days, variables or places at once, or use era5 export.",
            )
