"""The set-up by `make setup` and docker/Dockerfile: which Python is taken, and what uv is told of pip's settings."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING

from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

# No system has these: its own in /usr/bin would be taken first.
VERSION, ANOTHER = "3.98", "3.99"
# The words of a command for this Python, run as if it were that one.
_AS_VERSION = "import sys; sys.version_info = (3, 98); exec(sys.argv[2])"

_CONFIGURATION = """
[global]
index-url = https://user:pass%23word@mirror.example.org/simple
extra-index-url =
    https://a.example.org/simple
    https://b.example.org/simple
[install]
trusted-host = mirror.example.org
[download]
index-url = https://other.example.org/simple
"""


def test_uv_takes_packages_from_where_pip_does(tmp_path: Path) -> None:
    (tmp_path / "pip.conf").write_text(_CONFIGURATION)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "UV_"))}
    printed = subprocess.run(
        [sys.executable, str(ROOT / "docker" / "pip_to_uv.py")],
        env=env | {"PIP_CONFIG_FILE": str(tmp_path / "pip.conf"), "PIP_FIND_LINKS": "/a /b"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    exported = dict(word.split("=", 1) for word in shlex.split(printed) if word != "export")
    wanted = {
        "UV_DEFAULT_INDEX": "https://user:pass%23word@mirror.example.org/simple",
        "UV_INDEX": "https://a.example.org/simple https://b.example.org/simple",
        "UV_FIND_LINKS": "/a,/b",
        "UV_INSECURE_HOST": "mirror.example.org",
    }
    assert {name: exported.get(name) for name in wanted} == wanted


def interpreter(path: Path, *, refuses: bool = False) -> str:
    """Write a program that is Python 3.98, or one that refuses to start, as a version manager's shim may."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(
        "#!/bin/sh\nexit 127\n" if refuses else f'#!/bin/sh\nexec "{sys.executable}" -c "{_AS_VERSION}" "$@"\n'
    )
    path.chmod(0o755)
    return str(path)


def found_python(tmp_path: Path, *versions: str, **settings: str) -> str:
    """What .ci/python prints, with the folder `path` before the system's own on PATH."""
    env = {"PATH": f"{tmp_path / 'path'}:/usr/bin:/bin", "HOME": str(tmp_path), **settings}
    done = subprocess.run(
        [str(ROOT / ".ci" / "python"), *versions], env=env, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.returncode == (0 if done.stdout else 1), done.stderr
    assert not done.stderr
    return done.stdout.rstrip("\n")


def test_a_python_is_found_on_path_below_pyenv_or_by_a_setting(tmp_path: Path) -> None:
    """Only one that fits: not a shim that refuses to start, nor one of another version than its name says."""
    for name in ("python3", f"python{VERSION}"):
        interpreter(tmp_path / "path" / name, refuses=True)
    below = interpreter(tmp_path / ".pyenv" / "versions" / f"{VERSION}.1" / "bin" / "python3")
    interpreter(tmp_path / ".pyenv" / "versions" / f"{ANOTHER}.1" / "bin" / "python3")
    assert found_python(tmp_path, ANOTHER, VERSION) == below
    assert not found_python(tmp_path, ANOTHER)

    on_path = interpreter(tmp_path / "path" / "python3")
    assert found_python(tmp_path, ANOTHER, VERSION) == on_path
    given = interpreter(tmp_path / "given")
    unfit = interpreter(tmp_path / "unfit", refuses=True)
    assert found_python(tmp_path, VERSION, ERA5_TEST_PYTHONS=f"{unfit} {given}") == given


def test_make_says_which_python_is_needed(tmp_path: Path) -> None:
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    command = ["make", "setup", f"PYTHON={interpreter(tmp_path / 'python3.9', refuses=True)}"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=600)
    assert done.returncode != 0
    assert "Python 3.11, 3.12 or 3.13 with its venv module is needed" in done.stderr
    assert not (tmp_path / ".venv").exists()


def test_every_place_names_the_same_pythons() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    classifier = re.compile(r"Programming Language :: Python :: (3\.\d+)")
    versions = [match[1] for text in project["classifiers"] if (match := classifier.fullmatch(text))]
    first, last = versions[0], versions[-1]
    assert project["requires-python"] == f">={first},<3.{int(last[2:]) + 1}"
    words = f"Python {', '.join(versions[:-1])} or {last}"
    for name in ("README.md", "docs/install.md", "CONTRIBUTING.md", "Makefile"):
        assert words in (ROOT / name).read_text("utf-8"), name
    assert f".ci/python {' '.join(reversed(versions))}" in (ROOT / "Makefile").read_text("utf-8")


def test_all_pythons_have_the_same_version_of_a_package() -> None:
    names = re.findall(r"^([a-z0-9._-]+)(?:\[.*\])?==", (ROOT / "requirements.lock").read_text("utf-8"), re.MULTILINE)
    assert len(names) > 200
    assert len(names) == len(set(names))
