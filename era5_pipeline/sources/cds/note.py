"""What is known of a month at the service: the request that is under way, and the file that came. Kept as JSON.

So a run that was killed is taken up by the next one, in another process, days later: with the same request, and the
bytes that had come.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Self

from era5_pipeline.runtime.files import read_json, write_json

if TYPE_CHECKING:
    from pathlib import Path

_FORM = 1


@dataclass(frozen=True)
class Fetched:
    """The file that came: its name in the folder of the note, and what is known of it. `job` is the request.

    `checksum` is the one announced, None where none was, or the file has another (and came with it twice).
    """

    name: str
    sha256: str
    bytes: int
    checksum: str | None
    job: str
    fetched_at: str
    seconds: float
    short: bool = False


@dataclass(frozen=True)
class Note:
    """The state of a month's request. `sending_at`: a request was about to be sent, and may have arrived.

    `job` is the number of one that did, and whose answer has not come yet; `time_order` the order of its hours where it
    asked for a fresh retrieval (see `fresh_time_order`); `given_up` the last one that came to nothing; `fetched` the
    newest file.
    """

    sending_at: str | None = None
    job: str | None = None
    time_order: tuple[str, ...] | None = None
    fetched: Fetched | None = None
    given_up: str | None = None

    @property
    def dealt_with(self) -> frozenset[str]:
        """Requests of whose answers nothing more is to be had."""
        jobs = (self.given_up, self.fetched.job if self.fetched else None)
        return frozenset(job for job in jobs if job is not None)

    @property
    def is_fresh(self) -> bool:
        """Whether the request asks for a fresh retrieval."""
        return self.time_order is not None

    def sending(self, now: str, *, time_order: tuple[str, ...] | None) -> Self:
        """About to send a request."""
        return replace(self, sending_at=now, job=None, time_order=time_order)

    def not_sent(self) -> Self:
        """The service has refused to take the request: there is no job to be looked for."""
        return replace(self, sending_at=None)

    def sent(self, job: str) -> Self:
        """It has arrived."""
        return replace(self, sending_at=None, job=job)

    def forgotten(self) -> Self:
        """The request has come to nothing."""
        return replace(self, sending_at=None, job=None, given_up=self.job or self.given_up)

    def arrived(self, fetched: Fetched) -> Self:
        """The answer has come."""
        return replace(self, sending_at=None, job=None, fetched=fetched)


def read_note(path: Path) -> Note:
    """The note at `path`; an empty one where there is none that can be read."""
    value: Any = read_json(path)
    try:
        if value["form"] != _FORM:
            return Note()
        fetched = value["fetched"]
        if fetched is not None:
            # As it was called while it was taken for an MD5.
            fetched = Fetched(**{"checksum" if name == "md5" else name: one for name, one in fetched.items()})
        order = value.get("time_order")
        note = Note(
            sending_at=value["sending_at"],
            job=value["job"] or None,
            time_order=None if order is None else tuple(order),
            fetched=fetched,
            given_up=value.get("given_up"),
        )
        if note.sending_at is not None and datetime.fromisoformat(note.sending_at).tzinfo is None:
            return Note()
    except (TypeError, KeyError, ValueError, AttributeError):
        return Note()
    return note


def write_note(path: Path, note: Note, inputs: dict[str, Any]) -> None:
    """Write the note, with the inputs for whoever reads it."""
    write_json(path, {"form": _FORM, **asdict(note), "inputs": inputs})
