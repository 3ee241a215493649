"""Summaries of months that were loaded without them, computed from their hours, on every layout."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.monthly_backfill import fill_month, months_without_summaries
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.monthly import assert_monthly, view_of

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.flat_months import FlatMonths

ALL = ("t2m", "u10", "v10", "tcc", "tp", "sf")
JULY = Month(2023, 7)


def load_without(warehouse: Warehouse, *flats: FlatMonth) -> None:
    """Load months without summaries."""
    for flat in flats:
        load_month(warehouse, replace(flat, summaries=None))


def lacking(warehouse: Warehouse) -> list[Month]:
    with warehouse.connect() as connection:
        return months_without_summaries(read_ledger(connection))


def test_what_is_computed_from_the_hours_is_what_a_load_writes(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flats = [
        flat_months("2023-06", names=ALL),
        flat_months("2023-07", names=ALL, missing=0.1),
        flat_months("2024-02", names=("t2m", "tp"), hours=50),
    ]
    for flat in flats:
        load_month(warehouse, flat)
    loaded = view_of(warehouse)
    for flat in flats:
        drop_month(warehouse, flat.month)
    load_without(warehouse, *flats)
    assert view_of(warehouse) == {}
    assert lacking(warehouse) == [flat.month for flat in flats]
    for flat in flats:
        assert fill_month(warehouse, flat.month) == flat.locations
        assert verify_month(warehouse, flat) == ()
        assert fill_month(warehouse, flat.month) == 0
    assert lacking(warehouse) == []
    assert_monthly(warehouse, months=3)
    filled = view_of(warehouse)
    assert filled.keys() == loaded.keys()
    for key, row in loaded.items():
        assert filled[key] == {
            name: pytest.approx(value, rel=1e-12) if isinstance(value, float) else value for name, value in row.items()
        }


def test_only_parts_without_summaries_are_filled(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    west, east = flat_months(names=ALL, points=(4, 5)), flat_months(names=ALL, points=(4, 5), west=25.0, seed=2)
    load_without(warehouse, west)
    load_month(warehouse, east)
    # The first part is cut, by places of which there are summaries, and by places that are gone.
    load_month(warehouse, flat_months(names=ALL, points=(2, 3), seed=3))
    drop_month(warehouse, JULY, LocationSet.of_ids([west.location_ids.first_id]))
    assert len(view_of(warehouse)) == 20 + 6
    assert fill_month(warehouse, JULY) == 20 - 6 - 1
    assert_monthly(warehouse, months=1)
    assert len(view_of(warehouse)) == 20 + 20 - 1


def test_a_month_of_variables_that_the_table_of_summaries_lacks(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    """The table was made before there were summaries, and another variable was loaded by then."""
    load_without(warehouse, flat_months(names=ALL))
    with warehouse.connect() as connection:
        connection.execute("ALTER TABLE era5.monthly_summary DROP COLUMN snowfall_mean CASCADE")
        connection.execute("ALTER TABLE era5.monthly_summary DROP COLUMN snowfall_sum CASCADE")
        connection.execute("ALTER TABLE era5.monthly_last_hour DROP COLUMN snowfall_last")
    fill_month(warehouse, JULY)
    assert_monthly(warehouse, months=1)
