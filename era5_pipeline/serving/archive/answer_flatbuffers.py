"""An answer as FlatBuffers, which Open-Meteo's own clients ask for: a size-prefixed message for each place.

Slots of tables are numbered as fields of the schema (`flatbuffers_schema`). Values are float32 and not rounded, times
are seconds since 1970 in UTC.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import flatbuffers
import numpy as np

from era5_pipeline.serving.archive.answer_times import GMT, SECONDS
from era5_pipeline.serving.archive.variables.flatbuffers_schema import ERA5, unit_number, variable_fields

if TYPE_CHECKING:
    from collections.abc import Sequence

    from era5_pipeline.serving.archive.answer_times import TimeFormat
    from era5_pipeline.serving.archive.archive_answer import AnswerColumn, AnswerSection, PointAnswer

# Bytes of a message besides its values: tables, names, and the padding between them.
_BESIDES = 1_024


def answer_as_flatbuffers(answers: Sequence[PointAnswer], time_format: TimeFormat, milliseconds: float) -> bytes:
    """The messages of all places, one after the other; `milliseconds` are what the answer took to make.

    Raises:
        UsageError: if the schema lacks a variable or a unit.
    """
    return b"".join(_message(answer, time_format, milliseconds) for answer in answers)


def _message(answer: PointAnswer, time_format: TimeFormat, milliseconds: float) -> bytes:
    point, zone = answer.point, answer.point.zone
    columns = [column for section in answer.sections for column in section.columns]
    builder = flatbuffers.Builder(sum(column.values.nbytes + _BESIDES for column in columns) + _BESIDES)
    sections = {section.kind: _section(builder, answer, section, time_format) for section in answer.sections}
    # Without a name means GMT to the clients.
    names = [] if zone == GMT else [builder.CreateString(name) for name in (zone.name, zone.abbreviation)]
    builder.StartObject(15)
    builder.PrependFloat32Slot(0, point.cell.location.latitude, 0.0)
    builder.PrependFloat32Slot(1, point.cell.location.longitude, 0.0)
    builder.PrependFloat32Slot(2, float("nan") if answer.elevation is None else answer.elevation, 0.0)
    builder.PrependFloat32Slot(3, milliseconds, 0.0)
    builder.PrependInt64Slot(4, point.number, 0)
    builder.PrependUint8Slot(5, ERA5, 0)
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
    unit = unit_number(column.unit_in(time_format))
    values = builder.CreateNumpyVector(column.values if column.is_time else column.values.astype(np.float32))
    builder.StartObject(13)
    builder.PrependUint8Slot(0, fields.variable, 0)
    builder.PrependUint8Slot(1, unit, 0)
    builder.PrependUOffsetTRelativeSlot(4 if column.is_time else 3, values, 0)
    builder.PrependInt16Slot(5, fields.altitude, 0)
    builder.PrependUint8Slot(6, fields.aggregation, 0)
    builder.PrependInt16Slot(8, fields.depth, 0)
    builder.PrependInt16Slot(9, fields.depth_to, 0)
    return int(builder.EndObject())
