"""The view era5.location and the function era5.nearest: what they say of the table, and when they are made."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from era5_pipeline.model.grid import distances_km, latitudes_of, longitudes_of, nearest_location
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.places.grid_cells import land_percent
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.servers import fresh_database

if TYPE_CHECKING:
    from collections.abc import Iterator

    from era5_pipeline_tests.flat_months import FlatMonths

GLOBE = ((1, 1_038_241),)
_PART = (
    "INSERT INTO era5.ledger (month, part, state, rows, locations, location_ids, hours, hours_expected, missing_hours, "
    "source, expver, columns, files, warnings, raw_bytes, flat_bytes, flat_file, seconds, versions, fingerprint, "
    "version, checked_at, has_summaries, dropped_at) VALUES (%s, %s, %s, 0, 0, %s::int4multirange, 744, 744, '{}', "
    "'sample', '{}', '[]', '[]', '{}', 0, 0, '{}', '{}', '{}', '', 'final', now(), false, %s)"
)


@pytest.fixture(scope="module")
def made(server_url: str) -> Iterator[psycopg.Connection[Any]]:
    """A connection to a database with the schema, and an empty ledger."""
    with fresh_database(server_url) as url, Warehouse(url).connect() as connection:
        ensure_schema(connection)
        yield connection


def hold(connection: psycopg.Connection[Any], *parts: tuple[tuple[int, int], ...]) -> None:
    """Let the ledger have parts with these runs of location_id, each in a month of its own."""
    connection.execute("TRUNCATE era5.ledger")
    for number, runs in enumerate(parts):
        text = "{" + ",".join(f"[{first},{end})" for first, end in runs) + "}"
        connection.execute(_PART, (f"{1990 + number}-01-01", 1, "loaded", text, None))


def nearest(connection: psycopg.Connection[Any], latitude: float, longitude: float) -> tuple[Any, ...] | None:
    return connection.execute("SELECT * FROM era5.nearest(%s, %s)", (latitude, longitude)).fetchone()


def test_the_view_has_the_locations_of_the_table(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    load_month(warehouse, flat_months())
    load_month(warehouse, flat_months("2023-08", north=-6.0, west=106.75))
    with warehouse.connect() as connection:
        rows = connection.execute("SELECT * FROM era5.location ORDER BY location_id").fetchall()
        held = connection.execute("SELECT DISTINCT location_id, latitude, longitude FROM weather ORDER BY 1").fetchall()
        assert [row[:3] for row in rows] == held
        assert len(rows) == 12
        for row in rows:
            place, column = divmod(row[0] - 1, 1440)
            assert row[3] == pytest.approx(land_percent()[place, column] / 100)
        # 10.25, 20 is in Chad; -6, 107 off the port of Jakarta.
        shares = {(row[1], row[2]): row[3] for row in rows}
        assert shares[10.25, 20.0] == 1.0
        assert 0.0 < shares[-6.0, 107.0] < 1.0
        found = nearest(connection, -6.2, 106.84)
        assert found is not None
        assert found[:3] == (nearest_location(-6.25, 106.75).location_id, -6.25, 106.75)


def test_dropped_parts_are_no_longer_there(made: psycopg.Connection[Any]) -> None:
    hold(made, ((100, 110),))
    made.execute(_PART, ("2020-02-01", 1, "dropped", "{[500,600)}", "2024-01-01Z"))
    assert made.execute("SELECT array_agg(location_id ORDER BY location_id) FROM era5.location").fetchone() == (
        list(range(100, 110)),
    )
    found = nearest(made, -90.0, 0.0)
    assert found is not None
    assert 100 <= found[0] < 110


def test_nothing_loaded_has_no_nearest(made: psycopg.Connection[Any]) -> None:
    hold(made)
    assert nearest(made, -6.2, 106.8) is None
    assert made.execute("SELECT count(*) FROM era5.location").fetchone() == (0,)


def test_unknown_coordinates_have_no_nearest_and_impossible_ones_are_an_error(made: psycopg.Connection[Any]) -> None:
    hold(made, GLOBE)
    assert made.execute("SELECT * FROM era5.nearest(NULL, 1)").fetchone() is None
    assert made.execute("SELECT * FROM era5.nearest(1, NULL)").fetchone() is None
    with pytest.raises(psycopg.errors.NumericValueOutOfRange, match="is out of range"):
        nearest(made, 106.8, -6.2)


def test_of_a_whole_globe_it_is_the_nearest_grid_point(made: psycopg.Connection[Any]) -> None:
    hold(made, GLOBE)
    found = nearest(made, -6.2, 106.8)
    assert found is not None
    assert found[:3] == (483547, -6.25, 106.75)
    # A twentieth of a degree each way: 5.56 km northward, 5.53 km eastward.
    assert found[3] == pytest.approx(7.84, abs=0.01)
    assert made.execute("SELECT count(*) FROM era5.location").fetchone() == (1_038_240,)


@st.composite
def runs(draw: st.DrawFn) -> tuple[tuple[int, int], ...]:
    """A few runs of location_id: points, parts of rows, and bands of many rows."""
    lengths = st.sampled_from((1, 3, 400, 1440, 5000))
    ids: list[int] = []
    for _ in range(draw(st.integers(1, 4))):
        first = draw(st.integers(1, 1_038_240))
        ids.extend(range(first, min(first + draw(lengths), 1_038_241)))
    return LocationSet.of_ids(ids).runs


@settings(deadline=None, max_examples=80)
@given(runs(), st.floats(-90, 90), st.floats(-180, 360))
@example(((1, 2),), 90.0, 0.0)
@example(((1, 1441),), 90.0, 0.0)
@example(((1, 1441),), 1e-200, 1e-200)
# On both sides of the date line, which is between the last location of a row and the first.
@example(((519_840, 519_841),), 0.0, -179.75)
@example(((519_000, 520_300),), 0.1, 359.9)
@example(((1, 4000), (1_034_000, 1_038_241)), 0.0, 12.34)
def test_the_nearest_is_that_of_all_distances(
    made: psycopg.Connection[Any], held: tuple[tuple[int, int], ...], latitude: float, longitude: float
) -> None:
    hold(made, held)
    found = nearest(made, latitude, longitude)
    assert found is not None
    location_id, nearest_latitude, nearest_longitude, kilometres = found
    positions = LocationSet(held).ids() - 1
    distances = distances_km(latitude, longitude, latitudes_of(positions // 1440), longitudes_of(positions % 1440))
    assert kilometres == pytest.approx(distances.min(), abs=0.05)
    assert location_id in LocationSet(held)
    place, column = divmod(location_id - 1, 1440)
    assert (nearest_latitude, nearest_longitude) == (float(latitudes_of(place)), float(longitudes_of(column)))
    there = distances[np.searchsorted(positions, location_id - 1)]
    assert kilometres == pytest.approx(there, abs=0.001)


def test_parts_of_several_months_are_searched_together(made: psycopg.Connection[Any]) -> None:
    jakarta, paris = (nearest_location(*point).location_id for point in ((-6.25, 106.75), (48.75, 2.25)))
    hold(made, ((jakarta, jakarta + 1),), ((paris, paris + 1),), ((jakarta, jakarta + 1), (paris, paris + 1)))
    for point, expected in (((-8.0, 110.0), jakarta), ((52.5, 13.4), paris)):
        found = nearest(made, *point)
        assert found is not None
        assert found[0] == expected
    assert made.execute("SELECT count(*) FROM era5.location").fetchone() == (2,)


def test_the_objects_are_made_once(made: psycopg.Connection[Any]) -> None:
    before = made.execute("SELECT xmin::text FROM era5.land ORDER BY latitude_index").fetchall()
    assert len(before) == 721
    ensure_schema(made)
    assert made.execute("SELECT xmin::text FROM era5.land ORDER BY latitude_index").fetchall() == before


def test_every_cell_has_its_percentage(made: psycopg.Connection[Any]) -> None:
    rows = made.execute("SELECT percent FROM era5.land ORDER BY latitude_index").fetchall()
    assert b"".join(row for (row,) in rows) == land_percent().tobytes()


def test_a_database_of_an_earlier_version_gets_them(server_url: str) -> None:
    with fresh_database(server_url) as url, Warehouse(url).connect() as connection:
        ensure_schema(connection)
        connection.execute("DROP VIEW era5.location; DROP TABLE era5.land; DROP FUNCTION era5.nearest")
        ensure_schema(connection)
        hold(connection, GLOBE)
        assert nearest(connection, 0.0, 0.0) is not None
        assert connection.execute("SELECT land_share FROM era5.location WHERE location_id = 663160").fetchone() == (
            1.0,
        )


@pytest.mark.parametrize("schema", ["public", "Geo data"])
def test_where_postgis_is_installed_the_view_gains_a_geography(host_url: str, schema: str) -> None:
    with fresh_database(host_url) as url, Warehouse(url).connect() as connection:
        if connection.execute("SELECT FROM pg_available_extensions WHERE name = 'postgis'").fetchone() is None:
            pytest.skip("this server does not offer PostGIS")
        ensure_schema(connection)
        columns = (
            "SELECT string_agg(attname, ' ' ORDER BY attnum) FROM pg_attribute "
            "WHERE attrelid = 'era5.location'::regclass"
        )
        assert connection.execute(columns).fetchone() == ("location_id latitude longitude land_share",)
        connection.execute(
            f'CREATE SCHEMA IF NOT EXISTS "{schema}"; CREATE EXTENSION postgis SCHEMA "{schema}"'.encode()
        )
        ensure_schema(connection)
        assert connection.execute(columns).fetchone() == ("location_id latitude longitude land_share geography geom",)
        comment = "SELECT col_description('era5.location'::regclass, 5)"
        assert connection.execute(comment).fetchone() == ("The point, for PostGIS: ST_DWithin, ST_Distance",)
        hold(connection, ((483_547, 483_548), (600_000, 600_001)))
        connection.execute(f'SET search_path = public, "{schema}"'.encode())
        near = connection.execute(
            "SELECT location_id, ST_AsText(geography), ST_AsText(geom) FROM era5.location "
            "WHERE ST_DWithin(geography, ST_MakePoint(106.8, -6.2)::geography, 10000)"
        ).fetchall()
        assert near == [(483_547, "POINT(106.75 -6.25)", "POINT(106.75 -6.25)")]
