"""The formats of exports, by the suffix of the file, without importing the writers."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

from era5_pipeline.model.errors import UsageError

ExportFormat = Literal["csv", "parquet", "netcdf", "zarr"]

_FORMATS: dict[str, ExportFormat] = {
    ".csv": "csv",
    ".csv.gz": "csv",
    ".parquet": "parquet",
    ".nc": "netcdf",
    ".zarr": "zarr",
}
_OTHER_NAMES = {"nc": "netcdf"}
_SUFFIXES = f"{', '.join(list(_FORMATS)[:-1])} or {list(_FORMATS)[-1]}"
# Files in a folder made by version 2 or 3 of Zarr.
_ZARR_FILES = (".zgroup", ".zmetadata", "zarr.json")


def export_format(path: Path, format_: str | None) -> ExportFormat:
    """The format of an export to this path: the named one, or else that of its suffix."""
    suffix = suffix_of(path)
    of_suffix = _FORMATS.get(suffix)
    named = _OTHER_NAMES.get(format_, format_) if format_ else None
    if named is not None and named not in get_args(ExportFormat):
        raise UsageError(
            f"{format_!r} is not a format of exports", remedy=f"The formats are {', '.join(get_args(ExportFormat))}."
        )
    if named is not None and of_suffix not in (None, named):
        raise UsageError(
            f"{path.name} is the name of a file of {of_suffix}, and --format is {named}",
            remedy="Leave --format out, or give the file another suffix.",
        )
    chosen = next((one for one in get_args(ExportFormat) if one == named), of_suffix)
    if chosen is None:
        raise UsageError(
            f"{path}: the suffix {suffix or 'is missing, and'} names no format",
            remedy=f"Give a file name that ends with {_SUFFIXES}, or --format.",
        )
    _require_place(path, chosen)
    return chosen


def suffix_of(path: Path) -> str:
    """The suffix in lower case: `.csv.gz`, `.nc`."""
    whole = "".join(path.suffixes[-2:]).lower()
    return whole if whole in _FORMATS else path.suffix.lower()


def _require_place(path: Path, format_: ExportFormat) -> None:
    folder = path.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"there is no folder {folder}", remedy="Create it, or give another --out.")
    if format_ == "zarr":
        # An export may replace a folder that is empty or a Zarr store.
        is_zarr = path.is_dir() and (any((path / name).is_file() for name in _ZARR_FILES) or not any(path.iterdir()))
        if path.exists() and not is_zarr:
            raise UsageError(
                f"{path} exists and is not a Zarr store",
                remedy="Give another name: only a Zarr store is replaced by another.",
            )
    elif path.is_dir():
        raise UsageError(f"{path} is a folder", remedy="Give the name of a file in it.")
    elif path.exists() and (not path.is_file() or folder == Path("/dev")):
        raise UsageError(
            f"{path} is not a file", remedy="Give the name of a file: what is there would be replaced by it."
        )
