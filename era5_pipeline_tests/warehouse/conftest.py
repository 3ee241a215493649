"""Flat months of versions of ERA5, for all tests of the table."""

from __future__ import annotations

import pytest

from era5_pipeline_tests.warehouse.versioned_months import VersionedMonths


@pytest.fixture(scope="session")
def versioned_months(tmp_path_factory: pytest.TempPathFactory) -> VersionedMonths:
    return VersionedMonths(tmp_path_factory.mktemp("versioned-months"))


@pytest.fixture
def month_of(versioned_months: VersionedMonths) -> VersionedMonths:
    """Make months, those of tests before among them."""
    return versioned_months.again()
