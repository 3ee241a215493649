"""The set-up by `make setup` and docker/Dockerfile: what uv is told of pip's configuration."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from typing import TYPE_CHECKING

from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

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
