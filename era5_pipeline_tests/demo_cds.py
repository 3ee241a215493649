"""`make demo-cds`: the pipeline with a test server for the Climate Data Store, on this machine.

It shows a user without a key how a month is requested, queued, rejected, fetched, preliminary at first and then final;
and how all hours of a place come by one request.
It has a home of its own below the usual one, because its data are generated, though they come through the source `cds`.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import typer

from era5_pipeline.model.months import Month
from era5_pipeline_tests.cds_store import CdsServer

AREA = "-5/106/-7.5/108.5"
ERA5 = Path(sys.executable).parent / "era5"


def main() -> None:
    """Run the commands, each shown before its output."""
    now = datetime.now(tz=UTC)
    # The newest month that is whole, and the one before it.
    newest = Month.from_number(Month.of(now - timedelta(days=6)).number - 1)
    before = Month.from_number(newest.number - 1)
    home = Path(os.environ.get("ERA5_HOME", ".era5")).absolute() / "demo-cds"
    with tempfile.TemporaryDirectory(prefix="era5-cds-") as folder, CdsServer(Path(folder), today=now) as server:
        ours = ("ERA5_", "CDSAPI_", "DAGSTER_")
        env = {name: value for name, value in os.environ.items() if not name.startswith(ours)} | {
            "ERA5_HOME": str(home),
            "ERA5_AREA": AREA,
            "ERA5_CDS_POLL_SECONDS": "1",
            "ERA5_CDS_RETRY_SECONDS": "2",
            "CDSAPI_URL": server.url,
            "CDSAPI_KEY": server.key,
        }

        def era5(*arguments: str) -> None:
            typer.echo(f"\n$ era5 {' '.join(arguments)}")
            subprocess.run([ERA5, *arguments], env=env, check=True)

        typer.echo(
            f"A server on this machine stands in for the Climate Data Store: {server.url}. Its data are generated."
        )
        # Not in the current folder, so that a .env there is not read.
        home.mkdir(parents=True, exist_ok=True)
        os.chdir(home)
        server.final_until = before.start - timedelta(hours=1)
        era5("plan", "--from", str(before), "--to", str(newest))
        server.faults.reject_jobs, server.faults.accepted_polls, server.faults.running_polls = 1, 1, 1
        era5("load", "--from", str(before), "--to", str(newest), "--refetch")
        era5("status")
        typer.echo("\nThe server now has the final data, as the store has some months later.")
        server.final_until = newest.end - timedelta(hours=1)
        server.faults.accepted_polls = server.faults.running_polls = 0
        era5("revise", "--after-months", "0")
        era5("status")
        typer.echo(
            "\nAll hours of a place are one request to another dataset. Near Ho Chi Minh City its values of 2020 to "
            "2024 are real (data/timeseries), but for the clouds."
        )
        del env["ERA5_AREA"]
        place = ("--source", "point", "--lat", "10.8", "--lon", "106.3")
        era5("plan", "--from", "2020", "--to", "2024", *place)
        era5("load", "--from", "2020", "--to", "2024", *place)
        era5("series", "--lat", "10.8", "--lon", "106.3", "--from", "2024-04-28", "--to", "2024-04-28")


if __name__ == "__main__":
    main()
