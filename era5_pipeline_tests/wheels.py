"""The wheel of this checkout, and an environment with it, as a pytest plugin.

Works without a network: the dependencies are those of this environment, put on the path of a new one.
"""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from era5_pipeline_tests.commands import ROOT

_PIP = (sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check")


@pytest.fixture(scope="session")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    options = ("--no-deps", "--no-build-isolation", "--no-index", "--wheel-dir", str(folder))
    subprocess.run([*_PIP, "wheel", *options, str(ROOT)], check=True, timeout=600)
    (built,) = folder.glob("era5_pipeline-*.whl")
    return built


@pytest.fixture(scope="session")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of programs of a new environment with the wheel; the project's folder is not on its path."""
    folder = tmp_path_factory.mktemp("environment")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True, timeout=400)
    places = {"base": str(folder), "platbase": str(folder)}
    # Lines of a .pth file are not searched for .pth files of their own, such as that of the editable install.
    (Path(sysconfig.get_path("purelib", "venv", places)) / "dependencies.pth").write_text(
        sysconfig.get_path("purelib") + "\n"
    )
    # A month of netCDF must need no library of GRIB; here it cannot be imported.
    (Path(sysconfig.get_path("purelib", "venv", places)) / "eccodes.py").write_text("raise ImportError('hidden')")
    options = ("--no-deps", "--no-index", str(wheel))
    subprocess.run([*_PIP, "--python", str(folder), "install", *options], check=True, timeout=400)
    return folder / "bin"
