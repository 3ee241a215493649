"""The plan of a load: the state of each month, and the size, bytes and seconds of those that are to be loaded.

Here: the plan as values and as JSON. Not here: computing it (`make_plan`), or the display (`cli/plan.py`).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from era5_pipeline.model.months import Month, calendar_months_of
from era5_pipeline.sources.cds.request import MAX_FIELDS, fields_of

if TYPE_CHECKING:
    from datetime import datetime

    from era5_pipeline.planning.current_contents import CurrentContents, DiskSpace
    from era5_pipeline.planning.estimates import Bytes, Seconds
    from era5_pipeline.planning.extent import Load, Size
    from era5_pipeline.planning.file_storage import Storage

# The state of a month. "loaded": a load leaves it alone. "other": the table holds it from another source, or with other
# variables or another area. "early": it has begun, and cannot be complete yet. "future": it has not begun.
State = Literal["loaded", "incomplete", "other", "missing", "early", "future"]
TO_LOAD: tuple[State, ...] = ("incomplete", "other", "missing")

# Guesses for the download, until a month was measured.
_MINUTES_PER_REQUEST = (10, 30, 60)
_MINUTES_PER_SERIES = (1, 2, 10)
_MEGABYTES_PER_SECOND = (10, 50, 200)
# One of those with 31 days.
_LONGEST_MONTH = Month(2020, 1)


@dataclass(frozen=True)
class Plan:
    """The state of each month of a load, and the size, bytes and seconds of those that are to be loaded.

    `largest` is the largest of these months, which takes `largest_home_bytes` below ERA5_HOME; `storage` is what all of
    them take of it at one time. `preliminary` are loaded
    months with hours that ECMWF will replace; `complete_from` says when a month can be complete; `warnings` are
    those of `plan_warnings`.
    """

    load: Load
    contents: CurrentContents
    disks: DiskSpace
    states: dict[Month, State]
    preliminary: tuple[Month, ...]
    complete_from: dict[Month, datetime]
    size: Size
    largest: Size
    largest_home_bytes: float
    bytes: Bytes
    seconds: Seconds
    storage: Storage
    warnings: tuple[str, ...] = ()

    def months(self, *states: State) -> tuple[Month, ...]:
        """The months in these states, in order."""
        return tuple(month for month, state in self.states.items() if state in states)

    @property
    def to_load(self) -> tuple[Month, ...]:
        """The months that a load would load."""
        return self.months(*TO_LOAD)

    @property
    def has_requests_for_several(self) -> bool:
        """Whether some requests are for several months."""
        return self.load.months_a_request > 1 and self.size.requests < len(self.to_load)

    @property
    def fields_of_largest_request(self) -> int:
        """The fields of the largest request. Days that a month lacks are counted where it is requested with others."""
        if self.has_requests_for_several:
            return self.load.months_a_request * fields_of(_LONGEST_MONTH, len(self.load.variables))
        return self.load.fields_of_largest_request(self.largest.fields)

    @property
    def guesses(self) -> tuple[dict[str, float], ...]:
        """Hours of the download under named assumptions; empty if they are known."""
        if self.seconds.raw.value is not None:
            return ()
        if self.load.kind.is_queued:
            turns = math.ceil(self.size.requests / self.load.kind.requests_at_once)
            minutes = _MINUTES_PER_SERIES if self.load.kind.is_series else _MINUTES_PER_REQUEST
            return tuple({"minutes_per_request": n, "hours": turns * n / 60} for n in minutes)
        megabytes = (self.bytes.download.value or 0.0) / 1e6
        return tuple({"megabytes_per_second": n, "hours": megabytes / n / 3600} for n in _MEGABYTES_PER_SECOND)

    def to_json(self) -> dict[str, Any]:
        """Return the plan as a JSON value, as `era5 plan --json` prints it; null means unknown."""
        return {**self._request(), **self._months(), **self._sizes(), **self._hours(), **self._disk_space()}

    def _request(self) -> dict[str, Any]:
        return {
            "from": str(self.load.months[0]),
            "to": str(self.load.months[-1]),
            "calendar_months": list(calendar_months_of(self.load.months) or ()) or None,
            "source": self.load.source,
            "variables": [variable.column for variable in self.load.variables],
            "area": self._area,
            "points": None if self.load.points is None else str(self.load.points),
            "locations": self.load.locations,
            "layout": self.contents.layout,
        }

    @property
    def _area(self) -> str | None:
        if self.load.points is not None:
            return None
        return "global" if self.load.is_global else str(self.load.area)

    def _months(self) -> dict[str, Any]:
        def held(count: int) -> int | None:
            return None if self.contents.months is None else count

        return {
            "months": len(self.states),
            "months_loaded": held(len(self.months("loaded"))),
            "months_preliminary": held(len(self.preliminary)),
            "months_incomplete": held(len(self.months("incomplete"))),
            "months_held_otherwise": held(len(self.months("other"))),
            "months_not_complete_yet": len(self.months("early")),
            "months_not_begun": len(self.months("future")),
            "months_to_load": len(self.to_load),
            "first_to_load": str(self.to_load[0]) if self.to_load else None,
            "last_to_load": str(self.to_load[-1]) if self.to_load else None,
            "loaded_not_known": self.contents.reason if self.contents.months is None else None,
        }

    def _sizes(self) -> dict[str, Any]:
        is_asked = self.load.kind.is_queued
        has_limit = is_asked and not self.load.kind.is_series
        return {
            "hours_of_data": self.size.hours,
            "requests": self.size.requests,
            "requests_at_once": self.load.kind.requests_at_once if is_asked else None,
            "fields": self.size.fields,
            "fields_of_largest_request": self.fields_of_largest_request if has_limit else None,
            "fields_allowed_per_request": MAX_FIELDS if has_limit else None,
            "rows": self.size.rows,
            "values": self.size.values,
            "download_bytes": _rounded(self.bytes.download.value),
            "raw_bytes": _rounded(self.bytes.raw.value),
            "parquet_bytes": _rounded(self.bytes.parquet.value),
            "table_bytes": _rounded(self.bytes.table.value),
            "table_bytes_in_columnstore": _rounded(self.bytes.columnstore),
        }

    def _hours(self) -> dict[str, Any]:
        seconds = self.seconds
        return {
            "hours": {
                "raw": _hours(seconds.raw.value),
                "flatten": _hours(seconds.flatten.value),
                "load": _hours(seconds.load.value),
                "compare": _hours(seconds.compare.value),
                "record": _hours(seconds.record.value),
                "all_but_raw": _hours(seconds.work),
                "all_but_raw_two_at_once": _hours(seconds.work_at_once),
                "all": _hours(seconds.one_after_another),
                "all_two_at_once": _hours(seconds.two_at_once),
            },
            "download_guesses": list(self.guesses),
            "known_from": {
                "download_bytes": self.bytes.download.known_from,
                "raw_bytes": self.bytes.raw.known_from,
                "parquet_bytes": self.bytes.parquet.known_from,
                "table_bytes": self.bytes.table.known_from,
                "raw_hours": seconds.raw.known_from,
                "flatten_hours": seconds.flatten.known_from,
                "load_hours": seconds.load.known_from,
                "compare_hours": seconds.compare.known_from,
                "record_hours": seconds.record.known_from,
            },
        }

    def _disk_space(self) -> dict[str, Any]:
        return {
            "keep": self.storage.policy.keep,
            "store": self.storage.policy.store,
            "months_at_once": self.storage.months_at_once,
            "home_needed_bytes": _rounded(self.storage.home_bytes),
            "home_free_bytes": self.disks.home_free_bytes,
            "store_needed_bytes": _rounded(self.storage.store_bytes),
            "table_free_bytes": self.disks.table_free_bytes,
            "warnings": list(self.warnings),
        }


def _rounded(value: float | None) -> int | None:
    return None if value is None else round(value)


def _hours(seconds: float | None) -> float | None:
    return None if seconds is None else seconds / 3600
