"""Where the lake is, and what errors there say."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from era5_pipeline.model.errors import StoreError, TransientError, disk_remedy
from era5_pipeline.runtime.stores import S3Environment, is_s3, s3_errors

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMESPACE, TABLE = "era5", "weather"
IDENTIFIER = (NAMESPACE, TABLE)


@dataclass(frozen=True)
class LakePlace:
    """Where the lake is: a folder or `s3://bucket/prefix`; the table is below it."""

    address: str

    @property
    def location(self) -> str:
        """The table's location, as its metadata has it."""
        return f"{self.address.rstrip('/')}/{TABLE}"

    @property
    def properties(self) -> dict[str, str]:
        """What pyiceberg needs to open files there; keys come from AWS's usual places, and are never in here."""
        if not is_s3(self.address):
            return {}
        environment = S3Environment.read()
        region = environment.region or ("us-east-1" if environment.endpoint else None)
        found = {"s3.endpoint": environment.endpoint, "s3.region": region}
        return {name: value for name, value in found.items() if value}


@contextmanager
def lake_errors(address: str) -> Iterator[None]:
    """Translate errors of the lake's files.

    Raises:
        StoreError, TransientError: in place of an `OSError`.
    """
    try:
        if is_s3(address):
            with s3_errors(f"the lake {address}"):
                yield
        else:
            yield
    except (StoreError, TransientError) as error:
        # The store of files has the same errors, and another name.
        message = error.message.replace(f"the store {address}", f"the lake {address}")
        raise type(error)(message, remedy=error.remedy.replace("ERA5_STORE", "ERA5_LAKE")) from error
    except OSError as error:
        remedy = disk_remedy(error, "set ERA5_LAKE to another folder", name="ERA5_LAKE")
        message = f"the lake {address}: {error.strerror or error}"
        raise StoreError(message, remedy=remedy or "Check ERA5_LAKE, and that this user may write there.") from error
