"""The answer to `era5 status`: the months of the ledger, their bytes on the server, and the lake's, with what to know.

Which months of which variables each area has (`--coverage`) is in `era5_pipeline.read.held`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.filesize import decimal

from era5_pipeline.model.dataset import ERA5, dataset_option
from era5_pipeline.model.errors import Era5Error, WarehouseError
from era5_pipeline.model.months import spans
from era5_pipeline.model.source_kinds import ORIGIN_TEXTS, VERSIONS
from era5_pipeline.model.times import describe_hours
from era5_pipeline.model.variables import named_columns
from era5_pipeline.model.words import counted
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.postgres.server_version import describe_server
from era5_pipeline.read.held import newest_hours
from era5_pipeline.warehouse.layouts.partitions import MonthPartitions
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.monthly_backfill import months_without_summaries
from era5_pipeline.warehouse.space import Space, read_space

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from datetime import datetime

    import psycopg

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.postgres.server_version import Server
    from era5_pipeline.warehouse.ledger_entry import MonthContents

# The most months with preliminary hours, and incomplete ones, that are named.
_SHOWN = 3


@dataclass(frozen=True)
class StatusAnswer:
    """The months of the ledger, the server, and the table's size; that is None, with the problem, if it is locked."""

    months: tuple[MonthContents, ...]
    server: Server
    space: Space | None
    problem: WarehouseError | None
    lake: str | None
    newest_hours: Mapping[str, datetime]
    dataset: Dataset = ERA5

    @property
    def rows(self) -> int:
        """The rows of all months."""
        return sum(month.rows for month in self.months)

    def to_json(self) -> list[dict[str, Any]]:
        """The JSON value of `era5 status --json`: an object for each month."""
        layout, space = (self.space.layout, self.space.months) if self.space else (None, {})
        sizes = ("chunks", "bytes", "bytes_per_row")
        return [
            {
                **month.to_json(),
                "layout": layout,
                **{name: getattr(space.get(month.month), name, None) for name in sizes},
            }
            for month in self.months
        ]

    @property
    def lines(self) -> list[str]:
        """Notes on the months: versions, gaps, values that are not plain ERA5, lacking summaries; and sizes."""
        found = [self._versions] if self.rows else []
        newest = ", ".join(f"{source} {hour:%Y-%m-%d %H:%M}" for source, hour in self.newest_hours.items())
        found += [f"newest hour (UTC): {newest}"] if newest else []
        found += [*self._gaps(), *self._doubts()]
        if lacking := len(months_without_summaries(self.months)):
            have = "has" if lacking == 1 else "have"
            found.append(
                f"{counted(lacking, 'month')} {have} no rows in {self.dataset.table}_monthly: era5 db "
                f"summaries{dataset_option(self.dataset)} computes them"
            )
        found += [*(_space_lines(self.space) if self.space else ()), *([self.lake] if self.lake else ())]
        return found

    @property
    def _versions(self) -> str:
        """Number of months per version; for months with preliminary hours, the first of these hours."""
        said: list[str] = []
        for version in (*VERSIONS, "partly generated"):
            months = [month for month in self.months if month.rows and month.version == version]
            if months:
                since = [_since(month) for month in months if month.is_preliminary]
                more = [f"and {len(since) - _SHOWN} more"] if len(since) > _SHOWN else []
                noun = "" if said else f" month{'' if len(months) == 1 else 's'}"
                named = f" ({', '.join(since[:_SHOWN] + more)})" if since else ""
                said.append(f"{len(months):,}{noun} {version}{named}")
        return ", ".join(said)

    def _gaps(self) -> Iterator[str]:
        """Name the missing hours of the first incomplete months."""
        gaps = [(month.month, month.missing_hours) for month in self.months if month.missing_hours]
        for month, by_column in gaps[:_SHOWN]:
            for runs in dict.fromkeys(by_column.values()):
                columns = [column for column, own in by_column.items() if own == runs]
                more = f" and {len(runs) - _SHOWN} more" if len(runs) > _SHOWN else ""
                yield f"{month} lacks {named_columns(columns)} at {', '.join(runs[:_SHOWN])}{more}"
        if len(gaps) > _SHOWN:
            yield f"and {len(gaps) - _SHOWN} more incomplete months (era5 status --json has all hours)"

    def _doubts(self) -> Iterator[str]:
        """Name the months with values that the store interpolated, or that the files do not show to be of ERA5."""
        for shift in dict.fromkeys(shift for month in self.months for shift in month.interpolated):
            yield f"{spans(month.month for month in self.months if shift in month.interpolated)}: {shift.text}"
        for origin, text in ORIGIN_TEXTS.items():
            own = [month.month for month in self.months if any(part.origin == origin for part in month.parts)]
            if own:
                yield f"{spans(own)}: {text}"


def read_status(settings: Settings, connection: psycopg.Connection[Any], *, with_lake: bool) -> StatusAnswer:
    """Read the ledger and the sizes; `with_lake`: that of the lake, too, if the settings name one."""
    months, server = tuple(read_ledger(connection)), describe_server(connection)
    space, problem = None, None
    try:
        space = read_space(connection) if months else None
    except WarehouseError as error:
        problem = error
    lake = _lake_line(settings, connection) if with_lake and settings.lake is not None else None
    return StatusAnswer(months, server, space, problem, lake, newest_hours(connection), dataset_of(connection))


def _since(month: MonthContents) -> str:
    """The month, and its first hour that is preliminary in any column of any part."""
    hours = sorted(frozenset().union(*(part.preliminary for part in month.parts)))[:1]
    return ": from ".join((str(month.month), *describe_hours(hours)))


def _space_lines(space: Space) -> list[str]:
    if space.layout is None:
        return ["the table weather no longer exists in this database: load the months again, with --force"]
    kind = "partition" if space.layout == MonthPartitions.name else "chunk"
    chunks = f"{space.chunks:,} {kind}{'' if space.chunks == 1 else 's'}"
    if space.chunks_in_columnstore:
        chunks += f" ({space.chunks_in_columnstore:,} in the columnstore)"
    each = "" if space.bytes_per_row is None else f", {space.bytes_per_row:,.1f} bytes per row"
    lines = [f"layout {space.layout}, {chunks}, {decimal(space.bytes)}{each}"]
    if space.summary_bytes:
        lines.append(f"monthly summaries: {decimal(space.summary_bytes)}")
    if space.bytes_before_columnstore is not None and space.bytes_after_columnstore is not None:
        before, after = decimal(space.bytes_before_columnstore), decimal(space.bytes_after_columnstore)
        lines.append(f"converted to the columnstore after loading: {before} before, {after} after")
    if any(month.is_sharing for month in space.months.values()):
        lines.append("shared: the month is in a chunk that also holds another month, so its own size is not known")
    return lines


def _lake_line(settings: Settings, connection: psycopg.Connection[Any]) -> str:
    """The size of the lake by its newest snapshot, and where it is; or why it cannot be read."""
    from era5_pipeline.lake.open_lake import open_lake  # noqa: PLC0415  # imports pyiceberg, which is slow

    try:
        lake = open_lake(settings)
        from era5_pipeline.lake.snapshots import list_snapshots  # noqa: PLC0415  # the same

        table = lake.open(connection)
        snapshots = () if table is None else list_snapshots(table)
    except Era5Error as error:
        return f"lake: unknown: {error.message}"
    return f"lake: {decimal(snapshots[-1].bytes if snapshots else 0)} at {lake.place.address}"
