"""Sources and versions: the traits of each source, and the version of ERA5 that a month holds."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal, Self

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from era5_pipeline.model.dataset import Dataset

# --- The traits of each source: a service, queued, generated, the user's own files ---
#
# The single table of sources. A source is its entry here and its module in `sources/`, which has
# `open_source(settings, request, say)`. Every other module asks the entry instead of comparing names.
#
# Imports nothing heavy: the command line reads its choices from here.


@dataclass(frozen=True)
class SourceKind:
    """The traits of one source; by default it downloads nothing, and holds real ERA5 data that do not change.

    Args:
        name: as in settings and the ledger.
        is_service: it publishes newer data later: months can be fetched again, and preliminary ones become final. The
            same month from two services is the same data.
        requests_at_once: how many requests, one per month, go into the service's queue at a time; 0: no queue.
        downloads_globe: it stores whole hours of the globe, downloaded for any area; raw files are cut out of them.
        is_generated: its data are made up: always complete, and not to be credited to ECMWF or Copernicus.
        has_own_files: the user's files are used in place, in the folders of the settings; they determine the months,
            variables and locations.
        has_daily_files: a raw month is one file per day; otherwise one per step type.
        default_area: the area of a month if none is requested.
        raw_stage: what its stage `raw` does, in the words of a plan.
        is_series: it is asked for points (ERA5_POINT), not for an area. One request brings all months of a point.
        is_chunked: its values are in chunks of several months and places, each of which is read once for all months
            wanted. Without an area, a month has whatever places the source holds.
        states_no_version: its data need not state their version: that of recent months is inferred from their age.
        is_known_store: a public store that the source `zarr` reads, by its name instead of its address.
        datasets: the names of the data sets that months come in, besides what `has` says.
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
    is_chunked: bool = False
    states_no_version: bool = False
    is_known_store: bool = False
    datasets: tuple[str, ...] = ("era5",)

    def has(self, dataset: Dataset) -> bool:
        """Return True if months come in the data set: own files hold any, and any is generated."""
        return dataset.name in self.datasets or self.has_own_files or self.is_generated

    @property
    def is_queued(self) -> bool:
        """True if a month is a request that waits in a service's queue."""
        return self.requests_at_once > 0

    @property
    def is_requested_by_month(self) -> bool:
        """True if months arrive one by one: each is then a run of Dagster, and others are requested meanwhile."""
        return self.is_queued and not self.is_series


_ERA5, _BOTH = ("era5",), ("era5", "era5-land")
_STORE = SourceKind(
    "zarr", is_service=True, is_chunked=True, states_no_version=True, raw_stage="download", datasets=_BOTH
)
_KNOWN_STORE = replace(_STORE, is_known_store=True)
SOURCE_KINDS: dict[str, SourceKind] = {
    kind.name: kind
    for kind in (
        # The Climate Data Store rejects most requests of users who queue more at once.
        SourceKind("cds", is_service=True, requests_at_once=2, raw_stage="download", datasets=_BOTH),
        SourceKind("arco", is_service=True, downloads_globe=True, has_daily_files=True, raw_stage="download"),
        SourceKind(
            "point",
            is_service=True,
            requests_at_once=2,
            is_series=True,
            states_no_version=True,
            raw_stage="download",
            datasets=_BOTH,
        ),
        _STORE,
        replace(_KNOWN_STORE, name="earthmover", datasets=_ERA5),
        replace(_KNOWN_STORE, name="edh"),
        replace(_KNOWN_STORE, name="ecmwf-arco"),
        SourceKind("files", has_own_files=True),
        # Around Jakarta: 11 x 11 points of ERA5.
        SourceKind(
            "sample",
            is_generated=True,
            default_area="-5/106/-7.5/108.5",
            raw_stage="generate",
        ),
    )
}

# Defaults if no source is set: with a folder of files, with a Zarr store, with a point, and with none.
SOURCE_OF_FOLDERS = "files"
SOURCE_OF_STORES = "zarr"
SOURCE_OF_POINTS = "point"
# Of a place: the open store, which needs no key.
SOURCE_OF_PLACES = "earthmover"

# Some sources state no version. ERA5T is replaced two to three months after its month: months that ended fewer months
# than this before they were fetched are taken to be preliminary.
YOUNG_MONTHS = 4
DEFAULT_SOURCE = "cds"


def source_kind(name: str | None) -> SourceKind:
    """The traits of the source `name`; an unknown one, which an old ledger may name, gets the default traits."""
    return SOURCE_KINDS.get(name or "") or SourceKind(name or "")


def names_of(*, services: bool = False) -> str:
    """List the sources, `cds, arco, files or sample`; with `services`, only the services."""
    *first, last = (name for name, kind in SOURCE_KINDS.items() if kind.is_service or not services)
    return f"{', '.join(first)} or {last}" if first else last


def require_dataset(name: str, dataset: Dataset) -> None:
    """Check that months of the data set come from the source `name`."""
    kind = source_kind(name)
    if not kind.has(dataset):
        others = [one.name for one in SOURCE_KINDS.values() if one.has(dataset)]
        raise UsageError(
            f"the source {name} has no {dataset.short_title}: it has ERA5 alone",
            remedy=f"Load {dataset.short_title} from another source: --source {' or '.join(others)}.",
        )


FINAL = "0001"
PRELIMINARY = "0005"
# Of hours that a store without versions had when ERA5T had long been replaced: no code of ERA5, and never its word.
BY_AGE = "by age"

Version = Literal["final", "final by age", "preliminary", "mixed", "unknown", "generated"]
# A whole may also be generated in part.
VersionOfAll = Version | Literal["partly generated"]
_VERSION_TEXTS: dict[Version, str] = {
    "final": "final",
    "final by age": "final by age: the store states no version",
    "preliminary": "preliminary: {title}",
    "mixed": "partly preliminary, {title}",
    "unknown": "version not stated",
    "generated": "generated",
}
VERSIONS: tuple[Version, ...] = tuple(_VERSION_TEXTS)


def version_text(version: Version, dataset: Dataset) -> str:
    """The version of hours of a data set, in words: `preliminary: ERA5T`."""
    return _VERSION_TEXTS[version].format(title=dataset.preliminary_title)


@dataclass(frozen=True)
class Snapshot:
    """A state of a source's store that never changes, by the store's own id; `written_at` is ISO 8601, UTC."""

    id: str
    written_at: str

    def __str__(self) -> str:
        return f"{self.id} of {self.written_at[:10]}"

    @classmethod
    def from_json(cls, value: Mapping[str, str] | None) -> Self | None:
        """Build the snapshot from the JSON of `asdict`; None for a source without snapshots."""
        return None if value is None else cls(value["id"], value["written_at"])


def named_store(source: str, snapshot: Snapshot | None) -> str:
    """Name a source, and the snapshot of its store that was read, if it has several."""
    return source if snapshot is None else f"{source}, snapshot {snapshot}"


# Whose word it is that values are hourly ones of ERA5: the source's or the file's own (`stated`); nobody's, because the
# file does not say (`not stated`); or the user's against the file's (`trusted`). In ascending order of doubt.
Origin = Literal["stated", "not stated", "trusted"]
ORIGINS: tuple[Origin, ...] = ("stated", "not stated", "trusted")
ORIGIN_TEXTS: dict[Origin | None, str] = {
    "not stated": "origin not stated by the files",
    "trusted": "ERA5 by the user's word, not by that of the files (--trust-files)",
}


def most_doubtful(origins: Iterable[Origin | None]) -> Origin | None:
    """The origin of values of all these origins together; None: not recorded, unless another one is in doubt."""
    found = set(origins)
    doubtful = next((origin for origin in reversed(ORIGINS[1:]) if origin in found), None)
    return doubtful or (None if not found or None in found else "stated")


def version_of(
    expver: Mapping[str, Mapping[str, int]],
    preliminary_hours: Mapping[str, Sequence[str]] | None = None,
    *,
    generated: Collection[str] = (),
) -> Version:
    """Determine the version of a month from its hour counts by column and version (`expver`).

    "unknown" if the files do not name their version, "mixed" if some hours are preliminary, "final by age" if none are
    and some are final by their age alone. `generated` are columns of generated data, whatever their files say: they do
    not count, and "generated" is said if there are no others.

    `preliminary_hours` are runs of hours by column. If given but empty, preliminary data are ignored, because the files
    have final data for the same hours. None: every hour counted as preliminary is preliminary.
    """
    if generated and set(expver) <= set(generated):
        return "generated"
    counted = {
        version
        for column, counts in expver.items()
        if column not in generated
        for version, hours in counts.items()
        if hours
    }
    if preliminary_hours is not None and not any(preliminary_hours.values()):
        counted.discard(PRELIMINARY)
    if PRELIMINARY in counted:
        return "preliminary" if counted == {PRELIMINARY} else "mixed"
    if counted and counted <= {FINAL, BY_AGE}:
        return "final" if counted == {FINAL} else "final by age"
    return "unknown"


def version_of_all(versions: Iterable[Version]) -> VersionOfAll | None:
    """The version of a whole whose parts have these: mixed if some hours are preliminary; None without parts."""
    found = set(versions)
    if len(found) < 2:
        return next(iter(found), None)
    if "generated" in found:
        return "partly generated"
    if found == {"final", "final by age"}:
        return "final by age"
    return "mixed" if found & {"preliminary", "mixed"} else "unknown"
