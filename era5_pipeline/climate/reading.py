"""The climate answer of a place or an area: read its hours and the ledger, and compute the answer."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, date, datetime, time, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from psycopg import sql

from era5_pipeline.climate.anomalies import baseline_of, monthly_anomalies, yearly_anomalies
from era5_pipeline.climate.answer import ClimateAnswer, DayRule, Provenance, Trend, quantities_of
from era5_pipeline.climate.days import (
    MERIDIONAL,
    PRECIPITATION,
    TEMPERATURE,
    WIND_SPEED,
    ZONAL,
    daily_values,
    hours_by_day,
)
from era5_pipeline.climate.trends import describe_years, trends_of
from era5_pipeline.climate.words import notes_of, sentence_of
from era5_pipeline.climate.years import monthly_values, records_of, seasonal_cycle, yearly_values
from era5_pipeline.model.cells import last_full_year, standard_offset
from era5_pipeline.model.dataset import ERA5, load_command
from era5_pipeline.model.derived_variables import stored_columns
from era5_pipeline.model.errors import NoDataError
from era5_pipeline.model.land_mask import has_values_at
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.months import Month
from era5_pipeline.model.times import from_datetime64
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.credit import origin_of, sample_notice
from era5_pipeline.read.fetch import fetch_array, nothing_loaded
from era5_pipeline.read.fields import Series
from era5_pipeline.read.held import (
    NO_LEDGER,
    describe_months,
    locations_at,
    months_held,
    part_versions,
    places_held,
    some_row,
)
from era5_pipeline.read.hours import read_place_hours
from era5_pipeline.read.missing import Gaps, explain_absence, find_gaps, gap_lines, how_to_load, nothing_in_area
from era5_pipeline.runtime.project_files import read_sql
from era5_pipeline.warehouse.layouts.layout import locations_where
from era5_pipeline.warehouse.layouts.variable_columns import variables_in_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.climate.answer import ClimatePlace, Element, YearSpan
    from era5_pipeline.climate.question import ClimateQuestion, DayChoice, Period
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Area, Grid, Location
    from era5_pipeline.model.source_kinds import Version
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.read.held import PartVersion

    Connection = psycopg.Connection[Any]


def make_answer(
    hours: pd.DataFrame,
    place: ClimatePlace,
    rule: DayRule,
    baseline_years: YearSpan,
    provenance: Provenance,
    *,
    first_day: date | None = None,
    last_day: date | None = None,
    dataset: Dataset = ERA5,
) -> ClimateAnswer | None:
    """The answer for the days from `first_day` to `last_day` (None: no limit); None without a whole day.

    `hours` is as for `hours_by_day`; hours outside these days serve only the baseline.
    """
    every = hours_by_day(hours, rule.offset_minutes)
    days = every.within(first_day, last_day)
    daily = daily_values(days)
    if daily.empty:
        return None
    yearly, monthly = yearly_values(days, daily), monthly_values(days)
    is_part = len(days.dates) < len(every.dates)
    every_year = yearly_values(every, daily_values(every)) if is_part else yearly
    every_month = monthly_values(every) if is_part else monthly
    main = "temperature" if "temperature" in days.values else days.elements[0]
    baseline = baseline_of(baseline_years, _complete(every_year, main))
    if "temperature" in days.values:
        yearly["temperature_anomaly"] = yearly_anomalies(yearly, every_year, baseline)
        monthly["temperature_anomaly"] = monthly_anomalies(monthly, every_month, baseline)
    quantities = quantities_of(days.elements)
    trends = trends_of(yearly, quantities)
    headline = next((found.whole for found in trends if found.quantity.name == "mean_temperature"), None)
    first, last = _ends(hours, rule.offset_minutes, days.dates)
    return ClimateAnswer(
        place=place,
        days=rule,
        first=first,
        last=last,
        baseline=baseline,
        elements=days.elements,
        quantities=quantities,
        yearly=yearly,
        monthly=monthly,
        daily=daily,
        seasons=seasonal_cycle(every_month, baseline, _complete(yearly, main)),
        trends=trends,
        records=tuple(records_of(days, daily, monthly, yearly)),
        provenance=provenance,
        sentence=sentence_of(place, trends, days.elements, provenance.notice),
        is_significant=headline.is_significant if isinstance(headline, Trend) and not provenance.notice else None,
        notes=notes_of(yearly, baseline, rule, days.elements),
        dataset=dataset,
    )


def _complete(yearly: pd.DataFrame, element: str) -> list[int]:
    """The complete years of an element."""
    if f"{element}_complete" not in yearly:
        return []
    years: list[int] = yearly.index[yearly[f"{element}_complete"]].tolist()
    return years


def _ends(hours: pd.DataFrame, offset_minutes: int, dates: pd.DatetimeIndex) -> tuple[datetime, datetime]:
    """The first and the last instant within these days, aware, in UTC."""
    index = pd.DatetimeIndex(hours.index)
    offset = pd.Timedelta(minutes=offset_minutes)
    begin = dates[0].tz_localize("UTC") - offset
    end = dates[-1].tz_localize("UTC") + pd.Timedelta(days=1) - offset
    within = index[(index >= begin) & (index < end)]
    return within[0].to_pydatetime().astimezone(UTC), within[-1].to_pydatetime().astimezone(UTC)


# --- The hours behind a climate answer: those of a cell, or the weighted means of an area ---
#
# Nothing else in this package reads hours from the table.


_WANTED = (TEMPERATURE, PRECIPITATION, ZONAL, MERIDIONAL)


def columns_for_climate(connection: Connection) -> tuple[Variable, ...]:
    """The variables that answers use, of those with a column in the table."""
    there, dataset = variables_in_table(connection), dataset_of(connection)
    if not there:
        raise nothing_loaded(dataset)
    found = tuple(variable for variable in there if variable.column in _WANTED)
    if not {TEMPERATURE, PRECIPITATION} & {variable.column for variable in found}:
        raise NoDataError(
            f"the table has neither {TEMPERATURE} nor {PRECIPITATION}: no month was loaded with them",
            remedy=f"Load months with them: {load_command(dataset)} --from YYYY-MM --variables t2m,tp,u10,v10.",
        )
    return found


def hours_of_cell(
    connection: Connection, location: Location, start: datetime | None, end: datetime | None
) -> pd.DataFrame:
    """Read the hours of a location with `start <= time < end` (aware; None: unlimited), for `hours_by_day`."""
    return read_place_hours(connection, location, columns_for_climate(connection), start, end)


def locations_of_area(connection: Connection, area: Area) -> LocationSet:
    """The locations of an area that most months have, so that all hours are means of the same locations."""
    asked = LocationSet.of_area(area)
    try:
        rows = connection.execute(
            read_sql("area_locations", dataset_of(connection)), {"location_ids": asked.multirange}
        ).fetchall()
    except NO_LEDGER:
        rows = []
    sets = [(months, LocationSet.of_ranges(runs, area.grid)) for runs, months in rows]
    if sets:
        return max(sets, key=lambda one: (one[0], len(one[1])))[1]
    held = places_held(connection)
    if not held:
        time, _ = some_row(connection)
        found = LocationSet.of_ids(locations_at(connection, time, "latitude", area)["location_id"], area.grid)
        if found:
            return found
    raise nothing_in_area(connection, area, held)


def hours_of_area(
    connection: Connection, locations: LocationSet, start: datetime | None, end: datetime | None
) -> pd.DataFrame:
    """Read the mean of each hour over locations, weighted by the area of their cells, in the form of `hours_of_cell`.

    Wind is the mean of the speeds. An hour without a value at any one of the locations is NaN: a mean over fewer of
    them would jump. The server computes the means, in one statement.
    """
    there = {variable.column for variable in columns_for_climate(connection)}
    means = {column: sql.Identifier(column) for column in (TEMPERATURE, PRECIPITATION) if column in there}
    expressions: dict[str, sql.Composable] = dict(means)
    if {ZONAL, MERIDIONAL} <= there:
        expressions[WIND_SPEED] = sql.SQL("sqrt({0}::double precision ^ 2 + {1}::double precision ^ 2)").format(
            sql.Identifier(ZONAL), sql.Identifier(MERIDIONAL)
        )
    grid = locations.grid
    rows = np.unique((locations.ids() - 1) // grid.columns)
    query = sql.SQL(read_sql("area_hours", dataset_of(connection))).format(
        columns=sql.SQL(", ").join(
            sql.SQL(
                "coalesce(CASE WHEN count({0}) = %(points)s THEN sum({0} * weight) / sum(weight) END, 'NaN')"
            ).format(expression)
            for expression in expressions.values()
        ),
        locations=locations_where(locations),
    )
    parameters = {
        "latitudes": grid.latitudes_of(rows).astype(np.float64).tolist(),
        "weights": cell_weights(rows, grid).tolist(),
        "points": len(locations),
        "start": start,
        "end": end,
    }
    dtype = np.dtype([("time", "i8"), *((name, "f8") for name in expressions)])
    with connection.transaction():
        # Compiling the expressions of a thousand partitions takes longer than the query.
        connection.execute("SET LOCAL jit = off")
        found = fetch_array(connection, query, parameters, dtype)
    index = pd.DatetimeIndex(found["time"].astype("datetime64[s]"), tz="UTC", name="time")
    return pd.DataFrame({name: found[name] for name in expressions}, index=index)


def cell_weights(rows: npt.NDArray[np.integer[Any]], grid: Grid) -> npt.NDArray[np.float64]:
    """The areas of cells on these rows of the grid (latitude indices), relative to one at the equator.

    They are the cosine of latitude, except at the poles, where a cell is a cap of half the height.
    """
    latitudes, half = grid.latitudes_of(rows).astype(np.float64), grid.step_degrees / 2
    north = np.sin(np.deg2rad(np.minimum(latitudes + half, 90.0)))
    south = np.sin(np.deg2rad(np.maximum(latitudes - half, -90.0)))
    weights: npt.NDArray[np.float64] = (north - south) / (2 * np.sin(np.deg2rad(half)))
    return weights


def variable_of(column: str) -> Variable:
    """The variable whose gaps stand for those of a column of hours: for wind speed, one of its components."""
    return BY_COLUMN[ZONAL if column == WIND_SPEED else column]


# --- The data behind the numbers: months, missing ones, versions and sources, from the ledger and the hours ---


_ELEMENT_OF: dict[str, Element] = {
    TEMPERATURE: "temperature",
    PRECIPITATION: "precipitation",
    ZONAL: "wind",
    MERIDIONAL: "wind",
}


def read_provenance(
    connection: psycopg.Connection[Any],
    locations: LocationSet,
    hours: pd.DataFrame,
    start: datetime | None,
    end: datetime | None,
    *,
    beside: pd.DataFrame | None = None,
) -> Provenance:
    """Read the origin of these hours of the locations.

    `beside` are all hours of the answer, including those only for the baseline: generated ones are noted.

    `start` and `end` are the requested period (aware; None: from the first month that the ledger knows, to the end of
    the last). A column without any value is not a gap: the answer does not cover it.
    """
    first, last = (time.to_pydatetime().astimezone(UTC) for time in pd.DatetimeIndex(hours.index)[[0, -1]])
    columns = stored_columns(hours.columns)
    parts = part_versions(connection, locations, columns, Month.of(first), Month.of(last))
    months = {part.month for part in parts}
    if months:
        start, end = start or min(months).start, end or max(months).end
        # Local days may begin in the UTC month before: if that was never loaded, its hours are no gap.
        if timedelta(0) < min(months).start - start < _DAY and not _held(connection, locations, Month.of(start)):
            start = min(months).start
        if timedelta(0) < end - max(months).end < _DAY and not _held(connection, locations, Month.of(end)):
            end = max(months).end
    there = hours.loc[:, hours.notna().any()]
    gaps = _gaps(there, start, end)
    absent = [variable_of(column).column for column in hours.columns if column not in there.columns]
    sources = Counter(source for _, source in {(part.month, source) for part in parts for source in part.sources})
    versions: Counter[Version] = Counter(version for _, version in {(part.month, part.version) for part in parts})
    preliminary = _preliminary(parts, hours)
    unknown = _hours_of_unknown_version(parts, hours) / len(hours)
    is_known = unknown < 1.0 and versions.keys() != {"generated"}
    share = len(preliminary) / len(hours) if is_known else None
    missing = gap_lines(gaps)
    dataset = dataset_of(connection)
    lines = _version_lines(dataset, versions, share, unknown, parts)
    if absent:
        lines.append(f"no {', '.join(absent)} at this place: NULL in every row")
    return Provenance(
        months=len(months) or len(np.unique(_times(hours).astype("datetime64[M]"))),
        hours=len(hours),
        missing_months=_by_element({column: one.months for column, one in gaps.items()}),
        missing_hours={
            element: len(missing)
            for element, missing in _by_element({column: one.hours for column, one in gaps.items()}).items()
        },
        preliminary_share=share,
        versions=dict(versions),
        sources=dict(sources),
        lines=(*lines, *missing),
        credit=origin_of(parts, first, last + timedelta(hours=1), dataset).credit,
        gaps=tuple(missing),
        unknown_share=unknown,
        notice=sample_notice(_all_sources(connection, locations, sources, beside)),
        preliminary_title=dataset.preliminary_title,
    )


_DAY = timedelta(days=1)


def _held(connection: psycopg.Connection[Any], locations: LocationSet, month: Month) -> bool:
    """Return whether the month is loaded, by the ledger, for at least one of these locations."""
    return bool(part_versions(connection, locations, (), month, month))


def _preliminary(parts: Iterable[PartVersion], hours: pd.DataFrame) -> set[int]:
    """The hours that are preliminary in any of the columns read."""
    found = frozenset[int]().union(*(part.preliminary for part in parts))
    return set(found).intersection(from_datetime64(_times(hours)).tolist()) if found else set()


def _hours_of_unknown_version(parts: Iterable[PartVersion], hours: pd.DataFrame) -> int:
    """Count the hours in months that the ledger does not know, or with a part that states no version."""
    months, counts = np.unique(_times(hours).astype("datetime64[M]"), return_counts=True)
    stated = {part.month for part in parts} - {part.month for part in parts if part.version == "unknown"}
    return sum(
        int(count)
        for month, count in zip(months.tolist(), counts, strict=True)
        if Month(month.year, month.month) not in stated
    )


def _all_sources(
    connection: psycopg.Connection[Any], locations: LocationSet, sources: Iterable[str], beside: pd.DataFrame | None
) -> set[str]:
    """These sources, and those of the hours `beside`."""
    if beside is None:
        return set(sources)
    first, last = (time.to_pydatetime().astimezone(UTC) for time in pd.DatetimeIndex(beside.index)[[0, -1]])
    parts = part_versions(connection, locations, beside.columns, Month.of(first), Month.of(last))
    return {*sources, *(source for part in parts for source in part.sources)}


def _times(hours: pd.DataFrame) -> npt.NDArray[np.datetime64]:
    """The times of hours, in UTC."""
    return pd.DatetimeIndex(hours.index).tz_convert(None).to_numpy().astype("datetime64[s]")


def _gaps(hours: pd.DataFrame, start: datetime | None, end: datetime | None) -> dict[str, Gaps]:
    """The gaps of each column in the period."""
    columns = {variable_of(column): hours[column].to_numpy(dtype="float32") for column in hours.columns}
    series = Series(_times(hours), {variable.column: values for variable, values in columns.items()})
    return find_gaps(series, columns, start, end)


def _by_element(of_columns: Mapping[str, tuple[Any, ...]]) -> dict[Element, tuple[Any, ...]]:
    """The gaps of all columns of an element together, ascending; only for elements with gaps."""
    found: dict[Element, set[Any]] = {}
    for column, missing in of_columns.items():
        if missing:
            found.setdefault(_ELEMENT_OF[column], set()).update(missing)
    return {element: tuple(sorted(missing)) for element, missing in found.items()}


def _version_lines(
    dataset: Dataset, versions: Mapping[Version, int], share: float | None, unknown: float, parts: Iterable[PartVersion]
) -> list[str]:
    lines = []
    if share:
        months = sorted({part.month for part in parts if part.version in ("preliminary", "mixed")})
        lines.append(
            f"{share * 100:.2f} % of the hours are preliminary ({dataset.preliminary_title}), in "
            f"{describe_months(months)}: they may change"
        )
    if by_age := versions.get("final by age"):
        lines.append(f"final by age alone for {by_age:,} months: their store states no version")
    if versions.get("unknown"):
        lines.append(
            f"version unknown for {unknown * 100:.2f} % of the hours: the files of {versions['unknown']:,} months do "
            "not say whether they are final"
        )
    return lines


def read_climate(connection: Connection, question: ClimateQuestion) -> ClimateAnswer:
    """Answer how the weather of a place has changed.

    The baseline's years are read even if outside the period. The connection is in autocommit mode.
    """
    place, period, baseline = question.place, question.period, question.baseline
    if place.area is not None:
        locations = locations_of_area(connection, place.area)
        place = replace(place, locations=locations)
    elif place.location is not None:
        locations = LocationSet.of_location(place.location)
    else:
        raise ValueError("neither a location nor an area")
    _require_months(connection, place, locations, period)
    start, end = _to_read(period, baseline)
    if place.location is None:
        hours = hours_of_area(connection, locations, start, end)
    else:
        try:
            hours = hours_of_cell(connection, place.location, start, end)
        except NoDataError as error:
            if not has_values_at(dataset_of(connection), place.location):
                raise
            raise type(error)(error.message, remedy=_how_to_load(connection, place)) from None
    asked = within_period(hours, period, timedelta(0))
    if asked.empty:
        raise _no_whole_day(connection, place, locations, period)
    rule = _rule(question.days, asked)
    offset = timedelta(minutes=rule.offset_minutes)
    asked = within_period(hours, period, offset)
    asked = asked if len(asked) else hours
    beside = hours if len(asked) < len(hours) else None
    provenance = read_provenance(connection, locations, asked, *_bounds(period, offset), beside=beside)
    answer = make_answer(
        *(hours, place, rule, baseline, provenance),
        first_day=period.first,
        last_day=period.last,
        dataset=dataset_of(connection),
    )
    if answer is None:
        raise _no_whole_day(connection, place, locations, period)
    return answer


def within_period(hours: pd.DataFrame, period: Period, offset: timedelta) -> pd.DataFrame:
    """The hours whose local day is within the period."""
    start, end = _bounds(period, offset)
    index = pd.DatetimeIndex(hours.index)
    first = int(index.searchsorted(pd.Timestamp(start))) if start else 0
    after = int(index.searchsorted(pd.Timestamp(end))) if end else len(index)
    return hours.iloc[first:after]


def _bounds(period: Period, offset: timedelta) -> tuple[datetime | None, datetime | None]:
    """The first instant of the period, and the first one after it, for days at this offset."""
    start = datetime.combine(period.first, time(), UTC) - offset if period.first else None
    end = datetime.combine(period.last + _DAY, time(), UTC) - offset if period.last else None
    return start, end


def _to_read(period: Period, baseline: YearSpan) -> tuple[datetime | None, datetime | None]:
    """The hours to read for period and baseline: a day more at each end for the offset, and two for totals."""
    start = end = None
    if period.first:
        start = datetime.combine(min(period.first, date(baseline.first, 1, 1)), time(), UTC) - _DAY
    if period.last:
        end = datetime.combine(max(period.last, date(baseline.last, 12, 31)), time(), UTC) + 2 * _DAY + _DAY
    return start, end


def _rule(choice: DayChoice, hours: pd.DataFrame) -> DayRule:
    """The offset of the days, with warnings; for a zone, its offset in the last full year of the hours."""
    minutes, zone = choice.offset_minutes, choice.zone
    others: tuple[int, ...] = ()
    first, last = (stamp.to_pydatetime() for stamp in pd.DatetimeIndex(hours.index)[[0, -1]])
    if zone is not None:
        standard = standard_offset(zone, first.year, last_full_year(first.year, last + timedelta(hours=1)))
        minutes, others = standard.minutes, standard.other_years
    rule = DayRule(minutes, zone)
    warnings = []
    if others:
        warnings.append(
            f"The standard time of {zone} was different in {describe_years(others)}: the days of these years are "
            f"cut at {rule.offset_name} like all others."
        )
    if minutes % 60:
        warnings.append(
            f"{rule.offset_name} is not a whole number of hours: the total of an hour that spans midnight counts "
            "towards the day in which the hour begins."
        )
    return replace(rule, warnings=tuple(warnings))


def _require_months(connection: Connection, place: ClimatePlace, locations: LocationSet, period: Period) -> None:
    """Require that the table has a month of the period, if a ledger knows the place."""
    months = tuple(months_held(connection, locations))
    start, end = _bounds(period, timedelta(0))
    if not months or any(
        (start is None or month.end > start) and (end is None or month.start < end) for month in months
    ):
        return
    why = explain_absence(months, start, end, dataset_of(connection))
    raise NoDataError(
        f"{place.title}: the table has no hour in the period; {why.instead}", remedy=_how_to_load(connection, place)
    )


def _no_whole_day(connection: Connection, place: ClimatePlace, locations: LocationSet, period: Period) -> NoDataError:
    months = tuple(months_held(connection, locations))
    instead = f"; it holds hours of {describe_months(months)}" if months else ""
    return NoDataError(
        f"{place.title}: the table has no day in the period with all its hours{instead}",
        remedy=_how_to_load(connection, place),
    )


def _how_to_load(connection: Connection, place: ClimatePlace) -> str:
    dataset = dataset_of(connection)
    if place.area is not None:
        load = load_command(dataset)
        return f"Load its months: {load} --from {dataset.first_month} --to YYYY-MM --area {place.area}."
    assert place.location is not None  # noqa: S101
    is_nearest = place.asked is not None and place.location.grid.nearest_location(*place.asked) == place.location
    return how_to_load(place.location, place.name if is_nearest else None, dataset)
