"""The source `cds` on a test server, with sleeps recorded instead of slept."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

from era5_pipeline.flat.inventory import Inventory, take_inventory
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.netcdf.archive import scratch_folder
from era5_pipeline.runtime.file_store import LOCAL, FileStore
from era5_pipeline.sources.cds.retry_policy import RetrySettings
from era5_pipeline.sources.cds.source import CdsSource
from era5_pipeline.sources.source import Request

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.sources.source import RawMonth
    from era5_pipeline_tests.cds_store import CdsServer

# Final for years, so that nothing depends on the day of the test.
MONTH = Month(2020, 2)
TODAY = datetime(2026, 11, 20, 12, tzinfo=UTC)
AREA = Area(-6.0, 106.0, -6.5, 106.5)
# Its file has a megabyte, enough for tests that cut the download.
LARGER = Area(-5.0, 106.0, -7.0, 108.0)


def is_fresh(inputs: dict[str, Any]) -> bool:
    """Whether the request asks for a fresh retrieval: its hours are in an order that no cached answer has."""
    return bool(inputs["time"] != sorted(inputs["time"]))


@dataclass
class SourceUnderTest:
    """A source, its server, what it said, and the seconds that it would have slept."""

    server: CdsServer
    folder: Path
    said: list[str] = field(default_factory=list)
    slept: list[float] = field(default_factory=list)
    while_asleep: Callable[[], None] = lambda: None
    file_store: FileStore = LOCAL

    def source(
        self,
        *names: str,
        refetch: bool = False,
        area: Area | None = AREA,
        data_format: Literal["netcdf", "grib"] = "netcdf",
        dataset: Dataset = ERA5,
        **retries: Any,
    ) -> CdsSource:
        def sleep(seconds: float) -> None:
            self.slept.append(seconds)
            self.while_asleep()

        return CdsSource(
            self.folder,
            Request(
                dataset.catalogue.in_table_order(names) if names else None,
                area,
                data_format=data_format,
                dataset=dataset,
            ),
            refetch=refetch,
            retry_settings=RetrySettings(**{"poll_seconds": 60.0, "retry_seconds": 30.0, "sleep": sleep, **retries}),
            say=self.said.append,
            file_store=self.file_store,
        )

    def fetch(self, month: Month = MONTH, *names: str, together: Collection[Month] = (), **options: Any) -> RawMonth:
        return self.source(*names, **options).fetch(month, together)

    @property
    def leftovers(self) -> list[str]:
        """Files besides data files, notes and locks."""
        return sorted(
            path.name for path in self.folder.iterdir() if path.suffix not in (".json", ".lock", ".nc", ".grib", ".zip")
        )


def inventory(raw: RawMonth, home: Path) -> Inventory:
    """Inspect the files of a month."""
    with scratch_folder(home) as scratch:
        return take_inventory(raw, scratch)
