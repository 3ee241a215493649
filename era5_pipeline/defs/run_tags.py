"""Tags of runs, for searching in the web UI: the month, its source, the machine, and the priority in the queue."""

from __future__ import annotations

import json
import socket
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.months import FIRST_YEAR, Month
from era5_pipeline.model.settings import read_settings

if TYPE_CHECKING:
    from collections.abc import Mapping

    import dagster as dg

MONTH, SOURCE = "era5/month", "era5/source"
# The months of a run for several.
MONTHS = "era5/months"
# Settings of the environment that decide what is loaded: `era5 load --failed` uses them where its own has none. The web
# UI does not show tags with this prefix.
SETTINGS = ".dagster/era5_settings"
_REPEATED = (
    *("source", "files_dir", "variables", "strict_variables", "area", "point"),
    *("format", "allow_incomplete", "sparse_hours", "sample_hours"),
)
# A process id means nothing on another machine.
HOST = "era5/host"
HERE = {HOST: socket.gethostname()}

_PARTITION, _BACKFILL, _PRIORITY = "dagster/partition", "dagster/backfill", "dagster/priority"
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
        tags[SOURCE] = read_settings(**_overrides(run.run_config)).source_name
        set_here = read_settings().model_dump(include=set(_REPEATED), exclude_unset=True)
        if set_here:
            tags[SETTINGS] = json.dumps(set_here)
    return {name: value for name, value in tags.items() if name not in run.tags}


def priority_tag(run: dg.DagsterRun) -> dict[str, str]:
    """The run's priority in the queue, unless its tags have one: by month, in the order of ERA5_ORDER.

    Runs that are scheduled, or launched individually, come before those of a backfill.
    """
    month = month_of(run)
    if month is None or _PRIORITY in run.tags:
        return {}
    try:
        newest_first = read_settings().order == "newest"
    except Era5Error:
        return {}
    since_first = month.number - Month(FIRST_YEAR, 1).number
    priority = since_first if newest_first else -since_first
    return {_PRIORITY: str(priority if _BACKFILL in run.tags else priority + _BEFORE_BACKFILLS)}


def month_of(run: dg.DagsterRun) -> Month | None:
    """The month of the run; None without one, or for several."""
    key = run.tags.get(_PARTITION, "")
    try:
        return Month.parse(key[:7])
    except Era5Error:  # no partition, or a range of them
        return None


def _overrides(run_config: Mapping[str, Any]) -> dict[str, Any]:
    """The fields that decide the source, from the run's configuration of the resource."""
    config = run_config.get("resources", {}).get("era5", {}).get("config") or {}
    return {name: config[name] for name in ("source", "files_dir", "point") if isinstance(config.get(name), str)}
