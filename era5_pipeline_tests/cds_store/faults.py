"""What the server can be told to do wrong. Counts go down as they are used; flags stay until they are put back."""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Lock
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

# The two texts with which the queue's rules reject a job.
LIMITED = (
    "Number of API queued requests for this dataset is temporarily limited. Please configure your scripts accordingly.",
    "Number of queued requests using the API is limited to 200. Please configure your scripts accordingly.",
)
MAINTENANCE = "Access to this dataset is temporarily disabled due to maintenance. Please try again later."
Where = Literal["submit", "poll", "results", "download"]


@dataclass(frozen=True)
class Redirect:
    """An answer with this status that sends whoever asks for a matching path to the same path at another origin."""

    path: str
    status: int
    to: str


@dataclass
class Faults:
    """One knob a fault; all of them at rest mean that every request is answered at once, and rightly."""

    # How often a job is found in the queue, then running, before it is done.
    accepted_polls: int = 0
    running_polls: int = 0
    # Calls that are sent to another origin, and how many.
    redirect: Redirect | None = None
    redirects: int = 0
    # Submissions that are refused as the dataset is under maintenance, and the operators' words for it.
    disabled: int = 0
    disabled_reason: str = MAINTENANCE
    # Refusals at submission, which stay.
    licence: bool = False
    cost: bool = False
    invalid: bool = False
    # Jobs that are taken, and come to nothing.
    reject_jobs: int = 0
    rejection: str = LIMITED[0]
    fail_jobs: int = 0
    # What the service says of a job that failed.
    failure: str = "MARS returned an internal error. Please try again later."
    # Status 429 at submission, with this header.
    too_many_requests: int = 0
    retry_after: str | None = None
    # The job is made, the answer never comes.
    drop_submit_reply: int = 0
    # Looks at a job, right after it was made, that say "job not found".
    lose_jobs: int = 0
    expire_results: int = 0
    # The file: bytes after which the connection is cut, and how often; whether it can be resumed; seconds a chunk.
    cut_download_after: int = 0
    cut_downloads: int = 0
    ranges: bool = True
    slow_download: float = 0.0
    # What is announced of the file.
    wrong_size: int = 0
    wrong_checksum: int = 0
    no_checksum: bool = False
    href: str | None = None
    # Downloads of which a byte is another on its way, each time elsewhere.
    garble_downloads: int = 0
    # News for the users of the dataset, with each look at a job.
    news: str | None = None
    # What is in the file.
    corrupt_zip: int = 0
    html_instead: bool = False
    zip_slip: bool = False
    zip_bomb: bool = False
    no_expver: bool = False
    answer_with: Path | None = None
    _statuses: dict[Where, list[int]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def fail(self, where: Where, *, status: int, times: int) -> None:
        """Answer so many requests of this kind with this status."""
        with self._lock:
            self._statuses[where] = [status] * times

    def status(self, where: Where) -> int | None:
        """The status that the next request of this kind is to be answered with, if any."""
        with self._lock:
            statuses = self._statuses.get(where)
            return statuses.pop() if statuses else None

    def use(self, name: str) -> bool:
        """Whether the fault of this count is due; one less is left."""
        with self._lock:
            left = int(getattr(self, name))
            if left > 0:
                setattr(self, name, left - 1)
            return left > 0
