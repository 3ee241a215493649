"""Progress bars for a person who waits: rate and time left of each stage, on stderr; nothing where none looks."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.progress import BarColumn, Progress, ProgressColumn, SpinnerColumn, TextColumn, TimeRemainingColumn
from rich.text import Text

from era5_pipeline import progress

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console
    from rich.progress import Task, TaskID

_NAMES: dict[progress.Stage, str] = {
    "raw": "raw files",
    "flat": "flatten",
    "load": "load",
    "verify": "verify",
}


class _Rate(ProgressColumn):
    """Done of total, and how fast."""

    def render(self, task: Task) -> Text:
        unit = str(task.fields["unit"])
        rate = f"{task.speed:,.0f} {unit}/s" if task.speed else ""
        return Text(f"{task.completed:,.0f}/{task.total or 0:,.0f} {unit}  {rate}", style="cyan")


@contextmanager
def stage_bars(console: Console, title: str) -> Iterator[None]:
    """Show a bar for each stage that reports within."""
    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=30),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as bars:
        tasks: dict[progress.Stage, TaskID] = {}

        def show(stage: progress.Stage, done: int, total: int, unit: str) -> None:
            if stage not in tasks:
                tasks[stage] = bars.add_task(f"{title} {_NAMES[stage]}", total=total, unit=unit)
            bars.update(tasks[stage], completed=done, total=total)

        with progress.listening(show):
            yield
