"""Real months in a table on each layout, one of them left out, open for Python."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.api.database import open_database
from era5_pipeline_tests.real_months import GULF, NORWAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from era5_pipeline.api.database import Database
    from era5_pipeline.postgres.connect import Warehouse


@pytest.fixture(scope="module")
def real(real_table: Callable[..., Warehouse]) -> Warehouse:
    """Months of the Gulf without August, and one of Norway."""
    return real_table(GULF.of("2023-06", "2023-07", "2023-09"), NORWAY)


@pytest.fixture(scope="module")
def db(real: Warehouse) -> Iterator[Database]:
    """The same, open for Python."""
    with open_database(real.url) as database:
        yield database
