"""The JSON file of results, rewritten after every repeat, with the environment of each; the progress of a run in lines.

    {"format": 1,
     "environments": {ID: machine, server, settings, versions, commit},
     "cells": [{"suite", "name", "server", "environment", "parameters", "rows", "reason",
                "repeats": [{"at", "rows", "figures", "series", "notes"}, ...],
                "medians": {FIGURE: [10th percentile, median, 90th percentile]}}],
     "figures": {SERVER: {SUITE: {NAME: value}}},
     "ratios": {SERVER: {SUITE: {NAME: value}}}}

A figure or a ratio is null if a cell that it needs is; that cell has the reason.
"""

from __future__ import annotations

import json
import platform
import re
import subprocess
import sys
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any

import pandas as pd

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.package_version import __version__
from era5_pipeline.postgres.doctor.server_facts import Machine
from era5_pipeline.postgres.embedded.processes import binaries
from era5_pipeline.postgres.server_version import describe_server
from era5_pipeline.runtime.files import digest_of, replacing
from era5_pipeline.sources.sample_weather import FORMULAE_VERSION

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    import psycopg

    from benchmarks.cells import Measured, PlannedCell

# --- The environment of a measurement: machine, server with its relevant settings, software versions, commit ---


_LIBRARIES = (
    *("psycopg", "pgpq", "pyarrow", "numpy", "pandas", "sqlalchemy", "xarray", "dask", "netCDF4", "zarr"),
    *("asyncpg", "adbc-driver-postgresql", "duckdb", "chdb"),
)
_SETTINGS = (
    *("shared_buffers", "wal_level", "max_wal_size", "fsync", "full_page_writes", "synchronous_commit"),
    *("wal_compression", "checkpoint_timeout", "maintenance_work_mem", "jit", "autovacuum"),
    *("max_parallel_workers_per_gather", "timescaledb.license"),
)
_GIT_SECONDS = 20
# Changes of results do not count as changes of the checkout.
_MEASURED = ("era5_pipeline", "sql", "benchmarks/*.py")


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
    with suppress(PackageNotFoundError):
        return version(library)
    return None


def _embedded_version() -> str:
    found = re.search(r"(\d+(\.\d+)+)", _printed(str(binaries() / "postgres"), "--version"))
    return f"PostgreSQL {found[1] if found else '?'}"


def _commit() -> str | None:
    """The commit of this checkout, with a plus if what is measured differs from it; None: unknown."""
    git = "git", "-C", str(Path(__file__).parents[1])
    commit = _printed(*git, "rev-parse", "--short=12", "HEAD")
    return commit + ("+" if _printed(*git, "status", "--porcelain", "--", *_MEASURED) else "") if commit else None


def _printed(*command: str) -> str:
    """Run a command and return its output without surrounding blanks; empty if it fails."""
    with suppress(OSError, subprocess.SubprocessError):
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=_GIT_SECONDS)  # noqa: S603
        return done.stdout.strip()
    return ""


def _processor() -> str:
    with suppress(OSError):
        if found := re.search(r"^model name\s*: (.*)", Path("/proc/cpuinfo").read_text(encoding="utf-8"), re.MULTILINE):
            return found[1].strip()
    return platform.processor() or platform.machine()


class BenchProgress:
    """Counts repeats, and prints a line for each; `now` shows what is in progress.

    `wanted` are the repeats of each cell, by suite and name.
    """

    def __init__(
        self, wanted: Mapping[str, Mapping[str, int]], say: Callable[[str], None], now: Callable[[str], None]
    ) -> None:
        self._left = {(suite, name): count for suite, cells in wanted.items() for name, count in cells.items()}
        self._total = sum(self._left.values())
        self._taken: dict[tuple[str, str], list[float]] = {}
        self._say = say
        self._now = now

    def begin(self, suite: str, name: str, number: int, of: int) -> None:
        """Start a repeat."""
        self._now(f"{self._count()}  {suite}: {name} ({number} of {of}){self._time_left()}")

    def tell(self, suite: str, name: str, text: str, repeats: int | None = None, seconds: float | None = None) -> None:
        """Report so many repeats (None: all) of a cell; `seconds`: those that one took, with all its preparation."""
        left = self._left[suite, name]
        self._left[suite, name] -= left if repeats is None else repeats
        if seconds is not None:
            self._taken.setdefault((suite, name), []).append(seconds)
        self._say(f"{self._count()}  {suite}: {name}: {text}{self._time_left() if seconds is not None else ''}")

    def _count(self) -> str:
        return f"[{self._total - sum(self._left.values())}/{self._total}]"

    def seconds_left(self) -> float | None:
        """Estimate the time left from the repeats so far: of the same cell, else of its suite, else of all."""
        everything = [value for values in self._taken.values() for value in values]
        total = 0.0
        for (suite, name), count in self._left.items():
            of_suite = [value for key, values in self._taken.items() if key[0] == suite for value in values]
            total += count * fmean(self._taken.get((suite, name)) or of_suite or everything or [0.0])
        return total if everything else None

    def _time_left(self) -> str:
        seconds = self.seconds_left()
        return "" if seconds is None else f"   about {duration(seconds)} left"


def figure_of(entry: Mapping[str, Any]) -> str:
    """The main figure of a cell so far: its median rate, or its seconds."""
    medians = entry["medians"]
    seconds = medians.get("seconds")
    if seconds is None:
        return ", ".join(f"{name} {value[1]:,.4g}" for name, value in list(medians.items())[:3])
    rate = f"{entry['rows'] / seconds[1]:,.0f} rows/s, " if entry["rows"] and seconds[1] else ""
    return f"{rate}{seconds[1]:,.3g} s"


def duration(seconds: float) -> str:
    """Seconds in words: 40 s, 12 min, 3 h 20 min."""
    minutes = round(seconds / 60)
    if minutes < 2:
        return f"{seconds:.0f} s"
    return f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"


# --- The JSON file of results: rewritten after every repeat, so that it is valid whenever a run ends ---


FORMAT = 1
_DIGITS = 5
# Facts that do not distinguish environments.
_OF_THE_MOMENT = ("measured_at", "free_bytes")


class ResultsFile:
    """The results at `path`, read if it exists."""

    def __init__(self, path: Path) -> None:
        self.path = path
        empty: dict[str, Any] = {"format": FORMAT, "environments": {}, "cells": [], "figures": {}, "ratios": {}}
        self.contents = read_results(path) if path.exists() else empty
        self._environment = ""
        self._server = ""

    def use_environment(self, environment: Mapping[str, Any]) -> None:
        """Set the environment of the cells that follow."""
        lasting = {key: value for key, value in environment.items() if key not in _OF_THE_MOMENT}
        server = environment["server"]
        if server.get("is_own"):
            # The run's own server sizes its log by the free disk space at that moment.
            settings = {name: value for name, value in server["settings"].items() if name != "max_wal_size"}
            lasting["server"] = {**server, "settings": settings}
        self._environment = digest_of(lasting)[:12]
        self._server = environment["server"]["version"]
        self.contents["environments"].setdefault(self._environment, dict(environment))

    def repeats_of(self, suite: str, cell: PlannedCell) -> int:
        """The number of repeats of the same cell, with the same rows and parameters in the same environment."""
        found = self.entry(suite, cell.name)
        is_same = found is not None and found["reason"] is None and found.items() >= self._facts(suite, cell).items()
        return len(found["repeats"]) if found and is_same else 0

    def entry(self, suite: str, name: str) -> dict[str, Any] | None:
        """The stored entry of a cell on this server."""
        key = (suite, name, self._server)
        cells: list[dict[str, Any]] = self.contents["cells"]
        return next((cell for cell in cells if (cell["suite"], cell["name"], cell["server"]) == key), None)

    def add(
        self, suite: str, cell: PlannedCell, measured: Measured, load_average: float | None = None
    ) -> dict[str, Any]:
        """Store a repeat, and write the file; return the cell's entry.

        `load_average` is the machine's, of the minute before the repeat.
        """
        entry = self._entry(suite, cell)
        repeat: dict[str, Any] = {"at": datetime.now(tz=UTC).isoformat(timespec="seconds"), "rows": measured.rows}
        repeat["figures"] = {name: _short(value) for name, value in measured.figures.items()}
        if load_average is not None:
            repeat["load_average"] = round(load_average, 2)
        if measured.series:
            repeat["series"] = {name: [_short(value) for value in of] for name, of in measured.series.items()}
        if measured.notes:
            repeat["notes"] = measured.notes
        entry["repeats"].append(repeat)
        entry |= {"reason": None, "rows": measured.rows, "medians": _medians(entry["repeats"])}
        self._write()
        return entry

    def add_reason(self, suite: str, cell: PlannedCell, reason: str) -> None:
        """Store why a cell could not be measured, and write the file."""
        self._entry(suite, cell)["reason"] = reason
        self._write()

    def set_summary(self, suite: str, figures: Mapping[str, float | None], ratios: Mapping[str, float | None]) -> None:
        """Store the figures and ratios of a suite, and write the file."""
        for name, values in (("figures", figures), ("ratios", ratios)):
            if values:
                self.contents[name].setdefault(self._server, {})[suite] = dict(values)
                self._write()

    def _facts(self, suite: str, cell: PlannedCell) -> dict[str, Any]:
        """The cell's name and settings as JSON: equal for two measurements of the same thing in the same way."""
        where = {"suite": suite, "name": cell.name, "server": self._server, "environment": self._environment}
        return {**where, "parameters": json.loads(json.dumps(cell.parameters)), "planned_rows": cell.rows}

    def _entry(self, suite: str, cell: PlannedCell) -> dict[str, Any]:
        """The cell's entry; a new one replaces one with other parameters."""
        found, facts = self.entry(suite, cell.name), self._facts(suite, cell)
        if found is None:
            found = {}
            self.contents["cells"].append(found)
        if not found.items() >= facts.items():
            found.clear()
            found |= {**facts, "rows": 0, "reason": None, "repeats": [], "medians": {}}
        return found

    def _write(self) -> None:
        used = {cell["environment"] for cell in self.contents["cells"]}
        environments = self.contents["environments"]
        self.contents["environments"] = {key: value for key, value in environments.items() if key in used}
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(self.path) as temporary:
            temporary.write_text(_text(self.contents), encoding="utf-8")


def read_results(path: Path) -> dict[str, Any]:
    """Read a file of results."""
    try:
        found: Any = json.loads(path.read_text(encoding="utf-8"))
    except (json.JSONDecodeError, UnicodeDecodeError, FileNotFoundError):
        found = None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise UsageError(f"{path} is not a file of results", remedy="Name another file, or remove it.")
    return found


def _text(contents: Mapping[str, Any]) -> str:
    """The results as JSON text, with a line for each environment and each cell."""
    environments = ",\n".join(f"{json.dumps(key)}: {json.dumps(of)}" for key, of in contents["environments"].items())
    cells = ",\n".join(json.dumps(cell) for cell in contents["cells"])
    rest = "".join(f',\n"{name}": {json.dumps(contents[name])}' for name in ("figures", "ratios"))
    return f'{{"format": {FORMAT},\n"environments": {{\n{environments}\n}},\n"cells": [\n{cells}\n]{rest}}}\n'


def _medians(repeats: list[dict[str, Any]]) -> dict[str, list[float]]:
    """The 10th percentile, median and 90th percentile of each figure that every repeat has."""
    figures = pd.DataFrame([repeat["figures"] for repeat in repeats]).dropna(axis="columns")
    found = figures.sort_index(axis="columns").quantile([0.1, 0.5, 0.9])
    return {str(name): [_short(float(value)) for value in values] for name, values in found.items()}


def _short(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}") if isinstance(value, float) else value
