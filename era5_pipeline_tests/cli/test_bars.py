"""Progress bars: in a terminal, and nowhere else."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
from typing import TYPE_CHECKING

from rich.console import Console

from era5_pipeline.cli.bars import stage_bars
from era5_pipeline.runtime.progress import report
from era5_pipeline_tests.commands import ERA5, environment
from era5_pipeline_tests.pipelines import dagster_dropped

if TYPE_CHECKING:
    from pathlib import Path


def test_no_bars_without_a_terminal() -> None:
    file = io.StringIO()
    with stage_bars(Console(file=file), "2023-07"):
        report("load", 1, 2, "rows")
    assert file.getvalue() == ""


def test_each_stage_has_a_bar() -> None:
    file = io.StringIO()
    with stage_bars(Console(file=file, force_terminal=True, width=120), "2023-07"):
        for stage, unit in (
            ("raw", "hours"),
            ("flat", "rows"),
            ("load", "rows"),
            ("verify", "rows"),
            ("export", "rows"),
        ):
            report(stage, 1, 2_000_000, unit)  # type: ignore[arg-type]
            report(stage, 2_000_000, 2_000_000, unit)  # type: ignore[arg-type]
    printed = file.getvalue()
    for name in ("raw files", "flatten", "load", "verify", "export"):
        assert f"2023-07 {name}" in printed
    assert "2,000,000/2,000,000 rows" in printed
    # Outside the context, reports are discarded.
    report("load", 1, 2, "rows")
    assert file.getvalue() == printed


def test_elapsed_time_is_shown_before_the_first_report() -> None:
    """A request may be in a queue for days."""
    file = io.StringIO()
    with stage_bars(Console(file=file, force_terminal=True, width=120), "2023-07"):
        pass
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", file.getvalue())
    assert re.search(r"2023-07 raw files .* 0 s", printed)


def test_bars_move_while_a_month_is_loaded(database_url: str, tmp_path: Path) -> None:
    """With standard error on a terminal and standard output in a pipe, as in `era5 load ... | tee log`."""
    reader, writer = pty.openpty()
    arguments = ("--from", "2020-02", "--source", "sample", "--area", "50/0/-50/90", "--sample-hours", "8")
    with (
        dagster_dropped(database_url),
        subprocess.Popen(
            [ERA5, "load", *arguments, "--allow-incomplete"],
            env=environment(tmp_path, ERA5_DATABASE_URL=database_url, TERM="xterm", COLUMNS="140"),
            cwd=tmp_path,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=writer,
        ) as process,
    ):
        os.close(writer)
        frames = b""
        while chunk := _read(reader):
            frames += chunk
        assert process.stdout
        out = process.stdout.read().decode()
    os.close(reader)
    assert process.returncode == 0
    assert b"\x1b[" in frames
    printed = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", frames.decode(errors="replace"))
    assert "\\u001b" not in printed
    for name in ("raw files", "flatten", "load"):
        done = {int(n.replace(",", "")) for n in re.findall(rf"2020-02 {name} +\S+ ([\d,]+)/", printed)}
        assert len(done) > 1, f"the bar {name} does not move"
        assert re.search(rf"2020-02 {name} [^\r\n]* [\d,]+ (?:hours|rows)/s", printed), f"the bar {name} has no rate"
    assert "\x1b" not in out
    assert [line.split()[:2] for line in out.splitlines()] == [["month", "state"], ["2020-02", "incomplete"]]


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, 1 << 16)
    except OSError:  # the other end was closed
        return b""
