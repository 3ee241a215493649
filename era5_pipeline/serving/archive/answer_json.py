"""An answer as JSON, in the order of keys that Open-Meteo writes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import orjson

from era5_pipeline.serving.archive.answer_times import days_as_json, hours_as_json, moments_as_json

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy.typing as npt

    from era5_pipeline.serving.answer_versions import AnswerOrigin
    from era5_pipeline.serving.archive.answer_times import AnswerZone, TimeFormat
    from era5_pipeline.serving.archive.archive_answer import AnswerColumn, AnswerSection, PointAnswer


def answer_as_json(
    answers: Sequence[PointAnswer],
    time_format: TimeFormat,
    milliseconds: float,
    origin: AnswerOrigin | None = None,
    day_rule: str | None = None,
) -> bytes:
    """One object for one point, a list for several; `milliseconds` are what the answer took to make.

    The keys that Open-Meteo does not know, which clients ignore, are the notice of generated data, which stands first,
    and `era5`: where the data come from, and what a day is, if there are days.
    """
    before = {"notice": origin.notice} if origin and origin.notice else {}
    after = {"era5": {**origin.facts, **({"day_rule": day_rule} if day_rule else {})}} if origin else {}
    parts = [{**before, **_object(answer, time_format, milliseconds), **after} for answer in answers]
    return orjson.dumps(parts[0] if len(parts) == 1 else parts, option=orjson.OPT_SERIALIZE_NUMPY)


def _object(answer: PointAnswer, time_format: TimeFormat, milliseconds: float) -> dict[str, Any]:
    point = answer.point
    found: dict[str, Any] = {
        "latitude": point.cell.location.latitude,
        "longitude": point.cell.location.longitude,
        "generationtime_ms": round(milliseconds, 3),
        "utc_offset_seconds": point.zone.offset_seconds,
        "timezone": point.zone.name,
        "timezone_abbreviation": point.zone.abbreviation,
    }
    if answer.elevation is not None:
        found["elevation"] = answer.elevation
    if point.number:
        found["location_id"] = point.number
    for section in answer.sections:
        units = {column.name: column.unit_in(time_format).name for column in section.columns}
        found[f"{section.kind}_units"] = {"time": time_format, **units}
        found[section.kind] = {
            "time": _times(answer, section, time_format),
            **{column.name: _values(column, point.zone, time_format) for column in section.columns},
        }
    if answer.missing_months:
        found["missing_months"] = answer.missing_months
    if answer.missing_hours:
        found["missing_hours"] = answer.missing_hours
    return found


def _times(answer: PointAnswer, section: AnswerSection, time_format: TimeFormat) -> orjson.Fragment:
    write = hours_as_json if section.kind == "hourly" else days_as_json
    return orjson.Fragment(write(answer.point.days, answer.point.zone, time_format))


def _values(
    column: AnswerColumn, zone: AnswerZone, time_format: TimeFormat
) -> npt.NDArray[Any] | list[int | None] | orjson.Fragment:
    """The values, for orjson: NaN is null; what has no decimals has no point, for readers of integers."""
    if column.is_time:
        return orjson.Fragment(moments_as_json(column.values, zone, time_format))
    values = column.rounded
    if column.unit.decimals:
        return values
    there = np.isfinite(values)
    if there.all():
        return values.astype(np.int32)
    return [int(value) if known else None for value, known in zip(values.tolist(), there.tolist(), strict=True)]
