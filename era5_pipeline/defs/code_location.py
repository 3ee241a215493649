"""The code location: assets, jobs, schedules, sensors and resources."""

import dagster as dg

from era5_pipeline.defs import assets, month_range, schedules, sensors
from era5_pipeline.defs.resources import Era5Resource

# One process per run: a month's stages run one after another, so a process for each would only add its start (4 s).
defs = dg.Definitions(
    assets=[*assets.ASSETS, *assets.lake_assets()],
    jobs=[*assets.LOAD_MONTH.values(), *month_range.LOAD_MONTHS.values(), schedules.clean_lake],
    schedules=schedules.SCHEDULES,
    sensors=[*sensors.REPEATING, sensors.alert_on_failure, *sensors.FRESHNESS.values()],
    resources={"era5": Era5Resource()},
    executor=dg.in_process_executor,
)
