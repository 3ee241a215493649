"""Months cut out of a file of several: the same values, types, attributes and versions."""

from __future__ import annotations

import zipfile
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import netCDF4
import numpy as np
import pytest

from era5_pipeline.model.errors import BadFileError
from era5_pipeline.model.months import Month
from era5_pipeline.netcdf.month_cut import cut_months
from era5_pipeline_tests.cds_store.data import Availability, produce
from era5_pipeline_tests.era5_files import LEGACY, hours_from, weather, write_netcdf

if TYPE_CHECKING:
    from pathlib import Path

MONTHS = (Month(2020, 1), Month(2020, 2))
INPUTS = {
    "variable": ["2m_temperature", "total_precipitation"],
    "year": ["2020"],
    "month": ["01", "02"],
    "day": [f"{day:02d}" for day in range(1, 32)],
    "time": [f"{hour:02d}:00" for hour in range(24)],
    "product_type": ["reanalysis"],
    "area": [-6, 106, -6.5, 106.5],
}
# The first month is final, except for the last hour of its last day.
STATE = Availability(datetime(2026, 1, 1, tzinfo=UTC), datetime(2020, 1, 31, 22, tzinfo=UTC), preliminary_differs=False)


def cut(path: Path, folder: Path, *months: Month) -> dict[Month, Path]:
    folder.mkdir()
    return dict(cut_months(path, months or MONTHS, folder))


def unpacked(path: Path, folder: Path) -> list[Path]:
    with zipfile.ZipFile(path) as archive:
        archive.extractall(folder)
        return sorted(folder / name for name in archive.namelist())


def facts(variable: Any) -> tuple[Any, ...]:
    return (
        variable.dtype,
        variable.dimensions,
        repr({name: variable.getncattr(name) for name in variable.ncattrs()}),
        {k: v for k, v in (variable.filters() or {}).items() if k in ("zlib", "shuffle", "complevel", "fletcher32")},
    )


def compare(whole: Path, parts: list[Path], dimension: str = "valid_time") -> None:
    """Check that the parts are the whole, one after the other."""
    with netCDF4.Dataset(whole) as one:
        opened = [netCDF4.Dataset(path) for path in parts]
        for part in opened:
            assert (part.data_model, part.__dict__) == (one.data_model, one.__dict__)
            assert list(part.variables) == list(one.variables)
        for name, variable in one.variables.items():
            variable.set_auto_maskandscale(False)
            for part in opened:
                part[name].set_auto_maskandscale(False)
                assert facts(part[name]) == facts(variable)
            if dimension in variable.dimensions:
                held = np.concatenate([part[name][:] for part in opened])
                assert held.tobytes() == variable[:].tobytes() or (held == variable[:]).all()
            else:
                assert all(np.array_equal(part[name][...], variable[...]) for part in opened)
        for part in opened:
            part.close()


def test_months_of_a_zip_are_zips_with_the_same_values_and_versions(tmp_path: Path) -> None:
    path = produce(INPUTS, STATE, tmp_path, 1)
    found = cut(path, tmp_path / "cut")
    assert {month: one.suffix for month, one in found.items()} == dict.fromkeys(MONTHS, ".zip")
    members = [unpacked(one, tmp_path / str(month)) for month, one in found.items()]
    whole = unpacked(path, tmp_path / "whole")
    assert [[one.name for one in of_month] for of_month in members] == [[one.name for one in whole]] * 2
    for one, parts in zip(whole, zip(*members, strict=True), strict=True):
        compare(one, list(parts))
    with netCDF4.Dataset(members[0][1]) as instant, netCDF4.Dataset(members[1][1]) as later:
        assert len(instant["valid_time"]) == 744
        assert instant["expver"][742:].tolist() == ["0001", "0005"]
        assert set(later["expver"][:].tolist()) == {"0005"}
    # A month that is cut twice has the same bytes.
    assert cut(path, tmp_path / "again", MONTHS[1])[MONTHS[1]].read_bytes() == found[MONTHS[1]].read_bytes()


@pytest.mark.parametrize("form", ["NETCDF3_CLASSIC", "NETCDF4"])
def test_packed_values_stay_packed(tmp_path: Path, form: Any) -> None:
    of = weather(hours_from("2020-01-01T00", 60 * 24), [-6.0, -6.25], [106.0, 106.25], missing=0.01)
    path = write_netcdf(tmp_path / "packed.nc", of, replace(LEGACY, file_format=form, record_dimension=True))
    found = cut(path, tmp_path / "cut")
    assert {one.suffix for one in found.values()} == {".nc"}
    compare(path, list(found.values()), "time")


def test_a_layout_that_is_unknown_and_a_month_that_is_absent_are_refused(tmp_path: Path) -> None:
    path = produce(INPUTS, STATE, tmp_path, 1)
    with pytest.raises(BadFileError, match="has no hour of 2020-03"):
        cut(path, tmp_path / "absent", *MONTHS, Month(2020, 3))
    other = tmp_path / "other.nc"
    with netCDF4.Dataset(other, "w") as made:
        made.createDimension("x", 3)
        made.createVariable("y", "f4", ("x",))[:] = 1.0
    with pytest.raises(BadFileError, match="none of the variables"):
        cut(other, tmp_path / "other")
    damaged = tmp_path / "damaged.zip"
    damaged.write_bytes(path.read_bytes()[:-30])
    with pytest.raises(BadFileError):
        cut(damaged, tmp_path / "damaged")


def test_a_file_whose_values_cannot_be_copied_is_refused(tmp_path: Path) -> None:
    inputs = INPUTS | {"variable": ["2m_temperature"], "area": [-5, 106, -7, 108]}
    path = produce(inputs, STATE, tmp_path, 1)
    content = bytearray(path.read_bytes())
    content[len(content) * 9 // 10] ^= 0xFF
    path.write_bytes(content)
    with pytest.raises(BadFileError, match="cannot be copied"):
        cut(path, tmp_path / "cut")
