"""Run the server until Ctrl-C: `python -m era5_pipeline_tests.cds_store`. It prints the variables that clients need."""

from __future__ import annotations

import signal
import sys
import tempfile
import threading
from pathlib import Path

import typer

from era5_pipeline_tests.cds_store.server import CdsServer


def main(*, port: int = 0, accepted_polls: int = 0, reject_jobs: int = 0) -> None:
    """Serve on 127.0.0.1; jobs are queued for `accepted_polls` polls, the first `reject_jobs` are rejected."""
    over = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: over.set())
    with tempfile.TemporaryDirectory() as folder, CdsServer(Path(folder), port=port, log=True) as server:
        server.faults.accepted_polls, server.faults.reject_jobs = accepted_polls, reject_jobs
        typer.echo(f"export CDSAPI_URL={server.url}\nexport CDSAPI_KEY={server.key}")
        sys.stdout.flush()
        over.wait()


if __name__ == "__main__":
    typer.run(main)
