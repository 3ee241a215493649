"""Tests of programs that are not in the environment are collected where these were installed for them.

`.ci/spark DIR`, then ERA5_TEST_SPARK=DIR; `pip install --no-deps --target DIR -r .ci/clickhouse.lock`, then
ERA5_TEST_CLICKHOUSE=DIR; `.ci/versitygw/build FILE`, then ERA5_TEST_VERSITYGW=FILE.
"""

from __future__ import annotations

import os

_APART = {
    "test_spark.py": "ERA5_TEST_SPARK",
    "test_rest_catalog.py": "ERA5_TEST_SPARK",
    "test_clickhouse.py": "ERA5_TEST_CLICKHOUSE",
    "test_versitygw.py": "ERA5_TEST_VERSITYGW",
}
collect_ignore = [file for file, variable in _APART.items() if not os.environ.get(variable)]
