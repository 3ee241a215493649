"""All imports of a run, done in advance by the process that forks runs (`run_launcher`).

Includes what Dagster and the libraries import only when a run begins, which takes half a second of it. Nothing here may
start a thread or open a connection: neither survives a fork.
"""

import gc
import importlib
from contextlib import suppress
from importlib.metadata import entry_points

import dagster as dg
from PIL import Image

from era5_pipeline.defs.code_location import defs
from era5_pipeline.model.source_kinds import SOURCE_KINDS
from era5_pipeline.sources.open_source import module_of
from era5_pipeline.stages import load_in_advance

_WHEN_A_RUN_BEGINS = (
    "era5_pipeline.definitions",
    "era5_pipeline.defs.instance.run_launcher",
    "dagster_postgres",
    "psycopg2.extras",
    # Used by xarray, dask, pyarrow and pandas.
    "distributed",
    "fsspec.implementations.local",
    "pyarrow.pandas_compat",
    "upath.implementations.local",
    # Used by a month's stages.
    "era5_pipeline.netcdf.cds_files",
    *map(module_of, SOURCE_KINDS),
)


@dg.job
def _nothing() -> None:
    pass


for _name in _WHEN_A_RUN_BEGINS:
    # Names inside libraries may change: the run then imports what it needs.
    with suppress(ImportError):
        importlib.import_module(_name)
Image.init()
with suppress(ImportError):
    load_in_advance()
# The command that executes a run.
entry_points(group="console_scripts", name="dagster")["dagster"].load()
# The jobs are built here, once; and Dagster imports some modules only when a run begins.
defs.get_repository_def().get_all_jobs()
with dg.DagsterInstance.ephemeral(settings={"telemetry": {"enabled": False}}) as _instance:
    _nothing.execute_in_process({"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}, instance=_instance)
# Imported objects live until the end: without this, forked runs would scan them again and copy their pages.
gc.freeze()
