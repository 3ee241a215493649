"""Libraries of wheels that bring the same ones: in any order of imports, each works, and the process ends well."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import numpy as np
import pytest
import xarray as xr

if TYPE_CHECKING:
    from pathlib import Path

# Each uses what its own libraries do: GSSAPI and LDAP are asked before a connection, PROJ for a projection.
USE = """
import psycopg, psycopg2, pyproj
for connect, error in (psycopg.connect, psycopg.OperationalError), (psycopg2.connect, psycopg2.OperationalError):
    try:
        connect("host=127.0.0.1 port=1 connect_timeout=5")
    except error as refused:
        assert "refused" in str(refused), refused
east, north = pyproj.Transformer.from_crs(4326, 3857).transform(1, 2)
assert (round(east), round(north)) == (222639, 111325), (east, north)
"""
SAME_FLAGS = "import sys; before = sys.getdlopenflags()\n{}\nassert sys.getdlopenflags() == before"


def run(script: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-W", "error", "-c", SAME_FLAGS.format(script)], capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Classic netCDF, which all engines read."""
    path = tmp_path_factory.mktemp("any") / "any.nc"
    values = np.ones((2, 3, 4), np.float32)
    xr.Dataset({"t2m": (("time", "latitude", "longitude"), values)}).to_netcdf(path, format="NETCDF3_64BIT")
    return path


# Without an engine, xarray imports all that are installed, among them cfgrib, and with it ecCodes.
@pytest.mark.parametrize(
    ("engine", "library"),
    [
        (None, "import psycopg"),
        (None, "import psycopg2"),
        (None, "import pyproj"),
        (None, "import era5_pipeline as e; e.open"),
        *((engine, USE) for engine in (None, "netcdf4", "scipy")),
    ],
)
def test_a_file_is_opened_by_xarray_first(file: Path, engine: str | None, library: str) -> None:
    opened = f"import xarray as xr; f = xr.open_dataset({str(file)!r}, engine={engine!r}); f['t2m'].values; f.close()"
    run(f"{opened}\n{library}")


@pytest.mark.parametrize(
    "order",
    [
        f"import eccodes, era5_pipeline\n{USE}",
        f"import era5_pipeline, eccodes\n{USE}",
        f"import cfgrib\nimport era5_pipeline\n{USE}",
        f"{USE}\nimport era5_pipeline, eccodes\n{USE}",
        f"{USE}\nimport eccodes, era5_pipeline\n{USE}",
        f"import era5_pipeline\n{USE}\nimport eccodes\n{USE}",
        f"from era5_pipeline.netcdf.grib import ec_codes\nec_codes()\n{USE}",
    ],
    ids=["ecCodes first", "ecCodes second", "cfgrib first", "last", "last but one", "after their use", "our reader"],
)
def test_ec_codes_is_imported(order: str) -> None:
    run(order)
