"""The wheel: built from this checkout, installed outside of it, and used in an empty folder; cli/test_demo too."""

from __future__ import annotations

import subprocess
from typing import TYPE_CHECKING
from zipfile import ZipFile

from era5_pipeline_tests.commands import ROOT, environment, new_home

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.commands import Home


def run(home: Home, *command: str | Path, code: int = 0) -> str:
    """Run a command in an empty folder, without the checkout on its path; return what it prints."""
    kept = environment(home.path / ".era5")
    kept.pop("PYTHONPATH", None)
    done = subprocess.run(
        list(map(str, command)), cwd=home.path, env=kept, capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == code, done
    return done.stdout if code == 0 else done.stderr


def test_the_wheel_has_every_file_that_the_program_reads(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    read = {path for path in (ROOT / "era5_pipeline").rglob("*") if path.is_file() and "__pycache__" not in path.parts}
    wanted = {path.relative_to(ROOT).as_posix() for path in read}
    wanted |= {f"era5_pipeline/sql/{path.name}" for path in (ROOT / "sql").iterdir()} | {"era5_pipeline/dagster.yaml"}
    assert wanted <= names
    assert not any(name.startswith(("era5_pipeline_tests", "benchmarks")) for name in names)


def test_the_benchmarks_are_said_to_need_a_checkout(installed: Path) -> None:
    era5 = installed / "era5"
    with new_home() as home:
        where = run(home, installed / "python", "-c", "import era5_pipeline; print(era5_pipeline.__file__)")
        assert where.startswith(str(installed.parent))
        (home.path / "benchmarks").mkdir()
        (home.path / "benchmarks" / "commands.py").write_text("raise AssertionError")  # another of the name
        for arguments in (("run", "copy"), ("report", "--help"), ("--help",), ()):
            said = run(home, era5, "bench", *arguments, code=2)
            assert "Traceback" not in said
            assert "the benchmarks are not part of the installed package" in said
            assert "python -m benchmarks" in said
        assert "bench" in run(home, era5, "--help")
