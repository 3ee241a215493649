"""The description of `/v1/archive` for its OpenAPI page: its parameters, and the form of its answers."""

from __future__ import annotations

from typing import Any

from era5_pipeline.serving.archive.client_requests import FORM_TYPE, JSON_TYPE
from era5_pipeline.serving.archive.daily import DAILY
from era5_pipeline.serving.archive.hourly import HOURLY


def _parameter(name: str, description: str, schema: dict[str, Any], *, required: bool = False) -> dict[str, Any]:
    is_list = {"style": "form", "explode": False} if schema["type"] == "array" else {}
    return {
        "name": name,
        "in": "query",
        "required": required,
        "description": description,
        "schema": schema,
        **is_list,
    }


def _one_of(*names: str) -> dict[str, Any]:
    """One of several words; the first is the default."""
    return {"type": "string", "enum": list(names), "default": names[0]}


def _list_of(items: dict[str, Any], *, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


_DAYS = _list_of({"type": "string", "format": "date"}, least=1)

ARCHIVE_PARAMETERS: list[dict[str, Any]] = [
    _parameter(
        "latitude",
        "Degrees north, of one place or several, with commas.",
        _list_of({"type": "number", "minimum": -90, "maximum": 90}, least=1),
        required=True,
    ),
    _parameter(
        "longitude",
        "Degrees east, as many as latitudes.",
        _list_of({"type": "number", "minimum": -180, "maximum": 180}, least=1),
        required=True,
    ),
    _parameter("start_date", "The first day, in the time zone: 2022-01-01. One, or one for each place.", _DAYS),
    _parameter("end_date", "The last day, included.", _DAYS),
    _parameter("hourly", "Variables of each hour.", _list_of({"type": "string", "enum": sorted(HOURLY)})),
    _parameter("daily", "Variables of each day.", _list_of({"type": "string", "enum": sorted(DAILY)})),
    _parameter(
        "timezone",
        "GMT; a name such as Asia/Jakarta, or auto for that of the place. Times have its standard offset.",
        _list_of({"type": "string"}),
    ),
    _parameter("temperature_unit", "Of temperatures.", _one_of("celsius", "fahrenheit")),
    _parameter("wind_speed_unit", "Of wind speeds.", _one_of("kmh", "ms", "mph", "kn")),
    _parameter("precipitation_unit", "Of precipitation, snow and heights.", _one_of("mm", "inch")),
    _parameter("timeformat", "How times are written.", _one_of("iso8601", "unixtime")),
    _parameter("format", "The form of the answer.", _one_of("json", "csv", "flatbuffers")),
    _parameter("location_information", "Whether CSV begins with the places.", _one_of("section", "omit")),
    _parameter(
        "cell_selection",
        "The cell of the grid that stands for a place: the nearest, or the nearest that is mostly land or sea.",
        _one_of("nearest", "land", "sea"),
    ),
    _parameter("models", "Only ERA5 is here.", _list_of({"type": "string", "enum": ["era5", "best_match"]})),
    _parameter("location_id", "A number for each place, in the answer.", _list_of({"type": "integer"})),
]
# Required parameters in OpenAPI 3.1 that FastAPI does not check here: the reasons for refusals are Open-Meteo's.
for _required in ("start_date", "end_date"):
    next(one for one in ARCHIVE_PARAMETERS if one["name"] == _required)["required"] = True

_BODY = {
    "type": "object",
    "properties": {one["name"]: {**one["schema"], "description": one["description"]} for one in ARCHIVE_PARAMETERS},
    "required": [one["name"] for one in ARCHIVE_PARAMETERS if one["required"]],
}
# The same parameters in the body of a POST.
ARCHIVE_BODY: dict[str, Any] = {
    "required": True,
    "content": {kind: {"schema": _BODY} for kind in (FORM_TYPE, JSON_TYPE)},
}

_SECTION = {
    "type": "object",
    "properties": {"time": {"type": "array", "items": {"type": ["string", "integer"]}}},
    "additionalProperties": {"type": "array", "items": {"type": ["number", "string", "null"]}},
    "required": ["time"],
}
_UNITS = {"type": "object", "additionalProperties": {"type": "string"}, "required": ["time"]}
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
                "sources": {"type": "array", "items": {"type": "string"}},
                "versions": {"type": "array", "items": {"type": "string"}},
                "credit": {"type": "string"},
                "day_rule": {"type": "string"},
            },
            "required": ["sources", "versions", "credit"],
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
