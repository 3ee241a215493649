"""Where data come from and which version they are, by the ledger: the credit line, and the notice of generated data.

Copernicus's licence asks for "Contains modified Copernicus Climate Change Service information [Year]" and does not say
which year. Here it is the year of the data, as in the credit of Copernicus's Sentinel data: it follows from the table,
so the same data give the same picture on any day. For several years it is "1940 to 2024".
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from era5_pipeline.model.dataset import ERA5, Dataset
from era5_pipeline.model.months import Month, spans
from era5_pipeline.model.source_kinds import ORIGIN_TEXTS, ORIGINS, VERSIONS, source_kind, version_of_all, version_text
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.boxes import hour_range
from era5_pipeline.read.held import part_versions

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from datetime import datetime

    import psycopg

    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.model.source_kinds import Snapshot, Version, VersionOfAll
    from era5_pipeline.read.held import PartVersion

_Key = TypeVar("_Key")
_COPERNICUS = "Contains modified Copernicus Climate Change Service information"
SAMPLE_CREDIT = "Generated sample data, not ERA5"
UNKNOWN_CREDIT = "Source unknown"
# The most spans of months that the credit names for a version.
_SHOWN_SPANS = 2
# Versions that no file or store has stated.
_NOT_STATED: tuple[Version, ...] = ("unknown", "final by age")
_NOTHING_REAL = "not ERA5: these numbers say nothing about the real weather"


def sample_notice(sources: Iterable[str]) -> str | None:
    """The warning that must precede generated data; None if none of these sources is generated.

    An answer with this warning draws no conclusion: neither "warmer" nor "significant".
    """
    is_generated = {source_kind(name).is_generated for name in sources}
    if True not in is_generated:
        return None
    if False in is_generated:
        return f"Partly generated sample data, {_NOTHING_REAL}."
    return f"Generated sample data, {_NOTHING_REAL}."


def era5_credit(first_year: int, last_year: int, dataset: Dataset = ERA5) -> str:
    """The credit line for data of ERA5, or of another data set, from the first to the last year."""
    years = f"{first_year}" if first_year == last_year else f"{first_year} to {last_year}"
    return f"{_COPERNICUS} {years}; data {dataset.short_title}, C3S/ECMWF"


@dataclass(frozen=True)
class DataOrigin:
    """The origin of hours, by the ledger: the sources, the months by version of their hours, and the credit line.

    `snapshots` are the months by state of their source's store, of stores that have several; `confirmed` the months of
    which another source has the same values, within the quantum of each variable, by that source and its snapshot.
    """

    sources: tuple[str, ...] = ()
    versions: Mapping[Version, tuple[Month, ...]] = field(default_factory=dict)
    credit: str = UNKNOWN_CREDIT
    snapshots: Mapping[Snapshot, tuple[Month, ...]] = field(default_factory=dict)
    confirmed: Mapping[str, tuple[Month, ...]] = field(default_factory=dict)

    @property
    def notice(self) -> str | None:
        """The warning that must precede generated data; None if none are generated."""
        return sample_notice(self.sources)

    @property
    def version(self) -> VersionOfAll:
        """The version of all hours together, in one word or two."""
        return version_of_all(self.versions) or "unknown"

    @property
    def era5_versions(self) -> str:
        """The months by version: `final: 2023-01 to 2023-08; preliminary: 2023-09`; `unknown` without a ledger."""
        return (
            "; ".join(f"{version}: {spans(self.versions[version])}" for version in sorted(self.versions)) or "unknown"
        )

    @property
    def attributes(self) -> dict[str, str]:
        """Versions, credit, any notice, snapshots and confirmations by the names that files and JSON give them."""
        notice = {"notice": self.notice} if self.notice else {}
        stores = {"snapshots": _in_words(self.snapshots), "confirmed_by": _in_words(self.confirmed)}
        said = {name: text for name, text in stores.items() if text}
        return {**notice, "era5_versions": self.era5_versions, "credit": self.credit, **said}


UNKNOWN_ORIGIN = DataOrigin()


def read_origin(
    connection: psycopg.Connection[Any],
    start: datetime | None,
    end: datetime | None,
    locations: LocationSet | None = None,
    columns: Iterable[str] | None = None,
    *,
    months: Collection[Month] | None = None,
) -> DataOrigin:
    """The origin of hours with `start <= time < end` (aware; None: unlimited) of places and columns (None: all).

    `months` leaves out the others (None: none).
    """
    first = Month.of(start) if start else None
    last = Month.before(end) if end else None
    parts = part_versions(connection, locations, columns, first, last)
    parts = tuple(part for part in parts if months is None or part.month in months)
    return origin_of(parts, start, end, dataset_of(connection))


def read_credit(
    connection: psycopg.Connection[Any],
    start: datetime | None,
    end: datetime | None,
    locations: LocationSet | None = None,
    columns: Iterable[str] | None = None,
) -> str:
    """The credit line of these hours; the arguments are those of `read_origin`."""
    return read_origin(connection, start, end, locations, columns).credit


def origin_of(
    parts: Iterable[PartVersion],
    start: datetime | None = None,
    end: datetime | None = None,
    dataset: Dataset = ERA5,
) -> DataOrigin:
    """The origin of the hours of these parts of a data set with `start <= time < end` (aware; None: unlimited).

    Copernicus is credited only if a month came from a source of real data, with the years of those months. The credit
    also says which version of ERA5 the hours are, if values were interpolated between the grid points, and if files do
    not show that they are of ERA5.
    """
    parts = [part for part in parts if part.sources]
    if not parts:
        return UNKNOWN_ORIGIN
    sources = tuple(sorted({source for part in parts for source in part.sources}))
    versions = _months_by_version(parts, start, end)
    real = [part for part in parts if part.version != "generated"]
    if not real:
        return DataOrigin(sources, versions, SAMPLE_CREDIT)
    years = sorted(part.month.year for part in real)
    shifts, said = dict.fromkeys(part.interpolated for part in parts), {part.origin for part in parts}
    some = "some values " if len(shifts) > 1 else ""
    some_of = "some values: " if len(said) > 1 else ""
    doubts = [ORIGIN_TEXTS[origin] for origin in ORIGINS if origin in said and origin in ORIGIN_TEXTS]
    credit = [
        f"{era5_credit(years[0], years[-1], dataset)} ({_version_words(versions, dataset)})",
        *(["some months are generated sample data, not ERA5"] if sample_notice(sources) else []),
        *(f"{some}{shift.text}" for shift in shifts if shift is not None),
        *(f"{some_of}{doubt}" for doubt in doubts),
    ]
    read = _months_by((snapshot, part.month) for part in parts for snapshot in part.snapshots)
    snapshots = {snapshot: read[snapshot] for snapshot in sorted(read, key=lambda one: one.written_at)}
    confirmed = _months_by((part.confirmed, part.month) for part in parts if part.confirmed is not None)
    return DataOrigin(sources, versions, "; ".join(credit), snapshots, confirmed)


def _in_words(months_by: Mapping[Any, tuple[Month, ...]]) -> str:
    return "; ".join(f"{key}: {spans(months)}" for key, months in months_by.items())


def _months_by(found: Iterable[tuple[_Key, Month]]) -> dict[_Key, tuple[Month, ...]]:
    months: dict[_Key, set[Month]] = {}
    for key, month in found:
        months.setdefault(key, set()).add(month)
    return {key: tuple(sorted(of_key)) for key, of_key in months.items()}


def _months_by_version(
    parts: Collection[PartVersion], start: datetime | None, end: datetime | None
) -> dict[Version, tuple[Month, ...]]:
    """The months of parts, by the version of those of their hours that are within."""
    own = ((_version_within(part, start, end), part.month) for part in parts)
    generated: Iterable[tuple[Version, Month]] = (
        ("generated", part.month) for part in parts if sample_notice(part.sources)
    )
    return _months_by((*own, *generated))


def _version_within(part: PartVersion, start: datetime | None, end: datetime | None) -> Version:
    if part.version != "mixed":
        return part.version
    within = set(
        hour_range(max(part.month.start, start or part.month.start), min(part.month.end, end or part.month.end))
    )
    if within <= part.preliminary:
        return "preliminary"
    return "mixed" if within & part.preliminary else part.others


def _version_words(versions: Mapping[Version, tuple[Month, ...]], dataset: Dataset) -> str:
    """The version of the hours that are not generated: one for all, or the months that are not final."""
    real = {version: versions[version] for version in VERSIONS if version in versions and version != "generated"}
    if len(real) == 1 and "mixed" not in real:
        return version_text(next(iter(real)), dataset)
    preliminary = sorted({*real.get("preliminary", ()), *real.get("mixed", ())})
    named = [
        *([f"{version_text('mixed', dataset)}: {spans(preliminary, shown=_SHOWN_SPANS)}"] if preliminary else []),
        *(
            f"{version_text(version, dataset)}: {spans(real[version], shown=_SHOWN_SPANS)}"
            for version in _NOT_STATED
            if version in real
        ),
    ]
    return "; ".join([*named, *(["others final"] if "final" in real else [])])
