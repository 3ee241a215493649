"""Tests of programs that are not in the environment are collected where these were installed for them.

`.ci/spark DIR`, then ERA5_TEST_SPARK=DIR; `pip install --no-deps --target DIR -r .ci/clickhouse.lock`, then
ERA5_TEST_CLICKHOUSE=DIR; `.ci/versitygw/build FILE`, then ERA5_TEST_VERSITYGW=FILE;
`.ci/lake-pages DIR`, then ERA5_TEST_PAGES=DIR.
"""

from __future__ import annotations

import os
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.commands import new_home
from era5_pipeline_tests.servers import fresh_warehouse
from era5_pipeline_tests.stores import KEY, SECRET, aws_environment, free_port, running

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from benchmarks.engines import Subject
    from era5_pipeline.lake.months import Lake

_APART = {
    "test_spark.py": "ERA5_TEST_SPARK",
    "test_rest_catalog.py": "ERA5_TEST_SPARK",
    "test_clickhouse.py": "ERA5_TEST_CLICKHOUSE",
    "test_versitygw.py": "ERA5_TEST_VERSITYGW",
}
collect_ignore = [file for file, variable in _APART.items() if not os.environ.get(variable)]


REGION = "eu-central-1"


@dataclass(frozen=True)
class Gateway:
    """The server's address and the folder that its buckets are folders of."""

    url: str
    folder: Path

    def bucket(self, name: str) -> str:
        (self.folder / name).mkdir()
        return name

    @contextmanager
    def environment(self, *, region: str = REGION, secret: str = SECRET) -> Iterator[None]:
        with aws_environment(self.url, secret=secret), pytest.MonkeyPatch.context() as patch:
            patch.setenv("AWS_REGION", region)
            yield


@pytest.fixture
def local_lake(tmp_path: Path) -> Lake:
    """A lake in a folder."""
    from era5_pipeline_tests.lake.test_months import lake_at

    (tmp_path / "lake").mkdir()
    return lake_at(str(tmp_path / "lake"), tmp_path / "home")


@pytest.fixture
def lake(local_lake: Lake) -> Lake:
    """A module may have another one of its own."""
    return local_lake


@pytest.fixture(scope="session")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder, port = tmp_path_factory.mktemp("versitygw"), free_port()
    (folder / "buckets").mkdir()
    command = [os.environ["ERA5_TEST_VERSITYGW"], "--port", f"127.0.0.1:{port}", "--region", REGION]
    keys = {"ROOT_ACCESS_KEY": KEY, "ROOT_SECRET_KEY": SECRET}
    with running([*command, "posix", str(folder / "buckets")], port, **keys) as server:
        yield Gateway(server.url, folder / "buckets")


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
