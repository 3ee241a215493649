"""Refuse means and sums over days, months, regions or ensembles: values that are not of one hour at one grid point.

What a file states decides: ecCodes' step type, data type and stream (cfgrib writes them), `cell_methods` (CF 7.3), and
the commands of CDO, NCO and earthkit in `history`. Not here: files that state nothing, where only the times tell
(`sources.files.sparse_hours`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from era5_pipeline.netcdf.axes import ProblemError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import xarray as xr

    from era5_pipeline.model.variables import Variable

STEP_TYPE = "GRIB_stepType"
# What the aggregate is over. Along latitude or longitude it is one only where a single value is left along the axis.
Scope = Literal["time", "ensemble", "latitude", "longitude", "cell"]

GET_HOURS = (
    "Request hourly data from the Climate Data Store: dataset reanalysis-era5-single-levels, product type reanalysis "
    "(era5 load --source cds does), or move the file out of the folder."
)
# ecCodes' step types of averages of many hours; the others that it knows are of one step.
_LONG_MEANS = {
    "avgua": "monthly means",
    "avgad": "monthly means",
    "avgid": "daily or monthly means",
    "avgas": "daily or monthly means",
}
_DATA_TYPES = {"em": "means of an ensemble", "es": "the spread of an ensemble"}
# ECMWF's streams, also of waves (w) and of the ensemble of data assimilations (e).
_STREAMS = {
    **dict.fromkeys(("moda", "mnth", "wamo", "wamd"), "monthly means"),
    **dict.fromkeys(("edmo", "edmm", "ewmo", "ewmm"), "monthly means of an ensemble"),
    **dict.fromkeys(("enda", "ewda"), "values of an ensemble"),
}
_STREAM = re.compile(rf"stream\W{{1,6}}({'|'.join(_STREAMS)})(?![a-z0-9])")
_DATASET = re.compile(r"era5[\w-]*?-(monthly-means|daily-statistics)")
# Calls and option values; in the name of a file such a word says nothing of what was done to it.
_DAILY = re.compile(r"\b((daily|monthly)_(?:reduce|mean|median|max\w*|min\w*|sum|std\w*))(?=\s*\()")
_DAILY_OPTION = re.compile(r"[\"']((daily|monthly)_(?:mean|median|max\w*|min\w*|sum|std\w*))[\"']")
_EARTHKIT = re.compile(r"\bearthkit\.transforms\.(?:aggregate\.)?(temporal|spatial)\.\w*reduce\b")

_STATISTIC = r"(mean|avg|sum|min|max|range|std1?|var1?|median|pctl)"
# Without hourmean and its like: of hourly data they give the hours themselves.
_CDO: tuple[tuple[re.Pattern[str], str, Scope], ...] = (
    (
        re.compile(rf"(tim|timsel|run|y?day|y?mon|year|yearmon|y?seas|[dmy]hour|ydrun){_STATISTIC}"),
        "statistics",
        "time",
    ),
    (re.compile(r"int(n?time|year)"), "interpolated values", "time"),
    (re.compile(rf"ens{_STATISTIC}"), "statistics of an ensemble", "ensemble"),
    (re.compile(rf"zon{_STATISTIC}"), "statistics along parallels", "longitude"),
    (re.compile(rf"mer{_STATISTIC}"), "statistics along meridians", "latitude"),
    (re.compile(rf"(fld|gridbox){_STATISTIC}"), "statistics of a region", "cell"),
    # remapnn copies the value of one cell, as users of CDO cut out a place; remapeta is vertical.
    (re.compile(r"remap(?!nn$|eta$)\w+"), "values of another grid, interpolated", "cell"),
)
_NCO: dict[str, tuple[str, Scope]] = {
    "ncra": ("averages of records", "time"),
    "ncea": ("averages of files", "ensemble"),
    "nces": ("averages of files", "ensemble"),
    "ncremap": ("values of another grid, interpolated", "cell"),
}
_AXES: dict[str, Scope] = {
    **dict.fromkeys(("time", "valid_time"), "time"),
    **dict.fromkeys(("lat", "latitude"), "latitude"),
    **dict.fromkeys(("lon", "longitude"), "longitude"),
    "area": "cell",
}
# By `step_type` of the table of variables, what `cell_methods` says of one hour.
_OF_HOUR = {"accum": "sum", "avg": "mean", "max": "maximum", "min": "minimum"}
# `time: mean`, `latitude: longitude: mean`, each with an optional comment such as `(interval: 1 hour)`; `point` says
# that nothing was aggregated.
_CELL_METHOD = re.compile(
    r"((?:\w+:\s+)+)(?!point\b)(\w+)\b(?!:)((?:\s+(?:within|over|where)\s+\w+)*)(?:\s+\(([^)]*)\))?"
)
_ONE_HOUR = re.compile(r"interval:\s*(1|1\.0|one)\s*(h|hr|hour)\b")


@dataclass(frozen=True)
class Aggregate:
    """An aggregation found in a file: its name (`what`), the axis it is over, and the text that states it."""

    what: str
    over: Scope
    evidence: str


def aggregates_stated_by(attributes: Mapping[str, Any]) -> tuple[Aggregate, ...]:
    """Find the aggregations that the file's global attributes state, which hold for all of its values."""
    texts = [(str(name), str(text)) for name, text in attributes.items() if isinstance(text, str)]
    found = [
        Aggregate(f"values of {match[0]}", "time", f"in its {name}")
        for name, text in texts
        if (match := _DATASET.search(text))
    ]
    for line in str(attributes.get("history", "")).splitlines():
        found += _in_history(line)
    return tuple(found)


def require_hourly_values(
    array: xr.DataArray,
    variable: Variable,
    stated: tuple[Aggregate, ...],
    latitude: xr.DataArray,
    longitude: xr.DataArray,
) -> None:
    """Check that nothing in the file says that the values are others than those of hours at grid points.

    Raises:
        ProblemError: naming what they are, and what says so.
    """
    has_one = {"latitude": latitude.size == 1, "longitude": longitude.size == 1}
    has_one["cell"] = all(has_one.values())
    for found in (*_stated_by_variable(array, variable), *stated):
        if has_one.get(found.over, True):
            of = "grid points" if found.over in has_one else "hours"
            raise ProblemError(
                "aggregate", f"{array.name} holds {found.what} ({found.evidence}), not values of {of}", GET_HOURS
            )


def _stated_by_variable(array: xr.DataArray, variable: Variable) -> Iterator[Aggregate]:
    attributes = array.attrs
    data_type, members = attributes.get("GRIB_dataType"), attributes.get("GRIB_totalNumber", 0)
    if data_type in _DATA_TYPES:
        yield Aggregate(_DATA_TYPES[data_type], "ensemble", f"GRIB_dataType {data_type}")
    if isinstance(attributes.get("GRIB_stream"), str) and attributes["GRIB_stream"] in _STREAMS:
        yield Aggregate(_STREAMS[attributes["GRIB_stream"]], "time", f"GRIB_stream {attributes['GRIB_stream']}")
    if str(members).isdigit() and int(members) > 1:
        yield Aggregate("values of an ensemble", "ensemble", f"GRIB_totalNumber {members}")
    step_type = attributes.get(STEP_TYPE)
    if step_type is not None and step_type != variable.step_type:
        what = _LONG_MEANS.get(str(step_type), "other values")
        yield Aggregate(what, "time", f"{STEP_TYPE} {step_type}, of hours it is {variable.step_type}")
    yield from _in_cell_methods(str(attributes.get("cell_methods", "")), variable)


def _in_cell_methods(text: str, variable: Variable) -> Iterator[Aggregate]:
    for match in _CELL_METHOD.finditer(text):
        names, method, comment = match[1].replace(":", " ").split(), match[2], match[4] or ""
        for name in names:
            over = _AXES.get(name)
            if over is None:
                continue
            of_hour = method == _OF_HOUR.get(variable.step_type) or _ONE_HOUR.search(comment)
            if over != "time" or not of_hour or match[3]:
                yield Aggregate(f"a {method} over {name}", over, f"cell_methods: {match[0].strip()}")


def _in_history(line: str) -> Iterator[Aggregate]:
    if match := _STREAM.search(line):
        yield Aggregate(_STREAMS[match[1]], "time", f"stream {match[1]} in its history")
    if match := _DAILY.search(line) or _DAILY_OPTION.search(line):
        yield Aggregate(f"{match[2]} statistics", "time", f"{match[1]} in its history")
    elif match := _EARTHKIT.search(line):
        over: Scope = "time" if match[1] == "temporal" else "cell"
        yield Aggregate("statistics", over, f"{match[0]} in its history")
    words = line.split()
    for position, word in enumerate(words):
        # A command begins its line, or follows the time at which it ran.
        if position == 0 or words[position - 1].endswith(":"):
            yield from _of_command(word.rpartition("/")[2], words[position + 1 :])


def _of_command(command: str, arguments: list[str]) -> Iterator[Aggregate]:
    """What a command of CDO or NCO makes of its input: its operators are whole words, names of files are not."""
    if command == "cdo":
        for word in arguments:
            operator = word.lstrip("-[").partition(",")[0]
            for pattern, what, over in _CDO:
                if pattern.fullmatch(operator):
                    yield Aggregate(what, over, f"cdo {operator} in its history")
    elif command in _NCO:
        what, over = _NCO[command]
        yield Aggregate(what, over, f"{command} in its history")
    elif command == "ncwa":
        # Without -a over all dimensions. Over others, such as expver or number, it only drops a dimension of size one.
        text = " ".join(arguments)
        named = re.search(r"(?:^|\s)(?:-a|--average(?:=|\s)|--avg(?:=|\s))\s*([\w,]+)", text)
        axes: list[Scope] = [_AXES[name] for name in named[1].split(",") if name in _AXES] if named else ["time"]
        for over in axes:
            yield Aggregate("averages", over, f"ncwa{f' -a {named[1]}' if named else ''} in its history")
