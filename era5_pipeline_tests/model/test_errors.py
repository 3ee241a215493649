"""Errors that another process sends, and those of a machine that has no more memory."""

from __future__ import annotations

import pickle
import subprocess
import sys
from pathlib import Path

import pytest

from era5_pipeline.model.errors import BadFileError, Era5Error, MachineLimitError, machine_limit
from era5_pipeline.runtime import object_store
from era5_pipeline.sources.cds import answers, retry_policy, validation
from era5_pipeline.sources.zarr import icechunk_objects, objects

# The modules with kinds of their own; without them, the cases depended on what other tests had imported.
MODULES = (answers, retry_policy, validation, object_store, objects, icechunk_objects)


def all_kinds(kind: type[Era5Error] = Era5Error) -> list[type[Era5Error]]:
    return [kind, *(found for below in kind.__subclasses__() for found in all_kinds(below))]


@pytest.mark.parametrize("kind", sorted(set(all_kinds()), key=str))
def test_an_error_of_another_process_keeps_its_message_and_remedy(kind: type[Era5Error]) -> None:
    error = kind("a.nc", "is damaged", remedy="Mend it.") if kind is BadFileError else kind("failed", remedy="Mend it.")
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is kind
    assert vars(received) == vars(error)
    assert (str(received), received.args) == (str(error), error.args)


HDF_ERROR = RuntimeError("NetCDF: HDF error")

# HDF5 says the same of a damaged file and of memory that it was refused.
SHORT_OF_MEMORY = """
import resource
from pathlib import Path
from era5_pipeline_tests.model.test_errors import HDF_ERROR
from era5_pipeline.model.errors import machine_limit
(line,) = (line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, ((int(line.split()[1]) << 10) + (16 << 20),) * 2)
print(repr(machine_limit(HDF_ERROR, "2023-07: flattening it")))
"""


def test_a_file_that_cannot_be_read_is_no_want_of_memory() -> None:
    assert machine_limit(HDF_ERROR, "2023-07: flattening it") is None


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux")
def test_a_file_is_not_called_damaged_where_memory_is_short() -> None:
    said = subprocess.run([sys.executable, "-c", SHORT_OF_MEMORY], check=False, capture_output=True, text=True)
    assert said.stdout.startswith(MachineLimitError.__name__), said
    assert "the memory that this process may use is not enough (NetCDF: HDF error)" in said.stdout
