"""Stage results as Dagster metadata: what the UI shows of a month."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Literal

import dagster as dg

from era5_pipeline.flat.checks import CHECK_DESCRIPTIONS, CheckName, CheckResult
from era5_pipeline.flat.flatten import preview_file
from era5_pipeline.model.data_version import version_of
from era5_pipeline.model.variables import DEFAULT_VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.model.data_version import Version
    from era5_pipeline.model.errors import NotYetAvailableError
    from era5_pipeline.stages import FlatResult, LoadResult, RawResult

Metadata = dict[str, dg.MetadataValue]

_LOCATION_ID = "Grid point id: latitude_index * 1440 + longitude_index + 1"

COLUMN_SCHEMA = dg.TableSchema(
    columns=[
        dg.TableColumn("time", "timestamptz", "Valid time, UTC", constraints=dg.TableColumnConstraints(nullable=False)),
        dg.TableColumn("location_id", "integer", _LOCATION_ID),
        dg.TableColumn("latitude", "real", "Degrees north"),
        dg.TableColumn("longitude", "real", "Degrees east, in (-180, 180]"),
        *(
            dg.TableColumn(
                v.column,
                "real",
                f"{v.description} [{v.unit}]",
                constraints=dg.TableColumnConstraints(other=[f"{v.minimum:g} <= value <= {v.maximum:g}"]),
            )
            for v in DEFAULT_VARIABLES
        ),
    ]
)


def check_specs(asset: dg.AssetKey, names: Iterable[CheckName], *, blocking: bool) -> list[dg.AssetCheckSpec]:
    """Specs of these checks on `asset`; a blocking check that fails stops the month."""
    return [
        dg.AssetCheckSpec(name, asset=asset, description=CHECK_DESCRIPTIONS[name], blocking=blocking) for name in names
    ]


def check_results(asset: dg.AssetKey, outcomes: Iterable[CheckResult]) -> list[dg.AssetCheckResult]:
    """Check outcomes as Dagster's check results."""
    return [
        dg.AssetCheckResult(
            passed=outcome.passed,
            asset_key=asset,
            check_name=outcome.name,
            description=outcome.description,
            metadata={} if outcome.passed else {"remedy": outcome.remedy},
        )
        for outcome in outcomes
    ]


def state_of(flat: FlatMonth) -> Literal["loaded", "incomplete"]:
    """The state that the ledger records for a loaded month."""
    return "loaded" if flat.is_complete else "incomplete"


def per_second(count: int, seconds: float) -> float:
    """A rate, rounded to 0.1; 0 if no time was measured."""
    return round(count / seconds, 1) if seconds > 0 else 0.0


def raw_metadata(result: RawResult) -> Metadata:
    """Files with their digests, hours and versions."""
    raw = result.raw
    return {
        "source": dg.MetadataValue.text(raw.source),
        "files": dg.MetadataValue.table(
            records=[
                dg.TableRecord({"path": str(file.path), "bytes": file.bytes, "sha256": file.sha256})
                for file in raw.files
            ],
            schema=dg.TableSchema(
                columns=[dg.TableColumn("path"), dg.TableColumn("bytes", "int"), dg.TableColumn("sha256")]
            ),
        ),
        "sha256": dg.MetadataValue.json({str(file.path): file.sha256 for file in raw.files}),
        "bytes": dg.MetadataValue.int(raw.bytes),
        "rows": dg.MetadataValue.int(result.rows),
        "hours": dg.MetadataValue.int(result.hours),
        "hours_expected": dg.MetadataValue.int(raw.month.hours),
        "variables": dg.MetadataValue.json(list(result.columns)),
        "expver": dg.MetadataValue.json(result.expver),
        **_version(version_of(result.expver, result.preliminary_hours), result.preliminary_hours),
        "warnings": dg.MetadataValue.json(list(raw.warnings)),
        "seconds": dg.MetadataValue.float(round(result.seconds, 3)),
        "rows_per_second": dg.MetadataValue.float(per_second(result.rows, result.seconds)),
    }


def skipped(asset: dg.AssetKey, partition: str, error: NotYetAvailableError) -> dg.AssetObservation:
    """The observation of a month that the source does not have yet."""
    return dg.AssetObservation(
        asset_key=asset, partition=partition, metadata={"skipped": error.message, "remedy": error.remedy}
    )


def flat_metadata(result: FlatResult) -> Metadata:
    """Rows, size, time and memory used, versions, and a preview map."""
    flat = result.flat
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(flat.rows),
        "dagster/uri": dg.MetadataValue.path(flat.path),
        "rows": dg.MetadataValue.int(flat.rows),
        "locations": dg.MetadataValue.int(flat.locations),
        "hours": dg.MetadataValue.int(flat.hours),
        "hours_expected": dg.MetadataValue.int(flat.hours_expected),
        "missing_hours": dg.MetadataValue.json(list(flat.missing_hours)),
        "bytes": dg.MetadataValue.int(flat.bytes),
        "bytes_per_row": dg.MetadataValue.float(round(flat.bytes / max(1, flat.rows), 2)),
        "sha256": dg.MetadataValue.text(flat.sha256),
        "expver": dg.MetadataValue.json(flat.expver),
        **_version(flat.version, flat.preliminary_hours),
        "reused": dg.MetadataValue.bool(result.reused),
        "seconds": dg.MetadataValue.float(round(flat.seconds, 3)),
        "rows_per_second": dg.MetadataValue.float(per_second(flat.rows, flat.seconds)),
        "peak_rss_bytes": dg.MetadataValue.int(flat.peak_rss_bytes),
        "preview": _picture(result.preview),
    }


def weather_metadata(result: LoadResult) -> Metadata:
    """Rows in the table, time used, what was replaced, and a preview map."""
    flat, loaded = result.flat, result.loaded
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(loaded.rows),
        "rows": dg.MetadataValue.int(loaded.rows),
        "hours": dg.MetadataValue.int(flat.hours),
        "hours_expected": dg.MetadataValue.int(flat.hours_expected),
        "bytes": dg.MetadataValue.int(flat.bytes),
        "sha256": dg.MetadataValue.text(flat.sha256),
        "expver": dg.MetadataValue.json(flat.expver),
        **_version(flat.version, flat.preliminary_hours),
        "state": dg.MetadataValue.text(state_of(flat)),
        "source": dg.MetadataValue.text(flat.raw.source),
        "changed": dg.MetadataValue.bool(loaded.changed),
        "confirmed": dg.MetadataValue.bool(loaded.confirmed),
        "columns_changed": dg.JsonMetadataValue(
            None if loaded.columns_changed is None else list(loaded.columns_changed)
        ),
        "replaced_rows": dg.MetadataValue.int(loaded.replaced_rows),
        "replaced": dg.MetadataValue.text("; ".join(map(str, loaded.replaced)) or "nothing"),
        "kept_locations": dg.MetadataValue.int(loaded.kept_locations),
        "seconds": dg.MetadataValue.float(round(loaded.seconds, 3)),
        "verify_seconds": dg.MetadataValue.float(round(result.verify_seconds, 3)),
        "rows_per_second": dg.MetadataValue.float(per_second(loaded.rows, loaded.seconds)),
        "workers": dg.MetadataValue.int(loaded.workers),
        "layout": dg.MetadataValue.text(loaded.layout),
        "server": dg.MetadataValue.text(loaded.server),
        "preview": _picture(preview_file(flat.path.parent, flat.month)),
    }


def _version(version: Version, preliminary_hours: Mapping[str, Sequence[str]]) -> Metadata:
    return {
        "version": dg.MetadataValue.text(version),
        "preliminary_hours": dg.MetadataValue.json({column: list(runs) for column, runs in preliminary_hours.items()}),
    }


def _picture(path: Path) -> dg.MetadataValue:
    if not path.is_file():
        return dg.MetadataValue.null()
    encoded = base64.b64encode(path.read_bytes()).decode()
    return dg.MetadataValue.md(f"![preview](data:image/png;base64,{encoded})")
