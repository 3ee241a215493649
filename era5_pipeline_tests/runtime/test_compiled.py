"""`runtime.compiled`: when compiled functions are used."""

from __future__ import annotations

import subprocess
import sys

import pytest

from era5_pipeline.runtime import compiled

_PROGRAM = """
import sys
from era5_pipeline.runtime.compiled import pays_off
print(pays_off(0.1), pays_off(10.0), "numba" in sys.modules)
from era5_pipeline.flat import compiled_sums
print(pays_off(0.1))
"""


def test_small_months_do_not_load_numba_unless_it_is_loaded() -> None:
    if not compiled.is_available():
        pytest.skip("numba is told not to compile: NUMBA_DISABLE_JIT")
    said = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "True", "False", "True"]


def test_nothing_is_compiled_if_numba_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert not compiled.pays_off(1e9)
