"""Stage results as Dagster metadata, as shown by the UI for each month."""

from __future__ import annotations

import base64
import io
from functools import lru_cache
from itertools import product
from typing import TYPE_CHECKING
from urllib.parse import quote

import dagster as dg
from PIL import Image

from era5_pipeline.flat.checks import CHECK_DESCRIPTIONS, CheckName, CheckResult
from era5_pipeline.flat.flatten import preview_file
from era5_pipeline.maps.styles import TEXT_OF_PREVIEW, TITLE_OF_PREVIEW
from era5_pipeline.model.source_kinds import source_kind, version_of
from era5_pipeline.model.times import hours_in
from era5_pipeline.model.variables import BY_COLUMN
from era5_pipeline.read.credit import origin_of
from era5_pipeline.read.held import PartVersion

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from era5_pipeline.flat.flat_month import FlatMonth
    from era5_pipeline.lake.commits import Committed
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.errors import NotYetAvailableError
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.sources.source import RawMonth
    from era5_pipeline.stages import FlatResult, LoadResult, RawResult

Metadata = dict[str, dg.MetadataValue]

# Dagster's UI (1.13, `MetadataEntry` of ui-core) renders Markdown of fewer characters in place, longer Markdown behind
# "[Show Markdown]". With the words above it, that leaves some 400 bytes for a picture.
_INLINE_CHARACTERS = 1000
# In pixels. A wider picture of lower quality looks worse than a narrower one enlarged by the browser.
_INLINE_WIDTHS = (180, 150, 120, 90, 60, 40, 20)
_INLINE_QUALITIES = (40, 30, 20, 15)
# Characters that both Markdown and a data URL leave alone: quoting takes three characters.
_SAFE = "/:;,+='"


def column_schema(dataset: Dataset) -> dg.TableSchema:
    """The columns of a new table of the data set."""
    location_id = f"Grid point id: latitude_index * {dataset.grid.columns} + longitude_index + 1"
    not_null = dg.TableColumnConstraints(nullable=False)
    return dg.TableSchema(
        columns=[
            dg.TableColumn("time", "timestamptz", "Valid time, UTC", constraints=not_null),
            dg.TableColumn("location_id", "integer", location_id),
            dg.TableColumn("latitude", "real", "Degrees north"),
            dg.TableColumn("longitude", "real", "Degrees east, in (-180, 180]"),
            *(
                dg.TableColumn(
                    v.column,
                    "real",
                    f"{v.description} [{v.unit}]",
                    constraints=dg.TableColumnConstraints(other=[f"{v.minimum:g} <= value <= {v.maximum:g}"]),
                )
                for v in dataset.catalogue.default_variables
            ),
        ]
    )


def check_specs(asset: dg.AssetKey, names: Iterable[CheckName], *, blocking: bool) -> list[dg.AssetCheckSpec]:
    """Specs of these checks on `asset`; a blocking check that fails stops the month."""
    return [
        dg.AssetCheckSpec(name, asset=asset, description=CHECK_DESCRIPTIONS[name], blocking=blocking) for name in names
    ]


def check_results(asset: dg.AssetKey, outcomes: Iterable[CheckResult]) -> list[dg.AssetCheckResult]:
    """Outcomes of checks as Dagster check results."""
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


def per_second(count: int, seconds: float) -> float:
    """A rate, rounded to 0.1; 0 if no time was measured."""
    return round(count / seconds, 1) if seconds > 0 else 0.0


def raw_metadata(result: RawResult) -> Metadata:
    """Files with their digests, hours and versions."""
    raw = result.raw
    generated = result.columns if source_kind(raw.source).is_generated else ()
    version = version_of(result.expver, result.preliminary_hours, generated=generated)
    return {
        "source": dg.MetadataValue.text(raw.source),
        **_snapshot(raw),
        "files": dg.MetadataValue.table(
            records=[
                dg.TableRecord({"path": file.shown, "bytes": file.bytes, "sha256": file.sha256}) for file in raw.files
            ],
            schema=dg.TableSchema(
                columns=[dg.TableColumn("path"), dg.TableColumn("bytes", "int"), dg.TableColumn("sha256")]
            ),
        ),
        "variables": dg.MetadataValue.json(list(result.columns)),
        **({"not loaded": dg.MetadataValue.text(_name_unrequested_columns(result))} if result.besides else {}),
        "version": dg.MetadataValue.text(version),
        "warnings": dg.MetadataValue.json(list(raw.warnings)),
        "hours": dg.MetadataValue.int(result.hours),
        "bytes": dg.MetadataValue.int(raw.bytes),
        "seconds": dg.MetadataValue.float(round(result.seconds, 3)),
        "seconds waiting": dg.MetadataValue.float(round(result.waited_seconds, 3)),
        **_technical(
            rows=result.rows,
            hours_expected=raw.month.hours,
            sha256={file.shown: file.sha256 for file in raw.files},
            expver=result.expver,
            preliminary_hours=result.preliminary_hours,
            rows_per_second=per_second(result.rows, result.seconds),
        ),
    }


def _snapshot(raw: RawMonth) -> Metadata:
    """The state of the source's store, if it has several."""
    return {} if raw.snapshot is None else {"snapshot of the source": dg.MetadataValue.text(str(raw.snapshot))}


def skipped(asset: dg.AssetKey, partition: str, error: NotYetAvailableError) -> dg.AssetObservation:
    """The observation of a month that the source does not have yet."""
    return dg.AssetObservation(
        asset_key=asset, partition=partition, metadata={"skipped": error.message, "remedy": error.remedy}
    )


def flat_metadata(result: FlatResult) -> Metadata:
    """Maps, means, rows, file and version of the month, with technical facts in one entry."""
    flat = result.flat
    return {
        **_maps(result.preview, flat),
        **_averages(flat),
        "dagster/partition_row_count": dg.MetadataValue.int(flat.rows),
        "dagster/uri": dg.MetadataValue.path(flat.path),
        "locations": dg.MetadataValue.int(flat.locations),
        "hours": dg.MetadataValue.int(flat.hours),
        "missing_hours": dg.MetadataValue.json(list(flat.missing_hours)),
        **({"warnings": dg.MetadataValue.text("; ".join(flat.warnings))} if flat.warnings else {}),
        "version": dg.MetadataValue.text(flat.version),
        "origin": dg.MetadataValue.text(flat.origin or "not recorded"),
        "bytes": dg.MetadataValue.int(flat.row_bytes),
        "seconds": dg.MetadataValue.float(round(flat.seconds, 3)),
        **_rate(flat.rows, flat.seconds),
        **_technical(
            rows=flat.rows,
            hours_expected=flat.hours_expected,
            bytes_per_row=round(flat.row_bytes / max(1, flat.rows), 2),
            sha256=flat.sha256,
            expver=flat.expver,
            preliminary_hours=flat.preliminary_hours,
            reused=result.reused,
            rows_per_second=per_second(flat.rows, flat.seconds),
            peak_rss_bytes=flat.peak_rss_bytes,
        ),
    }


def _name_unrequested_columns(result: RawResult) -> str:
    names = ", ".join(result.besides)
    return f"the files also hold {names}: to load them, set ERA5_VARIABLES to all, or to a list of names"


def lake_metadata(committed: Committed) -> Metadata:
    """The lake's newest snapshot, the month's files in it, and whether the load changed them."""
    return {
        "dagster/partition_row_count": dg.MetadataValue.int(committed.rows),
        "snapshot": dg.MetadataValue.text(str(committed.snapshot_id)),
        "files": dg.MetadataValue.int(committed.files),
        "bytes": dg.MetadataValue.int(committed.bytes),
        "changed": dg.MetadataValue.bool(committed.changed),
    }


def weather_metadata(result: LoadResult) -> Metadata:
    """Maps, means, rows and state of the month, and what it replaced, with technical facts in one entry."""
    flat, loaded = result.flat, result.loaded
    held = loaded.confirmation
    confirmed = {} if held is None else {"confirmed by": dg.MetadataValue.text(str(held.confirmed))}
    return {
        **_maps(preview_file(flat.path.parent, flat.month), flat),
        **_averages(flat),
        "dagster/partition_row_count": dg.MetadataValue.int(loaded.rows),
        "hours": dg.MetadataValue.int(flat.hours),
        "state": dg.MetadataValue.text(flat.state),
        "server": dg.MetadataValue.text(loaded.server),
        "version": dg.MetadataValue.text(flat.version if held is None else held.version),
        "origin": dg.MetadataValue.text(flat.origin or "not recorded"),
        "source": dg.MetadataValue.text(flat.raw.source if held is None else ", ".join(held.sources)),
        **(_snapshot(flat.raw) if held is None else {}),
        **confirmed,
        "changed": dg.MetadataValue.bool(loaded.changed),
        "replaced": dg.MetadataValue.text("; ".join(map(str, loaded.replaced)) or "nothing"),
        "seconds": dg.MetadataValue.float(round(loaded.seconds, 3)),
        "seconds waiting": dg.MetadataValue.float(round(result.waited_seconds, 3)),
        **_rate(loaded.rows, loaded.seconds),
        "raw bytes": dg.MetadataValue.int(flat.raw.bytes),
        "flat bytes": dg.MetadataValue.int(flat.row_bytes),
        **_technical(
            rows=loaded.rows,
            hours_expected=flat.hours_expected,
            bytes=flat.row_bytes,
            sha256=flat.sha256,
            expver=flat.expver,
            preliminary_hours=flat.preliminary_hours,
            confirmed=loaded.confirmed,
            columns_changed=None if loaded.columns_changed is None else list(loaded.columns_changed),
            replaced_rows=loaded.replaced_rows,
            kept_locations=loaded.kept_locations,
            kept_columns=list(loaded.kept_columns),
            verify_seconds=round(result.verify_seconds, 3),
            rows_per_second=per_second(loaded.rows, loaded.seconds),
            workers=loaded.workers,
            layout=loaded.layout,
        ),
    }


def _rate(rows: int, seconds: float) -> Metadata:
    """Rows per second, as a number that the UI plots; empty if nothing was done, to avoid a dip to zero."""
    return {"rows per second": dg.MetadataValue.float(per_second(rows, seconds))} if seconds > 0 else {}


def _averages(flat: FlatMonth) -> Metadata:
    """The mean over area and hours of every variable of the month.

    Numbers, so that the UI plots them over the months. It sorts plots by name: these come first.
    """
    return {
        _average_name(BY_COLUMN[facts.column]): dg.MetadataValue.float(
            _to_six_digits(facts.area_mean * (24 if BY_COLUMN[facts.column].step_type == "accum" else 1))
        )
        for facts in flat.columns
        if facts.area_mean is not None
    }


def _to_six_digits(value: float) -> float:
    # Significant digits, not decimals: mean rates are as small as 0.00001.
    return float(f"{value:.6g}")


def _average_name(variable: Variable) -> str:
    # The UI breaks lines at spaces: a longer word would run into the next column.
    unit = f"{variable.unit}/day" if variable.step_type == "accum" else variable.unit
    return f"average {variable.column} [{unit}]"


def _technical(**facts: object) -> Metadata:
    """Details of one load, as a single entry: as separate ones they would bury the others."""
    return {"technical": dg.MetadataValue.json(facts)}


def _maps(path: Path, flat: FlatMonth) -> Metadata:
    """The preview map in two sizes: small enough to be shown at once, and the original, shown on a click.

    What it shows and its credit are above both, where they are in view however large the picture is.
    """
    preliminary = hours_in(run for facts in flat.columns for run in facts.preliminary_hours)
    part = PartVersion(flat.month, (flat.raw.source,), flat.version, preliminary, flat.shift, flat.origin)
    credit = origin_of([part]).credit
    try:
        picture = path.read_bytes()
        caption, small = _inline(picture, credit)
    except (OSError, ValueError, KeyError):  # a missing or damaged preview must not fail the load
        return {"map": dg.MetadataValue.null(), "preview": dg.MetadataValue.null()}
    encoded = base64.b64encode(picture).decode()
    return {
        "map": dg.MetadataValue.md(small),
        "preview": dg.MetadataValue.md(f"{caption}![preview](data:image/png;base64,{encoded})"),
    }


@lru_cache(maxsize=1)  # of a month's rows in a file, and in the table
def _inline(picture: bytes, credit: str) -> tuple[str, str]:
    """The title and credit as Markdown, and what the UI shows in place: these, and below them the map, blurred."""
    with Image.open(io.BytesIO(picture)) as image:
        # Without its title, which would be illegible when blurred.
        words, title = image.info[TEXT_OF_PREVIEW], int(image.info[TITLE_OF_PREVIEW])
        original = image.convert("RGB").crop((0, title, image.width, image.height))
    caption, text = "".join(f"{line}\n\n" for line in (words, credit) if line), ""
    for width, quality in product(_INLINE_WIDTHS, _INLINE_QUALITIES):
        file = io.BytesIO()
        small = original.resize((width, max(1, original.height * width // original.width)), Image.Resampling.LANCZOS)
        small.save(file, "webp", quality=quality, method=6)
        text = caption + _enlarged(file.getvalue(), original.width, original.height)
        if len(text) < _INLINE_CHARACTERS:
            break
    return caption, text


def _enlarged(picture: bytes, width: int, height: int) -> str:
    """A WebP picture as Markdown, enlarged to this size by an SVG around it, as Markdown has no sizes."""
    size = f"width='{width}' height='{height}'"
    href = f"data:image/webp;base64,{base64.b64encode(picture).decode()}"
    svg = f"<svg xmlns='http://www.w3.org/2000/svg' {size}><image {size} href='{href}'/></svg>"
    return f"![map](data:image/svg+xml,{quote(svg, safe=_SAFE)})"
