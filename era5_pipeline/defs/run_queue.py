"""The name of `MonthQueue` in a dagster.yaml of earlier versions."""

from era5_pipeline.defs.instance.run_queue import MonthQueue

__all__ = ["MonthQueue"]
