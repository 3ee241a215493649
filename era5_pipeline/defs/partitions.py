"""The partitions: one a month, from the first of ERA5 to the current one, which a source may hold in part."""

import dagster as dg

from era5_pipeline.months import FIRST_YEAR

MONTHS = dg.MonthlyPartitionsDefinition(start_date=f"{FIRST_YEAR}-01-01", end_offset=1)
