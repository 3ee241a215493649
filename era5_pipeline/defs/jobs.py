"""The job that loads one month."""

import dagster as dg

from era5_pipeline.defs.assets import FLAT, RAW, WEATHER

load_month = dg.define_asset_job(
    "load_month",
    selection=dg.AssetSelection.assets(RAW, FLAT, WEATHER),
    description="Loads one month, from its source into the table weather.",
)
