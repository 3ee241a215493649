"""The note of a request: the state of its request at the service, and the newest file. Kept as JSON between runs.

A run that was killed is continued from it by the next one, in another process, days later: with the same request and
the bytes received so far. Not here: which event leads from one state to another (`service_request`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Self

from era5_pipeline.runtime.files import has_form
from era5_pipeline.runtime.store.depot import LOCAL

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from era5_pipeline.runtime.store.depot import DataFile, Depot

_FORM = 1
# The name in notes, from the time when an order of hours was the only variant.
_VARIANT = "time_order"


class State(Enum):
    """The states of a request; `service_request` has the table of transitions."""

    NOTHING_ASKED = "nothing asked"
    SENDING = "sending"
    QUEUED = "queued"
    FETCHED = "fetched"


@dataclass(frozen=True)
class Fetched:
    """The file that was received: `name` in the folder of the note; `job` is the request that it answers.

    `checksum` is the announced one; None where none was announced, or where the file has another (and came with it
    twice). `short`: hours or values are missing, or the file is unusable.
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
    """The state of a request.

    `sending_at`: when a request was about to be sent, which may have arrived; by the clock of the service. `job`: id of
    a request that did arrive, and whose answer has not been received. `variant`: that of its inputs, where it asked for
    a fresh retrieval (see `Inquiry`); the next request asks for one too. `given_up`: id of the last request that came
    to nothing. `fetched`: the newest file.
    """

    sending_at: str | None = None
    job: str | None = None
    variant: tuple[str, ...] | None = None
    fetched: Fetched | None = None
    given_up: str | None = None

    @property
    def state(self) -> State:
        """The state; a file that was fetched before is kept in every state."""
        if self.job is not None:
            return State.QUEUED
        if self.sending_at is not None:
            return State.SENDING
        return State.NOTHING_ASKED if self.fetched is None else State.FETCHED

    @property
    def finished_jobs(self) -> frozenset[str]:
        """Finished or abandoned job ids."""
        jobs = (self.given_up, self.fetched.job if self.fetched else None)
        return frozenset(job for job in jobs if job is not None)

    @property
    def is_fresh(self) -> bool:
        """Whether the request asks for a fresh retrieval."""
        return self.variant is not None

    def sending(self, now: str, *, variant: tuple[str, ...] | None) -> Self:
        """About to send a request: now `SENDING`."""
        return replace(self, sending_at=now, job=None, variant=variant)

    def refused(self) -> Self:
        """The service refused the request, so that there is no job: as before `sending`."""
        return replace(self, sending_at=None)

    def queued(self, job: str) -> Self:
        """The service accepted the request: now `QUEUED`."""
        return replace(self, sending_at=None, job=job)

    def dropped(self) -> Self:
        """The request has come to nothing: as before `sending`, but with its job noted as given up."""
        return replace(self, sending_at=None, job=None, given_up=self.job or self.given_up)

    def distrusted(self, variant: tuple[str, ...]) -> Self:
        """Its answer is unusable, and the service's cache would give it again: as `dropped`, and fresh from now on."""
        return replace(self.dropped(), variant=variant)

    def received(self, fetched: Fetched) -> Self:
        """The answer is on disk: now `FETCHED`."""
        return replace(self, sending_at=None, job=None, fetched=fetched)


def read_note(path: Path, depot: Depot = LOCAL) -> Note:
    """Read the note at `path`; an empty note if there is no readable one.

    Raises:
        InputError: if a newer era5-pipeline wrote it: its request may be under way.
    """
    value: Any = depot.read_record(path)
    try:
        if not has_form(value, _FORM, path):
            return Note()
        fetched, variant = value["fetched"], value[_VARIANT]
        note = Note(
            sending_at=value["sending_at"],
            job=value["job"] or None,
            variant=None if variant is None else tuple(variant),
            fetched=None if fetched is None else Fetched(**fetched),
            given_up=value["given_up"],
        )
        if note.sending_at is not None and datetime.fromisoformat(note.sending_at).tzinfo is None:
            return Note()
    except (TypeError, KeyError, ValueError, AttributeError):
        return Note()
    return note


def write_note(
    path: Path, note: Note, inputs: dict[str, Any], depot: Depot = LOCAL, files: Iterable[DataFile] = ()
) -> None:
    """Write the note, with the inputs of the request for a human reader; `files` are those that it names."""
    value = asdict(note)
    value[_VARIANT] = value.pop("variant")
    depot.write_record(path, {"form": _FORM, **value, "inputs": inputs}, files)
