from __future__ import annotations

from typing import TYPE_CHECKING

import netCDF4
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from era5_pipeline.netcdf.classic import required_bytes
from era5_pipeline_tests.era5_files import LAYOUTS, Layout, hours_from, weather, write

if TYPE_CHECKING:
    from pathlib import Path

CLASSIC = [layout for layout in LAYOUTS if "NETCDF3" in layout.file_format]


@pytest.mark.parametrize("layout", CLASSIC, ids=str)
@pytest.mark.parametrize("names", [("t2m",), ("t2m", "tp")])
@pytest.mark.parametrize("hours", [1, 4])
def test_the_required_length_is_that_of_a_complete_file(
    tmp_path: Path, layout: Layout, names: tuple[str, ...], hours: int
) -> None:
    path, *_ = write(tmp_path, weather(hours_from("2023-07-01T00", hours), names=names), layout)
    required = required_bytes(path)
    assert required is not None
    # The padding after the last value is not required.
    assert 0 <= path.stat().st_size - required < 4


@pytest.mark.parametrize("file_format", ["NETCDF3_CLASSIC", "NETCDF3_64BIT_OFFSET", "NETCDF3_64BIT_DATA"])
@pytest.mark.parametrize("kinds", [("i1",), ("i2",), ("i1", "f8"), ("S1", "i2", "i4")])
def test_the_required_length_includes_the_padding_of_records(
    tmp_path: Path, file_format: str, kinds: tuple[str, ...]
) -> None:
    path = tmp_path / "x.nc"
    with netCDF4.Dataset(path, "w", format=file_format) as dataset:  # type: ignore[arg-type]
        dataset.createDimension("record", None)
        dataset.createDimension("x", 3)
        dataset.title = "odd"
        dataset.createVariable("fixed", "i1", ("x",))[:] = [1, 2, 3]
        for number, kind in enumerate(kinds):
            variable = dataset.createVariable(f"v{number}", kind, ("record", "x"))
            variable[:5] = np.ones((5, 3), "S1" if kind == "S1" else kind)
    required = required_bytes(path)
    assert required is not None
    assert 0 <= path.stat().st_size - required < 4


def test_netcdf_4_has_no_required_length(tmp_path: Path) -> None:
    path, *_ = write(tmp_path, weather(hours_from("2023-07-01T00", 2)))
    assert required_bytes(path) is None


@pytest.mark.parametrize("size", [4, 7, 8, 20, 100])
def test_a_truncated_header_is_an_error(tmp_path: Path, size: int) -> None:
    path, *_ = write(tmp_path, weather(hours_from("2023-07-01T00", 2)), CLASSIC[0])
    path.write_bytes(path.read_bytes()[:size])
    with pytest.raises(ValueError, match=r"header|tag"):
        required_bytes(path)


@pytest.mark.parametrize("is_variable", [False, True])
def test_a_damaged_number_before_zeros_is_an_error_at_once(tmp_path: Path, *, is_variable: bool) -> None:
    """Zeros are dimensions without names: gigabytes of them took minutes."""
    path = tmp_path / "x.nc"
    many, nothing = (2**31 - 1).to_bytes(4, "big"), bytes(8)
    # The number of dimensions; or of those of the only variable, after its empty name.
    damaged = nothing + nothing + b"\0\0\0\x0b\0\0\0\1" + bytes(4) + many if is_variable else b"\0\0\0\x0a" + many
    path.write_bytes(b"CDF\x01" + bytes(4) + damaged + bytes(1000))
    with pytest.raises(ValueError, match=r"^header: a list of 2,147,483,647$"):
        required_bytes(path)


@settings(max_examples=200)
@given(content=st.binary(max_size=200), version=st.sampled_from([1, 2, 5]))
def test_random_headers_give_a_length_or_a_value_error(
    tmp_path_factory: pytest.TempPathFactory, content: bytes, version: int
) -> None:
    path = tmp_path_factory.getbasetemp() / "random.nc"
    path.write_bytes(b"CDF" + bytes([version]) + content)
    try:
        required_bytes(path)
    except ValueError as error:
        assert str(error)  # noqa: PT017
