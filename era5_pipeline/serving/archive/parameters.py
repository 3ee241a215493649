"""The parameters of `/v1/archive`: described, read and checked by Open-Meteo's rules, and the question that they ask.

`model.question`, which the other front ends use, has other rules. Clients made for Open-Meteo may write here what they
write there: lists and numbers in each of its spellings, several places in a request, its ways to choose a cell.
"""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any, Literal, get_args

from era5_pipeline.model.cells import Cell, cell_of, sea_cell_of, zone_of
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.errors import UsageError
from era5_pipeline.serving.archive.client_requests import FORM_TYPE, JSON_TYPE
from era5_pipeline.serving.archive.daily import DAILY
from era5_pipeline.serving.archive.hourly import HOURLY
from era5_pipeline.serving.archive.models import MODEL_NAMES, models_named, require_variables
from era5_pipeline.serving.archive.names import find_variable
from era5_pipeline.serving.archive.times import GMT, AnswerZone, Days, TimeFormat, answer_zone
from era5_pipeline.serving.archive.units import PrecipitationUnit, TemperatureUnit, UnitChoice, WindSpeedUnit

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.serving.archive.hourly import ArchiveVariable
    from era5_pipeline.serving.archive.models import Model

# --- The parameters of a request as Open-Meteo reads them: lists, one of several words, numbers ---
#
# Clients write lists in several ways: `hourly=a,b`, `hourly=a|b`, `hourly=a&hourly=b`, `hourly[]=a&hourly[]=b`,
# `hourly[0]=a&hourly[1]=b`.


_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?|[+-]?inf|[+-]?nan", re.ASCII | re.IGNORECASE)
_INDEX = re.compile(r"(\[\d*\])+$", re.ASCII)
_SEPARATOR = re.compile(r"[,|]")
_ALIKE = 0.85
_LONGEST_NAME = 40


class AskedParameters:
    """The parameters of a request by name, without the brackets of arrays."""

    def __init__(self, given: Iterable[tuple[str, str]]) -> None:
        """Take the pairs of name and value of a request."""
        self._given: dict[str, list[str]] = {}
        for name, value in given:
            self._given.setdefault(_INDEX.sub("", name), []).append(value)

    def require_known(self, known: Collection[str], ignored: Collection[str]) -> None:
        """Refuse misspellings of the `known` names: if they were ignored, their data would be missing.

        Other names are ignored, as with Open-Meteo, unless no variable is requested: then their data are not available
        here. The `ignored` names are always allowed.
        """
        plain = {_plain(name): name for name in known}
        asks = any(self.all(name) for name in ("hourly", "daily"))
        for name in self._given:
            if name in known or name in ignored:
                continue
            meant = difflib.get_close_matches(_plain(name), plain, n=1, cutoff=_ALIKE)
            if meant:
                raise UsageError(f"Parameter '{name}' is not known", remedy=f"Did you mean {plain[meant[0]]}?")
            if not asks:
                raise UsageError(
                    f"Parameter '{name}' is not known, and no variable is requested",
                    remedy="Name variables in hourly or daily: docs/http.md lists them.",
                )

    def has(self, name: str) -> bool:
        """Return True if it is given."""
        return name in self._given

    def one(self, name: str) -> str | None:
        """The first value; None if it is not given."""
        values = self._given.get(name)
        return values[0] if values else None

    def all(self, name: str) -> list[str]:
        """The parts of a list, without empty ones."""
        return [part for value in self._given.get(name, ()) for part in _SEPARATOR.split(value) if part]

    def choice(self, name: str, kind: str, choices: object, default: str | None = None) -> Any:  # noqa: ANN401
        """The value, one of a `Literal`, by default its first; `kind` names them in Open-Meteo's reason."""
        allowed = get_args(choices)
        found = self.one(name)
        if found is None:
            found = default or allowed[0]
        if found not in allowed:
            raise UsageError(
                f"Data corrupted at path '{name}'. Cannot initialize {kind} from invalid String value {found}.",
                remedy=f"It is {' or '.join(allowed)}.",
            )
        return found

    def numbers(self, name: str) -> list[float]:
        """The numbers of a list."""
        texts = self.all(name)
        for text in texts:
            if not _NUMBER.fullmatch(text):
                raise UsageError(
                    f"Cannot initialize Float from invalid String value {text}", remedy=f"It is in {name}."
                )
        return [float(text) for text in texts]


def _plain(name: str) -> str:
    """A name without capitals, brackets and underscores: `startDate` and `start-date` are `startdate`."""
    return re.sub(r"[^a-z0-9]", "", name.lower())[:_LONGEST_NAME]


AnswerFormat = Literal["json", "csv", "flatbuffers"]
CellSelection = Literal["nearest", "land", "sea"]
LocationInformation = Literal["section", "omit"]


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


def _one_of(choices: object) -> dict[str, Any]:
    """One of the words of a `Literal`; the first is the default."""
    return {"type": "string", "enum": list(get_args(choices)), "default": get_args(choices)[0]}


def _list_of(items: dict[str, Any], *, least: int = 0) -> dict[str, Any]:
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


_DAYS = _list_of({"type": "string", "format": "date"}, least=1)

ARCHIVE_PARAMETERS: list[dict[str, Any]] = [
    _parameter(
        "latitude",
        "Degrees north; several places separated by commas.",
        _list_of({"type": "number", "minimum": -90, "maximum": 90}, least=1),
        required=True,
    ),
    _parameter(
        "longitude",
        "Degrees east, as many as latitudes.",
        _list_of({"type": "number", "minimum": -180, "maximum": 180}, least=1),
        required=True,
    ),
    _parameter(
        "start_date", "The first day, in the time zone: 2022-01-01. One, or one for each place.", _DAYS, required=True
    ),
    _parameter("end_date", "The last day, included.", _DAYS, required=True),
    _parameter("hourly", "Variables of each hour.", _list_of({"type": "string", "enum": sorted(HOURLY)})),
    _parameter("daily", "Variables of each day.", _list_of({"type": "string", "enum": sorted(DAILY)})),
    _parameter(
        "timezone",
        "GMT; a name such as Asia/Jakarta, or auto for that of the place. Times have its standard offset.",
        _list_of({"type": "string"}),
    ),
    _parameter("temperature_unit", "Of temperatures.", _one_of(TemperatureUnit)),
    _parameter("wind_speed_unit", "Unit of wind speeds.", _one_of(WindSpeedUnit)),
    _parameter("precipitation_unit", "Unit of precipitation, snow and heights.", _one_of(PrecipitationUnit)),
    _parameter("timeformat", "How times are written.", _one_of(TimeFormat)),
    _parameter("format", "Format of the answer.", _one_of(AnswerFormat)),
    _parameter("location_information", "Whether CSV begins with the places.", _one_of(LocationInformation)),
    _parameter(
        "cell_selection",
        "The cell of the grid that stands for a place: the nearest, or the nearest that is mostly land or sea.",
        _one_of(CellSelection),
    ),
    _parameter(
        "models",
        "The data set, or several: names of variables then end with that of the model. `best_match` is what the server "
        "answers from if none is named.",
        _list_of({"type": "string", "enum": list(MODEL_NAMES)}),
    ),
    _parameter("location_id", "A number for each place, in the answer.", _list_of({"type": "integer"})),
]

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


# --- The question of a request to `/v1/archive`: its parameters, read and checked by Open-Meteo's rules ---
#
# Refusals use Open-Meteo's reasons word for word, where it has one, followed by a remedy where that helps. Parameters
# unknown there are ignored, as there, unless they misspell known ones. Parameters that exist there but not here are
# refused by name.


_WHOLE_NUMBER = re.compile(r"[+-]?\d{1,9}", re.ASCII)
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})", re.ASCII)
# Parameters of Open-Meteo that change an answer there but cannot here, with the values that are allowed.
_REFUSED = {
    name: instead
    for instead, names in {
        "ERA5 is hourly": ("minutely_15",),
        "ask for hourly values": ("six_hourly",),
        "ERA5 covers only the past": ("current", "current_weather"),
        "ask for daily values": ("weekly", "monthly"),
        "give start_date and end_date": (
            *("past_days", "past_hours", "past_minutely_15"),
            *("start_hour", "end_hour", "start_minutely_15", "end_minutely_15"),
        ),
        "ERA5 covers only the past: give start_date and end_date": (
            *("forecast_days", "forecast_hours", "forecast_minutely_15"),
        ),
        "ERA5 has no runs of forecasts": ("run",),
        "give latitude and longitude of each point": ("bounding_box",),
        "values are hourly": ("temporal_resolution",),
    }.items()
    for name in names
}
_ALLOWED = {"temporal_resolution": {"native", "hourly", "hourly_1"}}
_NOTHING = {"", "0", "false"}
# Further parameters of Open-Meteo: earlier names, and those without effect on the answer.
_EARLIER = ("windspeed_unit", "length_unit", "elevation")
_IGNORED = ("apikey", "tilt", "azimuth")
_KNOWN = frozenset({*(str(one["name"]) for one in ARCHIVE_PARAMETERS), *_EARLIER, *_REFUSED})
# As many as fit in a URL; the body of a POST could hold more.
_MOST_PLACES = 4_000


@dataclass(frozen=True)
class ArchivePoint:
    """One point of an answer: its number, its cell of the model's grid, its days, and their zone."""

    number: int
    cell: Cell
    days: Days
    zone: AnswerZone
    model: Model


@dataclass(frozen=True)
class ArchiveQuestion:
    """A checked question: points, variables with their requested names, and the format of values and times.

    Each place is a point of each model, in this order.
    """

    models: tuple[Model, ...]
    points: tuple[ArchivePoint, ...]
    hourly: dict[str, ArchiveVariable]
    daily: dict[str, ArchiveVariable]
    units: UnitChoice
    time_format: TimeFormat
    answer_format: AnswerFormat
    location_information: LocationInformation

    def columns_of(self, model: Model) -> tuple[str, ...]:
        """The columns of the model's table behind the variables that it has."""
        variables = filter(model.has, (*self.hourly.values(), *self.daily.values()))
        return tuple(dict.fromkeys(column for variable in variables for column in variable.columns))

    @property
    def values(self) -> int:
        """The number of values that are read or written, whichever is more."""
        most = max(len(self.hourly), -(-len(self.daily) // 24), *(len(self.columns_of(model)) for model in self.models))
        return most * sum(point.days.hours for point in self.points)


def read_question(given: Iterable[tuple[str, str]], today: date, default: Dataset = ERA5) -> ArchiveQuestion:
    """Read the parameters of a request, as pairs of name and value; `today` is the last day that may be requested.

    `default` is the data set of a request that names none.
    """
    asked = AskedParameters(given)
    asked.require_known(_KNOWN, _IGNORED)
    wind_speed = "windspeed_unit" if asked.has("windspeed_unit") else "wind_speed_unit"
    length = "inch" if asked.one("length_unit") == "imperial" else None
    units = UnitChoice(
        asked.choice("temperature_unit", "TemperatureUnit", TemperatureUnit),
        asked.choice(wind_speed, "WindspeedUnit", WindSpeedUnit),
        asked.choice("precipitation_unit", "PrecipitationUnit", PrecipitationUnit, length),
    )
    time_format = asked.choice("timeformat", "Timeformat", TimeFormat)
    answer_format = asked.choice("format", "ForecastResultFormat", AnswerFormat)
    information = asked.choice("location_information", "OutputLocationInformation", LocationInformation)
    _refuse_unsupported(asked)
    hourly = {name: find_variable(name, "hourly") for name in asked.all("hourly")}
    daily = {name: find_variable(name, "daily") for name in asked.all("daily")}
    models = models_named(asked.all("models"), default)
    require_variables(models, (*hourly.items(), *daily.items()))
    points = _points(asked, _ranges(asked), today, models)
    return ArchiveQuestion(models, points, hourly, daily, units, time_format, answer_format, information)


def _refuse_unsupported(asked: AskedParameters) -> None:
    for name, instead in _REFUSED.items():
        value = asked.one(name)
        if value is not None and value not in _NOTHING | _ALLOWED.get(name, set()):
            raise UsageError(f"Parameter '{name}' is not supported", remedy=f"Leave it out: {instead}.")
    if any(height == height for height in asked.numbers("elevation")):  # noqa: PLR0124  # NaN is unlike itself
        raise UsageError(
            "Parameter 'elevation' is not supported: temperatures are those of the grid cell, not corrected for height",
            remedy="Leave it out, or set it to nan.",
        )


def _ranges(asked: AskedParameters) -> list[Days]:
    """The ranges of days: one for all points, or one for each; refuse an invalid or missing one."""
    starts, ends = ([_date(text) for text in asked.all(name)] for name in ("start_date", "end_date"))
    if not starts or not ends:
        raise UsageError("Both 'start_date' and 'end_date' must be set in the url", remedy="")
    if len(starts) != len(ends):
        raise UsageError("Parameter 'start_date' and 'end_date' must have the same number of elements", remedy="")
    if any(end < start for start, end in zip(starts, ends, strict=True)):
        raise UsageError("End-date must be larger or equals than start-date", remedy="")
    return [Days(start, end) for start, end in zip(starts, ends, strict=True)]


def _date(text: str) -> date:
    match = _DATE.fullmatch(text)
    if match is None:
        raise UsageError("Invalid date format. Make sure to use 'YYYY-MM-DD'", remedy="")
    try:
        return date(*map(int, match.groups()))
    except ValueError:
        raise UsageError("Invalid date", remedy="") from None


def _points(
    asked: AskedParameters, ranges: list[Days], today: date, models: Sequence[Model]
) -> tuple[ArchivePoint, ...]:
    """The points, each with its cell, days and zone; refuse impossible ones, or lists of different lengths."""
    places = _coordinates(asked)
    numbers = _numbers(asked) or list(range(max(len(places), len(ranges))))
    zones = asked.all("timezone")
    if len(zones) > 1 and len(zones) != len(places):
        raise UsageError("Parameter 'timezone' and coordinates must have the same number of elements", remedy="")
    elevations = asked.all("elevation")
    if elevations and len(elevations) != len(places):
        raise UsageError("Parameter 'elevation' must have the same number of elements as coordinates", remedy="")
    if len(ranges) > 1 and len(places) > 1 and len(ranges) != len(places):
        raise UsageError(
            "Parameter 'start_date' and 'end_date' must have the same number of elements as coordinates", remedy=""
        )
    earliest = min(model.dataset.first_month.start.date() for model in models)
    for name, day in [(name, day) for days in ranges for name, day in (("start", days.first), ("end", days.last))]:
        if not earliest <= day <= today:
            raise UsageError(f"Parameter '{name}_date' is out of allowed range from {earliest} to {today}", remedy="")
    selection = asked.choice("cell_selection", "GridSelectionMode", CellSelection)
    count = max(len(places), len(ranges))
    if len(numbers) != count:
        raise UsageError("Parameter 'location_id' and coordinates must have the same number of elements", remedy="")
    found = []
    for index, number in enumerate(numbers):
        latitude, longitude = places[_at(places, index)]
        days = ranges[_at(ranges, index)]
        zone = _zone(zones[_at(zones, index)], latitude, longitude, days) if zones else GMT
        for model in models:
            cell = _cell(latitude, longitude, selection, model.dataset)
            found.append(ArchivePoint(number, cell, days, zone, model))
    return tuple(found)


def _numbers(asked: AskedParameters) -> list[int]:
    texts = asked.all("location_id")
    for text in texts:
        if not _WHOLE_NUMBER.fullmatch(text):
            raise UsageError(f"Cannot initialize Int from invalid String value {text}", remedy="It is in location_id.")
    return [int(text) for text in texts]


def _at(of: Sequence[object], index: int) -> int:
    """The index for a point in a list with one item for each point, or one for all."""
    return index if len(of) > 1 else 0


def _coordinates(asked: AskedParameters) -> list[tuple[float, float]]:
    latitudes, longitudes = asked.numbers("latitude"), asked.numbers("longitude")
    if len(latitudes) > _MOST_PLACES:
        raise UsageError(
            f"{len(latitudes):,} places are requested, and the limit is {_MOST_PLACES:,}",
            remedy="Ask for fewer at once, or use era5 export.",
        )
    if not latitudes and not longitudes:
        raise UsageError("Parameter 'latitude' and 'longitude' must not be empty", remedy="")
    if len(latitudes) != len(longitudes):
        raise UsageError("Parameter 'latitude' and 'longitude' must have the same number of elements", remedy="")
    for latitude in latitudes:
        if not -90 <= latitude <= 90:
            raise UsageError(f"Latitude must be in range of -90 to 90°. Given: {latitude}.", remedy="")
    for longitude in longitudes:
        if not -180 <= longitude <= 180:
            raise UsageError(f"Longitude must be in range of -180 to 180°. Given: {longitude}.", remedy="")
    return list(zip(latitudes, longitudes, strict=True))


def _cell(latitude: float, longitude: float, selection: CellSelection, dataset: Dataset) -> Cell:
    """The cell for a point; the nearest one if no cell of land or sea is near, or has values, as with Open-Meteo."""
    grid = dataset.grid
    nearest = cell_of(latitude, longitude, grid=grid)
    try:
        if selection == "sea":
            return nearest if dataset.is_land_only else sea_cell_of(latitude, longitude, grid) or nearest
        return cell_of(latitude, longitude, selection, grid)
    except UsageError:
        return nearest


def _zone(name: str, latitude: float, longitude: float, days: Days) -> AnswerZone:
    if name == "auto":
        name = zone_of(latitude, longitude)
    if name == GMT.name:
        return GMT
    try:
        return answer_zone(name, days.first.year, days.last)
    except UsageError:
        raise UsageError(
            "Invalid timezone", remedy="Give a name of the IANA database, such as Asia/Jakarta, or auto."
        ) from None
