"""The name of `ForkingRunLauncher` in a dagster.yaml of earlier versions."""

from era5_pipeline.defs.instance.run_launcher import ForkingRunLauncher

__all__ = ["ForkingRunLauncher"]
