"""The environment of a measurement: machine, server with its relevant settings, software versions, commit."""

from __future__ import annotations

import platform
import re
import subprocess
import sys
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.package_version import __version__
from era5_pipeline.postgres.doctor.server_facts import Machine
from era5_pipeline.postgres.embedded.processes import binaries
from era5_pipeline.postgres.server_version import describe_server
from era5_pipeline.sources.sample_weather import FORMULAE_VERSION

if TYPE_CHECKING:
    import psycopg

_LIBRARIES = (
    *("psycopg", "pgpq", "pyarrow", "numpy", "pandas", "sqlalchemy", "xarray", "dask", "netCDF4", "zarr"),
    *("asyncpg", "adbc-driver-postgresql", "duckdb", "chdb"),
)
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
_GIT_SECONDS = 20


def describe_environment(connection: psycopg.Connection[Any], folder: Path) -> dict[str, Any]:
    """Machine, server and software versions as a JSON value; files are written to `folder`."""
    rows = connection.execute(
        "SELECT name, current_setting(name) FROM pg_settings WHERE name = ANY (%s) ORDER BY name", (list(_SETTINGS),)
    ).fetchall()
    server = {
        "version": str(describe_server(connection)),
        "settings": dict(rows),
        "connection": "Unix socket" if connection.info.host.startswith("/") else "TCP",
    }
    return describe_own(folder) | {"server": server}


def describe_own(folder: Path) -> dict[str, Any]:
    """The same for suites that start servers from the embedded programs, each with different settings."""
    machine = Machine.here(folder)
    return {
        "measured_at": datetime.now(tz=UTC).isoformat(timespec="seconds"),
        "machine": {
            "processor": _processor(),
            "cores": machine.cores,
            "memory_bytes": machine.memory_bytes,
            "system": platform.platform(),
        },
        "server": {"version": _embedded_version(), "settings": {}, "connection": "Unix socket"},
        "software_versions": {
            "era5-pipeline": __version__,
            "python": sys.version.split()[0],
            **{name: found for name in _LIBRARIES if (found := _version(name)) is not None},
        },
        "commit": _commit(),
        "generated_data": {"source": "sample", "formulae": FORMULAE_VERSION},
    }


def machine_name() -> str:
    """The name of this machine's files of results: its processor and cores."""
    name = re.sub(r"\((R|TM)\)|CPU|@.*|processor", " ", _processor(), flags=re.IGNORECASE)
    words = re.findall(r"[a-z0-9]+", name.lower())
    return "-".join([*words[:6], f"{Machine.here(None).cores}-cores"])


def _version(library: str) -> str | None:
    try:
        return version(library)
    except PackageNotFoundError:
        return None


def _embedded_version() -> str:
    done = subprocess.run(  # noqa: S603  # a program of the package
        (str(binaries() / "postgres"), "--version"), capture_output=True, text=True, check=False
    )
    found = re.search(r"(\d+(\.\d+)+)", done.stdout)
    return f"PostgreSQL {found[1] if found else '?'}"


def _commit() -> str | None:
    """The commit of the checkout with this package, with a plus if its files differ; None: unknown."""
    folder = Path(__file__).parents[1]

    def git(*words: str) -> str | None:
        try:
            done = subprocess.run(  # noqa: S603  # constants
                ("git", "-C", str(folder), *words),  # noqa: S607  # from PATH
                capture_output=True,
                text=True,
                check=False,
                timeout=_GIT_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired):
            return None
        return done.stdout.strip() if done.returncode == 0 else None

    commit, changes = git("rev-parse", "--short=12", "HEAD"), git("status", "--porcelain", "--", ".")
    return None if commit is None else commit + ("+" if changes else "")


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()
