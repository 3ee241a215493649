"""A sensor that observes on the asset `era5/weather` whether the table holds the newest month that it should by now.

It checks the months in the ledger rather than the time of a materialization, which a backfill of 1979 would make look
fresh. It is not an asset check of `era5/weather`, as Dagster evaluates those with every materialization, a thousand
times in a backfill. Nor is it a check on a separate asset: a fourth box in the row would make the web UI open the graph
so small that the boxes show only their names.
"""

from __future__ import annotations

from datetime import UTC, datetime

import dagster as dg

from era5_pipeline.defs.assets import WEATHER
from era5_pipeline.defs.resources import Era5Resource  # noqa: TC001  # Dagster reads the annotation
from era5_pipeline.monitor.metrics import newest_complete_month_of, read_months
from era5_pipeline.planning.updates import Freshness, due_month
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.server_errors import server_errors

_INTERVAL_SECONDS = 3600


@dg.sensor(
    name="freshness",
    minimum_interval_seconds=_INTERVAL_SECONDS,
    description="Says every hour whether the newest complete month in the table is the newest that the service has "
    "published, with two days to load it, in an observation of era5/weather.",
)
def freshness(era5: Era5Resource) -> dg.SensorResult:
    """Compare the ledger with the calendar.

    Raises:
        Era5Error: if the ledger cannot be read; the tick fails, and the next one tries again.
    """
    settings = era5.settings()
    with (
        open_warehouse(settings) as warehouse,
        warehouse.connect() as connection,
        server_errors("reading the ledger"),
    ):
        newest = newest_complete_month_of(read_months(connection))
    found = Freshness(newest, due_month(datetime.now(tz=UTC), settings.available_after_days))
    metadata: dict[str, str | int | bool] = {
        "fresh": found.is_fresh,
        "newest complete month": str(newest or "none"),
        "due": str(found.due),
    }
    if found.overdue_months is not None:
        metadata["overdue months"] = found.overdue_months
    observed = dg.AssetObservation(WEATHER, description=str(found), metadata=metadata)
    return dg.SensorResult(asset_events=[observed], skip_reason=str(found))
