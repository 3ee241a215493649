"""The source `ecmwf-arco`: months from ECMWF's ARCO data lake, which has ERA5 in one store, and others in several.

A preset of the source `zarr`. Of a data set in several stores, each has a group of variables: a month has the files of
every store with a variable that is wanted. Accumulations are amounts of hours there already.
"""

from __future__ import annotations

from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from typing_extensions import override

from era5_pipeline.model.errors import SourceError
from era5_pipeline.sources.zarr.presets import PRESETS
from era5_pipeline.sources.zarr.source import ZarrSource
from era5_pipeline.sources.zarr.source import open_source as open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from era5_pipeline.model.grid import Area
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.source_kinds import Snapshot
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.sources.source import RawMonth, Request

_PRESET = "ecmwf-arco"


@dataclass(frozen=True)
class GroupedSource(ZarrSource):
    """Months of several stores, one source for each in `parts`; `access` is that of the first."""

    parts: tuple[ZarrSource, ...] = ()

    @override
    def stores(self, months: Collection[Month]) -> tuple[ZarrSource, ...]:
        return self.parts

    @override
    @contextmanager
    def in_turn(self) -> Iterator[Self]:
        with ExitStack() as stack:
            yield replace(self, parts=tuple(stack.enter_context(part.in_turn()) for part in self.parts))

    @override
    def fetch(self, month: Month, together: Collection[Month] = ()) -> RawMonth:
        return self._joined([part.fetch(month, together) for part in self.parts])

    @override
    def known(self, month: Month) -> RawMonth | None:
        found = [raw for part in self.parts if (raw := part.known(month)) is not None]
        return self._joined(found) if len(found) == len(self.parts) else None

    def _joined(self, raws: Sequence[RawMonth]) -> RawMonth:
        held = {column for raw in raws for column in raw.variables or ()}
        wanted = [variable.column for variable in self.request.wanted]
        return replace(
            raws[0],
            files=tuple(file for raw in raws for file in raw.files),
            variables=tuple(column for column in wanted if column in held),
            warnings=tuple(f"the stores do not have {column}: it is NULL" for column in wanted if column not in held),
        )

    @override
    def record_completeness(self, raw: RawMonth, *, is_complete: bool) -> None:
        for part in self.parts:
            part.record_completeness(raw, is_complete=is_complete)

    @override
    def invalidate(self, raw: RawMonth) -> None:
        for part in self.parts:
            part.invalidate(raw)

    @override
    def offered_months(self, now: datetime, available_after_days: int) -> tuple[Month, ...]:
        first, *others = (part.offered_months(now, available_after_days) for part in self.parts)
        return tuple(month for month in first if all(month in offered for offered in others))

    @override
    def final_months(self) -> frozenset[Month]:
        return frozenset.intersection(*(part.final_months() for part in self.parts))

    @override
    def state(self) -> Snapshot | None:
        return self.parts[0].state()

    @override
    def tile(self) -> Area | None:
        return self.parts[0].tile()


def variables_by_store(
    groups: Mapping[str, Collection[str]], request: Request, title: str
) -> dict[str, tuple[Variable, ...]]:
    """The wanted variables by the address of the store that has them; `groups` has short names by address."""
    found = {
        url: of_store
        for url, names in groups.items()
        if (of_store := tuple(variable for variable in request.wanted if variable.short_name in names))
    }
    held = {variable for of_store in found.values() for variable in of_store}
    lacking = [v for v in request.wanted if v not in held and (not found or request.requires(v))]
    if lacking:
        raise SourceError(
            f"{title} has no {', '.join(variable.cds_name for variable in lacking)} of {request.dataset.short_title}",
            remedy="Name only the others in --variables; the columns of these stay NULL.",
        )
    return found


def open_source(settings: Settings, request: Request, say: Callable[[str], None]) -> ZarrSource:
    """Open the source described by the settings."""
    preset, first = PRESETS[_PRESET], open_store(settings, request, say)
    groups = preset.groups.get(request.dataset.name)
    if groups is None:
        return first
    parts = tuple(
        replace(
            first,
            access=replace(first.access, url=url),
            request=replace(request, variables=variables, is_open=True),
        )
        for url, variables in variables_by_store(groups, request, preset.title).items()
    )
    one = parts[0]
    return GroupedSource(
        one.access, one.folder, request, one.refetch, say, file_store=one.file_store, name=one.name, parts=parts
    )
