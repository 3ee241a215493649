"""Answers of hours that tests make, without a database, and a table of such hours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import psycopg

from era5_pipeline.climate.anomalies import DEFAULT_BASELINE
from era5_pipeline.climate.answer import ClimatePlace, DayRule, Provenance
from era5_pipeline.climate.reading import make_answer
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.postgres.dataset_connection import connect_for
from era5_pipeline.warehouse.layouts.layout import create_weather

if TYPE_CHECKING:
    from collections.abc import Mapping

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Location

PLACE = ClimatePlace(
    "Jakarta, Indonesia", (-6.2, 106.8), ERA5_GRID.nearest_location(-6.2, 106.8), None, 0.62, "Asia/Jakarta"
)
CREDIT = "Contains modified Copernicus Climate Change Service information 1994 to 2023; data ERA5, C3S/ECMWF"


def provenance_of(hours: pd.DataFrame) -> Provenance:
    """That of hours which are all there, final, and from the source `files`."""
    index = pd.DatetimeIndex(hours.index)
    months = (12 * index.year + index.month).nunique()
    return Provenance(months, len(hours), {}, {}, 0.0, {"final": months}, {"files": months}, (), CREDIT)


def answer_to(hours: pd.DataFrame, place: ClimatePlace = PLACE, rule: DayRule | None = None, **more: Any) -> Any:
    """The answer of hours against 1991-2020."""
    baseline = more.pop("baseline", DEFAULT_BASELINE)
    answer = make_answer(hours, place, rule or DayRule(), baseline, provenance_of(hours), **more)
    assert answer is not None
    return answer


def warming_hours(first: str, last: str, per_decade: float = 0.3, seed: int = 1) -> pd.DataFrame:
    """Hours of a place that gets warmer: seasons, days, noise from day to day and year to year, rain and wind."""
    index = pd.date_range(first, last, freq="h", tz="UTC", name="time", unit="s")
    random = np.random.default_rng(seed)
    years = index.year.to_numpy()
    of_year = {year: random.normal(scale=0.2) for year in np.unique(years)}
    decades = (years - years[0] + index.day_of_year.to_numpy() / 366) / 10
    temperature = (
        *(26 + per_decade * decades, 2 * np.sin(2 * np.pi * index.day_of_year.to_numpy() / 365.25)),
        *(4 * np.sin(2 * np.pi * (index.hour.to_numpy() - 2) / 24), np.array([of_year[year] for year in years])),
    )
    rain = random.exponential(1.5, len(index)) * (random.random(len(index)) < 0.15)
    return pd.DataFrame(
        {
            "temperature_2m": sum(temperature) + random.normal(scale=0.5, size=len(index)),
            "total_precipitation": rain,
            "zonal_wind_10m": random.normal(1, 2, len(index)),
            "meridional_wind_10m": random.normal(-2, 2, len(index)),
        },
        index=index,
    ).astype(np.float32)


def fill_with_hours(url: str, hours_of: Mapping[Location, pd.DataFrame], dataset: Dataset = ERA5) -> None:
    """Make the table of these hours of places, in one partition and without a ledger."""
    columns = ("temperature_2m", "zonal_wind_10m", "meridional_wind_10m", "total_precipitation")
    table = dataset.table
    with connect_for(dataset, url, autocommit=True) as connection:
        create_weather(connection, psycopg.sql.SQL("PARTITION BY RANGE (time)"))
        connection.execute(f"CREATE TABLE {table}_all PARTITION OF {table} DEFAULT")
        names = "time, location_id, latitude, longitude, " + ", ".join(columns)
        with connection.cursor().copy(f"COPY {table} ({names}) FROM STDIN") as copy:
            for location, hours in hours_of.items():
                place = f"{location.location_id}\t{location.latitude}\t{location.longitude}"
                values = hours[list(columns)].to_numpy(dtype=float).tolist()
                times = pd.DatetimeIndex(hours.index).tz_convert(None).to_numpy().astype("datetime64[s]").astype(str)
                # Rows one by one would take three times as long.
                copy.write(
                    "".join(
                        f"{time}Z\t{place}\t{t!r}\t{u!r}\t{v!r}\t{rain!r}\n"
                        for time, (t, u, v, rain) in zip(times.tolist(), values, strict=True)
                    )
                )
        connection.execute(f"CREATE INDEX ON {table} (location_id)")
