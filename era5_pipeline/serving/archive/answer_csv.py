"""An answer as CSV, as Open-Meteo writes it: the points, hours, days, each with a header, blank lines between.

With several points every line begins with the point's number. A missing value is NaN.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.serving.archive.answer_times import days_as_text, hours_as_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from era5_pipeline.serving.archive.answer_times import TimeFormat
    from era5_pipeline.serving.archive.archive_answer import AnswerColumn, AnswerSection, PointAnswer
    from era5_pipeline.serving.archive.archive_question import LocationInformation

_POINT = "latitude,longitude,elevation,utc_offset_seconds,timezone,timezone_abbreviation"


def answer_as_csv(
    answers: Sequence[PointAnswer], time_format: TimeFormat, information: LocationInformation = "section"
) -> bytes:
    """The text, in UTF-8; `information` omit leaves out the lines of the points."""
    several = len(answers) > 1
    blocks = []
    if information == "section":
        lines = [_numbered("location_id", _POINT, several=several)]
        lines += [_numbered(answer.point.number, _point(answer), several=several) for answer in answers]
        blocks.append(lines)
    for kind in ("hourly", "daily"):
        lines = []
        for answer in answers:
            for section in answer.sections:
                if section.kind == kind:
                    if not lines:
                        lines.append(_numbered("location_id", _header(section), several=several))
                    rows = _rows(answer, section, time_format)
                    lines += [_numbered(answer.point.number, row, several=several) for row in rows]
        if lines:
            blocks.append(lines)
    return "\n".join("".join(f"{line}\n" for line in lines) for lines in blocks).encode()


def csv_name(answers: Sequence[PointAnswer]) -> str:
    """The name of the file: `era5-52.50N13.50E.csv`, of the first point."""
    where = answers[0].point.cell.location
    north, east = ("N" if where.latitude >= 0 else "S"), ("E" if where.longitude >= 0 else "W")
    return f"era5-{abs(where.latitude):.2f}{north}{abs(where.longitude):.2f}{east}.csv"


def _numbered(number: object, line: str, *, several: bool) -> str:
    return f"{number},{line}" if several else line


def _point(answer: PointAnswer) -> str:
    where, zone = answer.point.cell.location, answer.point.zone
    return f"{where.latitude},{where.longitude},NaN,{zone.offset_seconds},{zone.name},{zone.abbreviation}"


def _header(section: AnswerSection) -> str:
    return ",".join(["time", *(f"{column.name} ({column.unit.name})" for column in section.columns)])


def _rows(answer: PointAnswer, section: AnswerSection, time_format: TimeFormat) -> Iterator[str]:
    write = hours_as_text if section.kind == "hourly" else days_as_text
    times = write(answer.point.days, answer.point.zone, time_format)
    return map(",".join, zip(times, *map(_texts, section.columns), strict=True))


def _texts(column: AnswerColumn) -> list[str]:
    form = f"%.{column.unit.decimals}f"
    return [form % value if value - value == 0 else "NaN" for value in column.values.tolist()]
