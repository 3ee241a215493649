"""Faults that tests can switch on. Counts decrease with each use; flags stay until they are reset."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import timedelta
from threading import Lock
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from pathlib import Path

# The two texts with which the rules of the queue reject a job.
LIMITED = (
    "Number of API queued requests for this dataset is temporarily limited. Please configure your scripts accordingly.",
    "Number of queued requests using the API is limited to 200. Please configure your scripts accordingly.",
)
MAINTENANCE = "Access to this dataset is temporarily disabled due to maintenance. Please try again later."
Where = Literal["submit", "poll", "results", "download"]


@dataclass(frozen=True)
class Redirect:
    """An answer with this status that redirects requests for a matching path to the same path at another origin."""

    path: str
    status: int
    to: str


@dataclass
class Faults:
    """The faults; with the defaults every request is answered at once and correctly."""

    # Polls that find a job in the queue, then running, before it is done.
    accepted_polls: int = 0
    running_polls: int = 0
    # A redirect to another origin, and how many requests get it.
    redirect: Redirect | None = None
    redirects: int = 0
    # Submissions refused because of maintenance, and the operators' words for it.
    disabled: int = 0
    disabled_reason: str = MAINTENANCE
    # The dataset is in the catalogue of another data store.
    unknown_dataset: bool = False
    # Permanent refusals at submission.
    licence: bool = False
    cost: bool = False
    # By default the service's own limit of fields in a request.
    max_fields: int = 16_368
    invalid: bool = False
    # Jobs that are accepted, and rejected or failed later.
    reject_jobs: int = 0
    rejection: str = LIMITED[0]
    fail_jobs: int = 0
    # The service's text about a failed job.
    failure: str = "MARS returned an internal error. Please try again later."
    # Status 429 at submission, with this header.
    too_many_requests: int = 0
    retry_after: str | None = None
    # The job is made, but its answer is lost.
    drop_submit_reply: int = 0
    # Polls of a new job that are answered with "job not found".
    lose_jobs: int = 0
    expire_results: int = 0
    # The download: bytes after which the connection is cut, and how often; whether it resumes; seconds per chunk.
    cut_download_after: int = 0
    cut_downloads: int = 0
    ranges: bool = True
    slow_download: float = 0.0
    # The announced size, checksum and URL of the file.
    wrong_size: int = 0
    wrong_checksum: int = 0
    no_checksum: bool = False
    href: str | None = None
    # Downloads with one byte changed in transit, each time another one.
    garble_downloads: int = 0
    # Answers that are cut off in the store itself, for whoever asks; silently: the server announces the whole length,
    # and closes the connection.
    truncate_answers: int = 0
    truncated_silently: bool = False
    # By how much the server's clock is ahead.
    clock_ahead: timedelta = timedelta(0)
    # A message for the users of the dataset, with each poll of a job.
    news: str | None = None
    # The contents of the file.
    corrupt_zip: int = 0
    zip_slip: bool = False
    zip_bomb: bool = False
    # Faults of point series: another point than requested; hours that are missing, from the end or in between
    # (a first and a last hour since 1970); hours by which ERA5-Land's wind ends before its other groups; variables that
    # are absent.
    other_point: bool = False
    hours_cut: int = 0
    hours_gap: tuple[int, int] | None = None
    hours_late: int = 0
    absent: tuple[str, ...] = ()
    answer_with: Path | None = None
    _statuses: dict[Where, list[int]] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)

    def fail(self, where: Where, *, status: int, times: int) -> None:
        """Answer the next `times` requests of this kind with this status."""
        with self._lock:
            self._statuses[where] = [status] * times

    def status(self, where: Where) -> int | None:
        """The status that the next request of this kind is to be answered with, if any."""
        with self._lock:
            statuses = self._statuses.get(where)
            return statuses.pop() if statuses else None

    def use(self, name: str) -> bool:
        """Whether the fault applies now; decrease its count."""
        with self._lock:
            left = int(getattr(self, name))
            if left > 0:
                setattr(self, name, left - 1)
            return left > 0
