"""Addresses of places for files: a folder, or `s3://bucket/prefix`.

Here: what an address says. Not here: lists of them in settings (`model.settings`), or reading and writing there.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Self

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.settings import S3_SCHEME

_OTHER_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,62}")


@dataclass(frozen=True)
class S3Address:
    """A bucket, and the prefix of keys in it, without slashes around; empty: the whole bucket."""

    bucket: str
    prefix: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse `s3://bucket/prefix`.

        Raises:
            UsageError: if it names no bucket.
        """
        bucket, _, prefix = text.removeprefix(S3_SCHEME).partition("/")
        if not _BUCKET.fullmatch(bucket):
            raise UsageError(f"{text} names no bucket", remedy="Write s3://bucket, or s3://bucket/prefix.")
        return cls(bucket, prefix.strip("/"))

    def __str__(self) -> str:
        return f"{S3_SCHEME}{self.path()}"

    def path(self, key: str = "") -> str:
        """The bucket, the prefix and a key below it, as `pyarrow.fs` names them."""
        return "/".join(part for part in (self.bucket, self.prefix, key) if part)


def is_s3(text: str) -> bool:
    """Whether the address is of S3."""
    return text.startswith(S3_SCHEME)


def require_folder_or_s3(text: str) -> None:
    """Refuse an address of another kind.

    Raises:
        UsageError: if it is one, or an address of S3 without a bucket.
    """
    if is_s3(text):
        S3Address.parse(text)
    elif _OTHER_SCHEME.match(text):
        raise UsageError(
            f"{text} is neither a folder nor an address of S3",
            remedy="Give a folder, or s3://bucket/prefix; other servers that speak S3 are named by AWS_ENDPOINT_URL.",
        )
