"""What a load guarantees, on every layout for which a server is available."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import psycopg
import pytest
from psycopg import sql

from era5_pipeline.model.errors import RefusedError, WarehouseError
from era5_pipeline.model.months import Month
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.era5_files import flatten
from era5_pipeline_tests.flat_months import assert_holds
from era5_pipeline_tests.warehouse.loads import ask, loading, rows_in

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry, MonthContents
    from era5_pipeline_tests.flat_months import FlatMonths
    from era5_pipeline_tests.servers import Host


def states(warehouse: Warehouse) -> dict[str, str]:
    with warehouse.connect() as connection:
        return {str(entry.month): entry.state for entry in read_ledger(connection)}


def entry_of(warehouse: Warehouse, month: str) -> LedgerEntry:
    (entry,) = contents_of(warehouse, month).parts
    return entry


def contents_of(warehouse: Warehouse, month: str) -> MonthContents:
    with warehouse.connect() as connection:
        return next(held for held in read_ledger(connection) if held.month == Month.parse(month))


def last_attempt(warehouse: Warehouse, month: str) -> tuple[str, str | None]:
    attempt = contents_of(warehouse, month).last_attempt
    assert attempt is not None
    return attempt.outcome, attempt.error


def versions_of_rows(warehouse: Warehouse) -> list[tuple[str, ...]]:
    """Where each row is stored, and which transaction wrote it: unchanged as long as the row is."""
    with warehouse.connect() as connection:
        # The columnstore has batches, in tables of their own, instead of rows.
        batches = connection.execute(
            "SELECT attrelid::regclass::text FROM pg_attribute WHERE attname = '_ts_meta_count'"
        )
        tables = [name for (name,) in batches] or ["weather"]
        versions: list[tuple[str, ...]] = []
        for name in tables:
            versions += connection.execute(
                sql.SQL("SELECT tableoid::text, ctid::text, xmin::text FROM {}").format(sql.SQL(name))
            )
        return sorted(versions)


def test_a_real_point_series_in_csv_is_loaded(warehouse: Warehouse, point_series: Path, tmp_path: Path) -> None:
    (series,) = (point_series / "bremen-2024-2026-csv-zip").glob("*.zip")
    flats = [flatten([series], month, tmp_path) for month in ("2024-02", "2026-03")]  # the last month is a part of one
    for flat in flats:
        load_month(warehouse, flat)
    assert_holds(warehouse, *flats)


def test_every_row_and_column_of_the_file_is_loaded(warehouse: Warehouse, host: Host, flat_months: FlatMonths) -> None:
    flat = flat_months(names=("t2m", "u10", "v10", "tcc", "tp", "sf"))
    loaded = load_month(warehouse, flat)
    assert_holds(warehouse, flat)
    assert (loaded.rows, loaded.changed, loaded.replaced, loaded.kept_locations) == (flat.rows, True, (), 0)
    assert loaded.layout == host.layout
    assert loaded.server.startswith(f"PostgreSQL {host.version}")
    assert 0 < loaded.seconds < 60


def test_loading_the_same_month_again_changes_nothing(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months()
    load_month(warehouse, flat)
    before, entry = versions_of_rows(warehouse), entry_of(warehouse, "2023-07")
    again = load_month(warehouse, flat)
    assert (again.changed, again.rows, again.replaced_rows, again.seconds) == (False, flat.rows, 0, 0.0)
    assert (again.confirmed, again.columns_changed) == (False, ())
    assert versions_of_rows(warehouse) == before
    checked = entry_of(warehouse, "2023-07")
    assert replace(checked, checked_at=entry.checked_at) == entry
    assert checked.checked_at is not None
    assert entry.checked_at is not None
    assert checked.checked_at > entry.checked_at
    assert ask(warehouse.url, "SELECT count(*) FROM era5.load_attempt") == 1


def test_force_loads_the_same_rows_again(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months()
    load_month(warehouse, flat)
    before = versions_of_rows(warehouse)
    for _ in range(2):
        again = load_month(warehouse, flat, force=True)
        assert (again.changed, again.rows, again.replaced_rows) == (True, flat.rows, flat.rows)
        assert [part.source for part in again.replaced] == ["files"]
        assert_holds(warehouse, flat)
    assert not set(versions_of_rows(warehouse)) & set(before)


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 1, 0), (1, 2, 0)], ids=str)
def test_adjacent_months_are_not_changed(
    warehouse: Warehouse, host: Host, flat_months: FlatMonths, order: tuple[int, ...]
) -> None:
    # Adjacent months share 31-day chunks, and the last hour of one is next to the first hour of the other.
    flats = [flat_months(month) for month in ("2023-12", "2024-01", "2024-02")]
    for number in order:
        load_month(warehouse, flats[number])
    assert_holds(warehouse, *flats)
    middle = flat_months("2024-01", seed=2)
    outside = set(versions_of_rows(warehouse))
    load_month(warehouse, middle)
    assert_holds(warehouse, flats[0], middle, flats[2])
    kept = outside & set(versions_of_rows(warehouse))
    untouched = (flats[0], flats[2])
    batches = host.layout == "columnstore"  # one per location
    assert len(kept) == sum(flat.locations if batches else flat.rows for flat in untouched)
    assert states(warehouse) == {"2023-12": "loaded", "2024-01": "loaded", "2024-02": "loaded"}


def sampled(flat: FlatMonth) -> FlatMonth:
    return replace(flat, raw=replace(flat.raw, source="sample"))


def test_generated_data_never_replaces_real_data(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    elsewhere = sampled(flat_months(north=40.0))
    real = flat_months()
    for seed in (3, 2):  # generated data replaces generated data
        generated = sampled(flat_months(seed=seed))
        load_month(warehouse, generated)
        assert_holds(warehouse, generated)
    replaced = load_month(warehouse, real)
    assert [part.source for part in replaced.replaced] == ["sample"]
    for force, replace_more in ((False, False), (True, False), (True, True)):
        with pytest.raises(RefusedError, match=r"2023-07: the table holds real data \(source files\)"):
            load_month(warehouse, generated, force=force, replace_more=replace_more)
        with pytest.raises(RefusedError, match="nor is mixed with it"):
            load_month(warehouse, elsewhere, force=force, replace_more=replace_more)
    assert_holds(warehouse, real)


def refuse_ledger_rows(warehouse: Warehouse) -> None:
    with warehouse.connect() as connection:
        connection.execute(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS "
            "$$ BEGIN RAISE EXCEPTION 'the ledger is closed'; END $$"
        )
        connection.execute("CREATE TRIGGER refuse BEFORE INSERT ON era5.ledger FOR EACH ROW EXECUTE FUNCTION refuse()")


def test_rows_and_ledger_are_committed_together(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    old, new = flat_months(), flat_months(seed=2)
    load_month(warehouse, old)
    before, entry = versions_of_rows(warehouse), entry_of(warehouse, "2023-07")
    refuse_ledger_rows(warehouse)
    with pytest.raises(WarehouseError, match=r"^loading 2023-07: the ledger is closed\nNo month is left half replaced"):
        load_month(warehouse, new)
    assert versions_of_rows(warehouse) == before
    assert entry_of(warehouse, "2023-07") == entry
    assert last_attempt(warehouse, "2023-07") == ("failed", "loading 2023-07: the ledger is closed")
    # The same holds for the first load of a month.
    with pytest.raises(WarehouseError, match="the ledger is closed"):
        load_month(warehouse, flat_months("2023-08"))
    assert_holds(warehouse, old)
    assert states(warehouse) == {"2023-07": "loaded", "2023-08": "failed"}
    with warehouse.connect() as connection:
        connection.execute("DROP TRIGGER refuse ON era5.ledger")
    load_month(warehouse, new)
    assert_holds(warehouse, new)
    assert last_attempt(warehouse, "2023-07") == ("loaded", None)


def test_a_load_of_fewer_rows_than_the_file_has_fails(warehouse: Warehouse, flat_months: FlatMonths) -> None:
    flat = flat_months()
    short = replace(flat, rows=flat.rows + 1)
    with pytest.raises(WarehouseError, match=f"the server took {flat.rows} of {short.rows} rows"):
        load_month(warehouse, short)
    assert rows_in(warehouse) == 0
    assert states(warehouse) == {"2023-07": "failed"}


def test_timeouts_of_the_database_do_not_apply_to_loads(warehouse: Warehouse, large: FlatMonth) -> None:
    with warehouse.connect() as connection:
        for setting in ("statement_timeout", "lock_timeout", "idle_in_transaction_session_timeout"):
            name = psycopg.sql.Identifier(connection.info.dbname)
            connection.execute(psycopg.sql.SQL(f"ALTER DATABASE {{}} SET {setting} = '1s'").format(name))
    with loading(warehouse, large, pause=True) as load:
        with pytest.raises(psycopg.errors.QueryCanceled):
            ask(warehouse.url, "SELECT pg_sleep(60)")
        load.resume()
        assert load.result().rows == large.rows
