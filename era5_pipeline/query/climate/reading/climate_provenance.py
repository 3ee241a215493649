"""What the numbers of an answer rest on: months, missing ones, versions and sources, by the ledger and the hours."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from era5_pipeline.model.derived_variables import stored_columns
from era5_pipeline.model.hours import from_datetime64, hours_in
from era5_pipeline.model.months import Month
from era5_pipeline.query.available import NO_LEDGER, describe_months
from era5_pipeline.query.climate.climate_answer import Provenance
from era5_pipeline.query.climate.daily_values import MERIDIONAL, PRECIPITATION, TEMPERATURE, ZONAL
from era5_pipeline.query.climate.reading.climate_hours import variable_of
from era5_pipeline.query.credit import read_credit, sample_notice
from era5_pipeline.query.gaps import Gaps, find_gaps, gap_lines
from era5_pipeline.query.series import Series
from era5_pipeline.runtime.sql_files import read_sql
from era5_pipeline.warehouse.ledger import multirange

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    import numpy.typing as npt
    import psycopg

    from era5_pipeline.model.data_version import Version
    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.query.climate.quantities import Element

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
    """What is known of these hours, which were read of the locations.

    `beside` are all hours of the answer, those that serve only the baseline included: generated ones are noticed.

    `start` and `end` are the period that was asked for (aware; None: from the start of the first month that the ledger
    knows, to the end of the last). A column without any value is not a gap: the answer has nothing of it.
    """
    first, last = (time.to_pydatetime().astimezone(UTC) for time in pd.DatetimeIndex(hours.index)[[0, -1]])
    columns = _columns(hours)
    parts = _parts(connection, locations, columns, Month.of(first), Month.of(last))
    months = {month for month, *_ in parts}
    if months:
        start, end = start or min(months).start, end or max(months).end
        # Local days begin in another month of UTC: of one that was never loaded, hours are no gap.
        if timedelta(0) < min(months).start - start < _DAY and not _held(connection, locations, Month.of(start)):
            start = min(months).start
        if timedelta(0) < end - max(months).end < _DAY and not _held(connection, locations, Month.of(end)):
            end = max(months).end
    there = hours.loc[:, hours.notna().any()]
    gaps = _gaps(there, start, end)
    absent = [variable_of(column).column for column in hours.columns if column not in there.columns]
    sources = Counter(source for _, source in {(month, source) for month, of_part, _, _ in parts for source in of_part})
    versions: Counter[Version] = Counter(version for _, version in {(month, version) for month, _, version, _ in parts})
    preliminary = _preliminary(parts, hours)
    unknown = _hours_of_unknown_version(parts, hours) / len(hours)
    share = len(preliminary) / len(hours) if unknown < 1.0 else None
    missing = gap_lines(gaps)
    lines = _version_lines(versions, share, unknown, parts)
    if absent:
        lines.append(f"no {', '.join(absent)} at this place: NULL in every row")
    return Provenance(
        months=len(months) or _count_months(hours),
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
        credit=read_credit(connection, first, last + timedelta(hours=1), locations, columns),
        gaps=tuple(missing),
        unknown_share=unknown,
        notice=sample_notice(_all_sources(connection, locations, sources, beside)),
    )


_DAY = timedelta(days=1)
_Part = tuple[Month, tuple[str, ...], "Version", "Mapping[str, list[str]]"]


def _parts(
    connection: psycopg.Connection[Any], locations: LocationSet, columns: Iterable[str], first: Month, last: Month
) -> list[_Part]:
    """Month, sources, version and runs of preliminary hours of the parts that have any of these locations.

    The sources are those of the columns.
    """
    parameters = {
        "location_ids": multirange(locations),
        "first": first.start.date(),
        "last": last.start.date(),
        "columns": list(columns),
    }
    try:
        rows = connection.execute(read_sql("place_versions"), parameters).fetchall()
    except NO_LEDGER:
        return []
    return [(Month(day.year, day.month), tuple(sources), version, runs) for day, sources, version, runs in rows]


def _held(connection: psycopg.Connection[Any], locations: LocationSet, month: Month) -> bool:
    """Whether the ledger has the month at any of these locations."""
    return bool(_parts(connection, locations, (), month, month))


def _columns(hours: pd.DataFrame) -> set[str]:
    """The columns of the table that hours were read from."""
    return set(stored_columns(hours.columns))


def _preliminary(parts: list[_Part], hours: pd.DataFrame) -> set[int]:
    """The hours read that are preliminary in any of the columns read."""
    columns = _columns(hours)
    found: set[int] = set()
    for _, _, _, runs in parts:
        for column in columns & runs.keys():
            found |= hours_in(runs[column])
    if not found:
        return found
    return found & set(from_datetime64(_times(hours)).tolist())


def _hours_of_unknown_version(parts: list[_Part], hours: pd.DataFrame) -> int:
    """How many of the hours are of months with a part that states no version, or of months that no ledger knows."""
    months, counts = np.unique(_times(hours).astype("datetime64[M]"), return_counts=True)
    stated = {month for month, *_ in parts} - {month for month, _, version, _ in parts if version == "unknown"}
    return sum(
        int(count)
        for month, count in zip(months.tolist(), counts, strict=True)
        if Month(month.year, month.month) not in stated
    )


def _all_sources(
    connection: psycopg.Connection[Any], locations: LocationSet, sources: Iterable[str], beside: pd.DataFrame | None
) -> set[str]:
    """These sources, and those of the hours beside."""
    if beside is None:
        return set(sources)
    first, last = (time.to_pydatetime().astimezone(UTC) for time in pd.DatetimeIndex(beside.index)[[0, -1]])
    parts = _parts(connection, locations, _columns(beside), Month.of(first), Month.of(last))
    return {*sources, *(source for _, of_part, *_ in parts for source in of_part)}


def _count_months(hours: pd.DataFrame) -> int:
    """In how many months there is an hour."""
    of_hours = _times(hours).astype("datetime64[M]").astype(np.int64)
    return int(np.count_nonzero(np.diff(of_hours))) + 1


def _times(hours: pd.DataFrame) -> npt.NDArray[np.datetime64]:
    """The times of hours, in UTC."""
    return pd.DatetimeIndex(hours.index).tz_convert(None).to_numpy().astype("datetime64[s]")


def _gaps(hours: pd.DataFrame, start: datetime | None, end: datetime | None) -> dict[str, Gaps]:
    """What each column lacks of the period."""
    columns = {variable_of(column): hours[column].to_numpy(dtype="float32") for column in hours.columns}
    series = Series(_times(hours), {variable.column: values for variable, values in columns.items()})
    return find_gaps(series, columns, start, end)


def _by_element(of_columns: Mapping[str, tuple[Any, ...]]) -> dict[Element, tuple[Any, ...]]:
    """What any column of an element lacks, ascending; only elements that lack something."""
    found: dict[Element, set[Any]] = {}
    for column, missing in of_columns.items():
        if missing:
            found.setdefault(_ELEMENT_OF[column], set()).update(missing)
    return {element: tuple(sorted(missing)) for element, missing in found.items()}


def _version_lines(
    versions: Mapping[Version, int], share: float | None, unknown: float, parts: list[_Part]
) -> list[str]:
    lines = []
    if share:
        months = sorted({month for month, _, version, _ in parts if version in ("preliminary", "mixed")})
        lines.append(
            f"{share * 100:.2f} % of the hours are preliminary (ERA5T), in {describe_months(months)}: they may change"
        )
    if versions.get("unknown"):
        lines.append(
            f"version unknown for {unknown * 100:.2f} % of the hours: the files of {versions['unknown']:,} months do "
            "not say whether they are final"
        )
    return lines
