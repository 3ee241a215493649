"""Tests of programs that are not in the environment are collected where these were installed for them.

`.ci/spark DIR`, then ERA5_TEST_SPARK=DIR; `pip install --no-deps --target DIR -r .ci/clickhouse.lock`, then
ERA5_TEST_CLICKHOUSE=DIR; `.ci/versitygw/build FILE`, then ERA5_TEST_VERSITYGW=FILE.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.commands import new_home
from era5_pipeline_tests.servers import fresh_warehouse
from era5_pipeline_tests.stores import free_port

if TYPE_CHECKING:
    from collections.abc import Iterator

    from benchmarks.engines import Subject

_APART = {
    "test_spark.py": "ERA5_TEST_SPARK",
    "test_rest_catalog.py": "ERA5_TEST_SPARK",
    "test_clickhouse.py": "ERA5_TEST_CLICKHOUSE",
    "test_versitygw.py": "ERA5_TEST_VERSITYGW",
}
collect_ignore = [file for file, variable in _APART.items() if not os.environ.get(variable)]


@pytest.fixture(scope="session")
def all_years(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Subject]:
    """All hours of 1940 to 2024 at two places, in a warehouse that Spark reaches by TCP, and a lake in a folder."""
    from era5_pipeline_tests.lake.decades import decades
    from era5_pipeline_tests.lake.test_months import lake_at

    folder = tmp_path_factory.mktemp("decades")
    (folder / "lake").mkdir()
    with new_home() as home:
        home.run("db", "start", "--port", str(free_port()))
        with fresh_warehouse(home.run("db", "url", "--tcp").out.strip()) as warehouse:
            yield decades(lake_at(str(folder / "lake"), folder / "home"), warehouse, folder)
