"""Plans of what reading a store takes, compared with what is requested then."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.model.grid import ERA5_GRID, Area
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.model.variables import DEFAULT_VARIABLES, in_table_order
from era5_pipeline.netcdf.cds_files import Axes
from era5_pipeline.sources.source import Request
from era5_pipeline.sources.zarr.chunk_plan import plan_chunks, stored_rates
from era5_pipeline.sources.zarr.layout import ChunkGrid, Geometry
from era5_pipeline.sources.zarr.presets import StoreAccess
from era5_pipeline.sources.zarr.source import ZarrSource
from era5_pipeline_tests.arco_store import Web, served
from era5_pipeline_tests.zarr_stores import BOXES, HOURLY, SHARDED, hours_between, write_store

if TYPE_CHECKING:
    from pathlib import Path

MONTHS = (Month(2020, 1), Month(2020, 2), Month(2020, 3))
SMALL_BOXES = dataclasses.replace(BOXES, chunk=(500, 8, 8))
SMALL_SHARDS = dataclasses.replace(SHARDED, chunk=(100, 4, 4), shard=(500, 8, 8))
DAYS = dataclasses.replace(HOURLY, chunk=(24, 16, 16))
CUTS = {"boxes": SMALL_BOXES, "shards": SMALL_SHARDS, "days": DAYS}


def for_values(web: Web) -> list[str]:
    """The paths requested for values of the temperature."""
    named = [path for path in web.requested if path.split("/")[1] in ("t2m", "2m_temperature")]
    return [path for path in named if not path.endswith((".json", ".zarray", ".zattrs"))]


@pytest.fixture(scope="module")
def stores(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A store of each cut, with the temperature of the months."""
    folder = tmp_path_factory.mktemp("plans")
    for name, cut in CUTS.items():
        write_store(folder / name, cut, hours_between(MONTHS[0], MONTHS[-1]), ("temperature_2m",))
    return {name: folder / name for name in CUTS}


@pytest.mark.parametrize(
    "area", [Area(51.0, -1.0, 49.5, 1.25), Area(52.0, -2.5, 47.0, 2.5), Area(50.0, 0.0, 50.0, 0.0)]
)
@pytest.mark.parametrize("name", CUTS)
def test_a_plan_counts_the_requests_that_are_made(
    stores: dict[str, Path], tmp_path: Path, name: str, area: Area
) -> None:
    cut = CUTS[name]
    request = Request(in_table_order(["temperature_2m"]), area)
    with served(stores[name], with_ranges=True) as web:
        source = ZarrSource(StoreAccess(web.url), tmp_path / "raw", request)
        with source.opened() as (store, layout):
            axes = layout.axes_of(area)
            plan = plan_chunks(layout, axes, MONTHS[1:], stored_rates(store, layout, axes, MONTHS[1:]))
            assert store.bytes < 100_000
        sized = for_values(web)
        assert len(sized) == 1
        web.requested.clear()
        for month in MONTHS[1:]:
            source.fetch(month, together=MONTHS[1:])
        assert plan.requests == len(for_values(web))
    assert plan.decoded_bytes == plan.chunks * 4 * cut.chunk[0] * cut.chunk[1] * cut.chunk[2]
    if cut.shard is None:
        (sampled,) = sized
        assert plan.bytes == plan.requests * (stores[name] / sampled.lstrip("/")).stat().st_size


def test_a_plan_names_the_months_and_the_area_of_the_same_chunks(tmp_path: Path) -> None:
    cut = dataclasses.replace(SMALL_BOXES, chunk=(24 * 91, 8, 8))
    write_store(tmp_path / "store", cut, hours_between(MONTHS[0], MONTHS[-1]), ("temperature_2m",))
    area = Area(50.0, 0.0, 50.0, 0.0)
    source = ZarrSource(
        StoreAccess(str(tmp_path / "store")), tmp_path, Request(in_table_order(["temperature_2m"]), area)
    )
    with source.opened() as (_, layout):
        plan = plan_chunks(layout, layout.axes_of(area), [MONTHS[1]], {})
    assert plan.chunks == 1
    assert plan.months_within == (MONTHS[0], MONTHS[-1])
    # Latitudes ascend from 47 in this store, longitudes from -2.5.
    assert plan.area_within == Area(50.75, -0.5, 49.0, 1.25)
    assert plan.bytes is None


def test_the_documented_chunks_of_ecmwf_make_few_requests_for_a_place() -> None:
    """As docs of the service count them: 60 objects for five variables at 16 places since 1940."""
    variables = tuple(variable for variable in DEFAULT_VARIABLES if variable.column != "snowfall")
    months = [Month.from_number(n) for n in range(Month(1940, 1).number, Month(2026, 4).number + 1)]
    hours = range(hours_of_month(months[0]).start, hours_of_month(months[-1]).stop)
    arrays = tuple(ChunkGrid(one, one.short_name, (67_584, 4, 4), (67_584, 4, 4), 4) for one in variables)
    latitudes, longitudes = (
        np.arange(ERA5_GRID.rows, dtype=np.int32)[::-1],
        np.arange(ERA5_GRID.columns, dtype=np.int32),
    )
    geometry = Geometry(arrays, hours, 0, latitudes, longitudes, ERA5_GRID)
    plan = plan_chunks(geometry, Axes.of(Area(90.0, -179.75, 89.25, -179.0)), months, {})
    assert plan.requests == 60
    assert plan.decoded_bytes == 60 * 4 * 67_584 * 16
