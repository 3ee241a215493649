"""One more variable: a line in the table of variables is all that it needs, as CONTRIBUTING.md says.

In a copy of the package with that line, a month of the variable goes from file to plot; also in a table that has months
without it.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pyarrow.parquet as pq
import pytest

from era5_pipeline.flat.flat_month import checksum_of
from era5_pipeline.model.variables import DEFAULT_VARIABLES, Variable, find_variable
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from era5_pipeline.postgres.connect import Warehouse

LINE = (
    "standard_deviation_of_orography,standard_deviation_of_orography,sdor,,,160,instant,analysis,height,-5,2000,everywhere,"
    "Standard deviation of sub-gridscale orography,Unevenness of the ground within the grid box\n"
)
COLUMN = "standard_deviation_of_orography"
SCRIPT = """
import json, sys
from datetime import UTC, datetime
from pathlib import Path

import era5_pipeline
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.model.months import Month
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import VARIABLES, find_variable
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.maps.fields import FieldMap
from era5_pipeline.draw.figures import save_figure
from era5_pipeline.draw.maps import draw_map
from era5_pipeline.draw.series import series_figure
from era5_pipeline.read.hours import read_series
from era5_pipeline.read.boxes import read_field
from era5_pipeline.stages import run_flat, run_load, run_raw

home, url, flat_format, doing = Path(sys.argv[1]), sys.argv[2], sys.argv[3], sys.argv[4]
assert Path(era5_pipeline.__file__).is_relative_to(sys.argv[5])
added = find_variable("sdor")
assert added == VARIABLES[-1]

def take(month, names):
    settings = Settings(
        _env_file=None, home=home, source="sample", area="10.25/20/10/20.5", format=flat_format, variables=names
    )
    if doing == "all":
        raw = run_raw(settings, month)
        assert all(one.passed for one in raw.outcomes), raw.outcomes
    flat = run_flat(settings, month)
    assert all(one.passed for one in flat.outcomes), flat.outcomes
    assert not flat.reused
    loaded = run_load(settings, Warehouse(url), month)
    assert all(one.passed for one in loaded.outcomes), loaded.outcomes
    return flat.flat

if doing == "all":
    take(Month(2023, 6), "default")
flat = take(Month(2023, 7), "t2m,sdor")
place = ERA5_GRID.nearest_location(10, 20.25)
with Warehouse(url).connect() as connection:
    rows = read_series(connection, place, (added,), datetime(2023, 7, 1, tzinfo=UTC), None)
    snapshot = read_field(connection, datetime(2023, 7, 15, 12, tzinfo=UTC), added)
save_figure(series_figure(rows, (added,), place), home / "series.png")
save_figure(draw_map(FieldMap.of_hour(snapshot)).figure, home / "map.png")
facts = {one.column: one for one in flat.columns}[added.column]
values = rows.values[added.column]
print(json.dumps({
    "columns": [one.column for one in flat.columns],
    "values": facts.values,
    "range": [facts.minimum, facts.maximum],
    "checksum": facts.checksum,
    "scale": added.checksum_scale,
    "series": [values.size, float(values.min())],
    "map": list(snapshot.values.shape),
}))
"""


@pytest.fixture(scope="module")
def copied(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package with one more line; its modules need not be compiled again."""
    copied = tmp_path_factory.mktemp("copied")
    for folder in ("era5_pipeline", "sql"):
        shutil.copytree(ROOT / folder, copied / folder)
    with (copied / "era5_pipeline" / "model" / "variables.csv").open("a", encoding="utf-8") as table:
        table.write(LINE)
    return copied


@pytest.fixture
def take_a_month(copied: Path, tmp_path: Path) -> Callable[..., dict[str, Any]]:
    """Run the script in the copy of the package: a month of the variable, from its file to a plot."""
    script = tmp_path / "added_variable.py"
    script.write_text(SCRIPT, encoding="utf-8")
    environment = {name: value for name, value in os.environ.items() if not name.startswith("ERA5_")}
    environment["PYTHONPATH"] = str(copied)

    def run(url: str, flat_format: str, doing: str = "all") -> dict[str, Any]:
        command = [sys.executable, str(script), str(tmp_path / "home"), url, flat_format, doing, str(copied)]
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600, check=False)
        assert done.returncode == 0, done.stderr
        found: dict[str, Any] = json.loads(done.stdout)
        return found

    return run


# With CSV: what flat/test_formats requires of it, and Parquet here.
@pytest.mark.parametrize("flat_format", ["parquet", pytest.param("csv", marks=pytest.mark.endurance)])
def test_an_added_variable_goes_from_file_to_plot_on_every_layout(
    warehouse: Warehouse, take_a_month: Callable[..., dict[str, Any]], tmp_path: Path, flat_format: str
) -> None:
    found = take_a_month(warehouse.url, flat_format)
    assert found["columns"] == ["temperature_2m", COLUMN]
    assert found["values"] == 2 * 3 * 744
    assert -5 < found["range"][0] < found["range"][1] < 2000
    assert found["series"] == [744, pytest.approx(found["series"][1])]
    assert found["range"][0] <= found["series"][1] <= found["range"][1]
    assert found["map"] == [2, 3]
    for picture in ("series.png", "map.png"):
        assert (tmp_path / "home" / picture).read_bytes().startswith(b"\x89PNG")
    with psycopg.connect(warehouse.url) as connection:
        row = connection.execute(
            f"SELECT sum(floor({COLUMN}::float8 * {found['scale']})::bigint), count({COLUMN}), count(*) FROM weather"
        ).fetchone()
    # The month before it has none.
    assert row == (found["checksum"], 2 * 3 * 744, 2 * 3 * (744 + 720))
    _write_as_before_the_variable(tmp_path / "home" / "flat", flat_format)
    assert take_a_month(warehouse.url, flat_format, "again") == found


def _write_as_before_the_variable(folder: Path, flat_format: str) -> None:
    """As the table of variables without it would have written the same month."""
    flat = next(folder.glob(f"2023-07-{'[0-9a-f]' * 12}.{flat_format}"))
    _drop_column(flat, flat_format)
    facts_path = folder / "2023-07.json"
    facts = json.loads(facts_path.read_text())
    facts |= {"bytes": flat.stat().st_size, "sha256": hashlib.sha256(flat.read_bytes()).hexdigest()}
    facts_path.write_text(json.dumps(facts))


def _drop_column(flat: Path, flat_format: str) -> None:
    if flat_format == "parquet":
        table = pq.read_table(flat)
        pq.write_table(table.drop_columns([COLUMN]), flat)
    else:
        lines = flat.read_text().splitlines()
        flat.write_text("\n".join(line.rpartition(",")[0] for line in lines) + "\n")


def added(minimum: float, maximum: float) -> Variable:
    return replace(find_variable("t2m"), minimum=minimum, maximum=maximum)


@pytest.mark.parametrize("variable", DEFAULT_VARIABLES, ids=lambda v: v.short_name)
def test_checksums_of_the_six_variables_stay_those_of_months_that_are_loaded(variable: Variable) -> None:
    assert variable.checksum_scale == 2**20


@pytest.mark.parametrize(
    ("bounds", "scale"),
    [
        ((30_000.0, 120_000.0), 2.0**12),  # surface pressure, Pa
        ((-1e9, 1e9), 2.0**-1),
        ((-512.0, 0.0), 2.0**20),
        ((0.0, 513.0), 2.0**19),
        ((0.0, 1.0), 2.0**20),
        ((0.0, 0.03), 2.0**34),  # specific humidity, kg/kg
    ],
)
def test_a_checksum_is_exact_and_notices_one_value_for_the_bounds_of_any_variable(
    bounds: tuple[float, float], scale: float
) -> None:
    variable = added(*bounds)
    assert variable.checksum_scale == scale
    greatest = np.float32(max(bounds, key=abs))
    array = np.full(4_000_000, np.nextafter(greatest, np.float32(0)), dtype=np.float32)
    expected = math.floor(float(array[0]) * scale) * array.size
    assert checksum_of(array, scale) == expected
    array[12_345] -= np.sign(greatest) * max(np.spacing(abs(array[12_345])), np.float32(1 / scale))
    assert checksum_of(array, scale) != expected
