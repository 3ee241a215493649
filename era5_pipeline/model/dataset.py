"""Data sets: ERA5 and ERA5-Land, each by its grid, variables, names and the rule of its accumulations.

To add a data set, add an entry, with its catalogue in `variables`. What depends on one takes it from here: no other
module knows a table's name or a grid's numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from math import radians
from typing import TYPE_CHECKING, Literal

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import EARTH_RADIUS_KM, ERA5_GRID, ERA5_LAND_GRID, Grid
from era5_pipeline.model.months import Month
from era5_pipeline.model.variables import CATALOGUES, ERA5_CATALOGUE, ERA5_LAND_CATALOGUE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from era5_pipeline.model.variables import Catalogue

# Whether an accumulation in files covers the hour that ends at the valid time, or the day since 00 UTC: then the value
# at 00 UTC covers all of the day before.
Accumulation = Literal["hour", "day"]

_NAME = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Dataset:
    """One data set of the warehouse.

    `name` is what users write; `table` and `schema` are its own in the database, the latter for ledger, views and
    functions. `variables` is the name of its catalogue, so that a data set is small where it is copied, written or
    sent to another process. `is_land_only`: at sea it has no values, and the table no rows. `lock_class` is the
    first number of its advisory locks. `what_it_is` describes it to those who read its numbers; `authors` are those
    to cite with title and `doi`, and `paper_doi` is their paper about it. `cds_name` and `cds_series_name` are its
    data sets of hours and of point series at the Climate Data Store, each with its DOI. `cds_product_type` is what
    requests there name, if they name one; `cds_max_fields` the most fields (one variable at one hour) that this
    project asks for in a request.
    """

    name: str
    title: str
    grid: Grid
    accumulation: Accumulation
    variables: str
    table: str
    schema: str
    cds_name: str
    cds_series_name: str
    doi: str
    series_doi: str
    lock_class: int
    authors: str
    paper_doi: str
    what_it_is: str
    cds_max_fields: int
    cds_product_type: str | None = None
    is_land_only: bool = False

    @property
    def short_title(self) -> str:
        """The title's first word, such as ERA5: what comments in the database call it."""
        return self.title.partition(" ")[0]

    @property
    def preliminary_title(self) -> str:
        """The name of its preliminary hours: ERA5T, ERA5-Land-T."""
        return f"{self.short_title}{'-' if '-' in self.short_title else ''}T"

    @property
    def short_subject(self) -> str:
        """The title without its years, such as ERA5 hourly data on single levels: the title of files."""
        return self.title.partition(" from ")[0]

    @property
    def catalogue(self) -> Catalogue:
        """Its variables, and how each is found."""
        return CATALOGUES[self.variables]

    @property
    def first_valid(self) -> Mapping[str, datetime]:
        """Its first valid time by the kind of field, `analysis` or `forecast`."""
        return self.catalogue.first_valid

    @property
    def first_month(self) -> Month:
        """The month with which it begins."""
        return Month.of(min(self.first_valid.values()))

    def is_summed(self, column: str) -> bool:
        """Return True if its own files have the column as sums since 00 UTC."""
        return self.accumulation == "day" and self.catalogue.by_column[column].step_type == "accum"

    def require_months(self, months: Iterable[Month]) -> None:
        """Require that it has begun before these months."""
        first = self.first_month
        for month in months:
            if month < first:
                raise UsageError(
                    f"{month} is before {self.short_title} begins",
                    remedy=f"{self.short_title} begins with {first}: ask for that month or a later one.",
                )

    @property
    def loads_schema(self) -> str:
        """The schema in which loads create tables: staging tables of months, and the years of the monthly summaries.

        Loaders may create there, but not in `schema`, where programs and owners call functions by name.
        """
        return f"{self.schema}_loads"

    def sql(self, text: str) -> str:
        """Fill the names of the tables and the numbers of the grid into a statement: `{schema}`, `{weather}`, ...

        Other braces stay, for psycopg.
        """
        return _NAME.sub(lambda found: self._names.get(found[1], found[0]), text)

    @cached_property
    def _names(self) -> Mapping[str, str]:
        grid = self.grid
        step, west = grid.step_degrees, -grid.west_degrees
        return {
            "schema": self.schema,
            "weather": self.table,
            "dataset": self.short_title,
            # Not the name: patterns of words would find `era5` in `era5-land`.
            "application": self.schema,
            "step": f"{step:g}",
            "half_step": f"{step / 2:g}",
            "per_degree": str(round(1 / step)),
            # Column 0 lies so many degrees west of Greenwich.
            "west": f"{west:.10g}",
            "last_row": str(grid.rows - 1),
            "last_column": str(grid.columns - 1),
            "grid_columns": str(grid.columns),
            "grid_locations": str(grid.locations),
            # A point at 30 degrees south for comments: its longitude and its location_id.
            "example_longitude": f"{30 + step:g}",
            "example_id": str(round(60 / step) * grid.columns + round((30 + step + west) / step) + 1),
        }


def _size_of(grid: Grid) -> str:
    """The size of its cells at the equator, in words."""
    return f"about {EARTH_RADIUS_KM * radians(grid.step_degrees):.0f} km ({grid.step_degrees:g} degrees)"


ERA5 = Dataset(
    name="era5",
    title="ERA5 hourly data on single levels from 1940 to present",
    grid=ERA5_GRID,
    accumulation="hour",
    variables=ERA5_CATALOGUE.name,
    table="weather",
    schema="era5",
    cds_name="reanalysis-era5-single-levels",
    cds_series_name="reanalysis-era5-single-levels-timeseries",
    doi="10.24381/cds.adbb2d47",
    series_doi="10.24381/1cf1ad76",
    lock_class=0x45524135,  # "ERA5" in ASCII
    authors="Hersbach, H. et al. (2023)",
    paper_doi="10.1002/qj.3803",
    what_it_is="ERA5 is a reanalysis: a weather model held to the observations of its time. A value is the mean of a "
    f"cell of {_size_of(ERA5_GRID)}, not the reading of a station: a city's heat, a valley or a "
    "shore smaller than the cell is not in it. The observations have changed since 1940, most of all before 1979, and "
    "so trends may show their changes, too.",
    # netCDF requests of 16,368 fields are accepted, those of 17,856 exceed the cost limit (seen in August 2026); a
    # smaller area does not lower the cost.
    cds_max_fields=16_368,
    cds_product_type="reanalysis",
)

ERA5_LAND = Dataset(
    name="era5-land",
    title="ERA5-Land hourly data from 1950 to present",
    grid=ERA5_LAND_GRID,
    accumulation="day",
    variables=ERA5_LAND_CATALOGUE.name,
    table="weather_land",
    schema="era5_land",
    cds_name="reanalysis-era5-land",
    cds_series_name="reanalysis-era5-land-timeseries",
    doi="10.24381/cds.e2161bac",
    series_doi="10.24381/ee82e357",
    lock_class=0x45354C44,  # "E5LD" in ASCII
    authors="Muñoz Sabater, J. (2019)",
    paper_doi="10.5194/essd-13-4349-2021",
    what_it_is="ERA5-Land is the land part of ERA5's weather model, run again on a finer grid under the weather of "
    "ERA5, with its temperatures corrected for height; rain, radiation and wind are ERA5's, interpolated. A value is "
    f"the mean of a cell of {_size_of(ERA5_LAND_GRID)}, not the reading of a station, and there is none at sea. It "
    "takes in no observations of its own: those of ERA5 have changed since 1950, most of all before 1979, and so "
    "trends may show their changes, too.",
    # The service's limit is not published; a user found one of about 4,464 (October 2026). A month of six variables.
    cds_max_fields=4_464,
    is_land_only=True,
)

DATASETS = {dataset.name: dataset for dataset in (ERA5, ERA5_LAND)}


def dataset_named(name: str) -> Dataset:
    """The data set of this name.

    Raises:
        UsageError: if there is none of this name.
    """
    try:
        return DATASETS[name.strip().casefold().replace("_", "-")]
    except KeyError:
        raise UsageError(
            f"{name!r} is no data set of this warehouse", remedy=f"Data sets are {' and '.join(DATASETS)}."
        ) from None


def dataset_option(dataset: Dataset) -> str:
    """The option that a command in a message needs: ` --dataset era5-land`; nothing for ERA5."""
    return "" if dataset == ERA5 else f" --dataset {dataset.name}"


def load_command(dataset: Dataset) -> str:
    """The command that loads the data set, for messages: `era5 load --dataset era5-land`."""
    return f"era5 load{dataset_option(dataset)}"
