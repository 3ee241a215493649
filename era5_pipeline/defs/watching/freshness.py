"""Whether the table holds the newest month that it should hold by now: a check of the asset `era5/table`.

The check looks at the months in the ledger, not at when something was materialized, which a backfill of 1979 would make
look fresh. It is not a check of `era5/weather`: Dagster runs an asset's checks with every materialization of the asset,
a thousand times in a backfill. The asset `era5/table` is the table as a whole; nothing materializes it.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import dagster as dg

from era5_pipeline.defs.assets import GROUP, OWNERS
from era5_pipeline.defs.resources import Era5Resource  # noqa: TC001  # Dagster reads the annotation
from era5_pipeline.monitor.warehouse_metrics import newest_complete_month_of, read_months
from era5_pipeline.planning.updates import Freshness, due_month
from era5_pipeline.postgres.connect import open_warehouse
from era5_pipeline.postgres.server_errors import server_errors

if TYPE_CHECKING:
    from era5_pipeline.model.settings import Settings

TABLE = dg.AssetKey(["era5", "table"])
CHECK = "newest_month_loaded"
_INTERVAL_SECONDS = 3600

# Without `deps`: a fourth box in the row would make the UI open the graph so small that boxes show their names only.
table = dg.AssetSpec(
    TABLE,
    group_name=GROUP,
    owners=OWNERS,
    kinds={"postgres"},
    description="The table weather as a whole, as readers have it. Its check says whether the newest month is there.",
)


@dg.asset_check(
    asset=TABLE,
    name=CHECK,
    description="The newest complete month in the table is the newest that the service has published, with two days to "
    "load it. The sensor `freshness` evaluates it every hour.",
)
def newest_month_loaded(era5: Era5Resource) -> dg.AssetCheckResult:
    """Evaluate the check in a run of its own, which the web UI starts."""
    return dg.AssetCheckResult(**_outcome(era5.settings()))


@dg.sensor(
    name="freshness",
    minimum_interval_seconds=_INTERVAL_SECONDS,
    description=f"Evaluates the check {CHECK} of era5/table every hour, without a run.",
)
def freshness(era5: Era5Resource) -> dg.SensorResult:
    """Evaluate the check.

    Raises:
        Era5Error: if the ledger cannot be read; the tick fails then, and the next one tries again.
    """
    outcome = _outcome(era5.settings())
    evaluation = dg.AssetCheckEvaluation(asset_key=TABLE, check_name=CHECK, **outcome)
    return dg.SensorResult(asset_events=[evaluation], skip_reason=outcome["description"])


def _outcome(settings: Settings) -> dict[str, Any]:
    """What the ledger says now, as arguments of a check's result."""
    with (
        open_warehouse(settings) as warehouse,
        warehouse.connect() as connection,
        server_errors("reading the ledger"),
    ):
        newest = newest_complete_month_of(read_months(connection))
    found = Freshness(newest, due_month(datetime.now(tz=UTC), settings.available_after_days))
    metadata: dict[str, Any] = {"newest complete month": str(newest or "none"), "due": str(found.due)}
    if found.overdue_months is not None:
        metadata["overdue months"] = found.overdue_months
    return {"passed": found.is_fresh, "description": str(found), "metadata": metadata}
