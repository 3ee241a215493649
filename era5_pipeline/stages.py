"""The stages of a month: raw, flat, load (with verification), and where each stores its result.

Called by Dagster's assets, and usable without Dagster. Each stage reads what the previous one stored below the
pipeline's home, so each can be rerun alone.
"""

from __future__ import annotations

import time
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from importlib import import_module
from typing import TYPE_CHECKING

from era5_pipeline.flat.checks import CheckResult, flat_outcomes, is_complete, raw_outcomes, table_outcomes
from era5_pipeline.flat.flat_month import month_fingerprint
from era5_pipeline.flat.flatten import MiddleHour, flatten_month, preview_file
from era5_pipeline.flat.inventory import InventoryKeeper
from era5_pipeline.flat.storage import FileRemoval, StoredMonth
from era5_pipeline.lake.open_lake import ORPHAN_HOURS, open_lake, wants_lake
from era5_pipeline.maps.fields import FieldMap
from era5_pipeline.model.errors import (
    BadFileError,
    Era5Error,
    InputError,
    NoDataError,
    NotYetAvailableError,
    RefusedError,
    ReplacedError,
    machine_limit,
    machine_limits,
)
from era5_pipeline.model.grid import points_text
from era5_pipeline.model.source_kinds import source_kind, version_text
from era5_pipeline.planning.disk_space import require_room, require_room_to_flatten
from era5_pipeline.read.fields import hour_field
from era5_pipeline.runtime.compiled import is_available
from era5_pipeline.runtime.progress import measured_waits
from era5_pipeline.sources.open_source import source_of, unrequested_columns
from era5_pipeline.sources.source import RawMonth
from era5_pipeline.warehouse.ledger import read_ledger
from era5_pipeline.warehouse.load_month import Loaded, LoadSession, load_month
from era5_pipeline.warehouse.verify import verify_month

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.flat.inventory import KeptInventory
    from era5_pipeline.lake.commits import Committed
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import VariableChoice
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.sources.source import Source


@dataclass(frozen=True)
class RawResult:
    """The raw month, its row count by coordinates, the results of its checks, and the seconds it took.

    `waited_seconds` of these were spent waiting for the service or for another run of the month. `besides` are columns
    in the user's own files that were not requested.
    """

    raw: RawMonth
    rows: int
    hours: int
    columns: tuple[str, ...]
    expver: dict[str, dict[str, int]]
    preliminary_hours: dict[str, tuple[str, ...]]
    outcomes: tuple[CheckResult, ...]
    seconds: float
    waited_seconds: float = 0.0
    besides: tuple[str, ...] = ()


@dataclass(frozen=True)
class FlatResult:
    """The flat month, the results of its checks, its preview map, and whether an existing file was reused."""

    flat: FlatMonth
    outcomes: tuple[CheckResult, ...]
    preview: Path
    reused: bool


@dataclass(frozen=True)
class LoadResult:
    """The loaded month, the results of the table's checks, and how long the load waited for locks.

    `committed` is the month in the lake; None without a lake, or if the lake lacks it still.
    """

    flat: FlatMonth
    loaded: Loaded
    outcomes: tuple[CheckResult, ...]
    verify_seconds: float
    waited_seconds: float = 0.0
    committed: Committed | None = None


def _no_op(_: str) -> None:
    """No-op callback."""


# What this process has fetched of each home and month, until it is loaded: another command may replace the records.
_fetched: dict[tuple[Path, Month], str] = {}

# Avoids unpacking ZIPs twice if flat follows raw in the same process, as in a Dagster run or `era5 load`.
_inventories = InventoryKeeper()


def load_in_advance() -> None:
    """Load what a month's stages load when they first need it, so that processes forked from this one need not.

    With the extra `fast` that is numba and all compiled functions, 0.4 s each time; 0.2 s for pint, if it is installed,
    which xarray imports with the first file; and what draws the preview map.
    """
    import_module("era5_pipeline.draw.maps")
    with suppress(ImportError):
        import_module("pint")
    if is_available():
        from era5_pipeline.flat import compiled_sums  # noqa: PLC0415  # slow to import, optional
        from era5_pipeline.netcdf import raw_chunks  # noqa: PLC0415
        from era5_pipeline.warehouse.layouts import batches  # noqa: PLC0415

        for module in (compiled_sums, raw_chunks, batches):
            module.load_compiled()


def note_fetched(settings: Settings, month: Month, raw: RawMonth) -> None:
    """Note what `run_raw` has fetched, also for another process of the same command, so that `run_load` requires it."""
    _fetched[settings.files_home, month] = month_fingerprint(raw)


def end_run() -> None:
    """Forget what `run_raw` keeps for the later stages of the same run, and remove the unpacked files."""
    _inventories.discard()
    _fetched.clear()


def run_raw(
    settings: Settings,
    month: Month,
    say: Callable[[str], None] = _no_op,
    *,
    source: Source | None = None,
    together: Collection[Month] = (),
) -> RawResult:
    """Get the month's raw files, take their inventory, check it, and write the manifest that `run_flat` reads.

    `source` is the settings' source if already open, for several months; here and in `run_flat`. `together` are months
    whose files the source may get with this one's, as in `Source.fetch`. Of several sources, the first that has all of
    the month gives it, or the last; `together` are then months of the first.
    """
    settings.wanted_dataset.require_months((month,))
    month.require_begun(datetime.now(tz=UTC))
    for name in settings.source_names[:-1]:
        result = _complete_raw(settings.of_source(name), month, say, together)
        if result is not None:
            return result
        say(f"{month}: {name} does not have all of it: the next source is asked")
        together = ()
    settings = settings.of_source(settings.source_names[-1])
    stored = StoredMonth.of(settings, month)
    with machine_limits(f"{month}: getting its files"), _removal(settings, stored).in_use():
        return _run_raw(settings, stored, source or source_of(settings, say), together)


def _complete_raw(
    settings: Settings, month: Month, say: Callable[[str], None], together: Collection[Month]
) -> RawResult | None:
    """Get the month's raw files from one of several sources; None if it lacks the month, hours or values of it."""
    try:
        result = run_raw(settings, month, say, together=together)
    except (NotYetAvailableError, NoDataError):
        return None
    known = source_of(settings.model_copy(update={"refetch": False})).known(month)
    return result if known is not None and all(outcome.passed for outcome in result.outcomes) else None


def _of_its_source(settings: Settings, raw: RawMonth) -> Settings:
    """The settings with the source that gave the raw month, if they have several."""
    return settings.of_source(raw.source) if raw.source in settings.source_names[1:] else settings


def _run_raw(settings: Settings, stored: StoredMonth, source: Source, together: Collection[Month]) -> RawResult:
    started, month = time.monotonic(), stored.month
    require_room(settings, month)
    with measured_waits() as waited:
        raw = source.fetch(month, together)
    with _invalidating_damaged(source, raw):
        inventory = _inventories.take(raw, settings.files_home)
    outcomes = raw_outcomes(raw, inventory, allow_incomplete=settings.allow_incomplete)
    source.record_completeness(raw, is_complete=is_complete(inventory))
    seconds = time.monotonic() - started
    # Existing files keep their recorded download seconds, on which later plans are based.
    before = stored.read_manifest()
    is_same = before is not None and RawMonth.from_json(before["raw"]).fingerprint == raw.fingerprint
    took = max(seconds, before["seconds"]) if is_same else seconds
    refused = next(([one.description, one.remedy] for one in outcomes if not one.passed), None)
    if refused is not None:
        _inventories.discard()  # no flat stage follows
    rows = inventory.locations * int(inventory.hours.size)
    counts = {"rows": rows, "columns": inventory.columns, "temporary_bytes": inventory.temporary_bytes}
    stored.write_manifest(raw, {"seconds": took, "refused": refused, **counts})
    note_fetched(settings, month, raw)
    return RawResult(
        raw=raw,
        rows=rows,
        hours=int(inventory.hours.size),
        columns=inventory.columns,
        expver=inventory.expver,
        preliminary_hours=inventory.preliminary_hours,
        outcomes=outcomes,
        seconds=seconds,
        waited_seconds=waited.seconds,
        besides=unrequested_columns(settings, source, (month,)),
    )


def run_flat(settings: Settings, month: Month, *, source: Source | None = None) -> FlatResult:
    """Flatten the raw month of the manifest, unless an intact flat file with the same rows exists."""
    with closing(_inventories.claim()) as kept:
        stored = StoredMonth.of(settings, month)
        with (
            machine_limits(f"{month}: flattening it"),
            _removal(settings, stored).in_use(),
            _replaced_if_gone(settings, stored, FileNotFoundError),
        ):
            return _run_flat(settings, stored, kept, source)


def _run_flat(settings: Settings, stored: StoredMonth, kept: KeptInventory, opened: Source | None) -> FlatResult:
    month, manifest = stored.month, stored.read_manifest()
    if manifest is None:
        raise InputError(
            f"{month} has no raw files yet",
            remedy=f"Materialize {settings.wanted_dataset.schema}/raw of this month first.",
        )
    raw = RawMonth.from_json(manifest["raw"])
    settings = _of_its_source(settings, raw)
    _require_own(settings, month, month_fingerprint(raw))
    _require_same_request(settings, raw)
    refused = manifest.get("refused")
    if refused is not None and not settings.allow_incomplete:
        raise RefusedError(
            refused[0], remedy=f"{refused[1]} Then materialize {raw.dataset.schema}/raw of this month first."
        )
    source = (opened or source_of(settings)) if raw.source == settings.source_name else None
    folder = stored.folder
    for_lake = wants_lake(settings)
    flat = None if settings.force else stored.same_flat(raw, settings.format, for_lake=for_lake)
    reused = flat is not None
    if flat is None:
        inventory = kept.of(raw)
        counts = (manifest.get("rows", 0), manifest.get("columns", ()), manifest.get("temporary_bytes", 0))
        require_room_to_flatten(settings, raw, *counts, is_unpacked=inventory is not None)
        if inventory is None:
            stored.obtain_raw(raw)
        with _invalidating_damaged(source, raw):
            flat = flatten_month(
                raw,
                folder,
                home=settings.files_home,
                flat_format=settings.format,
                raw_seconds=manifest["seconds"],
                inventory=inventory,
                draw=_preview,
                dask_scheduler=settings.dask_scheduler,
                for_lake=for_lake,
            )
    stored.share_flat(flat)
    if source is not None and any(facts.out_of_bounds for facts in flat.columns):
        source.invalidate(raw)
    elif source is not None and any(facts.missing for facts in flat.columns):
        # A service may list hours before their values are available.
        source.record_completeness(raw, is_complete=False)
    return FlatResult(
        flat=flat,
        outcomes=flat_outcomes(flat, allow_incomplete=settings.allow_incomplete),
        preview=preview_file(folder, month),
        reused=reused,
    )


def _preview(middle: MiddleHour) -> bytes:
    """Draw the preview map of a month for Dagster's web UI."""
    from era5_pipeline.draw.maps import preview_map  # noqa: PLC0415  # matplotlib is slow to import; a few places have none

    grid = middle.dataset.grid
    field = FieldMap.of_hour(hour_field(middle.time, middle.variable, middle.location_ids, middle.values, grid))
    return preview_map(replace(field, when=f"{field.when} ({version_text(middle.version, middle.dataset)})"))


def run_load(
    settings: Settings,
    warehouse: Warehouse,
    month: Month,
    on_wait: Callable[[str], None] = _no_op,
    *,
    session: LoadSession | None = None,
) -> LoadResult:
    """Load the flat month into the table, and verify the table against it.

    `session` is the session to load with; None opens a new one. Once table and flat month are equal, files that
    ERA5_KEEP does not keep are removed, and so are local copies of files in a store.
    """
    stored = StoredMonth.of(settings, month)
    removal = _removal(settings, stored)
    gone = _replaced_if_gone(settings, stored, FileNotFoundError, InputError)
    with machine_limits(f"{month}: loading it"), removal.in_use(), gone:
        result = _run_load(settings, stored, warehouse, on_wait, session)
    if not all(outcome.passed for outcome in result.outcomes):
        return result
    _fetched.pop((settings.files_home, month), None)
    try:
        removal.remove(result.flat)
    except Era5Error as error:  # the month is loaded nevertheless
        note = f"{month}: loaded, but its files could not be removed: {error.message}"
        return replace(result, loaded=replace(result.loaded, notes=(*result.loaded.notes, note)))
    return result


def _run_load(
    settings: Settings,
    stored: StoredMonth,
    warehouse: Warehouse,
    on_wait: Callable[[str], None],
    session: LoadSession | None,
) -> LoadResult:
    flat = _flat_to_load(settings, stored, warehouse)
    _require_own(settings, stored.month, flat.fingerprint)
    lake = open_lake(settings) if wants_lake(settings) else None
    lake_commit = None if lake is None else lake.prepared(warehouse, flat, force=settings.force)
    with measured_waits() as waited:
        loaded = load_month(
            warehouse,
            flat,
            force=settings.force,
            replace_more=settings.replace,
            workers=settings.workers,
            batches=settings.batches == "auto",
            lock_timeout_seconds=settings.lock_timeout_seconds,
            on_wait=on_wait,
            session=session,
            alongside=lake_commit,
        )
    if lake is not None and lake_commit is not None:
        loaded = replace(loaded, notes=(*loaded.notes, *lake_commit.notes, *lake.after_commit(warehouse, ORPHAN_HOURS)))
    started = time.monotonic()
    connection = None if session is None else session.connection
    differences = verify_month(warehouse, flat, connection=connection, is_read_back=loaded.is_read_back)
    outcomes = table_outcomes(flat, differences, within_quantum=loaded.confirmation is not None)
    committed = None if lake_commit is None else lake_commit.committed
    return LoadResult(flat, loaded, outcomes, time.monotonic() - started, waited.seconds, committed)


def _flat_to_load(settings: Settings, stored: StoredMonth, warehouse: Warehouse) -> FlatMonth:
    """The flat month with its file on local disk, or without it if it was removed after loading."""
    flat = stored.stored_flat()
    for _ in range(2):  # another executor may have replaced it since its facts were read
        if flat is not None and stored.obtain_flat(flat):
            return flat
        flat = stored.stored_flat()
    if flat is not None and not settings.force and _is_in_table(warehouse, flat):
        return flat
    raise InputError(
        f"{stored.month} has no flat file{stored.nowhere}",
        remedy=f"Materialize {settings.wanted_dataset.schema}/flat of this month first.",
    )


def _is_in_table(warehouse: Warehouse, flat: FlatMonth) -> bool:
    """Whether, by the ledger, a part of the month in the table was loaded from this flat month."""
    with warehouse.connect() as connection:
        held = (contents for contents in read_ledger(connection) if contents.month == flat.month)
        return any(
            flat.fingerprint in part.fingerprints and part.location_ids == flat.location_ids and not part.is_cut
            for contents in held
            for part in contents.parts
        )


def _removal(settings: Settings, stored: StoredMonth) -> FileRemoval:
    return FileRemoval(stored, settings.keep, has_copies=bool(settings.files_buckets))


@contextmanager
def _invalidating_damaged(source: Source | None, raw: RawMonth) -> Iterator[None]:
    """Invalidate unusable downloads of a service, so that the next run requests them again."""
    try:
        yield
    except BadFileError as error:
        is_unread = machine_limit(error, "") is not None  # for want of memory or of open files: it may be good
        if is_unread or source is None or not source_kind(source.name).is_service:
            raise
        source.invalidate(raw)
        remedy = f"Run the month again, from {raw.dataset.schema}/raw on: it is then downloaded again."
        raise BadFileError(error.path, error.problem, remedy=remedy) from error


@contextmanager
def _replaced_if_gone(settings: Settings, stored: StoredMonth, *gone: type[Exception]) -> Iterator[None]:
    """Report that another command has replaced the month, if an error `gone` is due to that.

    A command that flattens the month removes the files of the one before it, at any moment of that one's stages.
    """
    try:
        yield
    except gone as error:
        left = stored.stored_flat()
        # None while another command flattens the month.
        _require_own(settings, stored.month, "" if left is None else left.fingerprint, error)
        raise


def _require_own(settings: Settings, month: Month, fingerprint: str, cause: Exception | None = None) -> None:
    """Require that what a stage left is of the files that this process has fetched, if it has."""
    if _fetched.get((settings.files_home, month), fingerprint) != fingerprint:
        raise ReplacedError(
            f"{month}: another command loads this month from other files or with another request, and has replaced "
            "what this one prepared",
            remedy="Run this command again when the other has finished.",
        ) from cause


def _may_answer(choice: VariableChoice | None, raw: RawMonth) -> bool:
    """Return True if the raw month's variables match the choice; for an open one, they may be fewer."""
    if choice is None:
        return True
    columns = tuple(variable.column for variable in choice.variables)
    is_open = choice.is_open or choice.variables == raw.dataset.catalogue.variables
    return raw.variables == columns or (is_open and raw.variables is not None and set(raw.variables) <= set(columns))


def _require_same_request(settings: Settings, raw: RawMonth) -> None:
    """Refuse raw files of another request (by a parallel command); unset settings match any request."""
    source = None if settings.source is None and not settings.files_dir else settings.source_name
    is_series = source_kind(raw.source).is_series
    wanted = (
        source or raw.source,
        raw.area if settings.wanted_area is None or is_series else str(settings.wanted_area),
        raw.variables if _may_answer(settings.variable_choice, raw) else (),
        points_text(settings.wanted_points) or raw.points,
    )
    if wanted != (raw.source, raw.area, raw.variables, raw.points):
        variables_held = "all variables" if raw.variables is None else f"{len(raw.variables)} variables"
        where = f"point {raw.points}" if raw.points else f"area {raw.area or 'all'}"
        request = f"source {raw.source}, {where}, {variables_held}"
        raise InputError(
            f"{raw.month}: its raw files belong to another request ({request})",
            remedy=f"Materialize {raw.dataset.schema}/raw of this month first, with these settings.",
        )
