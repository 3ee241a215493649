"""Backfills during which processes are killed at random, in an order that the seed decides; and what became of them.

`python -m era5_pipeline_tests.backfill_storm --seed 1 --kills 20 --months 44` prints the kills and the outcome; with
`--datasets era5 era5-land`, a backfill of each runs at the same time.
"""

from __future__ import annotations

import argparse
import random
import sys
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks.cells import CannotRunError
from era5_pipeline.model.dataset import DATASETS, ERA5
from era5_pipeline.model.months import Month
from era5_pipeline_tests.backfills import VICTIMS, Backfill, RunningUp, kill
from era5_pipeline_tests.commands import ended, new_home

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.model.dataset import Dataset

_ENDED = ("COMPLETED_SUCCESS", "COMPLETED_FAILED", "FAILED", "CANCELED")
# Between two kills: sometimes the next comes before what was killed is there again.
_PAUSES = (2.0, 15.0)
_FIRST = Month(2001, 1)


@dataclass(frozen=True)
class Outcome:
    """The outcome of a data set's backfill: its state, the states of the months' last runs, and the runs of a month."""

    dataset: str
    state: str
    months: int
    loaded: int
    last_runs: dict[str, int]
    starts: dict[int, int]
    seconds: float

    def __str__(self) -> str:
        return (
            f"{self.dataset}: {self.state} after {self.seconds / 60:.1f} min; "
            f"{self.loaded} of {self.months} months loaded; last runs {self.last_runs}; "
            f"months by their number of runs {self.starts}"
        )


def storm(
    *,
    seed: int,
    kills: int,
    months: int,
    victims: Sequence[str] = VICTIMS,
    datasets: Sequence[Dataset] = (ERA5,),
    patience: float = 900.0,
) -> list[Outcome]:
    """Launch a backfill of each data set, kill so often, then wait for their ends; `patience` s after the last kill."""
    chosen = random.Random(seed)
    with new_home() as home:
        up = RunningUp(home)
        try:
            began = time.monotonic()
            last = Month(_FIRST.year + (months - 1) // 12, (months - 1) % 12 + 1)
            backfills = [Backfill(up, str(_FIRST), str(last), dataset) for dataset in datasets]
            for number in range(kills):
                time.sleep(chosen.uniform(*_PAUSES))
                victim = chosen.choice(victims)
                _say(f"{time.monotonic() - began:5.0f} s  kill {number + 1} of {kills}: {victim}")
                kill(up, victim)
                _start_if_ended(up)
            until = time.monotonic() + patience
            while not all(_state(one) in _ENDED for one in backfills) and time.monotonic() < until:
                _start_if_ended(up)
                time.sleep(2)
            return [_outcome(one, time.monotonic() - began) for one in backfills]
        finally:
            up.stop()


def _outcome(backfill: Backfill, seconds: float) -> Outcome:
    latest = {run.month: run.status for run in reversed(backfill.runs())}
    runs = Counter(run.month for run in backfill.runs())
    return Outcome(
        backfill.dataset.name,
        _state(backfill),
        len(backfill.months),
        len(backfill.loaded()),
        dict(Counter(latest.values())),
        dict(sorted(Counter(runs.values()).items())),
        seconds,
    )


def _start_if_ended(up: RunningUp) -> None:
    """Start `era5 up` again as a user would, if it was killed or has given up."""
    time.sleep(0.2)
    if up.process.poll() is None:
        return
    said = ended(up.process).err.strip().splitlines()
    _say(f"         era5 up ended with {up.process.returncode}: {said[-1] if said else ''}")
    up.start()


def _state(backfill: Backfill) -> str:
    with suppress(CannotRunError):
        return backfill.status()
    return "unknown"


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def main() -> None:
    """Run a storm, and print its outcome."""
    parser = argparse.ArgumentParser(description=__doc__)
    for name, default in (("seed", 1), ("kills", 20), ("months", 44)):
        parser.add_argument(f"--{name}", type=int, default=default)
    parser.add_argument("--victims", nargs="+", choices=VICTIMS, default=VICTIMS)
    parser.add_argument("--datasets", nargs="+", choices=DATASETS, default=[ERA5.name])
    given = parser.parse_args()
    datasets = [DATASETS[name] for name in given.datasets]
    for outcome in storm(
        seed=given.seed, kills=given.kills, months=given.months, victims=given.victims, datasets=datasets
    ):
        _say(str(outcome))


if __name__ == "__main__":
    main()
