"""All hours of one location as a table of pandas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from era5_pipeline.model.grid import location_of
from era5_pipeline.query.series import read_series

if TYPE_CHECKING:
    from datetime import datetime

    import pandas as pd
    import psycopg

    from era5_pipeline.model.variables import Variable


def read_place_hours(
    connection: psycopg.Connection[Any],
    location_id: int,
    columns: tuple[Variable, ...],
    start: datetime | None,
    end: datetime | None,
) -> pd.DataFrame:
    """The hours of a location with `start <= time < end` (aware; None: unlimited), as `read_series` reads them.

    The index `time` is in UTC and ascends, to the second. A column for each variable, named as in the table and in its
    unit, float32; NULL is NaN. Hours without a row are left out.

    Raises:
        NoDataError: if there are none; it names what the table holds of the place, or the nearest one. Or if the table
            has no such column.
    """
    import pandas as pd  # noqa: PLC0415  # takes half a second, which a plot or a list of hours does without

    series = read_series(connection, location_of(location_id), columns, start, end)
    index = pd.DatetimeIndex(series.times, tz="UTC", name="time")
    return pd.DataFrame(dict(series.values), index=index, copy=False)
