"""Facts of a flat month: what assets, checks and the ledger pass on instead of data."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.model.source_kinds import version_of
from era5_pipeline.runtime.files import digest_of
from era5_pipeline.sources.source import RawMonth

if TYPE_CHECKING:
    import numpy.typing as npt

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.settings import FlatFormat
    from era5_pipeline.model.source_kinds import Version

# Increase it when the same files give other rows (units, order, rounding): flat months made before are then outdated.
FLAT_FORM = 1
# Of the facts: increase it when a program that knows the number before would misread them.
FACTS_FORM = 1


def checksum_of(values: npt.NDArray[np.float32], scale: float) -> int:
    """The checksum of values without NaN, of any shape: the sum of floor(value * scale), `Variable.checksum_scale`.

    Whole numbers, so that it comes out the same in any order of rows and in numpy as in SQL, where a sum of floats
    would not. Sums of up to 2**53 are exact in float64: 16 million values within the variable's bounds stay below.
    """
    scaled = np.multiply(values, scale, dtype=np.float64)
    return int(np.floor(scaled, out=scaled).sum())


@dataclass(frozen=True)
class ColumnFacts:
    """Statistics of one column of the month: counts of values, their range in the table's unit, and anomalies.

    `missing` counts locations and hours without a value, among those that the column covers; `out_of_bounds` counts
    values outside the variable's physical bounds; `first_*` name the first of them. `missing_hours` are runs of the
    hours of the month at which any of the month's locations lacks a value; none if the column is complete. `expver`
    counts hours per version: an hour that is final at some locations and preliminary at others counts under both.
    `preliminary_hours` are runs of the hours that are preliminary at any location. `digest` is exact to the bit (see
    `digests`). `mean` is that of all values, `area_mean` weights each by the cosine of its latitude.
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
    # None also where the facts were recorded before there was this one.
    area_mean: float | None = None

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """Build the facts from JSON that `asdict` made; what a later version may have added is left out."""
        runs = {name: tuple(value[name]) for name in ("preliminary_hours", "missing_hours")}
        known = {field.name for field in fields(cls)}
        return cls(**{name: of for name, of in {**value, **runs}.items() if name in known})


@dataclass(frozen=True)
class SummaryFile:
    """The file of a month's summaries (`flat.monthly`), beside that of its rows."""

    path: Path
    bytes: int
    sha256: str


@dataclass(frozen=True)
class FlatMonth:
    """A month as rows in one file: location-major, in the units of the table.

    `summaries` is None if it was flattened without them, as the benchmark does. `location_ids` are the locations that
    the files cover. `hours_expected` is the length of the month; `columns` are those that the files hold; the table's
    others are NULL. `location_id_sum` is the sum over all rows. `seconds` is the time that flattening took;
    `fingerprint` is equal for equal rows made of the same files.
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
    summaries: SummaryFile | None = None

    @property
    def files(self) -> tuple[FlatMonth | SummaryFile, ...]:
        """Its data files: the rows, then the summaries."""
        return (self,) if self.summaries is None else (self, self.summaries)

    @property
    def month(self) -> Month:
        """The month that the rows are of."""
        return self.raw.month

    @property
    def locations(self) -> int:
        """The number of locations."""
        return len(self.location_ids)

    @property
    def column_names(self) -> tuple[str, ...]:
        """The columns of variables that its file has, in table order."""
        return tuple(facts.column for facts in self.columns)

    @property
    def is_complete(self) -> bool:
        """Whether every location has every hour of the month of every column."""
        return not any(facts.missing_hours for facts in self.columns)

    @property
    def fingerprint(self) -> str:
        """Equal for equal rows, whatever format they are written in."""
        return month_fingerprint(self.raw)

    @property
    def expver(self) -> dict[str, dict[str, int]]:
        """Hours per version, per column."""
        return {facts.column: facts.expver for facts in self.columns}

    @property
    def preliminary_hours(self) -> dict[str, tuple[str, ...]]:
        """Runs of preliminary hours, per column that has some."""
        return {facts.column: facts.preliminary_hours for facts in self.columns if facts.preliminary_hours}

    @property
    def version(self) -> Version:
        """The version of the whole month: final, preliminary, mixed or unknown."""
        return version_of(self.expver)

    def to_json(self) -> dict[str, Any]:
        """A JSON value; `from_json` is the inverse."""
        value = {"form": FACTS_FORM, **asdict(self), "raw": self.raw.to_json(), "path": str(self.path)}
        if self.summaries is not None:
            value["summaries"]["path"] = str(self.summaries.path)
        return {**value, "location_ids": self.location_ids.runs}

    @classmethod
    def from_json(cls, value: dict[str, Any]) -> Self:
        """The inverse of `to_json`."""
        summaries = value["summaries"]
        return cls(
            **{
                **{name: of for name, of in value.items() if name != "form"},
                "raw": RawMonth.from_json(value["raw"]),
                "path": Path(value["path"]),
                "location_ids": LocationSet.of_runs(value["location_ids"]),
                "missing_hours": tuple(value["missing_hours"]),
                "columns": tuple(ColumnFacts.from_json(facts) for facts in value["columns"]),
                "summaries": summaries and SummaryFile(**{**summaries, "path": Path(summaries["path"])}),
            }
        )


def month_fingerprint(raw: RawMonth) -> str:
    """One digest of everything that the rows of a month depend on: the ledger compares it to detect changes."""
    return digest_of({"raw": raw.fingerprint, "flat_form": FLAT_FORM})
