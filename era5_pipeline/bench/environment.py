"""The environment of a measurement: machine, server with its relevant settings, software versions."""

from __future__ import annotations

import platform
import sys
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from era5_pipeline import __version__
from era5_pipeline.postgres.connect import describe_server
from era5_pipeline.postgres.doctor.machine import Machine

if TYPE_CHECKING:
    import psycopg

_LIBRARIES = ("psycopg", "pgpq", "pyarrow", "numpy", "xarray", "dask", "netCDF4")
_SETTINGS = (
    *(
        "shared_buffers",
        "wal_level",
        "max_wal_size",
        "fsync",
        "full_page_writes",
        "synchronous_commit",
        "wal_compression",
    ),
    *("checkpoint_timeout", "maintenance_work_mem", "jit", "autovacuum", "max_parallel_workers_per_gather"),
    *("timescaledb.license",),
)


def describe_environment(connection: psycopg.Connection[Any], folder: Path) -> dict[str, Any]:
    """Machine, server and software versions as a JSON value; `folder` is where files are written."""
    machine = Machine.here(folder)
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s) ORDER BY name", (list(_SETTINGS),)
    ).fetchall()
    return {
        "measured_at": datetime.now(tz=UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": machine.cores,
            "memory_bytes": machine.memory_bytes,
            "system": platform.platform(),
        },
        "server": {"version": str(describe_server(connection)), "settings": dict(rows)},
        "software_versions": {
            "era5-pipeline": __version__,
            "python": sys.version.split()[0],
            **{name: version(name) for name in _LIBRARIES},
        },
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
