from __future__ import annotations

import json
import math
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.flat import flat_month as facts
from era5_pipeline.flat.flat_month import ColumnFacts, FlatFile, FlatMonth, checksum_of, month_fingerprint
from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.model.grid import ERA5_LAND_GRID
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.sources.source import RawFile, RawMonth

if TYPE_CHECKING:
    import pytest

FILES = (RawFile(Path("/data/a.nc"), "aa", 10), RawFile(Path("/data/b.nc"), "bb", 20))
RAW = RawMonth(Month(2023, 7), "files", FILES, ("temperature_2m",), "1/2/0/3", ("passed over: x",))
COLUMN = ColumnFacts(
    "temperature_2m",
    5,
    -1.5,
    2.5,
    0.25,
    -(2**70),
    5,
    1,
    {"0001": 3, "0005": 2},
    1,
    "here",
    2,
    "there",
    ("2023-07-01T03",),
    "00ff",
    ("2023-07-01T04 to 2023-07-31T23",),
    area_mean=0.5,
)


def flat_month(raw: RawMonth = RAW) -> FlatMonth:
    return FlatMonth(
        raw=raw,
        path=Path("/home/flat/2023-07-abc.parquet"),
        format="parquet",
        rows=5,
        location_ids=LocationSet(((3, 4),)),
        hours=5,
        hours_expected=744,
        missing_hours=("2023-07-01T05 to 2023-07-31T23",),
        columns=(COLUMN,),
        location_id_sum=15,
        bytes=100,
        sha256="cc",
        seconds=0.5,
        peak_rss_bytes=1000,
        summaries=FlatFile(Path("/home/flat/2023-07-abc.monthly.parquet"), 50, "dd"),
    )


def test_facts_are_read_back_from_json_unchanged() -> None:
    flat = flat_month()
    assert FlatMonth.from_json(json.loads(json.dumps(flat.to_json()))) == flat
    assert flat.month == Month(2023, 7)
    assert flat.expver == {"temperature_2m": {"0001": 3, "0005": 2}}
    assert flat.preliminary_hours == {"temperature_2m": ("2023-07-01T03",)}
    assert flat.version == "mixed"
    assert flat.locations == 1
    assert not flat.is_complete
    # As they were recorded before there were area means.
    earlier = asdict(COLUMN)
    del earlier["area_mean"]
    assert ColumnFacts.from_json(earlier) == replace(COLUMN, area_mean=None)


def test_only_a_month_of_another_data_set_says_of_which_it_is() -> None:
    of_land = replace(RAW, dataset=ERA5_LAND)
    locations = LocationSet(((6_000_000, 6_000_002),), grid=ERA5_LAND_GRID)
    flat = replace(flat_month(of_land), location_ids=locations)
    assert FlatMonth.from_json(json.loads(json.dumps(flat.to_json()))) == flat
    assert of_land.to_json() == {**RAW.to_json(), "dataset": "era5-land"}
    assert "dataset" not in json.dumps(flat_month().to_json())
    assert of_land.fingerprint != RAW.fingerprint


def test_the_fingerprint_depends_on_contents_request_and_form_not_on_names(monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = tuple(replace(file, path=Path(f"/elsewhere/{n}")) for n, file in enumerate(reversed(FILES)))
    renamed = replace(RAW, files=elsewhere, warnings=())
    assert month_fingerprint(renamed) == month_fingerprint(RAW) == flat_month().fingerprint
    others = [
        replace(RAW, month=Month(2023, 8)),
        replace(RAW, source="sample"),
        replace(RAW, files=FILES[:1]),
        replace(RAW, files=(FILES[0], replace(FILES[1], sha256="bc"))),
        replace(RAW, variables=None),
        replace(RAW, area=None),
    ]
    fingerprints = {month_fingerprint(raw) for raw in [RAW, *others]}
    monkeypatch.setattr(facts, "FLAT_FORM", facts.FLAT_FORM + 1)
    assert len(fingerprints | {month_fingerprint(RAW)}) == 8


SCALE = 2.0**20
values = st.lists(st.floats(-500, 500, width=32), max_size=50)


@given(values)
def test_a_checksum_is_an_integer_independent_of_order_and_grouping(numbers: list[float]) -> None:
    array = np.array(numbers, dtype=np.float32)
    expected = sum(math.floor(float(value) * 2**20) for value in array)
    shuffled = np.random.default_rng(1).permutation(array)
    assert checksum_of(array, SCALE) == expected
    assert checksum_of(shuffled[:10], SCALE) + checksum_of(shuffled[10:], SCALE) == expected
    assert checksum_of(array.reshape(1, -1), SCALE) == expected


def test_a_checksum_of_many_large_values_is_exact() -> None:
    array = np.full(4_000_000, 499.99997, dtype=np.float32)
    assert checksum_of(array, SCALE) == math.floor(float(array[0]) * 2**20) * array.size
    assert checksum_of(-array, SCALE) == math.floor(float(-array[0]) * 2**20) * array.size


def test_one_changed_value_changes_the_checksum() -> None:
    array = np.linspace(-50, 50, 1000, dtype=np.float32)
    changed = array.copy()
    changed[500] = np.nextafter(changed[600], np.float32(100))
    assert checksum_of(array, SCALE) != checksum_of(changed, SCALE)
