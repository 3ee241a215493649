"""Sources and versions: what kind of source each one is, and which version of ERA5 a month consists of."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

# --- What kind of source each one is: a service, queued, generated, the user's own files ---
#
# One table of all sources.
#
# A source is its entry here and its module in `sources/`, which has `open_source(settings, request, say)`. Every other
# module asks the entry, and compares no names.
#
# Imports nothing heavy: the command line reads its choices from here.


@dataclass(frozen=True)
class SourceKind:
    """The traits of one source; by default it downloads nothing, and holds real ERA5 data for good.

    Args:
        name: as settings and the ledger have it.
        is_service: it has newer data later: months can be fetched again, preliminary ones become final. The same month
            of two services is the same data.
        requests_at_once: a month is one request in the service's queue, of which so many go at a time; 0: no queue.
        downloads_globe: it stores whole hours of the globe, which are downloaded for any area; raw files are cut out.
        is_generated: its data are made up: complete at any time, and not to be credited to ECMWF or Copernicus.
        has_own_files: the user's files are used where they are, in the folders of the settings; they decide which
            months, variables and locations there are.
        has_daily_files: a raw month is a file per day; else a file per step type.
        default_area: the area of a month where none was asked for.
        raw_stage: what its stage `raw` does, as plans name it.
        is_series: it is asked for points (ERA5_POINT), not for an area. One request brings all months of a point, as a
            series that states no version: of young months the version is inferred from their age.
    """

    name: str
    is_service: bool = False
    requests_at_once: int = 0
    downloads_globe: bool = False
    is_generated: bool = False
    has_own_files: bool = False
    has_daily_files: bool = False
    default_area: str = "global"
    raw_stage: str = "raw files"
    is_series: bool = False

    @property
    def is_queued(self) -> bool:
        """Whether a month is a request that waits in a service's queue."""
        return self.requests_at_once > 0


SOURCE_KINDS: dict[str, SourceKind] = {
    kind.name: kind
    for kind in (
        # Of users with more requests at once, the Climate Data Store rejects most.
        SourceKind("cds", is_service=True, requests_at_once=2, raw_stage="download"),
        SourceKind("arco", is_service=True, downloads_globe=True, has_daily_files=True, raw_stage="download"),
        SourceKind("point", is_service=True, requests_at_once=2, is_series=True, raw_stage="download"),
        SourceKind("files", has_own_files=True),
        # Around Jakarta: 11 x 11 points.
        SourceKind("sample", is_generated=True, default_area="-5/106/-7.5/108.5", raw_stage="generate"),
    )
}

# The names, as the command line offers them: in the order of the table.
SourceChoice = Literal["cds", "arco", "point", "files", "sample"]

# Where the settings name no source: with a folder of files, with a point, and without either.
SOURCE_OF_FOLDERS = "files"
SOURCE_OF_POINTS = "point"

# A series states no version. ERA5T is replaced two to three months after its month: of a month that ended fewer months
# than this before the one in which the series was fetched, the values are taken to be preliminary.
YOUNG_MONTHS = 4
DEFAULT_SOURCE = "cds"


def source_kind(name: str | None) -> SourceKind:
    """The traits of the source `name`; one that the table does not have (an old ledger may name it) has none."""
    return SOURCE_KINDS.get(name or "") or SourceKind(name or "")


def names_of(*, services: bool = False) -> str:
    """The sources in words, `cds, arco, files or sample`; with `services`, only those."""
    *first, last = (name for name, kind in SOURCE_KINDS.items() if kind.is_service or not services)
    return f"{', '.join(first)} or {last}" if first else last


# --- The version of ERA5 that a month consists of: final, preliminary (ERA5T), or some hours of each ---


FINAL = "0001"
PRELIMINARY = "0005"

Version = Literal["final", "preliminary", "mixed", "unknown"]


def version_of(
    expver: Mapping[str, Mapping[str, int]], preliminary_hours: Mapping[str, Sequence[str]] | None = None
) -> Version:
    """The version of a month, from its number of hours by column and version (`expver`).

    "unknown" where the files do not name their version, "mixed" where some hours are preliminary.

    `preliminary_hours` are runs of hours by column. If it is given and empty, preliminary data are ignored: the files
    have final data for the same hours as well. None: all hours counted as preliminary are.
    """
    counted = {version for counts in expver.values() for version, hours in counts.items() if hours}
    if preliminary_hours is not None and not any(preliminary_hours.values()):
        counted.discard(PRELIMINARY)
    if PRELIMINARY in counted:
        return "preliminary" if counted == {PRELIMINARY} else "mixed"
    return "final" if counted == {FINAL} else "unknown"
