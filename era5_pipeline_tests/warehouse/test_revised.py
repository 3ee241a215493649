"""Months that are loaded again: preliminary data that become final, and what the ledger records."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from era5_pipeline.model.errors import MonthLockedError, RefusedError, WarehouseError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.warehouse.changes import columns_changed, has_same_content
from era5_pipeline.warehouse.ledger_entry import Revision
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.verify import verify_month
from era5_pipeline_tests.flat_months import assert_holds, rows_of_file
from era5_pipeline_tests.warehouse.loads import ask, loading
from era5_pipeline_tests.warehouse.test_ledger import only_part
from era5_pipeline_tests.warehouse.test_load_month import last_attempt, refuse_ledger_rows, versions_of_rows
from era5_pipeline_tests.warehouse.versioned_months import FINAL, PRELIMINARY, VersionedMonths

if TYPE_CHECKING:
    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.postgres.connect import Warehouse

WHOLE = ["2024-12-01T00 to 2024-12-31T23"]
BOTH = ["temperature_2m", "total_precipitation"]


@pytest.fixture
def on_embedded(embedded_warehouse: Warehouse) -> Warehouse:
    return embedded_warehouse


def boundary(hours: int) -> dict[str, list[str]]:
    """Versions by variable in the month in which final data end: accumulations have seven final hours more."""
    return {"t2m": [PRELIMINARY] * hours, "tp": [FINAL] * 7 + [PRELIMINARY] * (hours - 7)}


# On every layout


def test_final_data_with_the_same_values_change_the_ledger_alone(
    warehouse: Warehouse, month_of: VersionedMonths
) -> None:
    preliminary, final = month_of(PRELIMINARY), month_of(FINAL)
    assert preliminary.fingerprint != final.fingerprint
    load_month(warehouse, preliminary)
    rows, before = versions_of_rows(warehouse), only_part(warehouse)
    assert (before.version, before.is_preliminary, before.revised_at) == ("preliminary", True, None)
    assert before.preliminary_hours == {column: tuple(WHOLE) for column in BOTH}

    loaded = load_month(warehouse, final)
    assert (loaded.changed, loaded.confirmed, loaded.columns_changed) == (False, True, ())
    assert (loaded.rows, loaded.replaced_rows, loaded.seconds, loaded.workers) == (final.rows, 0, 0.0, 0)
    assert versions_of_rows(warehouse) == rows
    assert verify_month(warehouse, final) == ()
    assert ask(warehouse.url, "SELECT array_agg(outcome) FROM era5.load_attempt") == ["loaded", "loaded"]
    assert ask(warehouse.url, "SELECT array_agg(rows) FROM era5.load_attempt") == [final.rows, final.rows]

    entry = only_part(warehouse)
    assert (entry.version, entry.preliminary_hours, entry.state) == ("final", {}, "loaded")
    assert entry.expver == {column: {"0001": 744} for column in BOTH}
    assert [file.sha256 for file in entry.files] == [file.sha256 for file in final.raw.files]
    assert entry.fingerprint == final.fingerprint
    assert before.loaded_at is not None
    assert entry.loaded_at == before.loaded_at
    assert entry.seconds == {"raw": final.raw_seconds, "flat": final.seconds, "load": before.seconds["load"]}
    assert entry.revised_at is not None
    assert entry.revised_at == entry.checked_at
    assert entry.revised_at > before.loaded_at
    assert entry.revision == Revision(
        preliminary_hours_before=dict.fromkeys(BOTH, tuple(WHOLE)),
        columns_changed=(),
        columns_unchanged=tuple(BOTH),
        files_before=tuple(file.sha256 for file in preliminary.raw.files),
        loaded_at_before=before.loaded_at.isoformat(),
    )
    again = load_month(warehouse, final)
    assert (again.changed, again.confirmed) == (False, False)
    assert only_part(warehouse).revised_at == entry.revised_at


def test_final_data_with_other_values_replace_the_rows_and_name_the_changed_column(
    warehouse: Warehouse, month_of: VersionedMonths
) -> None:
    preliminary, final = month_of(PRELIMINARY), month_of(FINAL, change={"tp": 1e-7})
    load_month(warehouse, preliminary)
    before = only_part(warehouse)
    loaded = load_month(warehouse, final)
    assert (loaded.changed, loaded.confirmed, loaded.columns_changed) == (True, False, ("total_precipitation",))
    assert_holds(warehouse, final)
    assert verify_month(warehouse, final) == ()
    entry = only_part(warehouse)
    assert (entry.version, entry.preliminary_hours) == ("final", {})
    assert entry.revised_at == entry.loaded_at == entry.checked_at
    assert entry.loaded_at is not None
    assert before.loaded_at is not None
    assert entry.loaded_at > before.loaded_at
    assert entry.revision is not None
    assert entry.revision.columns_changed == ("total_precipitation",)
    assert entry.revision.columns_unchanged == ("temperature_2m",)
    assert entry.revision.files_before == tuple(file.sha256 for file in preliminary.raw.files)


def test_a_change_too_small_for_the_checksum_is_found(warehouse: Warehouse, month_of: VersionedMonths) -> None:
    """Two months with differences below 2**-20 can have the same checksum: the digest tells them apart."""
    one, other = month_of(names=("tcc",)), month_of(names=("tcc",), change={"tcc": 6e-8})
    assert [facts.checksum for facts in one.columns] == [facts.checksum for facts in other.columns]
    load_month(warehouse, one)
    assert load_month(warehouse, other).columns_changed == ("total_cloud_cover",)
    assert_holds(warehouse, other)


def test_a_partly_final_month_is_revised_again_when_all_of_it_is_final(
    warehouse: Warehouse, month_of: VersionedMonths
) -> None:
    load_month(warehouse, month_of(PRELIMINARY))
    assert load_month(warehouse, month_of(boundary(744))).confirmed
    mixed = only_part(warehouse)
    assert mixed.version == "mixed"
    assert mixed.preliminary_hours == {
        "temperature_2m": tuple(WHOLE),
        "total_precipitation": ("2024-12-01T07 to 2024-12-31T23",),
    }
    assert load_month(warehouse, month_of(FINAL)).confirmed
    entry = only_part(warehouse)
    assert mixed.revised_at is not None
    assert entry.revised_at is not None
    assert entry.revised_at > mixed.revised_at
    assert entry.revision is not None
    assert entry.revision.preliminary_hours_before["total_precipitation"] == ("2024-12-01T07 to 2024-12-31T23",)
    assert entry.loaded_at == mixed.loaded_at


# Same and other content


def test_added_and_removed_columns_count_as_changed(on_embedded: Warehouse, month_of: VersionedMonths) -> None:
    load_month(on_embedded, month_of(names=("t2m", "tp")))
    loaded = load_month(on_embedded, month_of(names=("t2m", "sf")), replace_more=True)
    assert loaded.columns_changed == ("snowfall", "total_precipitation")


def test_another_request_with_the_same_rows_is_recorded_in_the_ledger(
    on_embedded: Warehouse, month_of: VersionedMonths
) -> None:
    flat = month_of()
    load_month(on_embedded, flat)
    narrower = replace(flat, raw=replace(flat.raw, area="10.5/20/10.25/20.5", source="arco"))
    assert load_month(on_embedded, narrower).confirmed
    entry = only_part(on_embedded)
    assert (entry.area, entry.source, entry.revised_at) == ("10.5/20/10.25/20.5", "arco", None)
    assert_holds(on_embedded, flat)


def test_force_loads_the_same_content_again(on_embedded: Warehouse, month_of: VersionedMonths) -> None:
    load_month(on_embedded, month_of(PRELIMINARY))
    rows = versions_of_rows(on_embedded)
    loaded = load_month(on_embedded, month_of(FINAL), force=True)
    assert (loaded.changed, loaded.confirmed, loaded.columns_changed) == (True, False, ())
    assert not set(rows) & set(versions_of_rows(on_embedded))
    entry = only_part(on_embedded)
    assert entry.version == "final"
    assert entry.revised_at == entry.loaded_at
    assert entry.revision is not None
    assert entry.revision.columns_unchanged == tuple(BOTH)


def test_generated_data_with_the_same_values_do_not_confirm_real_data(
    on_embedded: Warehouse, month_of: VersionedMonths
) -> None:
    real, generated = month_of(), month_of(source="sample")
    load_month(on_embedded, real)
    before = only_part(on_embedded)
    with pytest.raises(RefusedError, match="generated sample data neither replaces"):
        load_month(on_embedded, generated)
    assert only_part(on_embedded) == before


def test_verify_after_a_confirmation_finds_rows_changed_by_others(
    on_embedded: Warehouse, month_of: VersionedMonths
) -> None:
    load_month(on_embedded, month_of(PRELIMINARY))
    ask(on_embedded.url, "UPDATE weather SET temperature_2m = temperature_2m + 1 RETURNING 1")
    final = month_of(FINAL)
    assert load_month(on_embedded, final).confirmed
    assert any(difference.column == "temperature_2m" for difference in verify_month(on_embedded, final))


def test_a_confirmation_waits_for_the_months_lock(
    on_embedded: Warehouse, month_of: VersionedMonths, large: FlatMonth
) -> None:
    """A confirmation takes the month's lock like any load: another load may be replacing the rows."""
    load_month(on_embedded, large)
    with loading(on_embedded, large, pause=True, force=True) as load:
        other_files = replace(large, raw=replace(large.raw, files=()))
        with pytest.raises(MonthLockedError, match="is being loaded by session"):
            load_month(on_embedded, other_files, lock_timeout_seconds=0)
        load.resume()
        load.result()
    assert load_month(on_embedded, other_files).confirmed


def test_a_failed_confirmation_leaves_the_entry_and_is_recorded_as_an_attempt(
    on_embedded: Warehouse, month_of: VersionedMonths
) -> None:
    load_month(on_embedded, month_of(PRELIMINARY))
    before = only_part(on_embedded)
    refuse_ledger_rows(on_embedded)
    with pytest.raises(WarehouseError, match="the ledger is closed"):
        load_month(on_embedded, month_of(FINAL))
    assert only_part(on_embedded) == before
    assert last_attempt(on_embedded, "2024-12") == ("failed", "loading 2024-12: the ledger is closed")


# What counts as a revision


def revised(warehouse: Warehouse, *flats: FlatMonth) -> bool:
    """Whether the last of these loads was recorded as a revision."""
    for flat in flats:
        before = only_part(warehouse).revised_at if flat is not flats[0] else None
        load_month(warehouse, flat, replace_more=True)
    entry = only_part(warehouse)
    assert (entry.revised_at is None) == (entry.revision is None)
    return entry.revised_at is not None and entry.revised_at != before


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        ({}, {"version": FINAL}, True),
        ({}, {"version": FINAL, "change": {"t2m": 1.0}}, True),
        ({}, {"version": boundary(20)}, True),
        ({"version": boundary(20)}, {"version": FINAL}, True),
        ({}, {"version": FINAL, "source": "arco"}, True),
        ({"source": "files"}, {"version": FINAL, "source": "files"}, True),
        ({"hours": 12}, {"version": FINAL}, True),
        ({"area": "11/19/9/22"}, {"version": FINAL, "area": "11/19/9/22"}, True),
        ({}, {"change": {"t2m": 1.0}}, False),
        ({}, {"first_hour": 1}, False),
        ({}, {}, False),
        ({"version": FINAL}, {"version": FINAL, "change": {"t2m": 1.0}}, False),
        ({"version": FINAL}, {}, False),
        ({"version": boundary(20)}, {}, False),
        ({"hours": 12}, {}, False),
        ({}, {"version": FINAL, "hours": 12}, False),
        ({}, {"version": FINAL, "missing": 0.1}, False),
        ({}, {"version": FINAL, "area": "11/19/9/22"}, False),
        ({}, {"version": FINAL, "names": ("t2m",)}, False),
        ({}, {"version": FINAL, "names": ("t2m", "tp", "sf")}, False),
        ({"source": "files"}, {"version": FINAL, "source": "cds"}, False),
        ({}, {"version": FINAL, "source": "files"}, False),
        ({"source": "sample"}, {"version": FINAL, "source": "sample"}, False),
        ({"source": "sample"}, {"version": FINAL, "source": "cds"}, False),
    ],
    ids=str,
)
def test_which_loads_are_revisions(
    on_embedded: Warehouse, month_of: VersionedMonths, old: dict[str, Any], new: dict[str, Any], *, expected: bool
) -> None:
    flats = [month_of(**{"version": PRELIMINARY, "hours": 20, **kind}) for kind in (old, new)]
    assert revised(on_embedded, *flats) == expected
    assert rows_of_file(flats[1])
    assert_holds(on_embedded, flats[1])


@pytest.mark.parametrize("force", [False, True])
def test_a_month_stays_revised_until_its_content_changes(
    on_embedded: Warehouse, month_of: VersionedMonths, *, force: bool
) -> None:
    for version in (PRELIMINARY, FINAL):
        load_month(on_embedded, month_of(version, hours=20))
    before = only_part(on_embedded)
    load_month(on_embedded, month_of(FINAL, hours=20), force=force)
    entry = only_part(on_embedded)
    assert (entry.revised_at, entry.revision) == (before.revised_at, before.revision)
    assert entry.fingerprint != before.fingerprint
    assert before.checked_at is not None
    assert entry.checked_at is not None
    assert entry.checked_at > before.checked_at
    load_month(on_embedded, month_of(FINAL, hours=20, change={"t2m": 1.0}))
    entry = only_part(on_embedded)
    assert (entry.revised_at, entry.revision) == (None, None)


def test_has_same_content_compares_places_and_counts_too(on_embedded: Warehouse, month_of: VersionedMonths) -> None:
    flat = month_of(hours=20)
    load_month(on_embedded, flat)
    entry = only_part(on_embedded)
    assert has_same_content(entry, month_of(hours=20))
    for other in (
        month_of(hours=20, north=10.75),
        month_of(hours=20, change={"t2m": 1e-4}),
        replace(flat, rows=flat.rows + 1),
        replace(flat, location_ids=LocationSet(((1, 8),))),
        replace(flat, hours=21),
        replace(flat, columns=tuple(replace(facts, missing_hours=()) for facts in flat.columns)),
    ):
        assert not has_same_content(entry, other)
    assert columns_changed(entry, flat) == ()
