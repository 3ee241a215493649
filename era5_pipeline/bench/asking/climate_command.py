"""`era5 climate` of one place, in a process of its own: how long a user waits for it in all."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from era5_pipeline.bench.cells import CannotRunError

if TYPE_CHECKING:
    from era5_pipeline.bench.asking.asked_table import AskedTable
    from era5_pipeline.bench.cells import Numbers

_COMMAND = (sys.executable, "-c", "from era5_pipeline.cli import main; main()", "climate")
_LIMIT_SECONDS = 600


def run_climate(table: AskedTable) -> tuple[int, Numbers]:
    """Run the command; returns the number of hours of the place, and its seconds.

    Raises:
        CannotRunError: if it fails, with the last words that it printed.
    """
    table.load()
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ERA5_")}
    home = table.folder / "home"
    home.mkdir(exist_ok=True)
    started = time.perf_counter()
    done = subprocess.run(  # noqa: S603  # our own command
        (*_COMMAND, "--lat", str(table.place.latitude), "--lon", str(table.place.longitude)),
        env=kept | {"ERA5_HOME": str(home), "ERA5_DATABASE_URL": table.target.warehouse.url},
        cwd=home,  # without the user's .env
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_SECONDS,
    )
    seconds = time.perf_counter() - started
    if done.returncode:
        words = [line.strip(" │") for line in done.stderr.splitlines() if any(map(str.isalnum, line))]
        why = words[-1] if words else "it printed nothing"
        raise CannotRunError(f"era5 climate ended with exit code {done.returncode}: {why}")
    return sum(month.hours for month in table.months), {"seconds": seconds}
