"""Real months on each layout with the files that they came from, and made summaries of thirty-one years beside them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pytest

from era5_pipeline.model.months import Month
from era5_pipeline.warehouse.monthly_tables import make_ready
from era5_pipeline_tests.real_months import GULF, TELANGANA, gridded

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import psycopg

    from era5_pipeline.postgres.connect import Warehouse

# Far from the real places: summaries only, without hours.
MADE_IDS = np.array([700_001, 700_002, 700_003, 701_441, 701_442, 701_443], dtype=np.int32)
FEW_YEARS, NEVER_CHANGES, LATE = 701_441, 701_442, 701_443
FIRST_YEAR, LAST_YEAR = 1991, 2021


@pytest.fixture(scope="session")
def gulf(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """2 m temperature of 2023 in degC, as xarray reads it: time, latitude, longitude."""
    return gridded(GULF, tmp_path_factory.mktemp("gulf"))["t2m"].astype("f8") - 273.15


@pytest.fixture(scope="session")
def rain(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Precipitation of June and July 2023 in mm, as xarray reads it."""
    return gridded(TELANGANA, tmp_path_factory.mktemp("rain"))["tp"].astype("f8") * 1000.0


@pytest.fixture(scope="module")
def real(real_table: Callable[..., Warehouse]) -> Warehouse:
    """Three months of the Gulf, and two of rain in Telangana."""
    return real_table(GULF.of("2023-06", "2023-07", "2023-08"), TELANGANA)


@pytest.fixture(scope="module")
def connection(real: Warehouse) -> Iterator[psycopg.Connection[Any]]:
    with real.connect() as opened:
        yield opened


def made_months() -> Any:
    """Summaries as a table: a row a location and month, with a trend of its own, noise that lasts, and gaps."""
    random = np.random.default_rng(16)
    rows = []
    for number, location in enumerate(MADE_IDS.tolist()):
        noise = 0.0
        for year in range(2000 if location == LATE else FIRST_YEAR, LAST_YEAR + 1):
            if location == FEW_YEARS and year % 2:
                continue
            noise = 0.5 * noise + random.normal(scale=0.25)
            for month in range(1, 13):
                season = 8 * np.sin((month - 4) * np.pi / 6)
                mean = 20 + season + (0.02 * number + 0.01) * (year - FIRST_YEAR) + noise + random.normal(scale=0.3)
                rows.append(
                    {
                        "location_id": location,
                        "year": year,
                        "month": month,
                        "mean": 20.0 if location == NEVER_CHANGES else mean,
                        "sum": 0.0 if location == NEVER_CHANGES else random.gamma(2.0, 40.0),
                        "hours": Month(year, month).hours,
                    }
                )
    table = pd.DataFrame(rows)
    # 44 hours of July 1995 lack at one location, which makes it incomplete; 14 of March 1998, which do not.
    at_first = table["location_id"] == MADE_IDS[0]
    table.loc[at_first & (table["year"] == 1995) & (table["month"] == 7), "hours"] -= 44
    table.loc[at_first & (table["year"] == 1998) & (table["month"] == 3), "hours"] -= 14
    return table


@pytest.fixture(scope="module")
def made(real: Warehouse) -> Any:
    """The same, written into the table of summaries."""
    table = made_months()
    columns = ("temperature_2m", "total_precipitation")
    with real.connect() as opened:
        for year in range(FIRST_YEAR, LAST_YEAR + 1):
            make_ready(opened, Month(year, 1), columns, timeout_seconds=60, on_wait=lambda _: None)
        with (
            opened.cursor() as cursor,
            cursor.copy(
                "COPY era5.monthly_summary (location_id, month, temperature_2m_mean, temperature_2m_hours, "
                "total_precipitation_sum, total_precipitation_sum_hours) FROM STDIN"
            ) as copy,
        ):
            for row in table.to_dict("records"):
                first = f"{row['year']}-{row['month']:02d}-01"
                copy.write_row((row["location_id"], first, row["mean"], row["hours"], row["sum"], row["hours"]))
    return table


def by_year(table: Any, location: int, months: tuple[int, ...], *, total: bool = False) -> Any:
    """A location's values by year, computed by pandas: of complete years, from months of the same year."""
    mine = table[(table["location_id"] == location) & table["month"].isin(months)]
    grouped = mine.groupby("year")
    if total:
        values = grouped["sum"].sum()
    else:
        weighted = (mine["mean"] * mine["hours"]).groupby(mine["year"]).sum()
        values = weighted / grouped["hours"].sum()
    whole = {year: sum(Month(year, month).hours for month in months) for year in values.index}
    missing = pd.Series(whole) - grouped["hours"].sum()
    return values[(grouped["month"].count() == len(months)) & (missing <= 24)]


def value_at(field: Any, location: int) -> float:
    """The value of a field at a location, NaN outside of its rectangle."""
    row, column = divmod(location - 1, 1440)
    rows = np.rint((field.latitudes + 90) * 4).astype(int)
    columns = np.rint((field.longitudes + 179.75) * 4).astype(int) % 1440
    if row not in rows or column not in columns:
        return float("nan")
    return float(field.values[np.flatnonzero(rows == row)[0], np.flatnonzero(columns == column)[0]])
