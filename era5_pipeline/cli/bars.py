"""Progress bars on stderr with rate and remaining time of each stage; none if stderr is not a terminal."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from era5_pipeline.runtime import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.progress import Task, TaskID

_NAMES = progress.STAGE_NAMES


class _Rate(ProgressColumn):
    """Amount done, total, and rate."""

    def render(self, task: Task) -> Text:
        unit = str(task.fields["unit"])
        if task.total is None:
            return Text(f"{task.elapsed or 0.0:.0f} s", style="cyan")
        rate = f"{task.speed:,.0f} {unit}/s" if task.speed else ""
        return Text(f"{task.completed:,.0f}/{task.total:,.0f} {unit}  {rate}", style="cyan")


@contextmanager
def stage_bars(console: Console, title: str, first: progress.Stage = "raw") -> Iterator[None]:
    """Show a bar for each stage that reports progress; until the `first` reports, show the elapsed time."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        # A request may wait in a queue for days before it reports any bytes.
        tasks: dict[progress.Stage, TaskID] = {first: bars.add_task(f"{title} {_NAMES[first]}", total=None, unit="")}

        def show(stage: progress.Stage, done: int, total: int, unit: str) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(f"{title} {_NAMES[stage]}", total=total, unit=unit)
            bars.update(tasks[stage], completed=done, total=total, unit=unit)

        with progress.listening(show):
            yield
