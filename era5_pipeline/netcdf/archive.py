"""Provide netCDF files to open: plain ones in place, ZIP members unpacked, point series in CSV converted.

Unpacked and converted files get a generated name in a scratch folder, so that a member's name cannot lead out of it.
Members are streamed, never beyond `_LARGEST_MEMBER_BYTES` or the size that the ZIP's directory states.
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

from era5_pipeline.model.errors import BadFileError, Era5Error, LocalDiskError, disk_errors
from era5_pipeline.netcdf.point_csv import CsvFile, write_as_netcdf
from era5_pipeline.netcdf.recognise import HEAD_BYTES, describe_other, kind_of, kind_of_bytes
from era5_pipeline.runtime.scratch_folders import temporary_folder

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# A global month of six variables is 18.5 GB uncompressed; a member of eight times that size cannot be an ERA5 month.
_LARGEST_MEMBER_BYTES = 150 * 10**9
# Beyond this size, a member that is compressed further than values of weather can be is nothing but zeros.
_SMALL_MEMBER_BYTES, _MOST_COMPRESSED = 1 << 30, 150
_COPY_BYTES = 1 << 20


@dataclass(frozen=True)
class NetcdfFile:
    """A netCDF file to open at `path`; messages call it `shown` (for a member: `archive.zip!member.nc`)."""

    path: Path
    source: Path
    member: str | None = None

    @property
    def shown(self) -> str:
        """The name to use in messages."""
        return str(self.source) if self.member is None else f"{self.source}!{self.member}"

    @property
    def is_scratch(self) -> bool:
        """Whether it was unpacked or converted, and may be removed."""
        return self.path != self.source


@contextmanager
def scratch_folder(home: Path) -> Iterator[Path]:
    """Create a temporary folder below `home`, removed even after a crash.

    Raises:
        LocalDiskError: if the disk is full or not writable.
    """
    parent = home / "scratch"
    with disk_errors("creating a scratch folder", parent), ExitStack() as stack:
        folder = stack.enter_context(temporary_folder(parent, "unpacked-"))
        kept = stack.pop_all()
    with kept:
        yield folder


def netcdf_files(paths: Iterable[Path], scratch: Path) -> Iterator[NetcdfFile]:
    """The netCDF files among and inside `paths`; ZIP members and point series are written into `scratch`.

    Raises:
        BadFileError: if a file is of another type, a ZIP is damaged or holds no data, or a CSV cannot be read.
        LocalDiskError: if there is no room to unpack.
    """
    for path in paths:
        kind = kind_of(path)
        if kind == "netcdf":
            yield NetcdfFile(path=path, source=path)
        elif kind == "zip":
            yield from _members(path, scratch)
        elif kind == "csv":
            yield _converted(CsvFile.at(path), scratch)
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
                with archive.open(info) as member:
                    kind = kind_of_bytes(member.read(HEAD_BYTES))
                if kind == "csv":
                    yield _converted(CsvFile.at(path, info.filename), scratch)
                elif kind == "netcdf":
                    yield NetcdfFile(path=_unpack(archive, info, path, scratch), source=path, member=info.filename)
                found = found or kind in ("csv", "netcdf")
    except Era5Error:
        raise
    except Exception as error:  # zipfile and the decompressors raise nearly anything for damaged files
        raise BadFileError(path, f"is a damaged ZIP ({error})", remedy="Download it again.") from error
    if not found:
        raise BadFileError(path, "is a ZIP without netCDF or a point series", remedy="Move it out of the folder.")


def _converted(file: CsvFile, scratch: Path) -> NetcdfFile:
    target = _new_file(scratch)
    write_as_netcdf(file, target)
    return NetcdfFile(path=target, source=file.path, member=file.member)


def _new_file(scratch: Path) -> Path:
    with disk_errors("unpacking", scratch):
        descriptor, name = tempfile.mkstemp(dir=scratch, suffix=".nc")
        os.close(descriptor)
    return Path(name)


def _unpack(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: Path, scratch: Path) -> Path:
    if info.file_size > _LARGEST_MEMBER_BYTES:
        raise BadFileError(
            path, f"its member {info.filename} would unpack to {info.file_size:,} bytes", remedy="Download it again."
        )
    if info.file_size > max(_SMALL_MEMBER_BYTES, _MOST_COMPRESSED * info.compress_size):
        text = f"its member {info.filename} is empty: {info.file_size:,} bytes of {info.compress_size:,}"
        raise BadFileError(path, text, remedy="Download it again, or move it out of the folder.")
    free = shutil.disk_usage(scratch).free
    if info.file_size > free:
        raise LocalDiskError(
            f"unpacking {path.name}: No space left for {info.filename}: it takes {info.file_size:,} bytes, and "
            f"{free:,} are free in {scratch}",
            remedy="Free space there, or set ERA5_HOME to a folder on a larger disk; then run the month again.",
        )
    unpacked = _new_file(scratch)
    # zipfile stops at the stated size and checks the CRC, so that a false directory cannot fill the disk.
    with (
        disk_errors(f"unpacking {path.name}", scratch),
        unpacked.open("wb") as target,
        archive.open(info) as member,
    ):
        shutil.copyfileobj(member, target, _COPY_BYTES)
    return unpacked
