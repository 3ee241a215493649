"""Exceptions shown to the user: each says what failed, for which month or file, and what to do.

    Era5Error                  exit code 1
    |-- UsageError                       2   invalid month, area, column or setting
    |-- InputError                       3   the source's files cannot be used
    |   |-- BadFileError                     one file cannot be used
    |   |-- NoDataError                      no data of the month
    |   |   `-- NotLoadedError                 the table has nothing of the place
    |   |-- NotYetAvailableError             the source will have the month later
    |   `-- ReplacedError                    another command has replaced the month's files
    |-- RefusedError                     4   a check refused the month
    |-- WarehouseError                   5   the database server failed
    |   |-- ServerUnreachableError
    |   |   `-- NoDatabaseError              no database yet, and the command only reads
    |   |-- ServerUnsuitableError            too old, read-only, or a privilege is missing
    |   |   `-- SchemaVersionError             this program does not know the version of the tables
    |   `-- MonthLockedError                 another load has locked the month
    |-- LocalDiskError                   6   this machine's disk is full, or a permission is missing
    |-- MachineLimitError                1   this machine has no more memory, threads or open files for the process
    |-- StoreError                      10   the store of files refuses, or is full (ERA5_STORE)
    `-- SourceError                      8   the service refuses (key, licence, limits)
        `-- MonthFailedError             9       only for this month

All of these are permanent: a retry would fail the same way. Temporary errors have one class:

    TransientError(Era5Error)            7   the caller may retry
    `-- StoreUnreachableError                a store did not answer, and has been waited for
"""

from __future__ import annotations

import errno
import mmap
import os
import pwd
import re
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Era5Error(Exception):
    """An error shown to the user in two lines: what failed, and the remedy.

    `message` names the month or file; `remedy` says what to do.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        # Unpickling an exception calls its class with `args`, which does not include the remedy.
        return _received, (type(self), self.message, vars(self))


def _received(kind: type[Era5Error], message: str, attributes: dict[str, object]) -> Era5Error:
    """Rebuild an error pickled by another process."""
    error = kind.__new__(kind, message)
    vars(error).update(attributes)
    return error


class UsageError(Era5Error):
    """Invalid month, area, column or setting."""

    exit_code = 2


class InputError(Era5Error):
    """The source's files cannot be used."""

    exit_code = 3


class BadFileError(InputError):
    """One file cannot be used; `path` names it."""

    def __init__(self, path: Path | str, problem: str, *, remedy: str) -> None:
        super().__init__(f"{path}: {problem}", remedy=remedy)
        self.path = str(path)
        self.problem = problem


class NoDataError(InputError):
    """The source has no data for the month."""


class NotLoadedError(NoDataError):
    """The table has nothing of the place, or nothing at all."""


class NotYetAvailableError(InputError):
    """The source does not have the month yet: it is skipped, not failed."""


class ReplacedError(InputError):
    """Another command has replaced what an earlier stage of this one prepared."""


class RefusedError(Era5Error):
    """A check refused the month after it was read."""

    exit_code = 4


class WarehouseError(Era5Error):
    """The database server failed or refused."""

    exit_code = 5


class ServerUnreachableError(WarehouseError):
    """No connection to the server."""


class NoDatabaseError(ServerUnreachableError):
    """There is no database yet, and the command only reads: it creates none."""


class ServerUnsuitableError(WarehouseError):
    """The server is too old, read-only, or lacks a privilege."""


class SchemaVersionError(ServerUnsuitableError):
    """The tables in schema `era5` have a newer version, an older one, or no version."""


class MonthLockedError(WarehouseError):
    """Another load holds the lock on the month and did not finish within the lock timeout."""


class LocalDiskError(Era5Error):
    """This machine's disk is full, or its files cannot be read or written."""

    exit_code = 6


class MachineLimitError(Era5Error):
    """The system refused the process more memory, threads or open files."""


class StoreError(Era5Error):
    """The store of files (ERA5_STORE) is missing, refuses, or is full. A retry would be refused too."""

    exit_code = 10


class SourceError(Era5Error):
    """The service refuses because of the key, a licence or a limit. A retry would be refused too."""

    exit_code = 8


class MonthFailedError(SourceError):
    """The service failed for this month alone: its request failed there, or the download is damaged."""

    exit_code = 9


class TransientError(Era5Error):
    """A temporary error that may be retried: the connection was lost, the server restarts."""

    exit_code = 7


class StoreUnreachableError(TransientError):
    """A store, of files or in chunks, did not answer in all its tries; other months would fail the same way."""


# EFBIG: the file exceeds a limit of the file system or of the user.
_FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
_FORBIDDEN = frozenset({errno.EACCES, errno.EPERM})


@contextmanager
def disk_errors(doing: str, path: Path) -> Iterator[None]:
    """Raise a `LocalDiskError` for a full disk, a quota, a file size limit, a missing permission or a read-only disk.

    `doing` says in the message what failed; the path is that of the error, or else `path`.
    """
    try:
        yield
    except OSError as error:
        remedy = disk_remedy(error)
        if remedy is None:
            raise
        is_named = error.errno in _FORBIDDEN and error.filename is not None
        place = os.fsdecode(error.filename) if is_named else path
        raise LocalDiskError(f"{doing}: {error.strerror} ({place})", remedy=remedy) from error


def disk_remedy(
    error: OSError, instead: str = "set ERA5_HOME to a folder of your own", *, name: str = "ERA5_HOME"
) -> str | None:
    """Return what to do about a full disk, a missing permission or a read-only disk; None for any other error.

    `instead` says what to do if the permission cannot be granted; `name` is the setting that names the location.
    """
    if error.errno in _FULL:
        return (
            f"Free space there, or set {name} to a folder on a larger disk that you may write to. "
            "Nothing was left half-written; run the month again."
        )
    if error.errno in _FORBIDDEN:
        user = f"user number {os.geteuid()}"
        with suppress(KeyError):  # for example in a container
            user = f"the user {pwd.getpwuid(os.geteuid()).pw_name}"
        return (
            f"Permission is missing: {user} may not read or write there. Ask its owner to grant it (chown, "
            f"chmod), or {instead}."
        )
    if error.errno == errno.EROFS:
        return f"It is mounted read-only: mount it writable, or set {name} to a folder on another disk."
    return None


# What libraries that keep no code say of an allocation, a thread or a mapping that the system refused.
_NO_MEMORY = re.compile(
    "cannot allocate memory|memory allocation|unable to allocate|bad_alloc|can't start new thread|can't allocate lock|"
    "failed to map segment|out of memory",
    re.IGNORECASE,
)

# What is needed at least to go on: a process that cannot get as much reads no tile of a month.
_LEAST_MEMORY = 128 << 20


@contextmanager
def machine_limits(doing: str) -> Iterator[None]:
    """Raise a `MachineLimitError` if too little memory or too few open files led to an error in this context."""
    try:
        yield
    except Exception as error:
        if (limit := machine_limit(error, doing)) is None:
            raise
        raise limit from error


def machine_limit(error: BaseException, doing: str) -> MachineLimitError | None:
    """Return the error to raise if too little memory or too few open files led to this one; else None."""
    cause: BaseException | None = error
    while cause is not None:
        number = cause.errno if isinstance(cause, OSError) else None
        if number in (errno.EMFILE, errno.ENFILE):
            return MachineLimitError(
                f"{doing}: no more files can be opened ({os.strerror(number)})",
                remedy="Raise the limit on open files (ulimit -n), and run it again.",
            )
        said = isinstance(cause, RuntimeError | OSError | ImportError) and (
            _NO_MEMORY.search(str(cause)) or ("NetCDF: " in str(cause) and _is_short_of_memory())
        )
        if isinstance(cause, MemoryError) or number == errno.ENOMEM or said:
            return MachineLimitError(
                f"{doing}: the memory that this process may use is not enough ({' '.join(str(cause).split())})",
                remedy="Raise or lift its limit (ulimit -v, or that of the container), end other programs, or load a "
                "smaller area; then run it again. Nothing was left half-written.",
            )
        cause = cause.__cause__ or cause.__context__
    return None


def _is_short_of_memory() -> bool:
    """Return whether the limit of this process is reached: HDF5 then calls a good file damaged, or no HDF5 file."""
    try:
        mmap.mmap(-1, _LEAST_MEMORY).close()
    except OSError as error:
        return error.errno == errno.ENOMEM
    return False


def is_caused_by(error: BaseException | None, *kinds: type[BaseException]) -> bool:
    """Return whether the error, or one that it was raised from or during, is of one of these classes.

    Interrupted code, such as an import or an aborted COPY, may raise its own error while it ends.
    """
    while error is not None:
        if isinstance(error, kinds):
            return True
        error = error.__cause__ or error.__context__
    return False
