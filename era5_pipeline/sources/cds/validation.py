"""Whether what came is what can be used: a netCDF, or a ZIP that is whole and harmless.

Here: looking into the file once, when it comes. Not here: its variables and hours (`era5_pipeline.netcdf`).
"""

from __future__ import annotations

import zipfile
from pathlib import PurePosixPath, PureWindowsPath
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import MonthFailedError
from era5_pipeline.netcdf.recognise import describe_other, kind_of, kind_of_bytes
from era5_pipeline.sources.cds.answers import PassingError

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.netcdf.recognise import Kind

# The members are netCDF, compressed already: the service's ZIPs hardly shrink them. Small fields of one value may.
_LARGEST_RATIO = 100
_ALWAYS_FINE_BYTES = 100_000_000
# A file that is damaged at the service stays so in its cache: asked for anew, once.
_DAMAGED_MOST = 2
_READ_BYTES = 1 << 20


class HostileFileError(MonthFailedError):
    """A file that is made to do harm."""


def require_sound(month: Month, path: Path) -> str:
    """Look through the file, checksums of a ZIP's members included; gives the ending that its name should have.

    Raises:
        PassingError: if it is damaged; it may come whole when asked for anew.
        HostileFileError: if it is a ZIP that no honest service sends.
    """
    kind = kind_of(path)
    if kind == "netcdf":
        return ".nc"
    if kind == "csv":
        raise _damaged("what came is a point series as CSV, not a month of netCDF")
    if kind == "other":
        raise _damaged(f"what came {describe_other(path)[0]}")
    try:
        with zipfile.ZipFile(path) as archive:
            members = [info for info in archive.infolist() if not info.is_dir()]
            for info in members:
                _require_harmless(month, info)
            kinds = {_read_through(archive, info) for info in members}
    except HostileFileError:
        raise
    except Exception as error:  # zipfile and the decompressors raise nearly anything for damaged files
        raise _damaged(f"the ZIP is damaged ({error})") from error
    if "netcdf" not in kinds:
        raise _damaged("the ZIP has no netCDF in it" if members else "the ZIP is empty")
    return ".zip"


def _read_through(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> Kind:
    """Read a member to its end, where its size and CRC are checked."""
    with archive.open(info) as member:
        kind = kind_of_bytes(member.read(_READ_BYTES))
        while member.read(_READ_BYTES):
            pass
    return kind


def _damaged(what: str) -> PassingError:
    return PassingError(what, kind="damaged", anew=True, most=_DAMAGED_MOST)


def _require_harmless(month: Month, info: zipfile.ZipInfo) -> None:
    remedy = "Nothing of it was unpacked. Is CDSAPI_URL that of the Climate Data Store? Tell its user support."
    name = info.filename
    posix, windows = PurePosixPath(name), PureWindowsPath(name)
    if posix.is_absolute() or windows.is_absolute() or windows.drive or ".." in (*posix.parts, *windows.parts):
        raise HostileFileError(f"{month}: the ZIP that came has a member outside of it ({name!r})", remedy=remedy)
    if info.file_size > max(_ALWAYS_FINE_BYTES, _LARGEST_RATIO * info.compress_size):
        raise HostileFileError(
            f"{month}: the ZIP that came would swell from {info.compress_size:,} to {info.file_size:,} bytes",
            remedy=remedy,
        )
