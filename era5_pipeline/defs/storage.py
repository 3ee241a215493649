"""The name of `WarehouseStorage` in a dagster.yaml of earlier versions."""

from era5_pipeline.defs.instance.storage import WarehouseStorage

__all__ = ["WarehouseStorage"]
