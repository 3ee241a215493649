"""What stores hold, by their metadata and axes: what is recognised, and what is refused by name."""

from __future__ import annotations

import dataclasses
import json
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
import xarray as xr

from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import SourceError
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import hours_of_month
from era5_pipeline.model.variables import DEFAULT_VARIABLES, in_table_order
from era5_pipeline.sources.zarr.layout import Layout, open_layout
from era5_pipeline.sources.zarr.store import ReadOnlyStore
from era5_pipeline_tests.arco_store import served
from era5_pipeline_tests.zarr_stores import BOXES, COLUMNS, HOURLY, LATITUDES, LONGITUDES, SHARDED, write_store

if TYPE_CHECKING:
    from pathlib import Path

HOURS = range(hours_of_month(Month(2020, 2)).start, hours_of_month(Month(2020, 2)).start + 48)
TEMPERATURE = in_table_order(["temperature_2m"])


def layout_of(folder: Path, variables: Any = DEFAULT_VARIABLES) -> Layout:
    store = ReadOnlyStore.at(str(folder), lambda _: None)
    try:
        return open_layout(store, variables, (), ERA5)[0]
    finally:
        store.close()


def written(
    folder: Path, *, variable: dict[str, Any] | None = None, group: dict[str, Any] | None = None, **axes: Any
) -> Path:
    """A small store of a temperature, as xarray writes it in format 2; `axes` replace those of two days."""
    coordinates = {
        "time": np.datetime64("2020-02-01T00", "ns") + np.arange(48) * np.timedelta64(1, "h"),
        "latitude": np.array([50.0, 49.75]),
        "longitude": np.array([6.0, 6.25, 6.5]),
        **axes,
    }
    shape = tuple(len(coordinates[name]) for name in ("time", "latitude", "longitude"))
    attributes = {"units": "K", "long_name": "2 metre temperature", **(variable or {})}
    array = xr.DataArray(
        np.full(shape, 280, np.float32), coordinates, ("time", "latitude", "longitude"), attrs=attributes
    )
    dataset = array.to_dataset(name="t2m")
    dataset["latitude"].attrs["units"] = "degrees_north"
    dataset["longitude"].attrs["units"] = "degrees_east"
    dataset.attrs.update(group or {})
    dataset.to_zarr(folder, zarr_format=2, consolidated=True)
    return folder


def test_the_cut_of_each_layout_is_recognised(tmp_path: Path) -> None:
    cuts = {"hourly": HOURLY, "boxes": BOXES, "sharded": SHARDED}
    for name, cut in cuts.items():
        write_store(tmp_path / name, cut, HOURS)
    layouts = {name: layout_of(tmp_path / name) for name in cuts}
    assert [array.chunk for array in layouts["hourly"].arrays] == [(1, 21, 21)] * 2
    assert [array.chunk for array in layouts["boxes"].arrays] == [(48, 21, 21)] * 2
    assert [(array.chunk, array.shard) for array in layouts["sharded"].arrays] == [((24, 8, 8), (720, 32, 32))] * 2
    for layout in layouts.values():
        assert layout.hours == HOURS
        assert [array.variable.column for array in layout.arrays] == list(COLUMNS)
        axes = layout.axes_of(None)
        np.testing.assert_array_equal(axes.latitudes, LATITUDES)
        np.testing.assert_array_equal(axes.longitudes, LONGITUDES)


def test_without_consolidated_metadata_only_known_names_are_asked_for(tmp_path: Path) -> None:
    write_store(tmp_path / "store", BOXES, HOURS, ("temperature_2m",))
    with served(tmp_path / "store") as web:
        store = ReadOnlyStore.at(web.url, lambda _: None)
        layout, lacking = open_layout(store, TEMPERATURE, TEMPERATURE, ERA5)
        store.close()
    assert lacking == ()
    assert len(layout.arrays) == 1
    assert web.requested[:3] == ["/.zmetadata", "/zarr.json", "/t2m/zarr.json"]
    assert {path for path in web.requested if path.endswith("zarr.json")} == {
        *("/zarr.json", "/t2m/zarr.json", "/valid_time/zarr.json", "/lat/zarr.json", "/lon/zarr.json"),
        "/expver/zarr.json",
        "/status/zarr.json",
    }


def test_variables_are_found_by_the_number_of_ecmwf_too(tmp_path: Path) -> None:
    write_store(tmp_path / "store", dataclasses.replace(SHARDED, attributes={"GRIB_paramId": 167}), HOURS, COLUMNS[:1])
    metadata = tmp_path / "store" / "zarr.json"
    value = json.loads(metadata.read_text())
    held = value["consolidated_metadata"]["metadata"]
    held["temperature"] = held.pop("t2m")
    metadata.write_text(json.dumps(value))
    assert [array.name for array in layout_of(tmp_path / "store").arrays] == ["temperature"]


def test_a_store_written_by_xarray_in_format_3_is_read(tmp_path: Path) -> None:
    """It writes the mark of missing values as text."""
    with xr.open_zarr(written(tmp_path / "two")) as dataset:
        loaded = dataset.load()
    loaded["t2m"].encoding = {"_FillValue": np.float32(-999.0)}
    for name in ("time", "latitude", "longitude"):
        loaded[name].encoding = {}
    loaded["t2m"][3, 1, 1] = np.nan
    loaded.to_zarr(tmp_path / "three", zarr_format=3, consolidated=False)
    store = ReadOnlyStore.at(str(tmp_path / "three"), lambda _: None)
    layout, _ = open_layout(store, TEMPERATURE, TEMPERATURE, ERA5)
    values = layout.arrays[0].read(slice(0, 48), slice(0, 2), slice(0, 3))
    store.close()
    assert np.flatnonzero(np.isnan(values)).tolist() == [3 * 6 + 4]


def test_a_time_axis_from_before_1940_is_cut(tmp_path: Path) -> None:
    times = np.datetime64("1939-12-31T00", "ns") + np.arange(48) * np.timedelta64(1, "h")
    layout = layout_of(written(tmp_path / "store", time=times))
    assert layout.hours == range(hours_of_month(Month(1940, 1)).start, hours_of_month(Month(1940, 1)).start + 24)
    assert layout.first_position == 24


def test_versions_of_the_store_are_taken(tmp_path: Path) -> None:
    folder = written(tmp_path / "store")
    expver = xr.DataArray(["0001"] * 24 + ["0005"] * 24, dims="time", name="expver")
    expver.to_dataset().to_zarr(folder, mode="a", zarr_format=2, consolidated=True)
    store = ReadOnlyStore.at(str(folder), lambda _: None)
    assert open_layout(store, TEMPERATURE, (), ERA5)[0].versions_of(HOURS[23:25]) == ("0001", "0005")
    store.close()


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"latitude": np.array([50.1, 49.85])}, "latitude 50.1 is not on ERA5's 0.25 degree grid"),
        ({"variable": {"units": "degC"}}, "t2m is in degC, not in K"),
        ({"variable": {"GRIB_stepType": "avgua"}}, "GRIB_stepType avgua"),
        ({"variable": {"cell_methods": "time: mean"}}, "a mean over time"),
        ({"group": {"history": "cdo monmean era5.nc"}}, "monthly statistics|monmean"),
        (
            {"time": np.arange("2020-02-01", "2020-02-03", dtype="datetime64[h]").astype("M8[ns]")[::3]},
            "every hour in ascending",
        ),
        (
            {"time": np.arange("2020-02-01", "2020-02-03", dtype="datetime64[h]").astype("M8[ns]")[::-1]},
            "every hour in asc",
        ),
    ],
    ids=["off grid", "units", "step type", "cell methods", "history", "three-hourly", "descending"],
)
def test_what_is_not_hourly_era5_is_refused_by_name(tmp_path: Path, changed: dict[str, Any], said: str) -> None:
    with pytest.raises(SourceError, match=said) as caught:
        layout_of(written(tmp_path / "store", **changed))
    assert str(tmp_path / "store") in caught.value.message
    assert caught.value.remedy


@pytest.mark.parametrize("text", ["", "{", "<html>sign in</html>", "[]", '{"zarr_format": 3, "node_type": "array"}'])
def test_damaged_metadata_are_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "zarr.json").write_text(text)
    with pytest.raises(SourceError, match=r"is not JSON|is not the metadata|is not a group"):
        layout_of(tmp_path)


def test_a_folder_without_a_store_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="there is no Zarr store at"):
        layout_of(tmp_path)


def test_a_store_of_other_variables_is_refused_with_what_it_holds(tmp_path: Path) -> None:
    folder = written(tmp_path / "store")
    with pytest.raises(SourceError, match="has none of snowfall; it has latitude, longitude, t2m, time"):
        layout_of(folder, in_table_order(["snowfall"]))


def test_an_axis_without_its_chunk_is_refused(tmp_path: Path) -> None:
    folder = written(tmp_path / "store")
    (folder / "time" / "0").unlink()
    with pytest.raises(SourceError, match="lacks values of its axis time"):
        layout_of(folder)


def test_a_server_that_forbids_everything_is_not_taken_for_an_empty_store(tmp_path: Path) -> None:
    with served(tmp_path) as web:
        web.fail("refuse", where=".*", status=403)
        store = ReadOnlyStore.at(web.url, lambda _: None)
        with pytest.raises(SourceError, match="status 403") as caught:
            open_layout(store, TEMPERATURE, (), ERA5)
        store.close()
    assert "Either it is absent" in caught.value.remedy
