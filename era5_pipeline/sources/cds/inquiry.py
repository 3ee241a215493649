"""What one request asks the Climate Data Store for: months of the grid here, all hours of a point in `sources.point`.

Sending it, keeping its state, downloading and validating its answer are the same for all inquiries
(`service_request`, `request_files`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from era5_pipeline.sources.cds.request import DATASET, digest_of_inputs, fresh_time_order, inputs_of, may_be_preliminary
from era5_pipeline.sources.cds.validation import validate_download

if TYPE_CHECKING:
    from datetime import datetime
    from pathlib import Path

    from era5_pipeline.model.months import Month
    from era5_pipeline.sources.source import Request


class Inquiry(Protocol):
    """What one request asks for.

    The service answers equal inputs from a cache. A `variant` of an inquiry asks for the same with other inputs, so
    that the data are retrieved afresh; None: with those that everybody sends.
    """

    @property
    def dataset(self) -> str:
        """The name of the dataset."""
        ...

    @property
    def subject(self) -> Month | str:
        """What it is about, as messages name it."""
        ...

    @property
    def stem(self) -> str:
        """How the names of its files begin: the same for all variants, another one for each other inquiry."""
        ...

    def inputs(self, variant: tuple[str, ...] | None) -> dict[str, Any]:
        """The inputs that are sent."""
        ...

    def new_variant(self, previous: tuple[str, ...] | None) -> tuple[str, ...]:
        """A variant that probably no cached answer has, and certainly not the one to the previous request."""
        ...

    def must_be_fresh(self, now: datetime) -> bool:
        """Whether a cached answer may be out of date."""
        ...

    def validate(self, path: Path) -> str:
        """Read the answer through; return the suffix for its name, `.nc` or `.zip`.

        Raises:
            RetryableError: if it is damaged; the answer to a new request may not be.
            MonthFailedError: if it is not what was asked for.
        """
        ...


@dataclass(frozen=True)
class MonthsInquiry:
    """Consecutive months, ascending, of one year of the gridded dataset: the variables and the area of `request`.

    A variant is an order of the hours.
    """

    months: tuple[Month, ...]
    request: Request

    @property
    def dataset(self) -> str:
        """See `Inquiry`."""
        return DATASET

    @property
    def subject(self) -> Month | str:
        """See `Inquiry`."""
        first, last = self.months[0], self.months[-1]
        return first if first == last else f"{first} to {last}"

    @property
    def stem(self) -> str:
        """See `Inquiry`: the months, and a digest of the inputs."""
        named = str(self.subject).replace(" ", "-")
        return f"{named}-{digest_of_inputs(self.inputs(None))[:12]}"

    def inputs(self, variant: tuple[str, ...] | None) -> dict[str, Any]:
        """See `Inquiry`."""
        return inputs_of(self.months, self.request, time_order=variant)

    def new_variant(self, previous: tuple[str, ...] | None) -> tuple[str, ...]:
        """See `Inquiry`."""
        del previous  # one of 24! orders
        return fresh_time_order()

    def must_be_fresh(self, now: datetime) -> bool:
        """See `Inquiry`: a month that may have been preliminary."""
        return may_be_preliminary(self.months[-1], now)

    def validate(self, path: Path) -> str:
        """See `Inquiry`."""
        return validate_download(self.subject, path)
