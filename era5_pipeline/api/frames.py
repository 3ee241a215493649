"""Answers as pandas tables: the hours of a place, and the months in the table."""

from __future__ import annotations

import inspect
import os
import warnings
from datetime import timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from era5_pipeline.climate.trends import describe_years
from era5_pipeline.model.cells import last_full_year, standard_offset
from era5_pipeline.model.cf_names import cf_attributes
from era5_pipeline.model.times import as_datetime64
from era5_pipeline.read.series import read_series_answer
from era5_pipeline.warehouse.ledger import read_ledger

if TYPE_CHECKING:
    from collections.abc import Hashable
    from datetime import datetime

    import pandas as pd
    import psycopg

    from era5_pipeline.model.places import AskedPlace
    from era5_pipeline.model.variables import Variable

_PACKAGE = str(Path(__file__).parents[1]) + os.sep


class MissingDataWarning(UserWarning):
    """Hours or months of an answer are missing: they are NaN, and named in its `attrs`."""


def warn_of_missing(what: str, lines: list[str]) -> None:
    """Warn that an answer is incomplete; the warning points to the line of the user's code that asked."""
    if not lines:
        return
    level, frame = 1, inspect.currentframe()
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        level, frame = level + 1, frame.f_back
    warnings.warn(MissingDataWarning(f"{what}: {'; '.join(lines)}"), stacklevel=level)


_HOUR = timedelta(hours=1)


def read_series_frame(
    connection: psycopg.Connection[Any],
    asked: AskedPlace,
    columns: tuple[Variable, ...] | None,
    start: datetime | None,
    end: datetime | None,
    *,
    local_time: bool,
) -> pd.DataFrame:
    """Read the hours with `start <= time < end` (aware; None: unlimited), as documented in `Database.series`."""
    import pandas as pd  # noqa: PLC0415  # takes half a second; `import era5_pipeline` does not need it

    answer = read_series_answer(connection, asked, columns, start, end)
    held, index = (
        pd.DatetimeIndex(times.astype("datetime64[s]"), tz="UTC", name="time")
        for times in (answer.rows.times, as_datetime64(answer.hours))
    )
    values = {variable.column: answer.rows.values[variable.column] for variable in answer.variables}
    frame = pd.DataFrame(values, index=held, copy=False)
    if held.size != index.size:
        frame = frame.reindex(index)
    of_columns = {variable.column: cf_attributes(variable) for variable in answer.variables}
    frame.attrs["units"] = {column: attributes["units"] for column, attributes in of_columns.items()}
    frame.attrs["long_names"] = {column: attributes["long_name"] for column, attributes in of_columns.items()}
    frame.attrs.update({**answer.facts, "place": answer.place.name})
    if local_time:
        frame = _local(frame, asked.time_zone)
    warn_of_missing(asked.description, [*answer.lines, *([answer.left_out] if answer.left_out else [])])
    return frame


def _local(frame: pd.DataFrame, zone: str) -> pd.DataFrame:
    """The same hours with the standard offset of the zone in the last full year of the hours, as in `era5 climate`."""
    import pandas as pd  # noqa: PLC0415

    index = pd.DatetimeIndex(frame.index)
    first, last = index[0], index[-1]
    offset = standard_offset(zone, first.year, last_full_year(first.year, last + _HOUR))
    local = frame.set_axis(index.tz_convert(timezone(timedelta(minutes=offset.minutes))).rename("time"))
    attributes: dict[Hashable, Any] = dict(frame.attrs)
    local.attrs = attributes | {
        "time_zone": zone,
        "utc_offset_minutes": offset.minutes,
        "years_with_another_offset": describe_years(offset.other_years, " to "),
    }
    return local


def read_months_frame(connection: psycopg.Connection[Any]) -> pd.DataFrame:
    """Read a row for each month, as documented in `Database.months`."""
    import pandas as pd  # noqa: PLC0415  # takes half a second; `import era5_pipeline` does not need it

    held = read_ledger(connection)
    rows = {
        "state": pd.array([one.state for one in held], dtype="str"),
        "locations": pd.array([one.locations for one in held], dtype="int64"),
        "hours": pd.array([one.hours for one in held], dtype="int64"),
        "hours_expected": pd.array([one.month.hours for one in held], dtype="int64"),
        "rows": pd.array([one.rows for one in held], dtype="int64"),
        "columns": pd.array([",".join(one.column_names) for one in held], dtype="str"),
        "source": pd.array([",".join(one.sources) for one in held], dtype="str"),
        "version": pd.array([one.version or "" for one in held], dtype="str"),
        "loaded_at": pd.Series([one.loaded_at for one in held], dtype="datetime64[us, UTC]").array,
    }
    return pd.DataFrame(rows, index=pd.PeriodIndex([str(one.month) for one in held], freq="M", name="month"))
