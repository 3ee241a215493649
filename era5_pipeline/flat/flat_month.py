"""Facts of a flat month, which assets, checks and the ledger pass on instead of data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

import numpy as np

from era5_pipeline.flat.day_accumulations import lower_bound
from era5_pipeline.model.grid import Shift
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.source_kinds import most_doubtful, source_kind, version_of
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.runtime.files import digest_of, sha256_of
from era5_pipeline.sources.source import RawMonth

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import FlatFormat
    from era5_pipeline.model.source_kinds import Origin, Version

# Increase when the same files give other rows (units, order, rounding): earlier flat months are then outdated.
FLAT_FORM = 1
# Increase when a program that knows the previous number would misread the facts.
FACTS_FORM = 1


def checksum_of(values: npt.NDArray[np.float32], scale: float) -> int:
    """Checksum of values without NaN, of any shape: the sum of floor(value * scale), see `Variable.checksum_scale`.

    Integers make it independent of row order, and equal in numpy and SQL, which a sum of floats would not be. Sums up
    to 2**53 are exact in float64: 16 million values within the variable's bounds stay below.
    """
    scaled = np.multiply(values, scale, dtype=np.float64)
    return int(np.floor(scaled, out=scaled).sum())


@dataclass(frozen=True)
class ColumnFacts:
    """Statistics of one column of the month: counts of values, their range in the table's unit, and anomalies.

    `missing` counts locations and hours without a value, among those that the column covers; `out_of_bounds` counts
    values outside the variable's physical bounds; `first_*` name the first of them. `missing_hours` are runs of hours
    at which any of the month's locations has no value; empty if the column is complete. `expver` counts hours per
    version: an hour that is final at some locations and preliminary at others counts under both. `preliminary_hours`
    are runs of hours that are preliminary at any location. `digest` is exact to the bit (see `statistics`). `mean` is
    over all values, `area_mean` weights each by the cosine of its latitude. `origin`: whose word it is that these are
    hourly values of ERA5. `jumps` counts hours whose value differs from that of the hour before by most of the range of
    the file's packed numbers, which is no weather. `sums_step` is the largest step of the packed sums since 00 UTC that
    the values were taken from, 0 if there were none or files do not state it: values may be two steps below zero.
    """

    column: str
    values: int
    minimum: float | None
    maximum: float | None
    mean: float | None
    checksum: int
    hours: int
    locations: int
    expver: dict[str, int]
    missing: int
    first_missing: str | None
    out_of_bounds: int
    first_out_of_bounds: str | None
    preliminary_hours: tuple[str, ...]
    digest: str
    missing_hours: tuple[str, ...]
    # Also None if the facts were recorded before this field existed.
    area_mean: float | None = None
    origin: Origin | None = None
    jumps: int = 0
    first_jump: str | None = None
    sums_step: float = 0.0

    @property
    def warning(self) -> str | None:
        """The warning about jumps of packed values, which are possible but unlikely; None without jumps."""
        if not self.jumps:
            return None
        return (
            f"{self.column} jumps by about the range of its packed numbers {self.jumps:,} times, first at "
            f"{self.first_jump}: files with other packings may have been joined, and values been wrapped. Load the "
            "files from before they were joined"
        )

    @property
    def packing_warning(self) -> str | None:
        """The warning that sums are packed so coarsely that amounts are further below zero than others; else None."""
        variable = BY_COLUMN[self.column]
        if (bound := lower_bound(variable, self.sums_step)) == variable.minimum:
            return None
        return (
            f"{self.column} is taken from sums since 00 UTC that are packed in steps of {self.sums_step:.3g} "
            f"{variable.unit}, by the range of all values of the file: amounts of hours are right to two steps, and "
            f"may be as low as {bound:.3g}. Files that are requested today have no such steps"
        )

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Build the facts from the JSON of `asdict`, ignoring fields added by later versions."""
        runs = {name: tuple(value[name]) for name in ("preliminary_hours", "missing_hours")}
        return cls(**{name: of for name, of in {**value, **runs}.items() if name in _COLUMN_FACTS})


_COLUMN_FACTS = frozenset(field.name for field in fields(ColumnFacts))


@dataclass(frozen=True)
class FlatFile:
    """A file that belongs to a flat month."""

    path: Path
    bytes: int
    sha256: str

    @classmethod
    def at(cls, path: Path) -> Self:
        """Describe the file as it is."""
        return cls(path, path.stat().st_size, sha256_of(path))

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Build it from the JSON of `asdict`, with its path as text."""
        return cls(**{**value, "path": Path(value["path"])})


@dataclass(frozen=True)
class FlatMonth:
    """A month as rows: location-major, in the table's units, in one file, or in one for each band of a lake.

    `path`, `bytes` and `sha256` are those of the first file with rows, `other_files` are the others. `is_for_lake`: the
    files are made for a lake (`flat.bands`). `summaries` is the file of the month's summaries (`flat.monthly`), None if
    it was flattened without them, as in the benchmark. `location_ids` are the covered locations
    of the files. `hours_expected` is the hour count of the month; `columns` are those in the files; the table's other
    columns are NULL. `location_id_sum` is the sum over all rows. `seconds` is the time that flattening took;
    `fingerprint` is equal for equal rows made of the same files. `shift` is that of all values, if the store
    interpolated them between the grid points; they are at the nearest points.
    """

    raw: RawMonth
    path: Path
    format: FlatFormat
    rows: int
    location_ids: LocationSet
    hours: int
    hours_expected: int
    missing_hours: tuple[str, ...]
    columns: tuple[ColumnFacts, ...]
    location_id_sum: int
    bytes: int
    sha256: str
    seconds: float
    peak_rss_bytes: int
    raw_seconds: float = 0.0
    summaries: FlatFile | None = None
    other_files: tuple[FlatFile, ...] = ()
    is_for_lake: bool = False
    shift: Shift | None = None

    @property
    def row_files(self) -> tuple[FlatFile, ...]:
        """The files with rows, each with other locations, in ascending order."""
        return (FlatFile(self.path, self.bytes, self.sha256), *self.other_files)

    @property
    def files(self) -> tuple[FlatFile, ...]:
        """The data files: the rows, then the summaries."""
        return self.row_files if self.summaries is None else (*self.row_files, self.summaries)

    @property
    def row_bytes(self) -> int:
        """The size of the files with rows."""
        return sum(file.bytes for file in self.row_files)

    @property
    def month(self) -> Month:
        """The month of the rows."""
        return self.raw.month

    @property
    def locations(self) -> int:
        """The number of locations."""
        return len(self.location_ids)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The variable columns in its file, in table order."""
        return tuple(facts.column for facts in self.columns)

    @property
    def is_complete(self) -> bool:
        """True if every location has every hour of the month in every column."""
        return not any(facts.missing_hours for facts in self.columns)

    @property
    def state(self) -> Literal["loaded", "incomplete"]:
        """The state that the ledger records once the month is loaded."""
        return "loaded" if self.is_complete else "incomplete"

    @property
    def fingerprint(self) -> str:
        """Equal for equal rows, in whatever format they are written."""
        return month_fingerprint(self.raw)

    @property
    def expver(self) -> dict[str, dict[str, int]]:
        """Hours per version, per column."""
        return {facts.column: facts.expver for facts in self.columns}

    @property
    def preliminary_hours(self) -> dict[str, tuple[str, ...]]:
        """Runs of preliminary hours, per column with any."""
        return {facts.column: facts.preliminary_hours for facts in self.columns if facts.preliminary_hours}

    @property
    def version(self) -> Version:
        """The version of the whole month: final, preliminary, mixed or unknown; generated if its source makes it up."""
        is_generated = source_kind(self.raw.source).is_generated
        return version_of(self.expver, generated=self.column_names if is_generated else ())

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings for the user about the month's files, and then about its values."""
        of_values = [text for facts in self.columns for text in (facts.warning, facts.packing_warning)]
        empty = [
            f"{facts.column} has no values: only hours that follow each other give the amounts of sums since 00 UTC"
            for facts in self.columns
            if not facts.values and self.raw.dataset.is_summed(facts.column)
        ]
        return (*self.raw.warnings, *(text for text in of_values if text is not None), *empty)

    @property
    def origin(self) -> Origin | None:
        """Whose word it is that the values are hourly ones of ERA5: the most doubtful of the columns; None: unknown."""
        return most_doubtful(facts.origin for facts in self.columns)

    def to_json(self) -> dict[str, Any]:
        """Convert to a JSON value; `from_json` is the inverse."""
        value = {"form": FACTS_FORM, **asdict(self), "raw": self.raw.to_json(), "path": str(self.path)}
        for file in filter(None, (value["summaries"], *value["other_files"])):
            file["path"] = str(file["path"])
        return {**value, "location_ids": self.location_ids.runs}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Convert from a JSON value of `to_json`."""
        raw = RawMonth.from_json(value["raw"])
        summaries, others = value["summaries"], value.get("other_files", ())
        shift = Shift.from_json(value.get("shift"))
        return cls(
            **{
                **{name: of for name, of in value.items() if name != "form"},
                "raw": raw,
                "path": Path(value["path"]),
                "location_ids": LocationSet.of_runs(value["location_ids"], raw.dataset.grid),
                "missing_hours": tuple(value["missing_hours"]),
                "columns": tuple(ColumnFacts.from_json(facts) for facts in value["columns"]),
                "summaries": summaries and FlatFile.from_json(summaries),
                "other_files": tuple(map(FlatFile.from_json, others)),
                "shift": shift,
            }
        )


def month_fingerprint(raw: RawMonth) -> str:
    """A digest of everything that the rows of a month depend on; the ledger compares it to detect changes."""
    return digest_of({"raw": raw.fingerprint, "flat_form": FLAT_FORM})
