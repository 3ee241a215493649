"""The source `point`: one request brings all hours of a point; each month is a slice of them in a file."""

from __future__ import annotations

import hashlib
import random
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, timedelta
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
from typing_extensions import override

from era5_pipeline.model.dataset import ERA5, ERA5_LAND, Dataset
from era5_pipeline.model.errors import BadFileError, MonthFailedError, NotYetAvailableError, SourceError, UsageError
from era5_pipeline.model.grid import Location, points_text
from era5_pipeline.model.land_mask import nearest_land
from era5_pipeline.model.months import Month
from era5_pipeline.model.source_kinds import YOUNG_MONTHS
from era5_pipeline.model.times import describe_hours, hour_of, hours_of_month, spoken, time_of
from era5_pipeline.netcdf.archive import netcdf_files, scratch_folder
from era5_pipeline.netcdf.cds_files import point_netcdf
from era5_pipeline.netcdf.contents import open_netcdf
from era5_pipeline.netcdf.field_reader import contents_of
from era5_pipeline.runtime.file_store import LOCAL, FileStore
from era5_pipeline.runtime.files import REMADE_BYTES, digest_of, replacing
from era5_pipeline.sources.cds.note import Query, RequestFiles
from era5_pipeline.sources.cds.retry_policy import RetrySettings
from era5_pipeline.sources.cds.service_request import ServiceRequest
from era5_pipeline.sources.cds.validation import damaged, validate_download
from era5_pipeline.sources.source import RawFile, RawMonth, Request, Source, locked_month

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.netcdf.archive import NetcdfFile
    from era5_pipeline.netcdf.contents import Field
    from era5_pipeline.sources.cds.note import Fetched

    Floats = npt.NDArray[np.float32]

# Series in memory, as the months of a load follow each other. A series since 1940 takes 15 MB.
_CACHED_SERIES = 4
_AGAIN = "Run it again: it is then downloaded again."
_SHOWN_RUNS = 2


@dataclass(frozen=True, eq=False)
class PointSeries:
    """Consecutive hours of a point from `first_hour` (since 1970-01-01); `values` (n,) by column, in file units.

    `of` is the data set; its accumulations are amounts of hours, whatever its other files have.
    """

    place: Location
    first_hour: int
    values: Mapping[str, Floats]
    of: Dataset = ERA5

    @property
    def hours(self) -> int:
        """The hour count."""
        return next(iter(self.values.values())).size

    @property
    def end_hour(self) -> int:
        """The first hour after the series."""
        return self.first_hour + self.hours

    def reaches(self, month: Month) -> bool:
        """Return True if it has the last hour of the month."""
        return hours_of_month(month).stop <= self.end_hour

    def month_netcdf(self, month: Month, *, preliminary: bool) -> bytes | None:
        """The month as netCDF (see `point_netcdf`); None if the series has none of its hours."""
        hours = hours_of_month(month)
        own = range(max(hours.start, self.first_hour), min(hours.stop, self.end_hour))
        if not own:
            return None
        within = slice(own.start - self.first_hour, own.stop - self.first_hour)
        values = {column: of_column[within] for column, of_column in self.values.items()}
        return point_netcdf(self.place, np.array(own, dtype=np.int64), values, preliminary=preliminary, of=self.of)


def read_series(
    path: Path, place: Location, home: Path, columns: frozenset[str], dataset: Dataset = ERA5
) -> PointSeries:
    """Read these columns, if present, from the result at `path`, which is unpacked below `home`."""
    stat = path.stat()
    return _read(path, place, home, columns, dataset, (stat.st_size, stat.st_mtime_ns))


@lru_cache(maxsize=_CACHED_SERIES)
def _read(
    path: Path, place: Location, home: Path, columns: frozenset[str], dataset: Dataset, _: tuple[int, int]
) -> PointSeries:
    """Read and join the members: one for all variables, or of ERA5-Land one for each group of them."""
    hours: dict[str, npt.NDArray[np.int64]] = {}
    values: dict[str, Floats] = {}
    with scratch_folder(home) as scratch:
        for file in netcdf_files([path], scratch):
            contents = contents_of(file, dataset)
            for problem in contents.problems:
                if problem.kind != "nothing" and (not problem.columns or not columns.isdisjoint(problem.columns)):
                    raise BadFileError(path, problem.text, remedy=_AGAIN)
            for field in contents.fields:
                if field.column not in columns:
                    continue
                _require_place(field, place)
                _require_consecutive(field.hours, path)
                hours[field.column], values[field.column] = field.hours, _values(file, field, path)
    held = [of_column for of_column in hours.values() if of_column.size]
    if not held:
        raise BadFileError(path, "holds none of the requested variables", remedy=_AGAIN)
    first, end = min(int(one[0]) for one in held), max(int(one[-1]) for one in held) + 1
    # Groups may end at different hours.
    joined = {column: np.full(end - first, np.nan, dtype=np.float32) for column in values}
    for column, of_column in values.items():
        joined[column][hours[column] - first] = of_column
    return PointSeries(place, first, joined, dataset)


def _values(file: NetcdfFile, field: Field, path: Path) -> Floats:
    try:
        with open_netcdf(file) as dataset:
            read = np.asarray(dataset[field.name].values, dtype=np.float32).reshape(-1)
    except Exception as error:  # the libraries raise nearly anything for damaged files
        raise BadFileError(path, f"is damaged ({field.name}: {error})", remedy=_AGAIN) from error
    if read.size != field.hours.size:
        raise BadFileError(path, f"holds {field.name} of more than one point", remedy=_AGAIN)
    return read


def _require_place(field: Field, place: Location) -> None:
    ids = place.grid.location_ids(field.latitude_index, field.longitude_index)
    if ids.size == 1 and int(ids[0]) == place.location_id:
        return
    held = f"{ids.size} points" if ids.size != 1 else f"the point {place.grid.location(int(ids[0]))}"
    raise MonthFailedError(
        f"point {place}: the service returned {held}",
        remedy="Nothing was loaded. Run it again later; if that does not help, tell the user support of the Climate "
        "Data Store, with the number of the request.",
    )


def _require_consecutive(hours: npt.NDArray[np.int64], path: Path) -> None:
    steps = np.diff(hours)
    if (steps == 1).all():
        return
    if (steps <= 0).any():
        raise BadFileError(path, "has duplicate or unsorted hours", remedy=_AGAIN)
    missing = np.setdiff1d(np.arange(hours[0], hours[-1] + 1), hours)
    runs = describe_hours(missing)
    more = f" and {len(runs) - _SHOWN_RUNS} more gaps" if len(runs) > _SHOWN_RUNS else ""
    text = f"lacks {missing.size:,} hours in between: {', '.join(runs[:_SHOWN_RUNS])}{more}"
    raise BadFileError(path, text, remedy=_AGAIN)


# --- The request for all hours of one point, whose result must have that point, every hour and every variable ---
#
# Snowfall is not among what is offered. The service moves a point to the nearest one of its grid without wrapping: for
# ERA5 on -180 to 179.75, where 180 would become 179.75. So the grid point itself is sent, and the returned one is
# compared. `date` is inclusive; an end beyond the available data is clipped, and a variable that is not offered is
# absent from the result, both without an error. At sea, ERA5-Land's series has every hour and no value.


# By data set: the first day, and the variables of its catalogue that the form offers.
FIRST_DAYS = {ERA5.name: date(1940, 1, 1), ERA5_LAND.name: date(1950, 1, 2)}
OFFERED: dict[str, frozenset[str]] = {
    ERA5.name: frozenset(
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
    ),
    # Known from users' files and reports, not from the form, which may have more, of snow for example.
    ERA5_LAND.name: frozenset(
        {
            "10m_u_component_of_wind",
            "10m_v_component_of_wind",
            "2m_dewpoint_temperature",
            "2m_temperature",
            "skin_temperature",
            *(f"soil_temperature_level_{number}" for number in range(1, 5)),
            "surface_pressure",
            "surface_solar_radiation_downwards",
            "surface_thermal_radiation_downwards",
            "total_precipitation",
            *(f"volumetric_soil_water_layer_{number}" for number in range(1, 5)),
        }
    ),
}
# The data lag by about five days: with any of these as the last requested day, all available data come.
_LAG_DAYS = 5
# The largest shift of a variant's location, in parts of the grid's step, in degrees of `_STEP`: the nearest grid point
# is unchanged.
_FARTHEST, _STEP = 1 / 5, 0.0001
# A series that lags more than this is incomplete.
_LONGEST_LAG = timedelta(days=45)


def offered_variables(request: Request) -> tuple[Variable, ...]:
    """The variables to request: those named, or else the default ones that the dataset has."""
    dataset = request.dataset
    offered = tuple(variable for variable in request.wanted if variable.cds_name in OFFERED[dataset.name])
    others = [
        variable.column
        for variable in request.wanted
        if variable not in offered and not (request.is_open and variable.column not in request.named)
    ]
    if request.variables is not None and others:
        names = dataset.catalogue.variable_names(variable.column for variable in offered)
        rest = f"Leave {'it' if len(others) == 1 else 'them'} out{f': --variables {names}' if names else ''}"
        raise UsageError(
            f"the dataset of point series does not have {', '.join(others)}",
            remedy=f"{rest}; or load it from another source: --source cds.",
        )
    return offered


def require_values(request: Request) -> None:
    """Check that the data set has values at the points: of a land-only one, the series of a point at sea is empty."""
    for place in request.points if request.dataset.is_land_only else ():
        if (nearest := nearest_land(place)) != place:
            raise UsageError(
                f"{request.dataset.short_title} has no values at point {place}, at sea",
                remedy=f"The nearest point with values is {nearest}: --lat {nearest.latitude:g} "
                f"--lon {nearest.longitude:g}, or ERA5_POINT={nearest}. ERA5 has values at sea, too.",
            )


@dataclass(frozen=True)
class SeriesQuery(Query):
    """All hours of these variables at a grid point, from the first day of the data set `of` to `last_day`.

    A variant has another last day, and a location slightly off the grid point. Results are unpacked below `home`.
    """

    place: Location
    variables: tuple[Variable, ...]
    last_day: date
    home: Path
    of: Dataset = ERA5

    @property
    @override
    def dataset(self) -> str:
        return self.of.cds_series_name

    @property
    def _first_day(self) -> date:
        return FIRST_DAYS[self.of.name]

    @property
    @override
    def subject(self) -> Month | str:
        return f"point {self.place}"

    @property
    @override
    def stem(self) -> str:
        """The point, and a digest of the request without the last day."""
        asked = digest_of([self.dataset, str(self.place), sorted(variable.cds_name for variable in self.variables)])
        return f"series_{self.place.latitude:g}_{self.place.longitude:g}-{asked[:12]}"

    @override
    def inputs(self, variant: tuple[str, ...] | None) -> dict[str, Any]:
        last_day, *moved = variant or (self.last_day.isoformat(),)
        latitude, longitude = self._location
        if moved:
            latitude, longitude = map(float, moved[0].split("/"))
        return {
            "variable": [variable.cds_name for variable in self.variables],
            "location": {"latitude": latitude, "longitude": longitude},
            "date": [f"{self._first_day}/{last_day}"],
            "data_format": "netcdf",
        }

    @override
    def new_variant(self, previous: tuple[str, ...] | None) -> tuple[str, ...]:
        """Change what the service's cache key contains: the location, with all digits, and the last day.

        Source: `normalise_request` of the adaptor (cads-adaptors, `adaptors/arco.py`) sorts the variables, and clips
        the last day to the newest available one; it keeps the location as sent, and selects the nearest point.
        """
        latitude, longitude = self._location
        while True:
            day = self.last_day - timedelta(days=random.randrange(_LAG_DAYS))  # noqa: S311  # not a secret
            farthest = self.place.grid.step_degrees * _FARTHEST
            variant = (day.isoformat(), f"{_moved(latitude, farthest):.4f}/{_moved(longitude, farthest):.4f}")
            if variant != previous:
                return variant

    @property
    def _location(self) -> tuple[float, float]:
        """The grid point in the service's numbers: of ERA5, it would answer 180 with 179.75."""
        longitude = self.place.longitude
        return self.place.latitude, -180.0 if longitude == 180.0 and self.of == ERA5 else longitude

    @override
    def must_be_fresh(self, now: datetime) -> bool:
        """Always true, because the newest months are preliminary."""
        del now
        return True

    @override
    def validate(self, path: Path) -> str:
        """Check that the file is readable to its end, and holds what was requested."""
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
        """Read the series."""
        columns = frozenset(variable.column for variable in self.variables)
        return read_series(path, self.place, self.home, columns, self.of)

    def _require_all_hours(self, series: PointSeries) -> None:
        first = hour_of(datetime(*self._first_day.timetuple()[:3], tzinfo=UTC))
        end = hour_of(datetime(*self.last_day.timetuple()[:3], tzinfo=UTC)) + 24
        if series.first_hour != first:
            raise damaged(f"the series begins at {_shown(series.first_hour)}, but {self._first_day} was requested")
        if series.end_hour < end - _LONGEST_LAG // timedelta(hours=1):
            raise damaged(
                f"the series has {series.hours:,} of {end - first:,} hours: it ends at {_shown(series.end_hour - 1)}, "
                f"but {self.last_day} was requested"
            )


def _moved(degrees: float, farthest: float) -> float:
    """Degrees shifted slightly towards zero, so as not to cross a pole or the date line."""
    moved = random.randint(1, round(farthest / _STEP)) * _STEP  # noqa: S311  # not a secret
    return degrees - moved if degrees > 0 else degrees + moved


def _shown(hour: int) -> str:
    return f"{time_of(hour):%Y-%m-%d %H:%M}"


# --- The source `point`: one request brings all hours of a point; each month is a slice in a file ---
#
# The result is kept and serves all months until one is wanted that it does not reach. A slice is identical to the byte
# as long as its own values are, so that a newer result does not cause unchanged months to be loaded again.


# Wait after a result before requesting its missing hours or values again.
_ASK_AGAIN_AFTER = timedelta(hours=12)


@dataclass(frozen=True)
class PointSource(Source):
    """Months of the points of the request, in `home`.

    The user's key is needed only if a request is. `refetch`: request each point again, once for all months of this
    object. A point whose series failed is not requested again by this object. `say` reports every wait. The store of
    `file_store`, if set, has the series too.
    """

    home: Path
    request: Request
    refetch: bool = False
    retry_settings: RetrySettings = field(default_factory=RetrySettings)
    say: Callable[[str], None] = lambda _: None
    file_store: FileStore = LOCAL
    name: str = "point"
    _asked: set[Location] = field(default_factory=set)
    _failed: dict[Location, SourceError] = field(default_factory=dict)

    @property
    @override
    def dataset(self) -> Dataset:
        return self.request.dataset

    @override
    def fetch(self, month: Month, together: Collection[Month] = ()) -> RawMonth:
        """Cut the month out of the kept series, and request those that do not reach it."""
        self.dataset.require_months((month,))
        return self._raw_month(month, [self._fetch_slice(month, place) for place in self.request.points])

    def _fetch_slice(self, month: Month, place: Location) -> RawFile:
        files = self._files(place)
        lasts = f"up to {spoken(self.retry_settings.patience_hours * 3600)}, by ERA5_CDS_PATIENCE_HOURS"
        with locked_month(files.query.subject, files.lock, self.say, lasts):
            fetched, series = self._kept(files, place, month) or self._ask(files, place)
            content = _slice(month, fetched, series)
            if content is None:
                raise NotYetAvailableError(
                    f"{month} is not available yet: the latest hour of point {place} is "
                    f"{time_of(series.end_hour - 1):%Y-%m-%d %H:%M}",
                    remedy="Try again later: preliminary data (ERA5T) is published about five days after the fact.",
                )
            return self._written(month, files, content)

    def _kept(self, files: RequestFiles, place: Location, month: Month) -> tuple[Fetched, PointSeries] | None:
        """The kept series; None if it must be requested, because it is missing or incomplete for the month."""
        note = files.read_note()
        fetched = note.fetched
        if fetched is None or (self.refetch and place not in self._asked) or not files.obtain(fetched):
            return None
        try:
            series = self._query(place).read(self.folder / fetched.name)
        except BadFileError:
            return None  # damaged in the meantime
        asked_lately = datetime.now(tz=UTC) - datetime.fromisoformat(fetched.fetched_at) < _ASK_AGAIN_AFTER
        lacks_some = not series.reaches(month) or (fetched.short and is_young(month, fetched))
        if lacks_some and not asked_lately:
            return None
        files.share(note)
        return fetched, series

    def _ask(self, files: RequestFiles, place: Location) -> tuple[Fetched, PointSeries]:
        if (failed := self._failed.get(place)) is not None:
            raise type(failed)(failed.message, remedy=failed.remedy)
        again = self.refetch and place not in self._asked
        try:
            fetched = ServiceRequest(
                files, files.read_note(), refetch=again, retry_settings=self.retry_settings, say=self.say
            ).run()
        except SourceError as error:
            self._failed[place] = error
            raise
        self._asked.add(place)
        return fetched, self._query(place).read(self.folder / fetched.name)

    def _written(self, month: Month, files: RequestFiles, content: bytes) -> RawFile:
        """Write the slice to disk; slices of the month with other values are removed."""
        file = self._slice_file(month, files, content)
        if not file.path.is_file() or file.path.read_bytes() != content:
            # A lost slice can be cut out of the series again.
            with replacing(file.path, durable_bytes=REMADE_BYTES) as temporary:
                temporary.write_bytes(content)
        for other in self.folder.glob(f"{month}-{files.query.stem}-*.nc"):
            if other != file.path:
                other.unlink(missing_ok=True)
        return file

    def _slice_file(self, month: Month, files: RequestFiles, content: bytes) -> RawFile:
        sha256 = hashlib.sha256(content).hexdigest()
        return RawFile(self.folder / f"{month}-{files.query.stem}-{sha256[:12]}.nc", sha256, len(content))

    @override
    def known(self, month: Month) -> RawMonth | None:
        """The month as cut from the kept series."""
        if self.refetch:
            return None
        slices = []
        for place in self.request.points:
            files = self._files(place)
            kept = self._kept(files, place, month)
            content = None if kept is None else _slice(month, *kept)
            if content is None:
                return None
            slices.append(self._slice_file(month, files, content))
        return self._raw_month(month, slices)

    @override
    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        """Record whether the month was complete; else it is requested again, after half a day at the earliest."""
        if not is_complete:
            for place in self.request.points:
                files = self._files(place)
                note = files.read_note()
                if note.fetched is not None and not note.fetched.short and is_young(raw.month, note.fetched):
                    files.write_note(replace(note, fetched=replace(note.fetched, short=True)))

    @override
    def invalidate(self, raw: RawMonth) -> None:
        """Let the series be requested again."""
        del raw
        for place in self.request.points:
            files = self._files(place)
            files.keep(replace(files.read_note(), fetched=None))

    @property
    def folder(self) -> Path:
        """The folder of series and slices."""
        return self.home / "raw" / self.name

    def _files(self, place: Location) -> RequestFiles:
        return RequestFiles(self.folder, self._query(place), self.file_store)

    def _query(self, place: Location) -> SeriesQuery:
        return SeriesQuery(place, self._variables, datetime.now(tz=UTC).date(), self.home, self.dataset)

    @property
    def _variables(self) -> tuple[Variable, ...]:
        return offered_variables(self.request)

    def _raw_month(self, month: Month, files: list[RawFile]) -> RawMonth:
        left_out = [variable.column for variable in self.request.wanted if variable not in self._variables]
        return RawMonth(
            month=month,
            source=self.name,
            files=tuple(files),
            variables=tuple(variable.column for variable in self._variables),
            warnings=tuple(f"the dataset of point series does not have {column}: it is NULL" for column in left_out),
            points=points_text(self.request.points),
            dataset=self.request.dataset,
        )


def is_young(month: Month, fetched: Fetched) -> bool:
    """Return True if the month may have been preliminary when the series was fetched."""
    then = Month.of(datetime.fromisoformat(fetched.fetched_at))
    return month.number >= then.number - YOUNG_MONTHS


def _slice(month: Month, fetched: Fetched, series: PointSeries) -> bytes | None:
    return series.month_netcdf(month, preliminary=is_young(month, fetched))


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> PointSource:
    """Open the source described by the settings."""
    offered_variables(request)
    require_values(request)
    retries = RetrySettings(settings.cds_poll_seconds, settings.cds_retry_seconds, settings.cds_patience_hours)
    return PointSource(settings.files_home, request, settings.refetch, retries, say, FileStore.of(settings))
