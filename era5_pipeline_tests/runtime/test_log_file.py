"""Log files of child processes: the last lines of a run, and rotation."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.runtime.log_file import LogFile

if TYPE_CHECKING:
    from pathlib import Path


def test_last_lines_are_of_this_run_only(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "logs/service.log")
    assert "cannot be read" in log.last_lines()
    with log.opened() as file:
        file.write(b"the run before\n")
    with log.opened() as file:
        assert log.last_lines() == "  (it wrote nothing)"
        file.write(b"".join(b"line %d\n\n" % number for number in range(1000)))
        file.write(b"caf\xe9")
    lines = log.last_lines().splitlines()
    assert lines[-2:] == ["  line 999", "  caf\N{REPLACEMENT CHARACTER}"]
    assert 10 <= len(lines) <= 20
    assert log.path.read_bytes().startswith(b"the run before\n")


def test_a_large_log_is_rotated(tmp_path: Path) -> None:
    log = LogFile(tmp_path / "service.log")
    for number in range(4):
        with log.opened() as file:
            file.write(b"%d" % number * (11 << 20))
    assert sorted(path.name for path in tmp_path.iterdir()) == ["service.log", "service.log.1"]
    assert log.path.read_bytes()[:1] == b"3"
