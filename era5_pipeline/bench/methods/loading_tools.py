"""Programs that load a CSV file: timescaledb-parallel-copy and pg_bulkload, where they are installed."""

from __future__ import annotations

import re
import shutil
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import psycopg

from era5_pipeline.bench.cells import CannotRunError
from era5_pipeline.bench.copy_methods import PARALLEL_COPY, ParallelCopy
from era5_pipeline.bench.methods.csv_copies import write_batch_csv
from era5_pipeline.bench.methods.load_method import Batch, Family, LoadMethod, psycopg_session
from era5_pipeline.bench.methods.server_folder import server_reads
from era5_pipeline.postgres.urls import url_parameters

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

PG_BULKLOAD = "pg_bulkload"
_SECONDS = 3600


@dataclass
class ParallelCopyTool(LoadMethod):
    """timescaledb-parallel-copy with a number of workers."""

    workers: int = 1
    family: ClassVar[Family] = "tool"
    loads_only: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]  # it depends on the workers
        """Its name, with the number of workers."""
        return f"{PARALLEL_COPY}, {self.workers} worker{'s' if self.workers > 1 else ''}"

    def why_missing(self, connection: psycopg.Connection[Any]) -> str | None:
        """See `LoadMethod`: the program must be on PATH."""
        del connection
        return None if shutil.which(PARALLEL_COPY) else f"{PARALLEL_COPY} is not on PATH"

    @contextmanager
    def session(self, url: str) -> Iterator[str]:
        """The URL: the program connects by itself, which is timed."""
        yield url

    def prepare(self, batch: Batch) -> Path:
        """Write the CSV file."""
        return write_batch_csv(batch)

    def load(self, session: str, prepared: Path) -> None:
        """Run the program."""
        ParallelCopy(prepared, self.workers).run(session)

    def notes(self, session: str) -> dict[str, str]:
        """Name the program's version."""
        del session
        return {"version": _version([PARALLEL_COPY, "--version"])}


@dataclass
class BulkloadTool(LoadMethod):
    """pg_bulkload with one of its writers: `direct` and `parallel` write past the server's buffers and its log."""

    writer: str = "direct"
    family: ClassVar[Family] = "tool"
    loads_only: ClassVar[bool] = True

    @property
    def name(self) -> str:  # type: ignore[override]  # it depends on the writer
        """Its name, with the writer."""
        return f"{PG_BULKLOAD}, {self.writer}"

    def why_missing(self, connection: psycopg.Connection[Any]) -> str | None:
        """Whether the program and the extension are there."""
        if shutil.which(PG_BULKLOAD) is None:
            return f"{PG_BULKLOAD} is not on PATH"
        found = connection.execute("SELECT FROM pg_available_extensions WHERE name = %s", (PG_BULKLOAD,)).fetchone()
        return None if found is not None else f"the server has no extension {PG_BULKLOAD}"

    @contextmanager
    def session(self, url: str) -> Iterator[str]:
        """The URL of a database that has the extension; the program connects by itself, which is timed."""
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("CREATE EXTENSION IF NOT EXISTS pg_bulkload")
        yield url

    def prepare(self, batch: Batch) -> Path:
        """Write the CSV file."""
        return write_batch_csv(batch)

    def load(self, session: str, prepared: Path) -> None:
        """Run the program; the server reads the file.

        Raises:
            CannotRunError: if the server cannot read the file, or the program fails.
        """
        with psycopg_session(session) as connection:
            if not server_reads(connection, prepared):
                raise CannotRunError("the server cannot read files of this machine's benchmark folder")
        # The server writes them, as its own user.
        written = prepared.parent / "by-server"
        written.mkdir(exist_ok=True)
        written.chmod(0o777)
        found = url_parameters(session)
        places = {"--host": "host", "--port": "port", "--username": "user", "--dbname": "dbname"}
        options = [word for option, key in places.items() if key in found for word in (option, found[key])]
        settings = ["TYPE=CSV", "SKIP=1", f"WRITER={self.writer.upper()}", "PARSE_ERRORS=0"]
        command = [
            *(PG_BULKLOAD, "--input", str(prepared), "--output", "weather", *options),
            *(word for setting in settings for word in ("--option", setting)),
            *("--logfile", str(written / "log"), "--parse-badfile", str(written / "bad")),
            *("--duplicate-badfile", str(written / "duplicates")),
        ]
        done = subprocess.run(  # noqa: S603  # arguments are not from users
            command, capture_output=True, text=True, check=False, timeout=_SECONDS
        )
        if done.returncode != 0:
            output = (done.stderr.strip() or done.stdout.strip()).splitlines()
            errors = [line for line in output if "ERROR" in line] or output[-1:] or [str(done.returncode)]
            raise CannotRunError(f"{PG_BULKLOAD} failed: {errors[0]}")

    def notes(self, session: str) -> dict[str, str]:
        """Name the program's version."""
        del session
        return {"version": _version([PG_BULKLOAD, "--version"])}


def _version(command: list[str]) -> str:
    """The version that a program prints; "unknown" if it prints none."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=30)  # noqa: S603  # constants
    except OSError:
        return "unknown"
    found = re.search(r"v?(\d+\.\d+[\w.-]*)", done.stdout + done.stderr)
    return found[1] if found else "unknown"
