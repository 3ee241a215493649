"""Flat months of versions of ERA5, for all tests of the table."""

from __future__ import annotations

import pytest

from era5_pipeline.warehouse import binary_copy
from era5_pipeline_tests.warehouse.versioned_months import VersionedMonths


@pytest.fixture(scope="session")
def versioned_months(tmp_path_factory: pytest.TempPathFactory) -> VersionedMonths:
    return VersionedMonths(tmp_path_factory.mktemp("versioned-months"))


@pytest.fixture
def month_of(versioned_months: VersionedMonths) -> VersionedMonths:
    """Make months, those of tests before among them."""
    return versioned_months.again()


@pytest.fixture(params=["pgpq", "numpy"])
def encoder(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows are encoded by pgpq, and as on a system without it."""
    if request.param == "numpy":
        monkeypatch.setattr(binary_copy, "HAS_PGPQ", False)
    else:
        pytest.importorskip("pgpq")
