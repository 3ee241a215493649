"""Any map: a question to a field, what is missing, and words."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.query.maps.day_maps import read_day_map
from era5_pipeline.query.maps.field_map import FieldMap
from era5_pipeline.query.maps.map_question import AnomalyQuestion, DayQuestion, HourQuestion, PartQuestion
from era5_pipeline.query.maps.map_reading import MapReading
from era5_pipeline.query.maps.part_maps import read_anomaly_map, read_part_map
from era5_pipeline.query.maps.scattered_places import main_part
from era5_pipeline.query.maps.trend_maps import read_trend_map
from era5_pipeline.query.snapshots import lines_of_absent, read_snapshot

if TYPE_CHECKING:
    import psycopg

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.maps.map_question import MapQuestion


def read_map(
    connection: psycopg.Connection[Any], question: MapQuestion, variable: Variable, area: Area | None = None
) -> MapReading:
    """Read what a map shows, in `area` or at all locations of the table. The connection is in autocommit mode.

    Without an area, of locations far apart the map shows the part with the most of them, and says so.

    Raises:
        NoDataError: if there is nothing to draw; it says what the table holds instead.
    """
    reading = _read(connection, question, variable, area)
    field = reading.field
    part = None if area else main_part(field.latitudes, field.longitudes, np.isfinite(field.values))
    if part is None:
        return reading
    shown = replace(
        field,
        latitudes=field.latitudes[part.rows],
        longitudes=field.longitudes[part.columns],
        values=field.values[part.rows, part.columns],
        stippled=None if field.stippled is None else field.stippled[part.rows, part.columns],
    )
    return replace(reading, field=shown, left_out=part.line)


def _read(
    connection: psycopg.Connection[Any], question: MapQuestion, variable: Variable, area: Area | None
) -> MapReading:
    match question:
        case HourQuestion():
            return _read_hour_map(connection, question, variable, area)
        case DayQuestion():
            return read_day_map(connection, question, variable, area)
        case PartQuestion():
            return read_part_map(connection, question, variable, area)
        case AnomalyQuestion():
            return read_anomaly_map(connection, question, variable, area)
        case _:
            return read_trend_map(connection, question, variable, area)


def _read_hour_map(
    connection: psycopg.Connection[Any], question: HourQuestion, variable: Variable, area: Area | None
) -> MapReading:
    hour = question.time
    snapshot = read_snapshot(connection, hour, variable, area)
    return MapReading(
        field=FieldMap.of_snapshot(snapshot),
        absent=tuple(lines_of_absent(connection, snapshot, area)),
        remarks=(),
        start=hour,
        end=hour + timedelta(hours=1),
        summary=f"at {hour:%Y-%m-%d %H:%M} UTC",
        table_unit=variable.unit,
    )
