"""`era5 metrics`: on standard output, into a file, and without a database."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.openmetrics import parser as _parser

from era5_pipeline.model.dataset import ERA5_LAND
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline.warehouse.schema import ensure_schema
from era5_pipeline_tests.commands import InProcess, assert_explained

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths

parser: Any = _parser  # its functions come without types


@pytest.fixture
def loaded(here: InProcess, database_url: str, flat_months: FlatMonths) -> InProcess:
    load_month(Warehouse(database_url), flat_months())
    here.set(ERA5_DATABASE_URL=database_url)
    return here


def names(text: str) -> set[str]:
    return {family.name for family in parser.text_string_to_metric_families(text)}


def test_metrics_are_printed(loaded: InProcess) -> None:
    printed = loaded.run("metrics")
    assert {"era5_rows", "era5_months", "era5_data_age_seconds", "era5_table_bytes"} <= names(printed.out)
    assert "era5_month_rows" not in names(printed.out)
    assert "era5_month_rows" in names(loaded.run("metrics", "--by-month").out)
    assert printed.err == ""


def test_a_file_is_written_as_a_whole(loaded: InProcess, tmp_path: Path) -> None:
    file = tmp_path / "textfile" / "era5.prom"
    file.parent.mkdir()
    assert loaded.run("metrics", "--output", str(file)).out == ""
    written = file.read_text(encoding="utf-8")
    assert "era5_rows" in names(written)
    # Readable by the account of node_exporter.
    assert file.stat().st_mode & 0o444 == 0o444
    assert [path.name for path in file.parent.iterdir()] == ["era5.prom"]
    # Where nothing can be read, the old file stays: node_exporter shows its age.
    loaded.set(ERA5_DATABASE_URL="postgresql://nobody@127.0.0.1:1/none")
    assert_explained(loaded.run("metrics", "--output", str(file), code=5), "127.0.0.1:1")
    assert file.read_text(encoding="utf-8") == written


def test_a_place_that_cannot_be_written_is_named(loaded: InProcess, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path, named in ((tmp_path / "file" / "era5.prom", "file"), (tmp_path, tmp_path.name)):
        assert_explained(loaded.run("metrics", "--output", str(path), code=6), named)
    assert tmp_path.is_dir()


def test_metrics_of_each_data_set_have_its_name(loaded: InProcess, database_url: str) -> None:
    def rows(*options: str) -> dict[str, float]:
        families = parser.text_string_to_metric_families(loaded.run("metrics", *options).out)
        samples = next(family.samples for family in families if family.name == "era5_rows")
        return {sample.labels["dataset"]: sample.value for sample in samples}

    of_era5 = rows()
    assert list(of_era5) == ["era5"]
    with Warehouse(database_url, dataset=ERA5_LAND).connect() as connection:
        ensure_schema(connection)
    assert rows() == of_era5 | {"era5-land": 0}
    assert rows("--dataset", "era5-land") == {"era5-land": 0}
