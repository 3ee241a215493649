"""Jobs: what is run for a month as a whole."""

import dagster as dg

from era5_pipeline.defs.assets import FLAT, RAW, WEATHER

load_month = dg.define_asset_job(
    "load_month",
    selection=dg.AssetSelection.assets(RAW, FLAT, WEATHER),
    description="One month, from its source to the table.",
)
