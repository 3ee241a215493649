"""`runtime.compiled`: when compiled functions are used."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.runtime import compiled

if TYPE_CHECKING:
    from pathlib import Path

_PROGRAM = """
import sys
from era5_pipeline.runtime.compiled import pays_off
print(pays_off(0.1), pays_off(10.0), "numba" in sys.modules)
from era5_pipeline.flat import compiled_sums
print(pays_off(0.1))
"""

_LOADED = """
import sys
from contextlib import closing
from pathlib import Path
from era5_pipeline import stages

stages.load_in_advance()

from era5_pipeline.flat import compiled_sums
from era5_pipeline.flat.flatten import flatten_month
from era5_pipeline.model.grid import Area
from era5_pipeline.model.months import Month
from era5_pipeline.netcdf import raw_chunks
from era5_pipeline.sources.sample import SampleSource
from era5_pipeline.sources.source import Request
from era5_pipeline.warehouse.copy import FlatCopy
from era5_pipeline.warehouse.layouts import batch_codec, batches


def loaded():
    modules = (raw_chunks, compiled_sums, batch_codec)
    found = [(name, one) for module in modules for name, one in vars(module).items() if hasattr(one, "signatures")]
    return {(name, str(types)) for name, one in found for types in one.signatures}


before, home = loaded(), Path(sys.argv[1])
raw = SampleSource(home, Request(None, Area.parse("4/0/0/4")), 48).fetch(Month(2023, 7))
flat = flatten_month(raw, home, home=home, flat_format="parquet")
reader = batches.BatchReader(flat.month, flat.column_names, flat.location_ids.grid)
reader.add(batches.CopyData.HEADER)
with closing(FlatCopy(flat)) as copy:
    for tuples, _ in batches.MonthEncoder(copy.arrow).tuples():
        reader.add(tuples)
reader.add(batches.CopyData.TRAILER)
reader.finish()
assert before and reader.rows, (before, reader.rows)
print(loaded() - before or "nothing")
"""


def test_forked_processes_load_nothing_more(tmp_path: Path) -> None:
    if not compiled.is_available():
        pytest.skip("numba is told not to compile: NUMBA_DISABLE_JIT")
    program = [sys.executable, "-c", _LOADED, str(tmp_path)]
    assert subprocess.run(program, capture_output=True, text=True, check=True).stdout == "nothing\n"


def test_small_months_do_not_load_numba_unless_it_is_loaded() -> None:
    if not compiled.is_available():
        pytest.skip("numba does not compile here: NUMBA_DISABLE_JIT")
    said = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True).stdout
    assert said.split() == ["False", "True", "False", "True"]


def test_nothing_is_compiled_if_numba_is_told_not_to(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NUMBA_DISABLE_JIT", "1")
    assert not compiled.pays_off(1e9)
