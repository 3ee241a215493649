"""A source that asks a server of ours, and never sleeps."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import in_table_order
from era5_pipeline.sources.cds.cds_source import CdsSource, Manners
from era5_pipeline.sources.source import Request

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.sources.source import RawMonth
    from era5_pipeline_tests.cds_store import CdsServer

# Long final, so that nothing depends on the day of the test.
MONTH = Month(2020, 2)
TODAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
AREA = Area(-6.0, 106.0, -6.5, 106.5)
# A file of a megabyte, to be cut off.
LARGER = Area(-5.0, 106.0, -7.0, 108.0)


def is_fresh(inputs: dict[str, Any]) -> bool:
    """Whether the request has an order of hours of its own, which no answer in the service's cache can have."""
    return bool(inputs["time"] != sorted(inputs["time"]))


@dataclass
class Asking:
    """A source that asks the server, what it said, and how long it would have slept."""

    server: CdsServer
    folder: Path
    said: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    while_asleep: Callable[[], None] = lambda: None

    def source(self, *names: str, refetch: bool = False, area: Area | None = AREA, **manners: Any) -> CdsSource:
        def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            self.while_asleep()

        return CdsSource(
            self.folder,
            Request(in_table_order(names) if names else None, area),
            refetch=refetch,
            manners=Manners(**{"poll_seconds": 60.0, "retry_seconds": 30.0, "sleep": sleep, **manners}),
            say=self.said.append,
        )

    def fetch(self, month: Month = MONTH, *names: str, **options: Any) -> RawMonth:
        return self.source(*names, **options).fetch(month)

    @property
    def leftovers(self) -> list[str]:
        """Files besides the months that were fetched, their notes and locks."""
        return sorted(
            path.name for path in self.folder.iterdir() if path.suffix not in (".json", ".lock", ".nc", ".zip")
        )
