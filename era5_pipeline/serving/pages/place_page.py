"""A place's page, as `era5 report` writes it, found by name; pages are kept until the ledger says otherwise."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.places.grid_cells import cell_of
from era5_pipeline.model.places.place import AskedPlace
from era5_pipeline.model.places.place_search import describe, find_candidates, place_meant, unknown_place
from era5_pipeline.query.api.question import asked_place as asked_point
from era5_pipeline.query.available import nearest_place, point_name
from era5_pipeline.query.climate.anomalies import parse_baseline
from era5_pipeline.query.climate.climate_answer import ClimatePlace
from era5_pipeline.query.climate.reading.read_climate import DayChoice, Period, read_climate
from era5_pipeline.query.report.elements import element
from era5_pipeline.serving.pages.page_frame import framed
from era5_pipeline.serving.refusals import BusyError

if TYPE_CHECKING:
    from collections.abc import Callable
    from xml.etree import ElementTree as ET

    import psycopg

    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.places.place import Place
    from era5_pipeline.query.climate.climate_answer import ClimateAnswer

# What `era5 report` has if nothing else is asked.
_BASELINE = "1991-2020"
# Pages kept in one process: each is about a megabyte.
_KEPT_PAGES = 32
_COORDINATES = re.compile(r"([+-]?\d{1,3}(?:\.\d{1,12})?)\s*[,\s]\s*([+-]?\d{1,3}(?:\.\d{1,12})?)")
_guessing = threading.Lock()


class PageCache:
    """Pages that were made, by place and by what they were read from; one is made at a time.

    Drawing is not made for threads, and its pictures take much memory.
    """

    def __init__(self, wait_seconds: float) -> None:
        self._pages: OrderedDict[tuple[object, ...], bytes] = OrderedDict()
        self._lock = threading.Lock()
        self._making = threading.Lock()
        self._wait_seconds = wait_seconds

    def page(self, asked: AskedPlace, contents: str | None, read: Callable[[], ClimateAnswer]) -> bytes:
        """The page of a place: one that is kept, else from what `read` returns; `contents` None: keep none.

        Raises:
            BusyError: if others were made for as long as a request may wait.
        """
        key = (asked.place, asked.latitude, asked.longitude, contents or "")
        kept = self._kept(key)
        if kept is not None:
            return kept
        if not self._making.acquire(timeout=self._wait_seconds):
            raise BusyError(self._wait_seconds)
        try:
            kept = self._kept(key)  # made while this request waited
            if kept is not None:
                return kept
            # Drawing imports matplotlib and scipy: the first page needs them, and no other answer.
            from era5_pipeline.query.report.report_page import report_page  # noqa: PLC0415

            page = report_page(read()).encode()
        finally:
            self._making.release()
        if contents is not None:
            self._keep(key, page)
        return page

    def _kept(self, key: tuple[object, ...]) -> bytes | None:
        with self._lock:
            if key in self._pages:
                self._pages.move_to_end(key)
            return self._pages.get(key)

    def _keep(self, key: tuple[object, ...], page: bytes) -> None:
        with self._lock:
            self._pages[key] = page
            while len(self._pages) > _KEPT_PAGES:
                self._pages.popitem(last=False)


def asked_place(name: str) -> AskedPlace | list[Place]:
    """The city that a name means, or the point of `LAT,LON`, with its cell; or the cities that it may mean.

    Raises:
        UsageError: if no city has the name, or there is no such point.
    """
    if match := _COORDINATES.fullmatch(name.strip()):
        return asked_point(None, float(match[1]), float(match[2]))
    candidates = find_candidates(name)
    if not candidates:
        raise _unknown(name)
    meant = place_meant(candidates)
    if meant is None:
        return [one.place for one in candidates]
    return AskedPlace(meant, meant.latitude, meant.longitude, cell_of(meant.latitude, meant.longitude, "nearest"))


def _unknown(name: str) -> UsageError:
    """The error for a name that no city has; with the nearest names, unless these are being looked for already."""
    # Comparing a name with all others takes a tenth of a second or two, which other answers wait for.
    if not _guessing.acquire(blocking=False):
        return UsageError("no city of the table has this name", remedy="Check how it is written.")
    try:
        return unknown_place(name)
    finally:
        _guessing.release()


def read_place(connection: psycopg.Connection[Any], asked: AskedPlace) -> ClimateAnswer:
    """The contents of a place's page.

    Raises:
        NoDataError: if the table has no whole day of it.
    """
    subject = ClimatePlace.of_asked(asked, in_its_zone=False)
    return read_climate(connection, subject, Period(), parse_baseline(_BASELINE), DayChoice())


def choice_page(name: str, places: list[Place]) -> bytes:
    """The page for a name of several cities: which they are."""
    items = [element("li", element("a", describe(place), href=f"/place/{place.geoname_id}")) for place in places]
    return framed(f"{name}: which one?", element("p", f"{len(places)} cities have this name."), element("ul", *items))


def failure_page(title: str, reason: str, link: ET.Element | None = None) -> bytes:
    """The page that says why there is none, and where there is one."""
    lines = [line.strip() for line in reason.splitlines() if line.strip()]
    return framed(title, *(element("p", line) for line in lines), *([link] if link is not None else []))


def nearest_link(places: LocationSet, asked: AskedPlace) -> ET.Element:
    """A link to the page of the loaded place that is nearest; the reason beside it tells its distance."""
    place, _ = nearest_place(places.ids(), asked.latitude, asked.longitude)
    link = element("a", point_name(place), href=path_of(f"{place.latitude:g},{place.longitude:g}"))
    return element("p", "The page of the nearest place that is loaded: ", link, ".")


def path_of(name: str) -> str:
    """The path of a place's page.

    Raises:
        UsageError: if the name is empty.
    """
    if not name.strip():
        raise UsageError("the name of the place is empty", remedy="Give the name of a city, such as Jakarta.")
    return f"/place/{quote(name.strip(), safe='')}"
