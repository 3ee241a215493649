"""What the errors of S3 mean for the user, and which of them are temporary.

`pyarrow.fs` raises `OSError`s whose text holds the name that Amazon's library gives the error, and the server's words.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import Era5Error, StoreError, TransientError

if TYPE_CHECKING:
    from collections.abc import Iterator

_NAME = re.compile(r"AWS Error (\w+)(?: \(HTTP status (\d+)\))?")
# Of servers whose errors Amazon's library does not know.
_OWN_NAME = re.compile(r"ExceptionName: (\w+)")
_REQUEST = re.compile(r"\s*\(Request ID: [^)]*\)")
_TEMPORARY = {
    *("NETWORK_CONNECTION", "SLOW_DOWN", "SERVICE_UNAVAILABLE", "INTERNAL_FAILURE", "THROTTLING", "REQUEST_TIMEOUT"),
    *("REQUEST_EXPIRED", "SlowDown", "ServiceUnavailable", "InternalError", "RequestTimeout", "SERVER_BUSY"),
}
_KEYS = {
    *("INVALID_ACCESS_KEY_ID", "SIGNATURE_DOES_NOT_MATCH", "INVALID_CLIENT_TOKEN_ID", "UNRECOGNIZED_CLIENT"),
    *("MISSING_AUTHENTICATION_TOKEN", "ExpiredToken", "InvalidToken", "XAdminUserNotFound", "XAdminNoSuchUser"),
}
_FULL = {"QuotaExceeded", "XMinioStorageFull", "InsufficientStorage", "EntityTooLarge", "InsufficientCapacity"}
UNREACHABLE = (
    "The store cannot be reached. Look at ERA5_STORE, AWS_ENDPOINT_URL and the server; then run it again: it goes on "
    "where it stopped."
)
_SERVER_FAULTS = range(500, 600)
_NO_SPACE = 507


@contextmanager
def s3_errors(doing: str, where: str = "") -> Iterator[None]:
    """Raise a `TransientError` or a `StoreError` for an `OSError` of `pyarrow.fs`; other errors pass through.

    `doing` says in the message what failed, `where` at which server.
    """
    try:
        yield
    except OSError as error:
        raise error_of_s3(doing, where, str(error)) from error


def error_of_s3(doing: str, where: str, text: str) -> Era5Error:
    """The error to raise for the text of pyarrow's."""
    named = _NAME.search(text)
    name = named[1] if named else ""
    status = int(named[2]) if named and named[2] else 0
    names = {name, *_OWN_NAME.findall(text)}
    said = _REQUEST.sub("", text)
    message = f"{doing}{where}: {said}"
    if "curlCode: 60" in text or "curlCode: 77" in text:
        return StoreError(message, remedy="Its certificate cannot be verified: name the CA's file by AWS_CA_BUNDLE.")
    if names & _FULL or status == _NO_SPACE:
        return StoreError(
            message, remedy="It is full, or its quota is. Free space there (ERA5_KEEP), then run the month again."
        )
    if names & _TEMPORARY or status in _SERVER_FAULTS:
        return TransientError(
            message,
            remedy=UNREACHABLE,
        )
    if name == "NO_SUCH_BUCKET":
        return StoreError(message, remedy="Create the bucket, or correct ERA5_STORE: none is created.")
    if names & _KEYS:
        return StoreError(
            message, remedy="Set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE, to keys that it knows."
        )
    if name == "ACCESS_DENIED":
        return StoreError(
            message,
            remedy="The keys (AWS_ACCESS_KEY_ID, AWS_PROFILE) are missing or wrong, or lack rights: it takes "
            "s3:ListBucket of the bucket, and s3:GetObject, s3:PutObject, s3:DeleteObject below the prefix.",
        )
    return StoreError(message, remedy="Look at ERA5_STORE and the AWS_... settings; then run the month again.")
