"""Bytes and seconds of months: by rates measured in this warehouse's ledger, else by documented ones.

The rates and their origin are here; which months are counted, in `load_plan`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from era5_pipeline.model.variables import Variable
    from era5_pipeline.planning.extent import Load, Size
    from era5_pipeline.warehouse.ledger_entry import LedgerEntry
    from era5_pipeline.warehouse.space import Space


# Written by `era5 bench report`.
_MEASURED = Path(__file__).with_name("measured_rates.json")


@dataclass(frozen=True)
class BytesPerValue:
    """Bytes per value: in raw files (instantaneous and accumulated), Parquet, and the columnstore.

    Of real files the most that was seen (docs/backfill.md, "Planning"), so that a plan is an upper bound: six variables
    then take 19 bytes a row of Parquet and 20.5 of the columnstore, as in docs/database.md and docs/choosing.md.
    """

    instant: float
    accumulated: float
    parquet: float
    columnstore: float


@dataclass(frozen=True)
class MeasuredRates:
    """Documented rates, with those who measured them in `measured_rates.json`.

    `load` are rows per second of a month after its raw files: flattened, loaded into plain tables and compared;
    `compare` those of the comparison alone, whose time is not in the ledger; `generate` those of generated fields.
    `record_seconds` are what each month costs besides, in Dagster's records; `series_seconds` those of months in
    one run.
    `columnstore_key_bytes` are the bytes of time and location in a row of the columnstore. `cds` is for files of the
    CDS, `stored` for the store of the source arco, presumably compressed with LZ4, `generated` for generated fields.
    """

    load: float
    compare: float
    generate: float
    record_seconds: float
    series_seconds: float
    columnstore_key_bytes: float
    cds: BytesPerValue
    stored: BytesPerValue
    generated: BytesPerValue


@cache
def measured_rates() -> MeasuredRates:
    """The rates in the package, which `era5 bench report` writes."""
    found = json.loads(_MEASURED.read_text(encoding="utf-8"))
    row, keys = found["columnstore_bytes_per_row"], found["columnstore_key_bytes_per_row"]
    generated = found["generated_bytes_per_value"] | {"columnstore": (row - keys) / len(DEFAULT_VARIABLES)}
    return MeasuredRates(
        load=found["load_rows_per_second"],
        compare=found["compare_rows_per_second"],
        generate=found["generate_rows_per_second"],
        record_seconds=found["record_seconds_per_month"],
        series_seconds=found["series_seconds_per_month"],
        columnstore_key_bytes=keys,
        cds=BytesPerValue(**found["cds_bytes_per_value"]),
        stored=BytesPerValue(**found["stored_bytes_per_value"]),
        generated=BytesPerValue(**generated),
    )


# Nobody can measure these in advance; used until a month of the source is in the ledger.
_MINUTES_PER_REQUEST, _MINUTES_PER_SERIES = 30, 2
_MEGABYTES_PER_SECOND = 50
# A point series is not compressed (docs/sources.md, "Point series"): float32, and eight bytes of time for each hour.
# One month of it is float32, four bytes of time for each hour, and a header.
_SERIES_VALUE_BYTES, _SERIES_HOUR_BYTES, _SLICE_HOUR_BYTES, _SLICE_BYTES = 4, 8, 4, 2_000
# Header, times, and `expver` as a text for each hour: 80 to 90 kB in real files of 744 hours.
_BYTES_PER_FILE = 90_000


@dataclass(frozen=True)
class Figure:
    """Bytes or seconds, with their origin in words."""

    value: float
    known_from: str


@dataclass(frozen=True)
class Bytes:
    """Bytes downloaded, stored below ERA5_HOME as raw files and as Parquet, and stored in the table.

    `columnstore` is what the table takes, or would take, in TimescaleDB's columnstore, by documented rates.
    """

    download: Figure
    raw: Figure
    parquet: Figure
    table: Figure
    columnstore: float

    @property
    def home(self) -> float:
        """Raw and Parquet files together."""
        return self.raw.value + self.parquet.value


@dataclass(frozen=True)
class Seconds:
    """Seconds of the raw files, including the queue, and of all stages after them, one month after another."""

    raw: Figure
    load: Figure

    @property
    def all(self) -> float:
        """Seconds of the whole load."""
        return self.raw.value + self.load.value


def heap_bytes_per_row(variables: Sequence[Variable], defaults: Sequence[Variable] = DEFAULT_VARIABLES) -> float:
    """Return the bytes of a row of the table outside the columnstore, with values for these variables.

    The table is assumed to have the columns of the default variables, `defaults`, and of these.
    """
    # PostgreSQL's page: 8192 bytes with a header of 24. A row is its pointer (4), a header of 23 (plus a bit per column
    # if one of them is NULL), and the data: time, location_id, latitude, longitude, values; each part a multiple of 8.
    columns = 4 + len({*variables, *defaults})
    has_null = not set(defaults) <= set(variables)
    header = 8 * ceil((23 + (ceil(columns / 8) if has_null else 0)) / 8)
    row = 4 + 8 * ceil((header + 20 + 4 * len(variables)) / 8)
    return 8192 / ((8192 - 24) // row)


def _measured(
    pairs: Iterable[tuple[float | None, float]], amount: float, words: Callable[[float], str]
) -> Figure | None:
    """Scale measured months to `amount`, from pairs (bytes or seconds, amount); None if nothing was measured."""
    known = [(took, of) for took, of in pairs if took and of]
    if not known:
        return None
    rate = sum(took for took, _ in known) / sum(of for _, of in known)
    return Figure(rate * amount, f"measured here on {counted(len(known), 'month')}: {words(rate)}")


def estimate_bytes(
    load: Load, size: Size, comparable: Sequence[LedgerEntry], layout: str | None, space: Space | None
) -> Bytes:
    """Estimate the bytes of `size` from the ledger's `comparable` months and the `space` that they take."""
    measured = measured_rates()
    rates = measured.generated if load.kind.is_generated else measured.cds
    parquet = len(load.variables) * rates.parquet
    raw = _raw_bytes(load, size, comparable, rates)
    columnstore = (measured.columnstore_key_bytes + len(load.variables) * rates.columnstore) * size.rows
    return Bytes(
        download=_download_bytes(load, size, raw),
        raw=raw,
        parquet=_measured(((e.flat_bytes, e.rows) for e in comparable), size.rows, _bytes_per_row)
        or Figure(parquet * size.rows, f"as documented: {_bytes_per_row(parquet)} ({rates.parquet:g} a value)"),
        table=_measured(_table_bytes(comparable, space), size.rows, _bytes_per_row)
        or _documented_table(load, size, layout, columnstore),
        columnstore=columnstore,
    )


def _raw_bytes(load: Load, size: Size, comparable: Sequence[LedgerEntry], rates: BytesPerValue) -> Figure:
    if load.kind.has_own_files:
        return Figure(0.0, "the files are there already")
    if load.kind.is_series:
        slices = size.values * _SERIES_VALUE_BYTES + size.rows * _SLICE_HOUR_BYTES + size.files * _SLICE_BYTES
        return Figure(_series_bytes(load) + slices, "4 bytes a value: the series, and a file a month cut out of it")
    value = _of_values(size, rates) + size.files * _BYTES_PER_FILE
    apart = "" if rates.instant == rates.accumulated else f"; {rates.accumulated:g} of rain and snow"
    return _measured(
        ((e.raw_bytes, sum(facts.values for facts in e.columns)) for e in comparable), size.values, _bytes_per_value
    ) or Figure(value, f"as documented: {_bytes_per_value(rates.instant)}{apart}")


def _download_bytes(load: Load, size: Size, raw: Figure) -> Figure:
    if not load.kind.is_service:
        return Figure(0.0, "nothing is downloaded")
    if load.kind.is_series:
        return Figure(_series_bytes(load), "4 bytes a value: all hours since 1940, whatever months are loaded")
    if not load.kind.downloads_globe:
        return raw
    stored = measured_rates().stored
    value = _of_values(size, stored) * load.area.grid.locations / load.locations
    return Figure(value, f"as documented: whole hours of the globe, {_bytes_per_value(stored.instant)} at most")


def _series_bytes(load: Load) -> float:
    bytes_per_hour = _SERIES_VALUE_BYTES * len(load.variables) + _SERIES_HOUR_BYTES
    return float(load.locations * load.series_hours * bytes_per_hour)


def _of_values(size: Size, rates: BytesPerValue) -> float:
    return size.instant_values * rates.instant + size.accumulated_values * rates.accumulated


def _table_bytes(comparable: Iterable[LedgerEntry], space: Space | None) -> Iterator[tuple[float | None, float]]:
    if space is None:
        return
    for entry in comparable:
        month = space.months.get(entry.month)
        if month is not None:
            # If months share chunks, only the size of the whole table is known.
            shared = space.bytes_per_row if month.is_sharing else None
            yield (shared * month.rows if shared else month.bytes), month.rows


def _documented_table(load: Load, size: Size, layout: str | None, columnstore: float) -> Figure:
    if layout == "columnstore":
        per_row = columnstore / size.rows if size.rows else 0.0
        return Figure(columnstore, f"as documented: {_bytes_per_row(per_row)} in the columnstore")
    per_row = heap_bytes_per_row(load.variables, load.dataset.catalogue.default_variables)
    where = "outside the columnstore; the layout is not known" if layout is None else f"in {layout}"
    return Figure(per_row * size.rows, f"as documented: {_bytes_per_row(per_row)} {where}")


def estimate_seconds(
    load: Load, size: Size, months: int, comparable: Sequence[LedgerEntry], download: float
) -> Seconds:
    """Estimate the seconds of `size`, spread over `months` months, from the ledger's `comparable` months.

    `download` are the bytes to download.
    """
    rates = measured_rates()
    each = rates.record_seconds if load.kind.is_requested_by_month else rates.series_seconds
    stages = ((e.seconds.get("flat"), e.seconds.get("load"), e.rows) for e in comparable)
    rows = _measured(((flat + rest, n) for flat, rest, n in stages if flat and rest), size.rows, _rows_per_second)
    if rows is None:
        rows = Figure(size.rows / rates.load, f"as documented: {_rows_per_second(1 / rates.load)} in plain tables")
    else:
        rows = replace(rows, value=rows.value + size.rows / rates.compare)
    return Seconds(
        raw=_raw_seconds(load, size, months, comparable, download),
        load=Figure(rows.value + months * each, f"{rows.known_from}, and {each:g} s a month"),
    )


def _raw_seconds(load: Load, size: Size, months: int, comparable: Sequence[LedgerEntry], download: float) -> Figure:
    kind = load.kind
    if kind.has_own_files:
        return Figure(0.0, "the files are there already")
    if kind.is_generated:
        rate = measured_rates().generate
        return _measured(((e.seconds.get("raw"), e.rows) for e in comparable), size.rows, _rows_per_second) or Figure(
            size.rows / rate, f"as documented: {_rows_per_second(1 / rate)}"
        )
    queue = ", the queue included" if kind.is_queued else ""
    measured = _measured(
        ((e.seconds.get("raw"), 1) for e in comparable), months, lambda rate: f"{rate / 60:,.1f} minutes a month{queue}"
    )
    if measured is not None:
        return measured
    until = "assumed until a month is measured here"
    if not kind.is_queued:
        return Figure(download / 1e6 / _MEGABYTES_PER_SECOND, f"{until}: {_MEGABYTES_PER_SECOND} MB/s")
    minutes = _MINUTES_PER_SERIES if kind.is_series else _MINUTES_PER_REQUEST
    turns = ceil(size.requests / kind.requests_at_once)
    return Figure(turns * minutes * 60.0, f"{until}: {minutes} minutes a request, {kind.requests_at_once} at once")


def _bytes_per_row(rate: float) -> str:
    return f"{rate:.3g} bytes a row"


def _bytes_per_value(rate: float) -> str:
    return f"{rate:.3g} bytes a value"


def _rows_per_second(seconds: float) -> str:
    rate = 1 / seconds
    return f"{rate / 1e6:.1f} million rows/s" if rate >= 1e5 else f"{rate:,.0f} rows/s"
