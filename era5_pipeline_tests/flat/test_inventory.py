"""Tests of `flat/inventory`."""

from __future__ import annotations

import os
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from era5_pipeline.flat.inventory import Inventory, InventoryKeeper, take_inventory
from era5_pipeline.model.errors import BadFileError, NoDataError
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.variables import find_variable
from era5_pipeline_tests.era5_files import CURRENT, Layout, hour, hours_from, raw_month, weather, write, write_netcdf

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.sources.source import RawMonth


def inventory_of(raw: RawMonth, folder: Path) -> Inventory:
    (folder / "scratch").mkdir(exist_ok=True)
    return take_inventory(raw, folder / "scratch")


def points(inventory: Inventory) -> set[tuple[float, float]]:
    latitude, longitude = np.nonzero(inventory.coverage)
    return set(zip(ERA5_GRID.latitudes_of(latitude).tolist(), ERA5_GRID.longitudes_of(longitude).tolist(), strict=True))


def test_an_inventory_has_the_hours_and_locations_of_all_files(tmp_path: Path) -> None:
    versions = ("0005",) * 4 + ("0001",) * 4  # preliminary in another month
    first = weather(hours_from("2023-06-30T20", 8), [10.0, 9.75], [20.0, 20.25], ["t2m", "tp"], expver=versions)
    second = weather(hours_from("2023-07-01T10", 2), [9.75, 9.5], [20.25, 20.5], ["t2m"], expver=("0005", "0005"))
    paths = [write_netcdf(tmp_path / "a.nc", first), write_netcdf(tmp_path / "b.nc", second)]
    inventory = inventory_of(raw_month(paths, "2023-07"), tmp_path)
    assert inventory.columns == ("temperature_2m", "total_precipitation")
    assert [h - hour("2023-07-01T00") for h in inventory.hours.tolist()] == [0, 1, 2, 3, 10, 11]
    assert inventory.column_hours("total_precipitation").size == 4
    assert points(inventory) == {
        *((north, east) for north in (10.0, 9.75) for east in (20.0, 20.25)),
        *((north, east) for north in (9.75, 9.5) for east in (20.25, 20.5)),
    }
    assert inventory.column_locations("temperature_2m") == 7
    assert inventory.column_locations("total_precipitation") == 4
    assert inventory.expver == {"temperature_2m": {"0001": 4, "0005": 2}, "total_precipitation": {"0001": 4}}
    assert inventory.preliminary_hours == {"temperature_2m": ("2023-07-01T10 to 2023-07-01T11",)}
    assert inventory.problems == ()


PRELIMINARY, FINAL = ("0005",) * 4, ("0001",) * 4


@pytest.mark.parametrize(
    ("versions", "shift", "layout", "runs"),
    [
        ((FINAL, PRELIMINARY), 0, CURRENT, ()),
        ((PRELIMINARY, FINAL), 0, CURRENT, ()),
        ((PRELIMINARY, PRELIMINARY), 0, CURRENT, ("2023-07-01T00 to 2023-07-01T03",)),
        ((PRELIMINARY, FINAL), 2, CURRENT, ("2023-07-01T00 to 2023-07-01T01",)),
        ((FINAL, PRELIMINARY), 2, CURRENT, ("2023-07-01T04 to 2023-07-01T05",)),
        ((("0001", "0005", "0001", "0005"), PRELIMINARY), 0, CURRENT, ("2023-07-01T01", "2023-07-01T03")),
        ((PRELIMINARY, PRELIMINARY), 0, replace(CURRENT, expver="absent"), ()),
        ((PRELIMINARY, PRELIMINARY), 0, replace(CURRENT, expver="scalar"), ("2023-07-01T00 to 2023-07-01T03",)),
    ],
    ids=str,
)
def test_an_hour_is_preliminary_where_only_preliminary_files_have_it(
    tmp_path: Path, versions: tuple[tuple[str, ...], ...], shift: int, layout: Layout, runs: tuple[str, ...]
) -> None:
    paths = [
        write_netcdf(
            tmp_path / f"{number}.nc",
            weather(hours_from("2023-07-01T00", 4) + number * shift, names=["t2m"], expver=expver),
            layout,
        )
        for number, expver in enumerate(versions)
    ]
    inventory = inventory_of(raw_month(paths, "2023-07"), tmp_path)
    assert inventory.preliminary_hours == ({"temperature_2m": runs} if runs else {})


def test_missing_hours_are_those_that_era5_has(tmp_path: Path) -> None:
    """Test that the first hours of January 1940 are not missed in accumulations, which begin at 07:00."""
    for month, missing_from_totals in (("2023-07", range(5)), ("1940-01", ())):
        of = weather(hours_from(f"{month}-01T05", 700), names=["tp", "t2m"])
        inventory = inventory_of(raw_month([write_netcdf(tmp_path / "a.nc", of)], month), tmp_path)
        missing = [inventory.missing_hours(find_variable(name)) - hour(f"{month}-01T00") for name in ("tp", "t2m")]
        ends = [*range(705, 744)]
        assert [hours.tolist() for hours in missing] == [[*missing_from_totals, *ends], [*range(5), *ends]]


@pytest.mark.parametrize(
    ("area", "held"),
    [
        ("10/20/9.75/20.25", {(10.0, 20.0), (10.0, 20.25), (9.75, 20.0), (9.75, 20.25)}),
        ("10.1/-10/9.9/20.1", {(10.0, 20.0)}),
        ("10.1/15/9.9/14", {(10.0, 20.0), (10.0, 20.25), (10.0, 20.5)}),
    ],
)
def test_only_the_requested_area_and_variables_are_kept(
    tmp_path: Path, area: str, held: set[tuple[float, float]]
) -> None:
    of = weather(hours_from("2023-07-01T00", 2), [10.0, 9.75, 9.5], [20.0, 20.25, 20.5], ["t2m", "u10"])
    path = write_netcdf(tmp_path / "a.nc", of)
    raw = raw_month([path], "2023-07", area=area, variables=("zonal_wind_10m", "snowfall"))
    inventory = inventory_of(raw, tmp_path)
    assert points(inventory) == held
    assert inventory.columns == ("zonal_wind_10m",)
    with pytest.raises(NoDataError, match="in area 60/10/50/20") as raised:
        inventory_of(replace(raw, area="60/10/50/20"), tmp_path)
    assert raised.value.remedy


def test_a_bad_file_of_the_month_is_named(tmp_path: Path) -> None:
    good = write_netcdf(tmp_path / "good.nc", weather(hours_from("2023-07-01T00", 2)))
    layout = replace(CURRENT, attributes={"units": "degC"})
    bad = write_netcdf(tmp_path / "bad.nc", weather(hours_from("2023-07-01T00", 2)), layout)
    with pytest.raises(BadFileError, match="degC") as raised:
        inventory_of(raw_month([good, bad], "2023-07"), tmp_path)
    assert raised.value.path == str(bad)
    assert raised.value.remedy
    # What is off the grid is left to the check grid_aligned.
    off = write_netcdf(tmp_path / "off.nc", weather(hours_from("2023-07-01T00", 2), latitudes=[10.1]))
    inventory = inventory_of(raw_month([off], "2023-07"), tmp_path)
    assert (inventory.pieces, [problem.kind for problem in inventory.problems]) == ((), ["grid"])
    # Its hours are in July: for June it is ignored.
    june = write_netcdf(tmp_path / "june.nc", weather(hours_from("2023-06-01T00", 2)))
    assert inventory_of(raw_month([june, bad], "2023-06"), tmp_path).problems == ()


def test_a_missing_or_changed_file_is_named(tmp_path: Path) -> None:
    path = write_netcdf(tmp_path / "a.nc", weather(hours_from("2023-07-01T00", 2)))
    raw = raw_month([path], "2023-07")
    path.write_bytes(b"")
    with pytest.raises(BadFileError, match="has changed") as raised:
        inventory_of(raw, tmp_path)
    assert raised.value.path == str(path)
    path.unlink()
    with pytest.raises(BadFileError, match="cannot be opened") as raised:
        inventory_of(raw, tmp_path)
    assert raised.value.remedy


@pytest.fixture
def raw(tmp_path: Path) -> RawMonth:
    """July 2023, two hours of two variables, in a ZIP."""
    zipped = replace(CURRENT, zipped=True, one_variable_per_file=True, suffix=".zip")
    of = weather(hours_from("2023-07-01T00", 2), names=["t2m", "tp"])
    return raw_month(write(tmp_path / "files", of, zipped), "2023-07")


def unpacked_files(home: Path) -> list[Path]:
    return [path for path in (home / "scratch").rglob("*") if path.is_file()]


def test_the_inventory_is_kept_with_its_unpacked_files_until_they_are_closed(tmp_path: Path, raw: RawMonth) -> None:
    keeper = InventoryKeeper()
    inventory = keeper.take(raw, tmp_path)
    assert [piece.file.shown for piece in inventory.pieces] == [f"{raw.files[0].path}!era5-{n}.nc" for n in (0, 1)]
    kept = keeper.claim()
    assert kept.of(raw) is inventory
    assert keeper.claim().of(raw) is None  # it is handed over once
    assert sorted(unpacked_files(tmp_path)) == sorted(piece.file.path for piece in inventory.pieces)
    kept.close()
    assert list((tmp_path / "scratch").iterdir()) == []


CHANGES: dict[str, Callable[[Path, Path], object]] = {
    # Its size remains.
    "rewritten": lambda raw, _: os.utime(raw, ns=(0, raw.stat().st_mtime_ns + 1)),
    "grown": lambda raw, _: raw.write_bytes(raw.read_bytes() + b"more"),
    "removed": lambda raw, _: raw.unlink(),
    "unpacked file removed": lambda _, unpacked: unpacked.unlink(),
}


@pytest.mark.parametrize("change", CHANGES)
def test_it_does_not_count_for_another_request_or_once_a_file_has_changed(
    tmp_path: Path, raw: RawMonth, change: str
) -> None:
    keeper = InventoryKeeper()
    keeper.take(raw, tmp_path)
    assert keeper.claim().of(replace(raw, variables=("temperature_2m",))) is None
    keeper.take(raw, tmp_path)
    CHANGES[change](raw.files[0].path, unpacked_files(tmp_path)[0])
    assert keeper.claim().of(raw) is None


def test_the_next_month_takes_its_place(tmp_path: Path, raw: RawMonth) -> None:
    keeper = InventoryKeeper()
    keeper.take(raw, tmp_path)
    inventory = keeper.take(raw, tmp_path)
    assert len(unpacked_files(tmp_path)) == 2
    assert keeper.claim().of(raw) is inventory


def test_a_month_that_cannot_be_read_is_not_kept(tmp_path: Path, raw: RawMonth) -> None:
    keeper = InventoryKeeper()
    keeper.take(raw, tmp_path)
    raw.files[0].path.write_bytes(b"")
    with pytest.raises(BadFileError):
        keeper.take(raw, tmp_path)
    assert keeper.claim().of(raw) is None
    assert list((tmp_path / "scratch").iterdir()) == []
