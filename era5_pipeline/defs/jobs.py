"""Jobs: what is run for a month as a whole."""

import dagster as dg

from era5_pipeline.defs.assets import FLAT, RAW, WEATHER
from era5_pipeline.defs.partitions import MONTHS

load_month = dg.define_asset_job(
    "load_month",
    selection=dg.AssetSelection.assets(RAW, FLAT, WEATHER),
    partitions_def=MONTHS,
    description="One month, from its source to the table.",
)
