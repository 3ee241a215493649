"""The Dagster instance that `era5` uses: the project's `dagster.yaml`, in a folder below the pipeline's home."""

from __future__ import annotations

from pathlib import Path

import dagster as dg

from era5_pipeline.atomic import replacing
from era5_pipeline.errors import Era5Error

_PACKAGE = Path(__file__).parents[1]
# A wheel carries the file inside the package; a checkout has it beside the package.
_CONFIGURATION = (_PACKAGE / "dagster.yaml", _PACKAGE.parent / "dagster.yaml")


def dagster_home(home: Path) -> Path:
    """The folder to set DAGSTER_HOME to; holds `dagster.yaml`, and the logs of runs.

    Raises:
        Era5Error: if the installation has no `dagster.yaml`.
        LocalDiskError: if the folder cannot be written.
    """
    configuration = next((path for path in _CONFIGURATION if path.is_file()), None)
    if configuration is None:
        raise Era5Error(
            "dagster.yaml is missing from this installation of era5-pipeline",
            remedy="Install the package again, from a complete checkout or wheel.",
        )
    folder, text = home / "dagster", configuration.read_text(encoding="utf-8")
    written = folder / "dagster.yaml"
    if not written.is_file() or written.read_text(encoding="utf-8") != text:
        with replacing(written) as temporary:
            temporary.write_text(text, encoding="utf-8")
    return folder


def open_instance(home: Path) -> dg.DagsterInstance:
    """The instance itself; its database is created on first use.

    Raises:
        WarehouseError: if there is no server to be had.
    """
    return dg.DagsterInstance.from_config(str(dagster_home(home)))
