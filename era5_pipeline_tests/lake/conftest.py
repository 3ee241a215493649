"""Tests of Spark are collected where it was installed for them: `.ci/spark DIR`, then ERA5_TEST_SPARK=DIR."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("ERA5_TEST_SPARK") else ["test_spark.py"]
