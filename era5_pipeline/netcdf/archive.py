"""ZIPs of netCDF: each member gets a path of its own, in a scratch folder, under a name of ours.

Members are streamed into files named by their position, so a member's name can point nowhere, and never past
`_LARGEST_MEMBER_BYTES` or the size that the ZIP's directory announces.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import zipfile
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline.errors import BadFileError, Era5Error, disk_errors
from era5_pipeline.netcdf.recognise import describe_other, kind_of
from era5_pipeline.scratch import own_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A global month of six variables is 18.5 GB uncompressed; a member that claims eight times as much is no ERA5 month.
_LARGEST_MEMBER_BYTES = 150 * 10**9
_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class NetcdfFile:
    """A netCDF file to open at `path`; the user knows it as `shown` (for a member: `archive.zip!member.nc`)."""

    path: Path
    source: Path
    member: str | None = None

    @property
    def shown(self) -> str:
        """What to call it in messages."""
        return str(self.source) if self.member is None else f"{self.source}!{self.member}"


@contextmanager
def scratch_folder(home: Path) -> Iterator[Path]:
    """A folder below `home` that is gone afterwards.

    Raises:
        LocalDiskError: if the disk is full or not writable.
    """
    parent = home / "scratch"
    with disk_errors("making a scratch folder", parent), ExitStack() as stack:
        folder = stack.enter_context(own_folder(parent, "unpacked-"))
        kept = stack.pop_all()
    with kept:
        yield folder


def netcdf_files(paths: Iterable[Path], scratch: Path) -> Iterator[NetcdfFile]:
    """The netCDF files among and within `paths`; ZIP members are unpacked into `scratch`.

    Raises:
        BadFileError: if a file is neither, or a ZIP is damaged or holds no netCDF.
        LocalDiskError: if there is no room to unpack.
    """
    for path in paths:
        kind = kind_of(path)
        if kind == "netcdf":
            yield NetcdfFile(path=path, source=path)
        elif kind == "zip":
            yield from _members(path, scratch)
        else:
            text, remedy = describe_other(path)
            raise BadFileError(path, text, remedy=remedy)


def _members(path: Path, scratch: Path) -> Iterator[NetcdfFile]:
    found = False
    try:
        with zipfile.ZipFile(path) as archive:
            for info in archive.infolist():
                if info.is_dir():
                    continue
                target = _unpack(archive, info, path, scratch)
                if kind_of(target) != "netcdf":
                    target.unlink()
                    continue
                found = True
                yield NetcdfFile(path=target, source=path, member=info.filename)
    except Era5Error:
        raise
    except Exception as error:  # zipfile and the decompressors raise nearly anything for damaged files
        raise BadFileError(path, f"is a damaged ZIP ({error})", remedy="Download it again.") from error
    if not found:
        raise BadFileError(path, "is a ZIP without netCDF in it", remedy="Move it out of the folder.")


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, scratch: Path) -> Path:
    if info.file_size > _LARGEST_MEMBER_BYTES:
        raise BadFileError(
            path, f"its member {info.filename} would unpack to {info.file_size} bytes", remedy="Download it again."
        )
    with disk_errors(f"unpacking {path.name}", scratch):
        descriptor, name = tempfile.mkstemp(dir=scratch, suffix=".nc")
        # zipfile stops at the announced size and checks the CRC, so a lying directory cannot fill the disk.
        with os.fdopen(descriptor, "wb") as target, archive.open(info) as member:
            shutil.copyfileobj(member, target, _COPY_BYTES)
    return Path(name)
