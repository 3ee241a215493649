"""The interface of a file that is being exported, and the attributes that describe it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Protocol, Self

from era5_pipeline.model.months import spans
from era5_pipeline.model.package_version import __version__
from era5_pipeline.model.source_kinds import source_kind
from era5_pipeline.query.api.cf_attributes import CONVENTIONS, cf_attributes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import TracebackType

    from era5_pipeline.model.data_version import Version
    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.export.export_contents import ExportContents
    from era5_pipeline.query.export.export_pieces import ExportPiece
    from era5_pipeline.query.export.piece_values import Values

EXPVER_ATTRIBUTES = {
    "long_name": "version of ERA5",
    "comment": "0001: final; 0005: preliminary (ERA5T), at some place or of some variable; "
    "empty: no data, or the files that were loaded do not say",
}
_DATASET = "ERA5 hourly data on single levels from 1940 to present, doi:10.24381/cds.adbb2d47"
_LICENCE = "CC BY 4.0, https://creativecommons.org/licenses/by/4.0/"


class ExportSink(Protocol):
    """A file that pieces are written to, one after another; as a context manager it is closed."""

    def write(self, piece: ExportPiece, values: Values) -> int:
        """Write a piece, of (latitudes, longitudes, hours); return how many rows, or values of a column."""
        ...

    def finish(self, missing: Mapping[str, str]) -> None:
        """Complete the file, with what turned out to be missing as attributes; it is not written to any more."""
        ...

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def file_attributes(contents: ExportContents) -> dict[str, str]:
    """Attributes that describe a file: conventions, origin, history, versions, credit, place, what is missing."""
    sources = sorted({source for part in contents.parts for source in part.sources})
    is_real = any(not source_kind(source).is_generated for source in sources)
    found = {
        "Conventions": CONVENTIONS,
        "title": "ERA5 hourly data on single levels" if is_real or not sources else "Generated sample data, not ERA5",
        "source": f"{f'{_DATASET}; ' if is_real else ''}table weather of era5-pipeline {__version__}"
        f"{', loaded from ' if sources else ''}{', '.join(sources)}",
        "history": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ} exported by era5-pipeline {__version__}",
        "credit": contents.credit,
        "era5_versions": _versions(contents),
    }
    if is_real:
        found["license"] = _LICENCE
    if contents.place is not None:
        found["place"] = contents.place.description
    return {name: text for name, text in (found | missing_attributes(contents.lines)).items() if text} | (
        {"incomplete_months": " ".join(map(str, contents.incomplete_months))} if contents.incomplete_months else {}
    )


def missing_attributes(lines: tuple[str, ...] | list[str]) -> dict[str, str]:
    """An attribute that names what is missing; no attribute if nothing is."""
    return {"missing": "; ".join(lines)} if lines else {}


def variable_attributes(contents: ExportContents, variable: Variable) -> dict[str, str]:
    """The CF attributes of a variable, and `missing_months`, which names the months without any value."""
    attributes = cf_attributes(variable)
    if variable.column in contents.missing_months:
        attributes["missing_months"] = " ".join(map(str, contents.missing_months[variable.column]))
    return attributes


def _versions(contents: ExportContents) -> str:
    """The months by version: `final: 2023-01 to 2023-08; preliminary: 2023-09`."""
    months: dict[Version, set[Month]] = {}
    for part in contents.parts:
        months.setdefault(part.version, set()).add(part.month)
    return "; ".join(f"{version}: {spans(sorted(months[version]))}" for version in sorted(months))
