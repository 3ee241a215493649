"""Stages of a month on several machines: homes that have nothing in common but the store."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.runtime.store.depot import Depot
from era5_pipeline.stages import run_flat, run_load, run_raw, unchanged_months
from era5_pipeline_tests.flat_months import assert_holds

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Making = Callable[..., Settings]

JULY = Month(2023, 7)


@pytest.fixture
def warehouse(database_url: str) -> Warehouse:
    return Warehouse(database_url)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, store_address: str) -> Making:
    """Makes the settings of a machine by its name: it has a home of its own, and the store."""
    for name in [name for name in os.environ if name.startswith("ERA5_")]:
        monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)

    def make(name: str, **values: Any) -> Settings:
        chosen = {"source": "sample", "area": "10.25/20/10/20.25", "store": store_address} | values
        return Settings(home=tmp_path / name, **chosen)

    return make


def objects(settings: Settings) -> dict[str, int]:
    store = Depot.of(settings).store
    assert store is not None
    return {found.key: found.bytes for found in store.objects()}


def data_files(home: Path) -> list[str]:
    """The raw and flat files on a machine, without records and pictures."""
    suffixes = (".nc", ".zip", ".parquet", ".csv")
    return sorted(path.name for path in home.rglob("*") if path.suffix in suffixes)


def load(settings: Settings, warehouse: Warehouse, month: Month = JULY) -> None:
    run_raw(settings, month)
    run_flat(settings, month)
    run_load(settings, warehouse, month)


def test_the_stages_of_a_month_run_on_three_machines(machine: Making, warehouse: Warehouse) -> None:
    raw = run_raw(machine("first"), JULY)
    assert not (machine("second").home / "raw").exists()
    flat = run_flat(machine("second"), JULY)
    assert not flat.reused
    assert flat.flat.raw.fingerprint == raw.raw.fingerprint
    loaded = run_load(machine("third"), warehouse, JULY)
    assert loaded.loaded.changed
    assert all(outcome.passed for outcome in loaded.outcomes)
    assert_holds(warehouse, flat.flat)
    assert (machine("third").home / "flat" / "2023-07.png").read_bytes().startswith(b"\x89PNG")
    # Of the machine that loaded it, nothing but small files is left; the store has it all.
    assert data_files(machine("third").home) == []
    assert sum(key.endswith((".zip", ".parquet")) for key in objects(machine("first"))) == 2
    # A fourth finds nothing to do.
    assert unchanged_months(machine("fourth"), warehouse, (JULY, Month(2023, 8))) == {JULY}
    assert run_flat(machine("fourth"), JULY).reused
    assert not run_load(machine("fourth"), warehouse, JULY).loaded.changed
