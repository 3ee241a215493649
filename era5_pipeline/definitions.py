"""The code location that `workspace.yaml` and `dg` load (see `defs.code_location`)."""

from era5_pipeline.defs.code_location import defs

__all__ = ["defs"]
