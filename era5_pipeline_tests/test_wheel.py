"""The wheel: built from this checkout, installed outside of it, and used in an empty folder.

Works without a network: the dependencies are those of this environment, put on the path of a new one.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import TYPE_CHECKING
from zipfile import ZipFile

import pytest

from era5_pipeline_tests.commands import ROOT, environment, new_home

if TYPE_CHECKING:
    from era5_pipeline_tests.commands import Home

PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder))
    subprocess.run([*PIP, "wheel", *options, str(ROOT)], check=True, timeout=600)
    (built,) = folder.glob("era5_pipeline-*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment with the wheel; the project's folder is not on its path."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=400)
    places = {"base": str(folder), "platbase": str(folder)}
    # Lines of a .pth file are not searched for .pth files of their own, such as that of the editable install.
    (Path(sysconfig.get_path("purelib", "venv", places)) / "dependencies.pth").write_text(
        sysconfig.get_path("purelib") + "\n"
    )
    options = ("--no-deps", "--no-index", str(wheel))
    subprocess.run([*PIP, "--python", str(folder), "install", *options], check=True, timeout=400)
    return folder / "bin"


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
        (home.path / "benchmarks").mkdir()
        (home.path / "benchmarks" / "commands.py").write_text("raise AssertionError")  # another of the name
        for arguments in (("run", "copy"), ("report", "--help"), ("--help",), ()):
            said = run(home, era5, "bench", *arguments, code=2)
            assert "Traceback" not in said
            assert "the benchmarks are not part of the installed package" in said
            assert "python -m benchmarks" in said
        assert "bench" in run(home, era5, "--help")


def test_a_month_is_loaded_with_the_wheel_alone(installed: Path) -> None:
    era5 = installed / "era5"
    with new_home() as home:
        where = run(home, installed / "python", "-c", "import era5_pipeline; print(era5_pipeline.__file__)")
        assert where.startswith(str(installed.parent))
        printed = run(home, era5, "load", "--from", "2024-02", "--source", "sample", "--area", "25/51/24.5/51.5")
        assert "2024-02  loaded" in printed
        assert "wrote a.png" in run(home, era5, "map", "--time", "2024-02-01T12", "--column", "t2m", "--out", "a.png")
        # The processes of era5 up load this module; the folder has neither pyproject.toml nor workspace.yaml.
        loaded = run(
            home,
            installed / "python",
            *("-m", "dagster", "definitions", "validate", "--module-name", "era5_pipeline.definitions"),
        )
        assert "Traceback" not in loaded
        run(home, era5, "db", "stop")
