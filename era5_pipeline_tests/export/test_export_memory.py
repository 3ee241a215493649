"""Memory of an export does not grow with what is exported."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests.commands import environment

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths

EXPORT = """
import sys
from pathlib import Path
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.model.grid import Area
from era5_pipeline.export.formats import export_format
from era5_pipeline.export.run import export
url, name, *areas = sys.argv[1:]
path = Path(name)
for area in areas:
    done = export(Warehouse(url), path, export_format(path, None), Area.parse(area), piece_bytes=1_000_000)
    # Not ru_maxrss: that of a new process begins with the memory of the one that started it.
    status = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines())
    print(done.rows, status["VmHWM"].split()[0])
"""
LATITUDES, LONGITUDES = 30, 60


@pytest.fixture(scope="module")
def month(shared_database_url: str, flat_months: FlatMonths) -> Warehouse:
    """A month of 1,339,200 rows with two variables."""
    warehouse = Warehouse(shared_database_url)
    load_month(warehouse, flat_months(points=(LATITUDES, LONGITUDES)))
    return warehouse


def peaks(warehouse: Warehouse, path: Path, *areas: str) -> list[tuple[int, int]]:
    """Rows of exports in a process of their own, one after the other, and the most bytes that it held until then."""
    done = subprocess.run(
        [sys.executable, "-c", EXPORT, warehouse.url, str(path), *areas],
        env=environment(path.parent, PYTHONPATH=":".join(sys.path)),
        capture_output=True,
        text=True,
        check=True,
    )
    return [(int(rows), int(kibibytes) * 1024) for rows, kibibytes in map(str.split, done.stdout.splitlines())]


# CSV that is not compressed is what out.csv.gz compresses.
@pytest.mark.parametrize(
    "name",
    [
        "out.csv.gz",
        "out.nc",
        pytest.param("out.parquet", marks=pytest.mark.endurance),
        pytest.param("out.zarr", marks=pytest.mark.endurance),
    ],
)
def test_a_month_much_larger_than_a_piece_takes_no_more_memory(month: Warehouse, tmp_path: Path, name: str) -> None:
    (few, small), (rows, large) = peaks(month, tmp_path / name, "10.5/20/10.25/34.75", "10.5/20/3.25/34.75")
    assert (few, rows) == (744 * 2 * LONGITUDES, 744 * LATITUDES * LONGITUDES)
    sent = rows * (12 + 2 * 4)
    assert sent > 25_000_000
    # Two pieces of 1 MB, each in several forms; of Parquet, a group of rows.
    assert large - small < 12_000_000
