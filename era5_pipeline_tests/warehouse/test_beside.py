"""Tests of `warehouse/beside`: values compared within a quantum. Rows that are merged: `test_copy` and `test_parts`."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st
from psycopg import sql

from era5_pipeline.model.variables import BY_COLUMN, VARIABLES
from era5_pipeline.warehouse import beside
from era5_pipeline.warehouse.beside import _differs, beyond_quantum
from era5_pipeline.warehouse.load_month import load_month

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline_tests.warehouse.versioned_months import VersionedMonths

T2M, TP = BY_COLUMN["temperature_2m"], BY_COLUMN["total_precipitation"]
STEP = 2.0**-10
Value = float | None


@pytest.fixture(scope="module")
def session(shared_database_url: str) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(shared_database_url, autocommit=True) as connection:
        yield connection


def are_other(session: psycopg.Connection[Any], quantum: float, pairs: list[tuple[Value, Value]]) -> list[bool]:
    """Which of the pairs of values of the table are not the same within the quantum."""
    query = sql.SQL("SELECT {} FROM unnest(%s::real[], %s::real[]) WITH ORDINALITY AS p(a, b, n) ORDER BY n")
    one, other = (list(values) for values in zip(*pairs, strict=True))
    return [row[0] for row in session.execute(query.format(_differs("p.a", "p.b", quantum)), (one, other))]


def in_table(variable: Variable, in_file: np.float32) -> float:
    """The value as it is stored, from the one of the file."""
    return float(np.float32(np.float64(in_file) * variable.scale + variable.offset))


def test_the_quantum_is_stated_of_temperatures_alone() -> None:
    stated = {variable.quantum for variable in VARIABLES if variable.unit == "degC"}
    assert stated == {STEP}
    assert {variable.quantum for variable in VARIABLES if variable.unit != "degC"} == {0.0}


@given(kelvin=st.floats(180, 340, width=32), share=st.floats(-1, 1))
@example(kelvin=300.0, share=1.0)
@example(kelvin=273.15, share=-1.0)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_decodings_that_differ_by_up_to_the_quantum_are_the_same_value(
    session: psycopg.Connection[Any], kelvin: float, share: float
) -> None:
    one = np.float32(kelvin)
    other = np.float32(one + np.float32(share * STEP))
    assume(abs(np.float64(one) - np.float64(other)) <= STEP)
    pair = in_table(T2M, one), in_table(T2M, other)
    assert are_other(session, T2M.quantum, [pair, pair[::-1]]) == [False, False]


@given(kelvin=st.floats(180, 340, width=32), more=st.floats(1.05, 1e6), sign=st.sampled_from([-1, 1]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_decodings_that_differ_by_more_are_other_values(
    session: psycopg.Connection[Any], kelvin: float, more: float, sign: int
) -> None:
    one = np.float32(kelvin)
    other = np.float32(one + np.float32(sign * more * STEP))
    # Beyond the rounding of the values.
    assume(abs(np.float64(one) - np.float64(other)) > STEP + 2.0**-22 * max(abs(one), abs(other)))
    pair = in_table(T2M, one), in_table(T2M, other)
    assert are_other(session, T2M.quantum, [pair, pair[::-1]]) == [True, True]


@given(metres=st.floats(2.0**-40, 0.5, width=32), variable=st.sampled_from([v for v in VARIABLES if not v.offset]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_values_of_other_variables_are_the_same_but_for_two_roundings(
    session: psycopg.Connection[Any], metres: float, variable: Variable
) -> None:
    one = np.float32(metres)
    neighbour = np.nextafter(one, np.float32(1))
    fifth = np.float32(one + 5 * np.spacing(one))
    stored = in_table(variable, one)
    pairs: list[tuple[Value, Value]] = [(stored, in_table(variable, other)) for other in (one, neighbour, fifth)]
    assert are_other(session, variable.quantum, pairs) == [False, False, True]


@pytest.mark.parametrize("quantum", [0.0, STEP, 1e30])
def test_null_is_no_value_and_not_a_number_is_none(session: psycopg.Connection[Any], quantum: float) -> None:
    nan, infinite = float("nan"), float("inf")
    same: list[tuple[Value, Value]] = [(None, None), (0.0, 0.0), (0.0, -0.0), (nan, nan), (infinite, infinite)]
    other: list[tuple[Value, Value]] = [(None, 0.0), (None, nan), (nan, 1.0), (infinite, 1.0), (infinite, -infinite)]
    assert are_other(session, quantum, same) == [False] * len(same)
    assert are_other(session, quantum, [*other, *((b, a) for a, b in other)]) == [True] * 2 * len(other)


def compared(warehouse: Warehouse, flat: FlatMonth) -> tuple[str, ...] | None:
    return beyond_quantum(lambda _: warehouse.connect(), flat)


# On every layout


@pytest.mark.parametrize("rows_at_once", [1 << 24, 744])
def test_columns_with_other_values_are_named(
    warehouse: Warehouse, month_of: VersionedMonths, monkeypatch: pytest.MonkeyPatch, rows_at_once: int
) -> None:
    """At once, and a few places at a time."""
    monkeypatch.setattr(beside, "_COMPARED_ROWS", rows_at_once)
    monkeypatch.setattr("era5_pipeline.warehouse.copy._SHARE_ROWS", 1)
    load_month(warehouse, month_of())
    compare = partial(compared, warehouse)
    assert compare(month_of()) == ()
    assert compare(month_of(change={"t2m": 0.9 * STEP})) == ()
    assert compare(month_of(change={"t2m": -0.9 * STEP})) == ()
    assert compare(month_of(change={"t2m": 1.2 * STEP})) == ("temperature_2m",)
    assert compare(month_of(change={"t2m": 0.5, "tp": 1e-7})) == ("temperature_2m", "total_precipitation")


def test_a_value_on_one_side_alone_is_another(warehouse: Warehouse, month_of: VersionedMonths) -> None:
    whole, gaps = month_of(), month_of(missing=0.01)
    load_month(warehouse, whole)
    assert compared(warehouse, gaps) == ("temperature_2m", "total_precipitation")
    load_month(warehouse, gaps, replace_more=True)
    assert compared(warehouse, whole) == ("temperature_2m", "total_precipitation")
    assert compared(warehouse, gaps) == ()


def test_other_rows_are_not_compared(warehouse: Warehouse, month_of: VersionedMonths) -> None:
    load_month(warehouse, month_of())
    assert compared(warehouse, month_of(north=11.0)) is None
    assert compared(warehouse, month_of(hours=743)) is None
    assert compared(warehouse, month_of(month="2024-11")) is None
    with warehouse.connect() as connection:
        connection.execute("INSERT INTO weather SELECT * FROM weather LIMIT 1")
    assert compared(warehouse, month_of()) is None
