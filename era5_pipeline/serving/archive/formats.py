"""An answer as JSON, CSV and FlatBuffers, as Open-Meteo writes them; and its description for OpenAPI."""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING, Any

import flatbuffers
import numpy as np
import orjson

from era5_pipeline.serving.archive.names import variable_fields
from era5_pipeline.serving.archive.times import GMT, SECONDS, moments_as_json, texts_of, times_as_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import numpy.typing as npt

    from era5_pipeline.serving.answers import AnswerOrigin
    from era5_pipeline.serving.archive.answer import AnswerColumn, AnswerSection, PointAnswer
    from era5_pipeline.serving.archive.parameters import LocationInformation
    from era5_pipeline.serving.archive.times import AnswerZone, TimeFormat

# --- CSV in Open-Meteo's form: points, hours, days, each with a header, separated by blank lines ---
#
# With several points every line begins with the point's number. A missing value is NaN.


_LINES_AT_ONCE = 8_192
_POINT = "latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation"


def answer_as_csv(
    answers: Sequence[PointAnswer], time_format: TimeFormat, information: LocationInformation = "section"
) -> bytes:
    """The text, in UTF-8; with `information` omit, without the lines of the points."""
    several = len(answers) > 1
    parts: list[str | bytes] = []
    if information == "section":
        parts.append(_numbered("location_id", _POINT, several=several))
        for answer in answers:
            where, zone = answer.point.cell.location, answer.point.zone
            elevation = "NaN" if answer.elevation is None else answer.elevation
            of_zone = f"{zone.offset_seconds},{zone.name},{zone.abbreviation}"
            line = f"{where.latitude},{where.longitude},{elevation},{of_zone}"
            parts.append(_numbered(answer.point.number, line, several=several))
    for kind in ("hourly", "daily"):
        sections = [(answer, section) for answer in answers for section in answer.sections if section.kind == kind]
        if sections:
            parts.append("\n" if parts else "")
            named = (f"{column.name} ({column.unit_in(time_format).name})" for column in sections[0][1].columns)
            parts.append(_numbered("location_id", ",".join(["time", *named]), several=several))
        for answer, section in sections:
            parts += _blocks(answer, section, time_format, several=several)
    return b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)


def csv_name(answers: Sequence[PointAnswer], *, is_generated: bool = False) -> str:
    """The file name: `era5-52.50N13.50E.csv`, for the first point; for generated data `sample-...`."""
    where, name = answers[0].point.cell.location, answers[0].point.model.dataset.name
    north, east = ("N" if where.latitude >= 0 else "S"), ("E" if where.longitude >= 0 else "W")
    return f"{'sample' if is_generated else name}-{abs(where.latitude):.2f}{north}{abs(where.longitude):.2f}{east}.csv"


def _numbered(number: object, line: str, *, several: bool) -> str:
    return f"{number},{line}\n" if several else f"{line}\n"


def _blocks(answer: PointAnswer, section: AnswerSection, time_format: TimeFormat, *, several: bool) -> Iterator[bytes]:
    """The lines of a section, some thousand at a time: as text, all of them would take ten times their bytes."""
    times = texts_of(times_as_json(section.kind, answer.point.days, answer.point.zone, time_format))
    before = f"{answer.point.number}," if several else ""
    columns = [column if column.is_time else replace(column, values=column.rounded) for column in section.columns]
    for first in range(0, len(times), _LINES_AT_ONCE):
        block = slice(first, first + _LINES_AT_ONCE)
        texts = [_texts(column, block, answer.point.zone, time_format) for column in columns]
        rows = zip(times[block], *texts, strict=True)
        yield "".join(f"{before}{','.join(row)}\n" for row in rows).encode()


def _texts(column: AnswerColumn, block: slice, zone: AnswerZone, time_format: TimeFormat) -> list[str]:
    if column.is_time:
        return texts_of(moments_as_json(column.values[block], zone, time_format))
    form = f"%.{column.unit.decimals}f"
    return [form % value if isfinite(value) else "NaN" for value in column.values[block].tolist()]


def answer_as_json(
    answers: Sequence[PointAnswer],
    time_format: TimeFormat,
    milliseconds: float,
    origin: AnswerOrigin | None = None,
    day_rule: str | None = None,
) -> bytes:
    """One object for one point, a list for several; `milliseconds` is the time it took to make the answer.

    Two keys are unknown to Open-Meteo, and ignored by its clients: the notice of generated data, which comes first, and
    `era5`: the origin of the data, the grid points of the models if there are several, and the definition of a day if
    there are days.
    """
    before = {"notice": origin.notice} if origin and origin.notice else {}
    facts = {**origin.facts, **({"day_rule": day_rule} if day_rule else {})} if origin else {}
    parts = [
        {
            **before,
            **_object(answer, time_format, milliseconds),
            **({"era5": {**facts, **_grid_points(answer)}} if facts else {}),
        }
        for answer in answers
    ]
    return orjson.dumps(parts[0] if len(parts) == 1 else parts, option=orjson.OPT_SERIALIZE_NUMPY)


def _grid_points(answer: PointAnswer) -> dict[str, Any]:
    if not answer.others:
        return {}
    located = ((point.model.name, point.cell.location) for point in (answer.point, *answer.others))
    return {"points": {name: {"latitude": one.latitude, "longitude": one.longitude} for name, one in located}}


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
            "time": orjson.Fragment(times_as_json(section.kind, point.days, point.zone, time_format)),
            **{column.name: _values(column, point.zone, time_format) for column in section.columns},
        }
    if answer.missing_months:
        found["missing_months"] = answer.missing_months
    if answer.missing_hours:
        found["missing_hours"] = answer.missing_hours
    return found


def _values(
    column: AnswerColumn, zone: AnswerZone, time_format: TimeFormat
) -> npt.NDArray[Any] | list[int | None] | orjson.Fragment:
    """The values for orjson: NaN becomes null; values without decimals have no point, for readers of integers."""
    if column.is_time:
        return orjson.Fragment(moments_as_json(column.values, zone, time_format))
    values = column.rounded
    if column.unit.decimals:
        return values
    there = np.isfinite(values)
    if there.all():
        return values.astype(np.int32)
    return [int(value) if known else None for value, known in zip(values.tolist(), there.tolist(), strict=True)]


# --- FlatBuffers for Open-Meteo's own clients: a size-prefixed message for each place ---
#
# Slots of tables are numbered like the fields of the schema (see `names`). Values are float32 and not rounded, times
# are seconds since 1970 in UTC.


# Bytes of a message in addition to its values: tables, names, and padding.
_BESIDES = 1_024


def answer_as_flatbuffers(answers: Sequence[PointAnswer], time_format: TimeFormat, milliseconds: float) -> bytes:
    """The messages of all places in sequence; `milliseconds` is the time it took to make the answer."""
    return b"".join(_message(answer, time_format, milliseconds) for answer in answers)


def _message(answer: PointAnswer, time_format: TimeFormat, milliseconds: float) -> bytes:
    point, zone = answer.point, answer.point.zone
    columns = [column for section in answer.sections for column in section.columns]
    builder = flatbuffers.Builder(sum(column.values.nbytes + _BESIDES for column in columns) + _BESIDES)
    sections = {section.kind: _section(builder, answer, section, time_format) for section in answer.sections}
    # To the clients, no name means GMT.
    names = [] if zone == GMT else [builder.CreateString(name) for name in (zone.name, zone.abbreviation)]
    builder.StartObject(15)
    builder.PrependFloat32Slot(0, point.cell.location.latitude, 0.0)
    builder.PrependFloat32Slot(1, point.cell.location.longitude, 0.0)
    builder.PrependFloat32Slot(2, float("nan") if answer.elevation is None else answer.elevation, 0.0)
    builder.PrependFloat32Slot(3, milliseconds, 0.0)
    builder.PrependInt64Slot(4, point.number, 0)
    builder.PrependUint8Slot(5, point.model.number, 0)
    builder.PrependInt32Slot(6, zone.offset_seconds, 0)
    for slot, name in zip((7, 8), names, strict=False):
        builder.PrependUOffsetTRelativeSlot(slot, name, 0)
    for slot, kind in ((10, "daily"), (11, "hourly")):
        if kind in sections:
            builder.PrependUOffsetTRelativeSlot(slot, sections[kind], 0)
    builder.FinishSizePrefixed(builder.EndObject())
    return bytes(builder.Output())


def _section(builder: flatbuffers.Builder, answer: PointAnswer, section: AnswerSection, time_format: TimeFormat) -> int:
    days, zone = answer.point.days, answer.point.zone
    first = days.first_second(zone)
    columns = [_column(builder, column, section.kind, time_format) for column in section.columns]
    builder.StartVector(4, len(columns), 4)
    for column in reversed(columns):
        builder.PrependUOffsetTRelative(column)
    variables = builder.EndVector()
    builder.StartObject(4)
    builder.PrependInt64Slot(0, first, 0)
    builder.PrependInt64Slot(1, first + len(days) * SECONDS["daily"], 0)
    builder.PrependInt32Slot(2, SECONDS[section.kind], 0)
    builder.PrependUOffsetTRelativeSlot(3, variables, 0)
    return int(builder.EndObject())


def _column(builder: flatbuffers.Builder, column: AnswerColumn, kind: str, time_format: TimeFormat) -> int:
    fields = variable_fields(column.name, kind)
    values = builder.CreateNumpyVector(column.values if column.is_time else column.values.astype(np.float32))
    builder.StartObject(13)
    builder.PrependUint8Slot(0, fields.variable, 0)
    builder.PrependUint8Slot(1, column.unit_in(time_format).number, 0)
    builder.PrependUOffsetTRelativeSlot(4 if column.is_time else 3, values, 0)
    builder.PrependInt16Slot(5, fields.altitude, 0)
    builder.PrependUint8Slot(6, fields.aggregation, 0)
    builder.PrependInt16Slot(8, fields.depth, 0)
    builder.PrependInt16Slot(9, fields.depth_to, 0)
    return int(builder.EndObject())


# --- The description of the answers, for OpenAPI and the page of the routes ---


_SECTION = {
    "type": "object",
    "properties": {"time": {"type": "array", "items": {"type": ["string", "integer"]}}},
    "additionalProperties": {"type": "array", "items": {"type": ["number", "string", "null"]}},
    "required": ["time"],
}
_UNITS = {"type": "object", "additionalProperties": {"type": "string"}, "required": ["time"]}
_DATASET = {
    "type": "object",
    "properties": {
        "name": {"type": "string"},
        "title": {"type": "string"},
        "doi": {"type": "string"},
        "versions": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["name", "title", "doi", "versions"],
    "additionalProperties": False,
}
_GRID_POINT = {
    "type": "object",
    "properties": {"latitude": {"type": "number"}, "longitude": {"type": "number"}},
    "required": ["latitude", "longitude"],
    "additionalProperties": False,
}
_PLACE = {
    "type": "object",
    "properties": {
        "latitude": {"type": "number"},
        "longitude": {"type": "number"},
        "generationtime_ms": {"type": "number"},
        "utc_offset_seconds": {"type": "integer"},
        "timezone": {"type": "string"},
        "timezone_abbreviation": {"type": "string"},
        "elevation": {"type": "number"},
        "location_id": {"type": "integer"},
        "hourly_units": _UNITS,
        "hourly": _SECTION,
        "daily_units": _UNITS,
        "daily": _SECTION,
        "missing_months": {"type": "array", "items": {"type": "string"}},
        "missing_hours": {"type": "integer"},
        "notice": {"type": "string"},
        "era5": {
            "type": "object",
            "properties": {
                "datasets": {"type": "array", "items": _DATASET},
                "sources": {"type": "array", "items": {"type": "string"}},
                "versions": {"type": "array", "items": {"type": "string"}},
                "credit": {"type": "string"},
                "day_rule": {"type": "string"},
                "points": {"type": "object", "additionalProperties": _GRID_POINT},
            },
            "required": ["datasets", "sources", "versions", "credit"],
            "additionalProperties": False,
        },
    },
    "required": [
        *("latitude", "longitude", "generationtime_ms", "utc_offset_seconds", "timezone", "timezone_abbreviation"),
    ],
    "additionalProperties": False,
}

ARCHIVE_RESPONSE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "One object for one place, a list for several; or CSV, or FlatBuffers",
        "content": {
            "application/json": {"schema": {"oneOf": [_PLACE, {"type": "array", "items": _PLACE}]}},
            "text/csv": {"schema": {"type": "string"}},
            "application/octet-stream": {"schema": {"type": "string", "format": "binary"}},
        },
    }
}
