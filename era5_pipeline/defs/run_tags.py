"""Tags of runs: those of this package, for searching in the web UI, and those of Dagster that it reads or sets."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.dataset import DATASETS, ERA5
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.months import FIRST_YEAR, Month
from era5_pipeline.model.settings import read_settings

if TYPE_CHECKING:
    import dagster as dg

    from era5_pipeline.model.dataset import Dataset

MONTH, SOURCE = "era5/month", "era5/source"
# The months of a run for several.
MONTHS = "era5/months"
# Of a run without steps, failed only so that the web UI offers the month, which `era5 drop` removed, to a backfill.
DROPPED = "era5/dropped"
# Settings of the environment that decide what is loaded: `era5 load --failed` uses them where its own has none. The web
# UI does not show tags with this prefix.
SETTINGS = ".dagster/era5_settings"
_REPEATED = (
    *("source", "files_dir", "variables", "strict_variables", "area", "point"),
    *("format", "allow_incomplete", "sparse_hours", "off_grid", "trust_files", "accumulation", "sample_hours"),
    # The path of the token's file, never the token. An address with a key in it is refused.
    *("zarr_url", "zarr_token_file", "zarr_user", "earthmover_url"),
)
_DECIDE_SOURCE = ("source", "files_dir", "point")
# A process id means nothing on another machine.
HOST = "era5/host"
HERE = {HOST: socket.gethostname()}


# Dagster's documented tags.
PARTITION, BACKFILL, PRIORITY = "dagster/partition", "dagster/backfill", "dagster/priority"
MAX_RETRIES, WILL_RETRY, REPEATED_BY = "dagster/max_retries", "dagster/will_retry", "dagster/auto_retry_run_id"
RUN_KEY = "dagster/run_key"

# Tags of a run in a command's process: its host, and that `repeat_lost_runs` leaves it to the user.
OWN_PROCESS = {**HERE, MAX_RETRIES: "0"}
_BEFORE_BACKFILLS = 10_000


def missing_tags(run: dg.DagsterRun) -> dict[str, str]:
    """Month and source of the run, and the settings of the environment, unless its tags have them.

    If the settings are invalid, the run reports it when it reads them.
    """
    tags = {}
    month = month_of(run)
    if month is not None:
        tags[MONTH] = str(month)
    with suppress(Era5Error):
        config = resource_config(run)
        of_source = {name: config[name] for name in _DECIDE_SOURCE if name in config}
        tags[SOURCE] = read_settings(**of_source).source_name
        set_here = read_settings().model_dump(mode="json", include=set(_REPEATED), exclude_unset=True)
        if set_here:
            tags[SETTINGS] = json.dumps(set_here)
    return {name: value for name, value in tags.items() if name not in run.tags}


def priority_tag(run: dg.DagsterRun) -> dict[str, str]:
    """The run's priority in the queue, unless its tags have one: by month, in the order of ERA5_ORDER.

    Runs that are scheduled, or launched individually, come before those of a backfill.
    """
    month = month_of(run)
    if month is None or PRIORITY in run.tags:
        return {}
    try:
        newest_first = read_settings().order == "newest"
    except Era5Error:
        return {}
    since_first = month.number - Month(FIRST_YEAR, 1).number
    priority = since_first if newest_first else -since_first
    return {PRIORITY: str(priority if BACKFILL in run.tags else priority + _BEFORE_BACKFILLS)}


def month_of(run: dg.DagsterRun) -> Month | None:
    """The month of the run; None without one, or for several."""
    key = run.tags.get(PARTITION, "")
    try:
        return Month.parse(key[:7])
    except Era5Error:  # no partition, or a range of them
        return None


def job_name(job: str, dataset: Dataset) -> str:
    """The name of a data set's job: that of ERA5's alone, or with the data set's schema."""
    return job if dataset == ERA5 else f"{job}_{dataset.schema}"


def dataset_of_run(run: dg.DagsterRun) -> Dataset:
    """The data set of the run's months: that of its assets, or of its job."""
    schemas = {key.path[0] for key in run.asset_selection or ()}
    others = (one for one in DATASETS.values() if one != ERA5)
    return next((one for one in others if one.schema in schemas or run.job_name.endswith(f"_{one.schema}")), ERA5)


def is_dropped(run: dg.DagsterRun) -> bool:
    """Return True if the run only records that `era5 drop` removed its month; one executed again has its tags, too."""
    return DROPPED in run.tags and run.parent_run_id is None


def resource_config(run: dg.DagsterRun) -> dict[str, Any]:
    """The fields of `Era5Resource` that the run's configuration sets, without those that are left to Dagster."""
    config: Any = run.run_config
    for key in ("resources", "era5", "config"):
        config = config.get(key) if isinstance(config, dict) else None
    fields = config if isinstance(config, dict) else {}
    # A field can also be {"env": NAME}, which Dagster resolves in the run's process.
    return {name: value for name, value in fields.items() if not isinstance(value, dict)}
