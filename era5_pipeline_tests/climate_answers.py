"""Climate answers of known hours, for tests of pictures and pages: real ones, and made ones with any years."""

from __future__ import annotations

import zipfile
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from era5_pipeline.climate.answer import ClimatePlace, DayRule, Provenance, YearSpan
from era5_pipeline.climate.reading import make_answer
from era5_pipeline.model.grid import ERA5_GRID
from era5_pipeline.read.credit import sample_notice
from era5_pipeline_tests.climate.tamar import MEAN_TEMPERATURE
from era5_pipeline_tests.samples import DATA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from era5_pipeline.climate.answer import ClimateAnswer

BASELINE = YearSpan(1991, 2020)
CREDIT = "Contains modified Copernicus Climate Change Service information 1994 to 2025; data ERA5, C3S/ECMWF"
MEKONG = (10.75, 106.25)
MEKONG_FILE = DATA / "timeseries" / "mekong-2020-2025-csv-zip" / "6717dbfb70d57b59ca103b1d22a04df2.zip"


def answer_of(
    hours: pd.DataFrame,
    *,
    name: str | None = None,
    at: tuple[float, float] = MEKONG,
    rule: DayRule | None = None,
    baseline: YearSpan = BASELINE,
    sources: dict[str, int] | None = None,
) -> ClimateAnswer:
    """The answer of hours (index: UTC; columns of the table), as if they were those of the cell nearest to `at`."""
    rule = rule or DayRule()
    index = pd.DatetimeIndex(hours.index)
    months = (12 * index.year + index.month).nunique()
    provenance = Provenance(
        months=months,
        hours=len(hours),
        missing_months={},
        missing_hours={},
        preliminary_share=None,
        versions={"unknown": months},
        sources=sources or {"files": months},
        lines=(f"version unknown for 100.00 % of the hours: the files of {months} months do not say",),
        credit=CREDIT,
        gaps=(),
        unknown_share=1.0,
        notice=sample_notice(sources or ()),
    )
    place = ClimatePlace(name, at, ERA5_GRID.nearest_location(*at), None, 0.75, rule.zone)
    answer = make_answer(hours, place, rule, baseline, provenance)
    assert answer is not None
    return answer


def made_hours(
    years: Iterable[int], *, rising: float = 0.02, without: Iterable[int] = (), rain: float = 0.1
) -> pd.DataFrame:
    """Hours of whole years: a season, a day, another level each year, `rising` degC a year, without some years."""
    lacking = set(without)
    index = pd.DatetimeIndex(
        np.concatenate(
            [
                np.arange(f"{year}-01-01", f"{year + 1}-01-01", dtype="datetime64[h]").astype("datetime64[s]")
                for year in years
                if year not in lacking
            ]
        ),
        tz="UTC",
    )
    year = index.year.to_numpy()
    level = rising * (year - 2000) + 0.3 * np.sin(year * 2.3)
    season = 8.0 * np.cos((index.day_of_year.to_numpy() - 200) / 365.25 * 2 * np.pi)
    day = 4.0 * np.cos((index.hour.to_numpy() - 14) / 24 * 2 * np.pi)
    return pd.DataFrame(
        {
            "temperature_2m": (15.0 + level + season + day).astype(np.float32),
            "total_precipitation": np.full(len(index), rain, dtype=np.float32),
        },
        index=index,
    )


@cache
def mekong_hours() -> pd.DataFrame:
    """The hours of the repository's point series near Ho Chi Minh City, read by pandas alone."""
    with zipfile.ZipFile(MEKONG_FILE) as archive, archive.open(archive.namelist()[0]) as file:
        rows = pd.read_csv(file, parse_dates=["valid_time"])
    return pd.DataFrame(
        {
            "temperature_2m": rows["t2m"].to_numpy() - 273.15,
            "zonal_wind_10m": rows["u10"].to_numpy(),
            "meridional_wind_10m": rows["v10"].to_numpy(),
            "total_precipitation": rows["tp"].to_numpy() * 1000,
        },
        index=pd.DatetimeIndex(rows["valid_time"], tz="UTC", name="time"),
    )


@cache
def mekong_answer() -> ClimateAnswer:
    """Five complete years near Ho Chi Minh City, and five months of a sixth; days in Vietnam's time."""
    return answer_of(mekong_hours(), rule=DayRule(420, "Asia/Ho_Chi_Minh"))


def tamar_answer(hours: pd.DataFrame) -> ClimateAnswer:
    """The answer of hours at the mouth of the Tamar."""
    return answer_of(hours, name="Plymouth, United Kingdom", at=(50.408062, -4.184799))


def tamar_years() -> pd.DataFrame:
    """Hours whose yearly means are the real ones of the Tamar: a year's hours are all the same."""
    hours = made_hours(MEAN_TEMPERATURE.index)
    return hours.assign(temperature_2m=MEAN_TEMPERATURE[pd.DatetimeIndex(hours.index).year].to_numpy())
