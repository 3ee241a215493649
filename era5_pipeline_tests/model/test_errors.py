"""Errors that another process sends."""

from __future__ import annotations

import pickle

import pytest

from era5_pipeline.model.errors import BadFileError, Era5Error
from era5_pipeline.sources.cds import answers, retry_policy, validation
from era5_pipeline.sources.zarr import store

# The modules with kinds of their own; without them, the cases depended on what other tests had imported.
MODULES = (answers, retry_policy, validation, store)


def all_kinds(kind: type[Era5Error] = Era5Error) -> list[type[Era5Error]]:
    return [kind, *(found for below in kind.__subclasses__() for found in all_kinds(below))]


@pytest.mark.parametrize("kind", sorted(set(all_kinds()), key=str))
def test_an_error_of_another_process_keeps_its_message_and_remedy(kind: type[Era5Error]) -> None:
    error = kind("a.nc", "is damaged", remedy="Mend it.") if kind is BadFileError else kind("failed", remedy="Mend it.")
    received = pickle.loads(pickle.dumps(error))
    assert type(received) is kind
    assert vars(received) == vars(error)
    assert (str(received), received.args) == (str(error), error.args)
