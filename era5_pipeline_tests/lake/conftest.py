"""Tests of engines too large for the environment are collected where these were installed for them.

`.ci/spark DIR`, then ERA5_TEST_SPARK=DIR; `pip install --no-deps --target DIR -r .ci/clickhouse.lock`, then
ERA5_TEST_CLICKHOUSE=DIR.
"""

from __future__ import annotations

import os

_LARGE = {"ERA5_TEST_SPARK": "test_spark.py", "ERA5_TEST_CLICKHOUSE": "test_clickhouse.py"}
collect_ignore = [file for variable, file in _LARGE.items() if not os.environ.get(variable)]
