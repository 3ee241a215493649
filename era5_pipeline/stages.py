"""A month's way, stage by stage, and where each leaves its work: raw, flat, load, verify.

This is what Dagster's assets call, and what works as well without Dagster. Each stage reads what the one before it left
below the pipeline's home, so that any of them can be run again alone.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from era5_pipeline.flat.checks import Outcome, flat_outcomes, is_whole, raw_outcomes, table_outcomes
from era5_pipeline.flat.flat_month import FlatMonth, month_fingerprint
from era5_pipeline.flat.flatten import MiddleHour, flatten_month, preview_file, read_flat_month
from era5_pipeline.flat.inventory import take_inventory
from era5_pipeline.model.errors import BadFileError, InputError, RefusedError
from era5_pipeline.model.variables import VARIABLES
from era5_pipeline.netcdf.archive import scratch_folder
from era5_pipeline.query.plots import preview_map
from era5_pipeline.query.snapshots import snapshot_of
from era5_pipeline.runtime.files import read_json, sha256_of, write_json
from era5_pipeline.sources.arco.arco_source import ArcoSource
from era5_pipeline.sources.cds.cds_source import CdsSource, Manners
from era5_pipeline.sources.files.files_source import FilesSource
from era5_pipeline.sources.sample.sample_source import SampleSource
from era5_pipeline.sources.source import RawMonth, Request, Source
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import Loaded, load_month
from era5_pipeline.warehouse.revisions import ASKED_ANEW
from era5_pipeline.warehouse.verify import verify_month

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.netcdf.contents import Problem
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry


@dataclass(frozen=True)
class RawResult:
    """The raw month, how many rows its coordinates promise, what the checks of it say, and the seconds it took."""

    raw: RawMonth
    rows: int
    hours: int
    columns: tuple[str, ...]
    expver: dict[str, dict[str, int]]
    preliminary_hours: dict[str, tuple[str, ...]]
    outcomes: tuple[Outcome, ...]
    seconds: float


@dataclass(frozen=True)
class FlatResult:
    """The flat month, what the checks of it say, its small map, and whether it was there already."""

    flat: FlatMonth
    outcomes: tuple[Outcome, ...]
    preview: Path
    reused: bool


@dataclass(frozen=True)
class LoadResult:
    """What was loaded, and what the checks of the table say."""

    flat: FlatMonth
    loaded: Loaded
    outcomes: tuple[Outcome, ...]
    verify_seconds: float


def _silent(_: str) -> None:
    """Nobody listens."""


def source_of(settings: Settings, say: Callable[[str], None] = _silent) -> Source:
    """The source that the settings choose; `say` is told what it waits for.

    Raises:
        UsageError: if it lacks what it needs.
    """
    request = Request(settings.wanted_variables, settings.wanted_area)
    if settings.source_name == "files":
        return FilesSource(settings.files_dirs, settings.home, request)
    if settings.source_name == "arco":
        return ArcoSource(settings.arco_url, settings.home / "raw" / "arco", request, refetch=settings.refetch, say=say)
    if settings.source_name == "cds":
        manners = Manners(settings.cds_poll_seconds, settings.cds_retry_seconds, settings.cds_patience_hours)
        return CdsSource(settings.home / "raw" / "cds", request, refetch=settings.refetch, manners=manners, say=say)
    return SampleSource(settings.home / "raw" / "sample", request, settings.sample_hours)


def ask_ahead(settings: Settings, month: Month) -> None:
    """Let the month's request queue, where it comes from a queue and is not under way: `run_raw` takes it up."""
    source = source_of(settings)
    if isinstance(source, CdsSource):
        source.ask(month)


def run_raw(settings: Settings, month: Month, say: Callable[[str], None] = _silent) -> RawResult:
    """Get the month's raw files, see what they hold, and write the manifest that `run_flat` reads.

    Raises:
        UsageError, InputError, SourceError, TransientError, LocalDiskError: see `sources` and `netcdf.inventory`.
    """
    started = time.monotonic()
    month.require_begun(datetime.now(tz=UTC))
    source = source_of(settings, say)
    raw = source.fetch(month)
    with _noted_if_damaged(source, raw), scratch_folder(settings.home) as scratch:
        inventory = take_inventory(raw, scratch)
        outcomes = raw_outcomes(raw, inventory, allow_incomplete=settings.allow_incomplete)
    source.judged(raw, whole=is_whole(inventory))
    seconds = time.monotonic() - started
    # What was here already took what it took when it came: later loads are planned by that.
    before = read_json(_manifest(settings, month))
    is_same = before is not None and RawMonth.from_json(before["raw"]).fingerprint == raw.fingerprint
    took = max(seconds, before["seconds"]) if is_same else seconds
    refused = next(([one.description, one.remedy] for one in outcomes if not one.passed), None)
    write_json(_manifest(settings, month), {"raw": raw.to_json(), "seconds": took, "refused": refused})
    return RawResult(
        raw=raw,
        rows=int(inventory.coverage.sum()) * int(inventory.hours.size),
        hours=int(inventory.hours.size),
        columns=inventory.columns,
        expver=inventory.expver,
        preliminary_hours=inventory.preliminary_hours,
        outcomes=outcomes,
        seconds=seconds,
    )


def run_flat(settings: Settings, month: Month) -> FlatResult:
    """Flatten the raw month of the manifest, unless the same rows lie there already, unharmed.

    Raises:
        RefusedError: if a check refused the raw files.
        InputError: if there are no raw files, or others than these settings ask for; and see `flatten`.
        LocalDiskError: see `flatten`.
    """
    manifest = read_json(_manifest(settings, month))
    if manifest is None:
        raise InputError(f"{month} has no raw files yet", remedy="Materialize era5/raw of this month first.")
    raw = RawMonth.from_json(manifest["raw"])
    _require_asked_for(settings, raw)
    refused = manifest.get("refused")
    if refused is not None and not settings.allow_incomplete:
        raise RefusedError(refused[0], remedy=f"{refused[1]} Then materialize era5/raw of this month first.")
    source = source_of(settings) if raw.source == settings.source_name else None
    folder = _flat_folder(settings)
    flat = None if settings.force else _same_flat(folder, raw, settings)
    reused = flat is not None
    if flat is None:
        with _noted_if_damaged(source, raw):
            flat = flatten_month(
                raw,
                folder,
                home=settings.home,
                flat_format=settings.format,
                raw_seconds=manifest["seconds"],
                draw=_preview,
            )
    if source is not None and any(facts.out_of_bounds for facts in flat.columns):
        source.distrust(raw)
    elif source is not None and any(facts.missing for facts in flat.columns):
        # A service may announce hours before their values are there.
        source.judged(raw, whole=False)
    return FlatResult(
        flat=flat,
        outcomes=flat_outcomes(flat, allow_incomplete=settings.allow_incomplete),
        preview=preview_file(folder, month),
        reused=reused,
    )


def _preview(middle: MiddleHour) -> bytes:
    """Draw the small map of a month that Dagster's web UI shows."""
    return preview_map(snapshot_of(middle.time, middle.variable, middle.location_ids, middle.values))


def _same_flat(folder: Path, raw: RawMonth, settings: Settings) -> FlatMonth | None:
    flat = read_flat_month(folder, raw.month)
    if (
        flat is None
        or flat.fingerprint != month_fingerprint(raw)
        or flat.format != settings.format
        or sha256_of(flat.path) != flat.sha256
    ):
        return None
    return flat


def run_load(
    settings: Settings, warehouse: Warehouse, month: Month, on_wait: Callable[[str], None] = _silent
) -> LoadResult:
    """Load the flat month into the table, and compare the two.

    Raises:
        InputError: if there is no flat month.
        RefusedError, WarehouseError, TransientError: see `warehouse.load`.
    """
    flat = read_flat_month(_flat_folder(settings), month)
    if flat is None:
        raise InputError(f"{month} has no flat file", remedy="Materialize era5/flat of this month first.")
    loaded = load_month(
        warehouse,
        flat,
        force=settings.force,
        workers=settings.workers,
        lock_timeout_seconds=settings.lock_timeout_seconds,
        on_wait=on_wait,
    )
    started = time.monotonic()
    outcomes = table_outcomes(flat, verify_month(warehouse, flat))
    return LoadResult(flat, loaded, outcomes, time.monotonic() - started)


def unchanged_months(settings: Settings, warehouse: Warehouse, months: tuple[Month, ...]) -> frozenset[Month]:
    """Those of the months that the table holds just as the source has them now.

    A month that the source cannot give is not among them: running it says why. Of a service, whose months are asked for
    anew only where that is wanted, what the ledger says is enough.
    """
    with warehouse.connect() as connection:
        entries = {entry.month: entry for entry in read_ledger(connection)}
    if settings.force:
        return frozenset()
    source = source_of(settings)
    return frozenset(month for month in months if month in entries and _is_unchanged(settings, source, entries[month]))


def _is_unchanged(settings: Settings, source: Source, entry: LedgerEntry) -> bool:
    raw = source.known(entry.month)
    if raw is not None:
        return entry.fingerprint == month_fingerprint(raw)
    if source.name not in ASKED_ANEW or settings.refetch:
        return False
    # The files are gone, with what was known of them: asked for again, the queue would be for nothing.
    wanted = settings.wanted_variables or VARIABLES
    return (
        entry.state == "loaded"
        and entry.source == source.name
        and entry.area == (None if settings.wanted_area is None else str(settings.wanted_area))
        and [facts["column"] for facts in entry.columns] == [variable.column for variable in wanted]
    )


def stray_problems(settings: Settings) -> tuple[Problem, ...]:
    """Files of the source `files` that cannot be used and may have been for any month."""
    source = source_of(settings)
    return tuple(p for p in source.problems() if not p.months) if isinstance(source, FilesSource) else ()


@contextmanager
def _noted_if_damaged(source: Source | None, raw: RawMonth) -> Iterator[None]:
    """What a service sent and cannot be used is not to be given again."""
    try:
        yield
    except BadFileError as error:
        if source is None or source.name not in ASKED_ANEW:
            raise
        source.distrust(raw)
        remedy = "Run the month again, from era5/raw on: it is fetched anew."
        raise BadFileError(error.path, error.problem, remedy=remedy) from error


def _require_asked_for(settings: Settings, raw: RawMonth) -> None:
    """Of two commands for one month, neither takes up what the other one fetched. What is not set may be anything."""
    source = None if settings.source is None and not settings.files_dirs else settings.source_name
    variables = settings.wanted_variables
    wanted = (
        source or raw.source,
        raw.area if settings.wanted_area is None else str(settings.wanted_area),
        raw.variables if variables is None else tuple(variable.column for variable in variables),
    )
    if wanted != (raw.source, raw.area, raw.variables):
        variables_held = "what there is" if raw.variables is None else f"{len(raw.variables)} variables"
        said = f"source {raw.source}, area {raw.area or 'all'}, {variables_held}"
        raise InputError(
            f"{raw.month}: its raw files are of another request ({said})",
            remedy="Materialize era5/raw of this month first, with these settings.",
        )


def _manifest(settings: Settings, month: Month) -> Path:
    return settings.home / "raw" / f"{month}.json"


def _flat_folder(settings: Settings) -> Path:
    return settings.home / "flat"
