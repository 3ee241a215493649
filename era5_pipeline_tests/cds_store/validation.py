"""Validation of a request, and its key in the cache of answers, as in the service.

Source: `minimal_mars_schema` and the fixers of cads-adaptors (scalars become lists, numbers become text, anything else
is refused), `expand_dates`, `implement_embargo` and `get_caching_args` there; the texts are those the service sends.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

# Keys whose values may repeat; those of all others are a set of fields.
_MAY_REPEAT = ("area", "grid")


class InvalidRequestError(Exception):
    """A request that the service refuses when it is sent, with this text as `detail`."""


@dataclass(frozen=True)
class StoredRequest:
    """A valid request: its lists of text, its days, and its key in the cache.

    `cache_key` is None where the embargo cuts the request: such an answer is not cached.
    """

    lists: dict[str, list[str]]
    days: tuple[date, ...]
    cache_key: str | None


def validated(inputs: dict[str, Any], newest: datetime) -> StoredRequest:
    """Check a request against the schema, and against `newest`, the latest hour that there is.

    Raises:
        InvalidRequestError: as the service answers with status 400.
    """
    lists = {key: _as_texts(key, value) for key, value in inputs.items()}
    asked = _days(lists)
    available = tuple(day for day in asked if day <= newest.date())
    if not available:
        raise InvalidRequestError(
            "None of the data you have requested is available yet, please revise the period requested. "
            f"The latest date available for this dataset is: {newest:%Y-%m-%d %H:00}"
        )
    is_cut = available != asked or asked[-1] == newest.date()
    # The days are sorted on their way to the archive; every other list goes into the key as it was sent.
    named = {key: texts for key, texts in lists.items() if key not in ("year", "month", "day")}
    key = json.dumps([named, [day.isoformat() for day in asked]], sort_keys=True)
    return StoredRequest(lists, available, None if is_cut else key)


def _as_texts(key: str, value: object) -> list[str]:
    values = list(value) if isinstance(value, list) else [value]
    if not values:
        raise InvalidRequestError(f"request[{key!r}]: []: list has too few items. Should have at least 1")
    texts = []
    for index, one in enumerate(values):
        if isinstance(one, bool) or not isinstance(one, str | int | float):
            raise InvalidRequestError(f"request[{key!r}][{index}]: {one!r} is not of type 'string'")
        texts.append(str(one))
    repeated = next((text for index, text in enumerate(texts) if text in texts[:index]), None)
    if repeated is not None and key not in _MAY_REPEAT:
        raise InvalidRequestError(f"request[{key!r}]: has repeated values in the list, e.g. {repeated!r}")
    return texts


def _days(lists: dict[str, list[str]]) -> tuple[date, ...]:
    numbers: dict[str, list[int]] = {}
    for key in ("year", "month", "day"):
        numbers[key] = []
        for text in lists.get(key, []):
            try:
                numbers[key].append(int(text))
            except ValueError:
                raise InvalidRequestError(f"Invalid integer for {key}: {text!r}") from None
    days = set()
    for year in numbers["year"]:
        for month in numbers["month"]:
            for day in numbers["day"]:
                try:
                    days.add(date(year, month, day))
                except ValueError:
                    continue  # a day that the month lacks
    if not days:
        raise InvalidRequestError(
            f"No valid dates from year={numbers['year']} month={numbers['month']} day={numbers['day']}"
        )
    return tuple(sorted(days))
