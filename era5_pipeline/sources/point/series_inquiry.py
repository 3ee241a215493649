"""The request for all hours of one point, and what its answer must be: that point, every hour, every variable.

The dataset offers 23 variables, snowfall is none of them. The service moves a point to the nearest one of its grid on
-180 to 179.75, without wrapping: 180 would become 179.75. So the grid point itself is sent, and the one that comes back
is compared. `date` is inclusive; an end beyond what there is is cut short, and a variable that is not offered is absent
from the answer, both without an error.
"""

from __future__ import annotations

import random
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any

from era5_pipeline.model.errors import BadFileError, UsageError
from era5_pipeline.model.hours import hour_of, time_of
from era5_pipeline.model.months import FIRST_YEAR
from era5_pipeline.model.variables import variable_names
from era5_pipeline.runtime.files import digest_of
from era5_pipeline.sources.cds.validation import damaged, validate_download
from era5_pipeline.sources.point.point_series import read_series

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.sources.point.point_series import PointSeries
    from era5_pipeline.sources.source import Request

DATASET = "reanalysis-era5-single-levels-timeseries"
FIRST_DAY = date(FIRST_YEAR, 1, 1)
# Those of the catalogue that the dataset's form offers; its others are of ocean waves.
OFFERED = frozenset(
    {
        "100m_u_component_of_wind",
        "100m_v_component_of_wind",
        "10m_u_component_of_wind",
        "10m_v_component_of_wind",
        "10m_wind_gust_since_previous_post_processing",
        "2m_dewpoint_temperature",
        "2m_temperature",
        "boundary_layer_height",
        "cloud_base_height",
        "mean_sea_level_pressure",
        "sea_surface_temperature",
        "skin_temperature",
        "surface_latent_heat_flux",
        "surface_pressure",
        "surface_sensible_heat_flux",
        "surface_solar_radiation_downwards",
        "surface_thermal_radiation_downwards",
        "total_cloud_cover",
        "total_precipitation",
        "total_sky_direct_solar_radiation_at_surface",
    }
)
# The data lag by about five days: whichever of these is the last day that is asked for, all that there is comes.
_LAG_DAYS = 5
# How far a variant's location is moved at most, in degrees, by steps of `_STEP`: the grid point stays the nearest.
_FARTHEST, _STEP = 0.05, 0.0001
# A series that ends earlier than this is not all that there is.
_LONGEST_LAG = timedelta(days=45)


def offered_variables(request: Request) -> tuple[Variable, ...]:
    """The variables to ask for: those that were named, else the default ones that the dataset has.

    Raises:
        UsageError: naming those that it does not have.
    """
    offered = tuple(variable for variable in request.wanted if variable.cds_name in OFFERED)
    others = [
        variable.column
        for variable in request.wanted
        if variable not in offered and not (request.is_open and variable.column not in request.named)
    ]
    if request.variables is not None and others:
        names = variable_names(variable.column for variable in offered)
        rest = f"Leave {'it' if len(others) == 1 else 'them'} out{f': --variables {names}' if names else ''}"
        raise UsageError(
            f"the dataset of point series does not have {', '.join(others)}",
            remedy=f"{rest}; or load it from another source: --source cds.",
        )
    return offered


@dataclass(frozen=True)
class SeriesInquiry:
    """All hours of these variables at a grid point, from 1940 to `last_day`.

    A variant has another last day, and a location a little beside the grid point. `home` has room to unpack an answer.
    """

    place: Location
    variables: tuple[Variable, ...]
    last_day: date
    home: Path

    @property
    def dataset(self) -> str:
        """See `Inquiry`."""
        return DATASET

    @property
    def subject(self) -> Month | str:
        """See `Inquiry`."""
        return f"point {self.place}"

    @property
    def stem(self) -> str:
        """See `Inquiry`: the point, and a digest of what is asked for, whatever the last day."""
        asked = digest_of([DATASET, str(self.place), sorted(variable.cds_name for variable in self.variables)])
        return f"series_{self.place.latitude:g}_{self.place.longitude:g}-{asked[:12]}"

    def inputs(self, variant: tuple[str, ...] | None) -> dict[str, Any]:
        """See `Inquiry`."""
        last_day, *moved = variant or (self.last_day.isoformat(),)
        latitude, longitude = self._location
        # In notes of earlier versions, names of variables follow the day.
        if moved and (numbers := moved[0].partition("/"))[1]:
            latitude, longitude = float(numbers[0]), float(numbers[2])
        return {
            "variable": [variable.cds_name for variable in self.variables],
            "location": {"latitude": latitude, "longitude": longitude},
            "date": [f"{FIRST_DAY}/{last_day}"],
            "data_format": "netcdf",
        }

    def new_variant(self, previous: tuple[str, ...] | None) -> tuple[str, ...]:
        """See `Inquiry`: the service's cache knows an answer by its location, with all digits, and by its last day.

        Source: `normalise_request` of the adaptor (cads-adaptors, `adaptors/arco.py`) sorts the variables, and moves a
        last day after the newest there is to that one; it keeps the location as sent, and selects the nearest point.
        """
        latitude, longitude = self._location
        while True:
            day = self.last_day - timedelta(days=random.randrange(_LAG_DAYS))  # noqa: S311  # no secret
            variant = (day.isoformat(), f"{_moved(latitude):.4f}/{_moved(longitude):.4f}")
            if variant != previous:
                return variant

    @property
    def _location(self) -> tuple[float, float]:
        """The grid point in the service's numbers: 180 would be answered with 179.75."""
        longitude = self.place.longitude
        return self.place.latitude, -180.0 if longitude == 180.0 else longitude

    def must_be_fresh(self, now: datetime) -> bool:
        """See `Inquiry`: always, because the newest months are preliminary."""
        del now
        return True

    def validate(self, path: Path) -> str:
        """See `Inquiry`: a file that reads through, and that holds what was asked for.

        Raises:
            RetryableError: if it is damaged, or hours or variables are missing.
            MonthFailedError: if it is of another point.
        """
        suffix = validate_download(self.subject, path)
        try:
            series = self.read(path)
        except BadFileError as error:
            raise damaged(f"the downloaded file {error.problem}") from error
        if lacking := [variable.column for variable in self.variables if variable.column not in series.values]:
            raise damaged(f"the series lacks {', '.join(lacking)}")
        self._require_all_hours(series)
        return suffix

    def read(self, path: Path) -> PointSeries:
        """Read the series.

        Raises:
            BadFileError: if the file is damaged, or no series.
            MonthFailedError: if it is of another point.
            LocalDiskError: if there is no room to unpack it.
        """
        return read_series(path, self.place, self.home, frozenset(variable.column for variable in self.variables))

    def _require_all_hours(self, series: PointSeries) -> None:
        first = hour_of(datetime(FIRST_DAY.year, 1, 1, tzinfo=UTC))
        end = hour_of(datetime(*self.last_day.timetuple()[:3], tzinfo=UTC)) + 24
        if series.first_hour != first:
            raise damaged(f"the series begins at {_shown(series.first_hour)}, and {FIRST_DAY} was asked for")
        if series.end_hour < end - _LONGEST_LAG // timedelta(hours=1):
            raise damaged(
                f"the series has {series.hours:,} of {end - first:,} hours: it ends at {_shown(series.end_hour - 1)}, "
                f"and {self.last_day} was asked for"
            )


def _moved(degrees: float) -> float:
    """Degrees moved a little towards zero, so that poles and the date line are not crossed."""
    moved = random.randint(1, round(_FARTHEST / _STEP)) * _STEP  # noqa: S311  # no secret
    return degrees - moved if degrees > 0 else degrees + moved


def _shown(hour: int) -> str:
    return f"{time_of(hour):%Y-%m-%d %H:%M}"
