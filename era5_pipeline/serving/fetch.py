"""Places that the table has nothing of, loaded on behalf of requests (`era5 serve --fetch`).

A request that asks for such a place leaves a record in the home, and is answered that the place is being loaded. One
process runs the loads of the records (`fetch_runner`), so each place is loaded once however many requests and processes
of the server ask for it.
"""

from __future__ import annotations

import math
import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Literal

import orjson
from fastapi import Response

from era5_pipeline.model.dataset import DATASETS, dataset_option
from era5_pipeline.model.errors import NotLoadedError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.words import counted
from era5_pipeline.planning.fetches import FetchFolder, PlaceFetch, is_held
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.held import months_held
from era5_pipeline.read.missing import how_to_load, point_name
from era5_pipeline.runtime.files import read_json, write_json
from era5_pipeline.serving.browser_guard import sent_by_page_of_other_site
from era5_pipeline.serving.errors import RefusalError, error_answer
from era5_pipeline.serving.requests import HEAD
from era5_pipeline.sources.source import locked_month

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    import psycopg
    from fastapi import FastAPI, Request

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.grid import Location
    from era5_pipeline.serving.requests import WarehouseReader

# When clients may ask again, in seconds.
RETRY_SECONDS = 5
# The most places that may wait: with a minute or two for each, those of a few hours.
_MOST_WAITING = 100

# Why a load failed, by the exit code of `era5 load`: its messages may name files and servers, which are in the log.
_FAILURES = {
    2: "a setting of its loads is wrong",
    3: "its sources have nothing there that can be used",
    4: "a check refused the values",
    5: "the database did not take it",
    6: "its disk is full, or cannot be written",
    7: "its source, or the database, did not answer",
    8: "its source refused",
    9: "its source failed",
    10: "its store of files refused",
}
_INTERRUPTED = 128
_OTHER_FAILURE = "of an error of its own"


class FetchRefusedError(RefusalError):
    """A place will not be loaded now: the answer's status, when to ask again, and why."""

    def __init__(self, status: int, retry_seconds: int, reason: str) -> None:
        Exception.__init__(self, reason)
        self.status, self.retry_seconds, self.reason = status, retry_seconds, reason


@dataclass(frozen=True)
class PlaceProgress:
    """How far the load of a place is: months of all `of_months`; None as long as that is not known."""

    location: Location
    state: Literal["waiting", "loading"]
    months: int
    of_months: int | None

    @property
    def name(self) -> str:
        """The location's degrees."""
        return point_name(self.location)

    @property
    def text(self) -> str:
        """The progress in words."""
        if self.state == "waiting":
            return "waiting for its turn"
        if self.of_months is None:
            return "being loaded"
        return f"being loaded, {self.months:,} of {counted(self.of_months, 'month')} so far"

    def to_json(self) -> dict[str, Any]:
        """The JSON value in an answer."""
        return {
            "latitude": self.location.latitude,
            "longitude": self.location.longitude,
            "state": self.state,
            "months": self.months,
            "of_months": self.of_months,
        }


class PlacePendingError(FetchRefusedError):
    """Places are being loaded: how far, `places` has."""

    def __init__(self, status: int, places: Sequence[PlaceProgress]) -> None:
        first = places[0]
        others = f"; {counted(len(places) - 1, 'other place')} too" if len(places) > 1 else ""
        reason = (
            f"{first.name.capitalize()} is not loaded yet: {first.text}{others}. Ask again in {RETRY_SECONDS} seconds."
        )
        super().__init__(status, RETRY_SECONDS, reason)
        self.places = tuple(places)


@dataclass(frozen=True)
class FetchRequests:
    """Requests for places to be loaded: at most `places_a_day` new ones a day in UTC; None: any number."""

    home: Path
    places_a_day: int | None = None

    def folder_of(self, dataset: Dataset) -> FetchFolder:
        """The records of a data set."""
        return FetchFolder(self.home, dataset)

    def require_loaded(
        self, connection: psycopg.Connection[Any], locations: Sequence[Location], *, may_ask: bool, status: int
    ) -> None:
        """Refuse if any of these locations is being loaded, or could not be; ask for those that are not held.

        They are of the connection's data set. `status` is that of an answer about places that are being loaded.
        """
        dataset = dataset_of(connection)
        folder = self.folder_of(dataset)
        pending: list[PlaceFetch] = []
        absent: list[Location] = []
        for location in locations:
            fetch = folder.find(location)
            if fetch is not None and fetch.state != "failed":
                pending.append(fetch)
            elif is_held(connection, location):
                continue  # all of it, or what a failed load has left: the answer names what is missing
            elif fetch is None:
                absent.append(location)
            else:
                raise _failed(fetch, dataset)
        if absent and may_ask:
            pending += self._ask(connection, absent)
        if pending:
            raise PlacePendingError(status, [_progress(connection, fetch) for fetch in pending])

    def _ask(self, connection: psycopg.Connection[Any], locations: Sequence[Location]) -> list[PlaceFetch]:
        dataset = dataset_of(connection)
        folder = self.folder_of(dataset)
        with locked_month("places", self._path / "asking.lock", lambda _: None, ""):
            found = {location: folder.find(location) for location in locations}
            new = [one for one, fetch in found.items() if fetch is None and not is_held(connection, one)]
            if len(new) + sum(len(self.folder_of(one).unfinished()) for one in DATASETS.values()) > _MOST_WAITING:
                raise FetchRefusedError(
                    503,
                    60,
                    f"{counted(len(new), 'place')} asked for {'is' if len(new) == 1 else 'are'} not loaded, and no "
                    f"more than {_MOST_WAITING} may wait. Ask for fewer at once, or later; or load their area: "
                    f"era5 load{dataset_option(dataset)} --area.",
                )
            self._count(new, dataset)
            now = time.time()
            for location in new:
                folder.write(PlaceFetch(location.location_id, now, grid=location.grid))
        # One whose load has just ended is held now: the client asks again.
        return [found[one] or PlaceFetch(one.location_id, now, grid=one.grid) for one in locations]

    @property
    def _path(self) -> Path:
        return self.home / "fetch"

    def _count(self, new: Sequence[Location], dataset: Dataset) -> None:
        """Count new places of this day, in a file: it holds for all processes of the server, and after a restart."""
        if self.places_a_day is None:
            return
        path, now = self._path / "day.json", datetime.now(UTC)
        day = read_json(path) or {}
        places = set(map(str, day["places"])) if day.get("day") == f"{now:%Y-%m-%d}" else set()
        places.update(f"{dataset.name} {location.location_id}" for location in new)
        if len(places) > self.places_a_day:
            midnight = now.replace(hour=0, minute=0, second=0, microsecond=0) + timedelta(days=1)
            raise FetchRefusedError(
                429,
                math.ceil((midnight - now).total_seconds()),
                f"This server loads at most {counted(self.places_a_day, 'place')} a day that "
                f"{'was' if self.places_a_day == 1 else 'were'} not loaded before; that is reached for today (UTC).",
            )
        write_json(path, {"day": f"{now:%Y-%m-%d}", "places": sorted(places)})


def _failed(fetch: PlaceFetch, dataset: Dataset) -> FetchRefusedError:
    why = _FAILURES.get(fetch.exit_code, _OTHER_FAILURE)
    if fetch.exit_code < 0 or fetch.exit_code > _INTERRUPTED:
        why = "it was ended from outside"
    left = max(1, math.ceil(fetch.next_try - time.time()))
    return FetchRefusedError(
        503,
        left,
        f"{point_name(fetch.location).capitalize()} could not be loaded: {why}. The server's log has the details. It "
        f"is tried again in {counted(math.ceil(left / 60), 'minute')}, or by hand: {how_to_load(fetch.location, None)}",
    )


def _progress(connection: psycopg.Connection[Any], fetch: PlaceFetch) -> PlaceProgress:
    if fetch.state != "loading":
        return PlaceProgress(fetch.location, "waiting", 0, fetch.months)
    done = len(months_held(connection, LocationSet.of_location(fetch.location)))
    return PlaceProgress(fetch.location, "loading", done, fetch.months)


@contextmanager
def fetching(
    request: Request, reader: WarehouseReader, locations: Sequence[Location], dataset: Dataset, status: int = 202
) -> Iterator[None]:
    """Answer in this context from the table; if it has nothing of a location, and the server fetches, ask for it.

    The locations are of the data set. `status` is that of the answer meanwhile.

    Raises:
        PlacePendingError: if a location is being loaded.
        FetchRefusedError: if it will not be loaded now.
    """
    fetches: FetchRequests | None = request.app.state.fetches
    if fetches is None:
        yield
        return
    locations = tuple(dict.fromkeys(locations))
    # Without a file nothing is asked of the database.
    folder = fetches.folder_of(dataset)
    if begun := [location for location in locations if folder.find(location) is not None]:
        with reader.connected("looking for the place", dataset) as connection:
            fetches.require_loaded(connection, begun, may_ask=False, status=status)
    try:
        yield
    except NotLoadedError:
        with reader.connected("looking for the place", dataset) as connection:
            fetches.require_loaded(connection, locations, may_ask=_may_ask(request), status=status)
        raise


def _may_ask(request: Request) -> bool:
    """Return True if the request may have an effect: no HEAD, and not sent by a page of a site that is not allowed."""
    if request.scope.get(HEAD):
        return False
    origins = request.app.state.cors_origins
    is_allowed = "*" in origins or request.headers.get("origin") in origins
    return is_allowed or not sent_by_page_of_other_site(request.headers)


_PENDING = {"description": "The place is being loaded: ask again after Retry-After seconds"}
_LIMITED = {"description": "As many places as may be loaded in a day were loaded"}
# Further answers of a server that fetches, for the description of the routes (OpenAPI), by their tag.
FETCH_RESPONSES: dict[str, dict[int | str, dict[str, Any]]] = {
    "weather": {429: _LIMITED},
    "climate": {202: _PENDING, 429: _LIMITED},
}


def add_fetch_handler(app: FastAPI) -> None:
    """Make the app answer in JSON that a place is being loaded."""
    app.add_exception_handler(PlacePendingError, _pending)


async def _pending(_: Request, error: Exception) -> Response:
    assert isinstance(error, PlacePendingError)  # noqa: S101
    headers = {"Retry-After": str(error.retry_seconds), "Cache-Control": "no-store"}
    if error.status != 202:
        return error_answer(error.status, error.reason, headers)
    content = {"reason": error.reason, "places": [place.to_json() for place in error.places]}
    return Response(orjson.dumps(content), 202, media_type="application/json; charset=utf-8", headers=headers)
