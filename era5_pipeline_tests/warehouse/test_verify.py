"""Comparing the table with the file: every kind of difference, made by SQL."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, LiteralString

import pytest

from era5_pipeline.flat.checks import Difference
from era5_pipeline.model.errors import WarehouseError
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.drop_month import drop_month
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.verify import verify_month

if TYPE_CHECKING:
    from era5_pipeline_tests.flat_months import FlatMonths

NOON = "time = '2023-07-15 12:00Z'"
ONE_ROW: LiteralString = f"{NOON} AND location_id = (SELECT min(location_id) FROM weather WHERE {NOON})"


def test_a_loaded_month_does_not_differ_from_its_file(shared_warehouse: Warehouse, flat_months: FlatMonths) -> None:
    for flat in (
        flat_months(names=("t2m", "u10", "v10", "tcc", "tp", "sf")),
        flat_months("2024-02", missing=0.1, flat_format="csv"),
        flat_months("1940-01"),
        flat_months("2023-06", hours=5, points=(1, 1)),
        flat_months("2023-05", hours=5, points=(1, 1), missing=1.0),
    ):
        load_month(shared_warehouse, flat, replace_more=True)
        assert verify_month(shared_warehouse, flat) == ()


OF_TEMPERATURE = {f"{kind} of temperature_2m" for kind in ("checksum", "maximum")}
OF_ROWS = {"rows", "sum of location_id"}
# What is changed in the table, and what is found by it.
CHANGES: dict[str, tuple[LiteralString, set[str]]] = {
    "a changed value": ("UPDATE weather SET temperature_2m = temperature_2m + 0.001", {"checksum of temperature_2m"}),
    "a new maximum": ("UPDATE weather SET temperature_2m = 99", OF_TEMPERATURE),
    "not a number": ("UPDATE weather SET temperature_2m = 'NaN'", OF_TEMPERATURE),
    "minus infinity": (
        "UPDATE weather SET temperature_2m = '-Infinity'",
        {"minimum of temperature_2m", "checksum of temperature_2m"},
    ),
    "a huge value": ("UPDATE weather SET temperature_2m = 1e30", OF_TEMPERATURE),
    "a removed value": (
        "UPDATE weather SET total_precipitation = NULL",
        {"values of total_precipitation", "checksum of total_precipitation"},
    ),
    "an added value": ("UPDATE weather SET snowfall = 0", {"values of snowfall"}),
    "another location": ("UPDATE weather SET location_id = location_id + 1", {"sum of location_id"}),
    "a missing row": ("DELETE FROM weather", OF_ROWS),
    "a duplicate row": ("INSERT INTO weather SELECT * FROM weather", OF_ROWS),
}
IN_ANOTHER_MONTH: LiteralString = (
    f"WITH gone AS (DELETE FROM weather WHERE {ONE_ROW} RETURNING location_id) "
    "INSERT INTO weather (time, location_id) SELECT '2023-08-01Z', location_id FROM gone"
)


@pytest.mark.parametrize(
    ("change", "found"),
    [
        *(pytest.param(f"{change} WHERE {ONE_ROW}", found, id=name) for name, (change, found) in CHANGES.items()),
        pytest.param(IN_ANOTHER_MONTH, OF_ROWS, id="a row in another month"),
        pytest.param("DELETE FROM weather", OF_ROWS | {"minimum of temperature_2m"}, id="no row"),
    ],
)
def test_changes_in_the_table_are_found(
    shared_warehouse: Warehouse, flat_months: FlatMonths, change: LiteralString, found: set[str]
) -> None:
    flat, neighbour = flat_months(points=(1, 2)), flat_months("2023-08", points=(1, 2))
    for month in (flat, neighbour):
        drop_month(shared_warehouse, month.month)
        load_month(shared_warehouse, month)
    with shared_warehouse.connect() as connection:
        connection.execute(change)
    differences = verify_month(shared_warehouse, flat)
    texts = [str(difference) for difference in differences]
    assert found <= {text.partition(":")[0] for text in texts}
    assert all(" in the table, " in text and text.endswith(" in the file") for text in texts)


def test_a_difference_has_the_numbers_of_table_and_file(shared_warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months()
    drop_month(shared_warehouse, flat.month)
    load_month(shared_warehouse, flat)
    (difference,) = verify_month(shared_warehouse, replace(flat, rows=flat.rows - 1))
    assert difference == Difference("rows", None, table=flat.rows, file=flat.rows - 1)
    assert str(difference) == f"rows: {flat.rows} in the table, {flat.rows - 1} in the file"
    first = replace(flat.columns[0], checksum=flat.columns[0].checksum + 1)
    (difference,) = verify_month(shared_warehouse, replace(flat, columns=(first, *flat.columns[1:])))
    assert (difference.kind, difference.column, difference.file) == ("checksum", "temperature_2m", first.checksum)
    assert str(difference) == (
        f"checksum of temperature_2m: {first.checksum - 1} in the table, {first.checksum} in the file"
    )


def test_verifying_without_a_table_is_an_error(database_url: str, flat_months: FlatMonths) -> None:
    with pytest.raises(WarehouseError, match='verifying 2023-07: relation "weather" does not exist'):
        verify_month(Warehouse(database_url), flat_months())
