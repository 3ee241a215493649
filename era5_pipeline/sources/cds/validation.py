"""Validation of a download: a netCDF file, or a complete and harmless ZIP with one.

Reads the whole file once, after the download. For its variables and hours see `era5_pipeline.netcdf`.
"""

from __future__ import annotations

import zipfile
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import MonthFailedError
from era5_pipeline.netcdf.grib import read_index
from era5_pipeline.netcdf.recognise import describe_other, kind_of, kind_of_bytes
from era5_pipeline.sources.cds.retry_policy import RetryableError

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.netcdf.recognise import Kind

# The members are compressed netCDF, which a ZIP hardly shrinks; only small members, with constant fields, shrink much.
_LARGEST_RATIO = 100
_ALWAYS_ALLOWED_BYTES = 100_000_000
# A file damaged at the service stays damaged in its cache: a new request is sent once.
_MAX_DAMAGED = 2
_READ_BYTES = 1 << 20
_CSV = "the download is a point series as CSV, not netCDF"


class HostileFileError(MonthFailedError):
    """A file designed to do harm when unpacked."""


def validate_download(subject: Month | str, path: Path) -> str:
    """Read the whole file, verifying the checksums of a ZIP's members.

    Returns:
        The suffix for its name: `.nc`, `.grib` or `.zip`.
    """
    kind = kind_of(path)
    if kind == "netcdf":
        return ".nc"
    if kind == "grib":
        try:
            read_index(path)
        except ValueError as error:
            raise damaged(f"the downloaded GRIB is cut off or damaged ({error})") from error
        return ".grib"
    if kind == "csv":
        raise damaged(_CSV)
    if kind == "other":
        raise damaged(f"the downloaded file {describe_other(path)[0]}")
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            for info in members:
                _require_harmless(subject, info)
            kinds = {_read_through(archive, info) for info in members}
    except HostileFileError:
        raise
    except Exception as error:  # zipfile and the decompressors raise nearly anything for damaged files
        raise damaged(f"the ZIP is damaged ({error})") from error
    if kinds == {"csv"}:
        raise damaged(_CSV)
    if "netcdf" not in kinds:
        raise damaged("the ZIP holds no netCDF" if members else "the ZIP is empty")
    return ".zip"


def _read_through(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Kind:
    """Read a member to its end, where zipfile verifies its size and CRC."""
    with archive.open(info) as member:
        kind = kind_of_bytes(member.read(_READ_BYTES))
        while member.read(_READ_BYTES):
            pass
    return kind


def damaged(what: str) -> RetryableError:
    """Build the error for an unusable result; a new request is sent once."""
    return RetryableError(what, kind="damaged", needs_new_request=True, max_in_a_row=_MAX_DAMAGED)


def _require_harmless(subject: Month | str, info: zipfile.ZipInfo) -> None:
    remedy = "Nothing was unpacked. Check CDSAPI_URL; if it is that of the Climate Data Store, tell its user support."
    name = info.filename
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.is_absolute() or windows.drive or ".." in (*posix.parts, *windows.parts):
        raise HostileFileError(
            f"{subject}: a member of the downloaded ZIP leads outside of it ({name!r})", remedy=remedy
        )
    if info.file_size > max(_ALWAYS_ALLOWED_BYTES, _LARGEST_RATIO * info.compress_size):
        raise HostileFileError(
            f"{subject}: the downloaded ZIP would unpack {info.compress_size:,} bytes to {info.file_size:,} bytes",
            remedy=remedy,
        )
