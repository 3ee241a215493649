"""Summaries of a month, location by location, computed during flattening and shown by the view `weather_monthly`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from era5_pipeline.model.variables import in_table_order

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    import numpy.typing as npt

    from era5_pipeline.flat.statistics import LocationSums
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable

    Floats = npt.NDArray[np.float32]
    Doubles = npt.NDArray[np.float64]
    Values = npt.NDArray[np.float32] | npt.NDArray[np.float64] | npt.NDArray[np.int16]

# --- Columns of monthly summaries: mean, range and hours of each variable, sums of totals, and the wind speed ---
#
# The names are the same in a month's summary file, `era5.monthly_summary` and the view `weather_monthly`.


Statistic = Literal["mean", "min", "max", "hours", "sum", "sum_hours", "first"]
_OF_ALL: tuple[Statistic, ...] = ("mean", "min", "max", "hours")
_OF_TOTALS: tuple[Statistic, ...] = ("sum", "sum_hours", "first")

# Eastward and northward wind, which give the mean wind speed.
WIND = ("zonal_wind_10m", "meridional_wind_10m")
WIND_SPEED = "wind_speed_10m_mean"


@dataclass(frozen=True)
class SummaryColumn:
    """A column of monthly summaries: a statistic of a variable."""

    variable: Variable
    statistic: Statistic

    @property
    def name(self) -> str:
        """The column's name, such as `temperature_2m_mean`."""
        return f"{self.variable.column}_{self.statistic}"


def is_total(variable: Variable) -> bool:
    """Return True if values can be summed: they are totals of the hour that ends at the valid time."""
    return variable.step_type == "accum"


def summary_columns(columns: Iterable[str]) -> tuple[SummaryColumn, ...]:
    """The columns for these variables, in table order, without the wind speed."""
    return tuple(
        SummaryColumn(variable, statistic)
        for variable in in_table_order(columns)
        for statistic in (*_OF_ALL, *(_OF_TOTALS if is_total(variable) else ()))
    )


def has_wind(columns: Iterable[str]) -> bool:
    """Return True if both wind components are among these columns."""
    return set(WIND) <= set(columns)


# --- Summaries of a month by location: computed from the rows in memory, kept beside the flat file ---
#
# For each variable: the mean of its values, the smallest and the largest, and the number of hours with one. Totals of
# an hour (`is_total`) are labelled with its end, so the value at 00:00 on the 1st belongs to the previous month. It is
# kept separately as `first`; `sum` and `sum_hours` are the sum and the number of the others. A calendar month's total
# is its own `sum` plus the `first` of the next month, and no load changes the summaries of another month.


KEYS = ("location_id", "month")
_TYPES: dict[Statistic, pa.DataType] = {
    "mean": pa.float64(),
    "min": pa.float32(),
    "max": pa.float32(),
    "hours": pa.int16(),
    "sum": pa.float64(),
    "sum_hours": pa.int16(),
    "first": pa.float32(),
}
# Locations per row group: about 10 MB in memory.
_GROUP_LOCATIONS = 65_536
# Values per computation of wind speed: few enough to stay in the processor's cache.
_WIND_VALUES = 16_384


def summaries_schema(columns: Iterable[str]) -> pa.Schema:
    """The schema of a summary file for these variable columns."""
    held = tuple(columns)
    wind = [pa.field(WIND_SPEED, pa.float64())] if has_wind(held) else []
    return pa.schema(
        [
            pa.field("location_id", pa.int32(), nullable=False),
            pa.field("month", pa.date32(), nullable=False),
            *(pa.field(column.name, _TYPES[column.statistic]) for column in summary_columns(held)),
            *wind,
        ]
    )


def summarise(
    values: Mapping[str, Floats],
    sums: Mapping[str, LocationSums],
    first_hour: int | None,
    *,
    is_compiled: bool = False,
) -> dict[str, Values]:
    """Summarise some locations: (location,) by name; NaN if there are no values.

    `values` (location, hour) by column cover all hours of the month in the files, and `sums` are their sums.
    `first_hour` is the position of 00:00 on the 1st; None if the files do not have that hour. `is_compiled`: use
    compiled functions, which give the same.
    """
    found: dict[str, Values] = {}
    for column in summary_columns(values):
        name, of = column.variable.column, sums[column.variable.column]
        match column.statistic:
            case "mean":
                found[column.name] = _quotient(of.totals, of.hours)
            case "min":
                found[column.name] = of.minima
            case "max":
                found[column.name] = of.maxima
            case "hours":
                found[column.name] = of.hours.astype(np.int16)
            case "sum":
                first = _first(values[name], first_hour)
                has_first = ~np.isnan(first)
                rest = of.totals - np.where(has_first, first, np.float32(0)).astype(np.float64)
                found[column.name] = np.where(of.hours > has_first, rest, np.nan)
            case "sum_hours":
                found[column.name] = (of.hours - ~np.isnan(_first(values[name], first_hour))).astype(np.int16)
            case "first":
                found[column.name] = _first(values[name], first_hour)
    if has_wind(values):
        is_complete = all((sums[name].hours == values[name].shape[1]).all() for name in WIND)
        components = (values[name] for name in WIND)
        found[WIND_SPEED] = mean_wind_speed(*components, is_complete=is_complete, is_compiled=is_compiled)
    return found


def _first(values: Floats, first_hour: int | None) -> Floats:
    return np.full(len(values), np.nan, np.float32) if first_hour is None else values[:, first_hour].copy()


def mean_wind_speed(eastward: Floats, northward: Floats, *, is_complete: bool, is_compiled: bool = False) -> Doubles:
    """Mean wind speed over the hours with both components: (location, hour) to (location,)."""
    locations, hours = eastward.shape
    totals, counts = np.empty(locations), np.full(locations, hours)
    if is_compiled:
        from era5_pipeline.flat.compiled_sums import sum_speeds  # noqa: PLC0415  # slow to import, optional

        sum_speeds(np.ascontiguousarray(eastward), np.ascontiguousarray(northward), totals, counts)
        return _quotient(totals, counts)
    step = max(1, _WIND_VALUES // max(1, hours))
    speed, other = (np.empty((step, hours)) for _ in range(2))
    for start in range(0, locations, step):
        chosen = slice(start, min(start + step, locations))
        size = chosen.stop - start
        own, across = speed[:size], other[:size]
        # Squares of float32 are exact in float64.
        np.multiply(eastward[chosen], eastward[chosen], out=own, dtype=np.float64)
        np.multiply(northward[chosen], northward[chosen], out=across, dtype=np.float64)
        own += across
        np.sqrt(own, out=own)
        if not is_complete:
            missing = np.isnan(own)
            counts[chosen] -= missing.sum(axis=1)
            own[missing] = 0.0
        own.sum(axis=1, out=totals[chosen])
    return _quotient(totals, counts)


def _quotient(totals: Doubles, counts: npt.NDArray[np.int64]) -> Doubles:
    means: Doubles = np.divide(totals, counts, out=np.full(counts.size, np.nan), where=counts > 0)
    return means


class SummarySink:
    """Writes a month's summaries as Parquet, in the order of the rows."""

    def __init__(self, writer: pq.ParquetWriter, schema: pa.Schema, month: Month) -> None:
        self._writer = writer
        self._schema = schema
        self._month = month.start.date()
        self._waiting: list[pa.RecordBatch] = []
        self._locations = 0

    def add(self, location_ids: npt.NDArray[np.int32], summaries: Mapping[str, Values]) -> None:
        """Append the summaries of these locations."""
        arrays = [pa.array(location_ids), pa.repeat(pa.scalar(self._month), location_ids.size)]
        arrays += [pa.array(summaries[name], from_pandas=True) for name in self._schema.names[len(KEYS) :]]
        self._waiting.append(pa.record_batch(arrays, schema=self._schema))
        self._locations += location_ids.size
        if self._locations >= _GROUP_LOCATIONS:
            self.flush()

    def flush(self) -> None:
        """Write what waits for more."""
        table = pa.Table.from_batches(self._waiting, self._schema)
        if table.num_rows:
            self._writer.write_table(table, row_group_size=table.num_rows)
        self._waiting, self._locations = [], 0


@contextmanager
def summary_sink(path: Path, columns: Iterable[str], month: Month) -> Iterator[SummarySink]:
    """Open a sink of the month's summaries of these variables."""
    schema = summaries_schema(columns)
    with (
        pa.OSFile(str(path), "wb") as file,
        pq.ParquetWriter(
            file,
            schema,
            compression="zstd",
            compression_level=1,
            use_dictionary=["month"],
            use_byte_stream_split=[field.name for field in schema if pa.types.is_floating(field.type)],
        ) as writer,
    ):
        sink = SummarySink(writer, schema, month)
        yield sink
        sink.flush()
