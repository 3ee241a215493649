"""An answer as CSV, as Open-Meteo writes it: the points, hours, days, each with a header, blank lines between.

With several points every line begins with the point's number. A missing value is NaN.
"""

from __future__ import annotations

from dataclasses import replace
from math import isfinite
from typing import TYPE_CHECKING

from era5_pipeline.serving.archive.answer_times import days_as_text, hours_as_text, moments_as_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from era5_pipeline.serving.archive.answer_times import AnswerZone, TimeFormat
    from era5_pipeline.serving.archive.archive_answer import AnswerColumn, AnswerSection, PointAnswer
    from era5_pipeline.serving.archive.archive_question import LocationInformation

_LINES_AT_ONCE = 8_192
_POINT = "latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation"


def answer_as_csv(
    answers: Sequence[PointAnswer], time_format: TimeFormat, information: LocationInformation = "section"
) -> bytes:
    """The text, in UTF-8; `information` omit leaves out the lines of the points."""
    several = len(answers) > 1
    parts: list[str | bytes] = []
    if information == "section":
        parts.append(_numbered("location_id", _POINT, several=several))
        parts += [_numbered(answer.point.number, _point(answer), several=several) for answer in answers]
    for kind in ("hourly", "daily"):
        sections = [(answer, section) for answer in answers for section in answer.sections if section.kind == kind]
        if sections:
            parts.append("\n" if parts else "")
            parts.append(_numbered("location_id", _header(sections[0][1], time_format), several=several))
        for answer, section in sections:
            parts += _blocks(answer, section, time_format, several=several)
    return b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)


def csv_name(answers: Sequence[PointAnswer], *, is_generated: bool = False) -> str:
    """The name of the file: `era5-52.50N13.50E.csv`, of the first point; of generated data `sample-...`."""
    where = answers[0].point.cell.location
    north, east = ("N" if where.latitude >= 0 else "S"), ("E" if where.longitude >= 0 else "W")
    return (
        f"{'sample' if is_generated else 'era5'}-{abs(where.latitude):.2f}{north}{abs(where.longitude):.2f}{east}.csv"
    )


def _numbered(number: object, line: str, *, several: bool) -> str:
    return f"{number},{line}\n" if several else f"{line}\n"


def _point(answer: PointAnswer) -> str:
    where, zone = answer.point.cell.location, answer.point.zone
    elevation = "NaN" if answer.elevation is None else answer.elevation
    return f"{where.latitude},{where.longitude},{elevation},{zone.offset_seconds},{zone.name},{zone.abbreviation}"


def _header(section: AnswerSection, time_format: TimeFormat) -> str:
    return ",".join(["time", *(f"{column.name} ({column.unit_in(time_format).name})" for column in section.columns)])


def _blocks(answer: PointAnswer, section: AnswerSection, time_format: TimeFormat, *, several: bool) -> Iterator[bytes]:
    """The lines of a section, some thousand at once: as text, all of them would take ten times their bytes."""
    write = hours_as_text if section.kind == "hourly" else days_as_text
    times = write(answer.point.days, answer.point.zone, time_format)
    before = f"{answer.point.number}," if several else ""
    columns = [column if column.is_time else replace(column, values=column.rounded) for column in section.columns]
    for first in range(0, len(times), _LINES_AT_ONCE):
        block = slice(first, first + _LINES_AT_ONCE)
        texts = [_texts(column, block, answer.point.zone, time_format) for column in columns]
        rows = zip(times[block], *texts, strict=True)
        yield "".join(f"{before}{','.join(row)}\n" for row in rows).encode()


def _texts(column: AnswerColumn, block: slice, zone: AnswerZone, time_format: TimeFormat) -> list[str]:
    if column.is_time:
        return moments_as_text(column.values[block], zone, time_format)
    form = f"%.{column.unit.decimals}f"
    return [form % value if isfinite(value) else "NaN" for value in column.values[block].tolist()]
