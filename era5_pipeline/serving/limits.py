"""Limits of the HTTP server: what one answer may have, and how many requests are worked on at once."""

from __future__ import annotations

from dataclasses import dataclass

from era5_pipeline.model.errors import UsageError


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
