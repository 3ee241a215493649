"""What a user can cause, as exceptions: each says what failed, for which month or file, and what to do.

    Era5Error                  exit code 1
    |-- UsageError                       2   a month, area, column or setting that cannot be meant
    |-- InputError                       3   the files (or their source) cannot be used
    |   |-- BadFileError                     one file, named
    |   |-- NoDataError                      a month of which there is nothing
    |   `-- NotYetAvailableError             a month that the source will have later
    |-- RefusedError                     4   the month was read, and a check refused it
    |-- WarehouseError                   5   the database server
    |   |-- ServerUnreachableError
    |   |-- ServerUnsuitableError            too old, read-only, a privilege missing
    |   `-- MonthLockedError                 another load holds the month
    |-- LocalDiskError                   6   this machine's disk
    `-- SourceError                      8   the service that months come from (key, licence, limits)
        `-- MonthFailedError             9       it fails at this month; others it may give

All of them are permanent: trying the same again gives the same answer. Transient trouble has one class:

    TransientError(Era5Error)            7   worth another try by whoever called
"""

from __future__ import annotations

import errno
from contextlib import contextmanager
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Era5Error(Exception):
    """An error to be shown to the user as two lines: what failed, and the remedy.

    `message` names the month or file; `remedy` says what to do.
    """

    exit_code: ClassVar[int] = 1

    def __init__(self, message: str, *, remedy: str) -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy

    def __str__(self) -> str:
        return f"{self.message}\n{self.remedy}"


class UsageError(Era5Error):
    """A month, area, column or setting that cannot be meant."""

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
    """The source has nothing of the month."""


class NotYetAvailableError(InputError):
    """The source does not have the month yet, and will have it: a month to be passed over, not a failure."""


class RefusedError(Era5Error):
    """The month was read, and a check refused it."""

    exit_code = 4


class WarehouseError(Era5Error):
    """The database server could not do what was asked."""

    exit_code = 5


class ServerUnreachableError(WarehouseError):
    """No connection to the server."""


class ServerUnsuitableError(WarehouseError):
    """The server is too old, read-only, or lacks a privilege."""


class MonthLockedError(WarehouseError):
    """Another load holds the month, and did not finish in time."""


class LocalDiskError(Era5Error):
    """This machine's disk is full or not writable."""

    exit_code = 6


class SourceError(Era5Error):
    """The service that months come from refuses: the key, a licence, a limit. Asking again gives the same answer."""

    exit_code = 8


class MonthFailedError(SourceError):
    """The service could not give this month: the request failed there, or what came is damaged. Others it may give."""

    exit_code = 9


class TransientError(Era5Error):
    """Worth another try: the connection was cut, the server restarts."""

    exit_code = 7


# EFBIG: a file larger than the file system, or a limit of the user, allows.
_DISK_ERRNOS = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES, errno.EPERM})


@contextmanager
def disk_errors(doing: str, path: Path) -> Iterator[None]:
    """Turn "no space", "quota", "too large", "read-only" and "permission" into a `LocalDiskError` that names `path`.

    Raises:
        LocalDiskError: in place of those `OSError`s; every other error passes.
    """
    try:
        yield
    except OSError as error:
        if error.errno not in _DISK_ERRNOS:
            raise
        raise LocalDiskError(
            f"{doing}: {error.strerror} ({path})",
            remedy="Free space there, or set ERA5_HOME to a folder on a larger disk that you may write to. "
            "Nothing was left half-written; run the month again.",
        ) from error
