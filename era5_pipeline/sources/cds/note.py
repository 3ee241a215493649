"""A request's query, its note (JSON kept between runs), and its other files in the source's folder."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from datetime import datetime
from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol, Self

from typing_extensions import override

from era5_pipeline.model.errors import disk_errors
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.file_store import LOCAL
from era5_pipeline.runtime.files import has_form, sync
from era5_pipeline.sources.cds.request import (
    digest_of_inputs,
    fresh_time_order,
    hour_before_inputs,
    inputs_of,
    may_be_preliminary,
)
from era5_pipeline.sources.cds.validation import validate_download
from era5_pipeline.sources.source import RawFile

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from era5_pipeline.runtime.file_store import DataFile, FileStore
    from era5_pipeline.sources.source import Request

# --- The note of a request: its state at the service, and the newest file ---
#
# Kept as JSON between runs, so that the next run, in another process and days later, continues a killed one: with the
# same request and the bytes received so far.


_FORM = 1


class State(Enum):
    """The states of a request; see `service_request` for the transitions."""

    NOTHING_ASKED = "nothing asked"
    SENDING = "sending"
    QUEUED = "queued"
    FETCHED = "fetched"


@dataclass(frozen=True)
class Fetched:
    """A received file: `name` in the folder of the note; `job` is the request that it answers.

    `checksum` is the announced one; None if none was announced, or if the file has another (and arrived with it twice).
    `short`: hours or values are missing, or the file is unusable.
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

    `sending_at`: the service's time just before a request was sent, which may have arrived. `job`: id of a request that
    did arrive and whose result has not been received. `variant`: that of its inputs, if it asked for a fresh retrieval
    (see `Query`); the next request asks for one too. `given_up`: id of the last request that failed. `fetched`: the
    newest file.
    """

    sending_at: str | None = None
    job: str | None = None
    variant: tuple[str, ...] | None = None
    fetched: Fetched | None = None
    given_up: str | None = None

    @property
    def state(self) -> State:
        """The state; a previously fetched file is kept in every state."""
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
        """True if the request asks for a fresh retrieval."""
        return self.variant is not None

    def sending(self, now: str, *, variant: tuple[str, ...] | None) -> Self:
        """Before sending a request: move to `SENDING`."""
        return replace(self, sending_at=now, job=None, variant=variant)

    def refused(self) -> Self:
        """The service refused the request and made no job: return to the state before `sending`."""
        return replace(self, sending_at=None)

    def queued(self, job: str) -> Self:
        """The service accepted the request: move to `QUEUED`."""
        return replace(self, sending_at=None, job=job)

    def dropped(self) -> Self:
        """The request failed: return to the state before `sending`, with its job noted as given up."""
        return replace(self, sending_at=None, job=None, given_up=self.job or self.given_up)

    def distrusted(self, variant: tuple[str, ...]) -> Self:
        """The result is unusable, and would come from the cache again: like `dropped`, and fresh from now on."""
        return replace(self.dropped(), variant=variant)

    def received(self, fetched: Fetched) -> Self:
        """The result is on disk: move to `FETCHED`."""
        return replace(self, sending_at=None, job=None, fetched=fetched)


def read_note(path: Path, file_store: FileStore = LOCAL) -> Note:
    """Read the note at `path`; an empty note if it is missing or unreadable.

    An `InputError` if a newer era5-pipeline wrote it, as its request may be under way.
    """
    value: Any = file_store.read_record(path)
    try:
        if not has_form(value, _FORM, path):
            return Note()
        fetched, variant = value["fetched"], value["variant"]
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
    path: Path, note: Note, inputs: dict[str, Any], file_store: FileStore = LOCAL, files: Iterable[DataFile] = ()
) -> None:
    """Write the note, with the request's inputs for human readers; `files` are the files that it names."""
    file_store.write_record(path, {"form": _FORM, **asdict(note), "inputs": inputs}, files)


# --- What one request asks the Climate Data Store for: gridded months here, all hours of a point in `sources.point` ---
#
# Sending it, keeping its state, downloading and validating the result are the same for all queries (`service_request`).


class Query(Protocol):
    """Contents of one request.

    The service answers equal inputs from a cache. A `variant` of a query requests the same data with different inputs,
    so that they are retrieved afresh; None: the usual inputs.
    """

    @property
    def dataset(self) -> str:
        """The name of the dataset."""

    @property
    def subject(self) -> Month | str:
        """The subject as named in messages."""

    @property
    def stem(self) -> str:
        """The prefix of its file names: the same for all variants, different for every other query."""

    def inputs(self, variant: tuple[str, ...] | None) -> dict[str, Any]:
        """The inputs to send."""

    def new_variant(self, previous: tuple[str, ...] | None) -> tuple[str, ...]:
        """A variant probably not in the cache, and certainly not the previous request's."""

    def must_be_fresh(self, now: datetime) -> bool:
        """Return True if a cached result may be out of date."""

    def validate(self, path: Path) -> str:
        """Read the whole result; return the suffix for its name, `.nc` or `.zip`.

        Raises:
            RetryableError: if it is damaged; a new request may give an intact one.
            MonthFailedError: if it is not what was requested.
        """


@dataclass(frozen=True)
class MonthsQuery(Query):
    """Consecutive, ascending months of one year of the gridded dataset, with the variables and area of `request`.

    A variant is an order of the hours.
    """

    months: tuple[Month, ...]
    request: Request

    @property
    @override
    def dataset(self) -> str:
        return self.request.dataset.cds_name

    @property
    @override
    def subject(self) -> Month | str:
        first, last = self.months[0], self.months[-1]
        return first if first == last else f"{first} to {last}"

    @property
    @override
    def stem(self) -> str:
        """The months, and a digest of the inputs."""
        named = str(self.subject).replace(" ", "-")
        return f"{named}-{digest_of_inputs(self.inputs(None))[:12]}"

    @override
    def inputs(self, variant: tuple[str, ...] | None) -> dict[str, Any]:
        return inputs_of(self.months, self.request, time_order=variant)

    @override
    def new_variant(self, previous: tuple[str, ...] | None) -> tuple[str, ...]:
        del previous  # a collision is unlikely: there are 24! orders
        return fresh_time_order()

    @override
    def must_be_fresh(self, now: datetime) -> bool:
        """Return True if a month may have been preliminary when the result was cached."""
        return may_be_preliminary(self.months[-1], now)

    @override
    def validate(self, path: Path) -> str:
        return validate_download(self.subject, path)


@dataclass(frozen=True)
class HourBeforeQuery(MonthsQuery):
    """The hour before a month, with the variables of `request`: sums since 00 UTC, which the first hour is taken from.

    A variant is for all hours of that day, in another order.
    """

    @property
    @override
    def subject(self) -> Month | str:
        return f"{self.months[0]}, the hour before"

    @property
    @override
    def stem(self) -> str:
        return f"{self.months[0]}-before-{digest_of_inputs(self.inputs(None))[:12]}"

    @override
    def inputs(self, variant: tuple[str, ...] | None) -> dict[str, Any]:
        return hour_before_inputs(self.months[0], self.request, time_order=variant)

    @override
    def must_be_fresh(self, now: datetime) -> bool:
        return may_be_preliminary(Month.from_number(self.months[0].number - 1), now)


@dataclass(frozen=True)
class RequestFiles:
    """The files of `query`; their names begin with its stem.

    `file_store` has their durable copies, if a store is set.
    """

    folder: Path
    query: Query
    file_store: FileStore = LOCAL

    @property
    def lock(self) -> Path:
        """The file locked while the result is being fetched."""
        return self.folder / f"{self._stem}.lock"

    def read_note(self) -> Note:
        """Read the note; an empty one if it is missing."""
        note = read_note(self._note, self.file_store)
        if self.file_store.is_shared and note.job is not None:
            own = read_note(self._note)
            if own.fetched is not None and own.fetched.job == note.job:
                return own  # the result was received, but the note could not be written to the store
        return note

    def write_note(self, note: Note) -> None:
        """Write the note; with a store, after the file that it names."""
        files = () if note.fetched is None else (self.file_of(note.fetched),)
        write_note(self._note, note, self.query.inputs(note.variant), self.file_store, files)

    def share(self, note: Note) -> None:
        """Write the note to the store if it differs there; no-op without a store."""
        if self.file_store.is_shared:
            self.write_note(note)

    def file_of(self, fetched: Fetched) -> RawFile:
        """The data file, whether or not it is on local disk."""
        return RawFile(self.folder / fetched.name, fetched.sha256, fetched.bytes)

    def keep(self, note: Note) -> None:
        """Write the note, and remove the query's other files."""
        self.write_note(note)
        kept = {note.fetched.name if note.fetched else None, self.part(note.job).name if note.job else None}
        for path in self.folder.glob(f"{self._stem}*"):
            if path.suffix in (".part", ".nc", ".zip") and path.name not in kept:
                path.unlink(missing_ok=True)

    def part(self, job: str) -> Path:
        """The file to which a request's result is downloaded."""
        return self.folder / f"{self._stem}.{job}.part"

    def place(self, part: Path, sha256: str, suffix: str) -> str:
        """Sync a complete download to disk and give it its final name."""
        name = f"{self._stem}-{sha256[:12]}{suffix}"
        with disk_errors(f"{self.query.subject}: keeping the download", part):
            sync(part)
            part.replace(self.folder / name)
            sync(self.folder)
        return name

    def has(self, fetched: Fetched) -> bool:
        """Return True if the file is on disk or in the store at full size."""
        return self.file_store.has(self.file_of(fetched))

    def obtain(self, fetched: Fetched) -> bool:
        """Make sure the file is on disk, fetching it from the store if needed; False if it is in neither."""
        return self.file_store.obtain(self.file_of(fetched))

    def discard(self, fetched: Fetched) -> None:
        """Remove a file replaced by a newer one."""
        self.file_store.discard(self.file_of(fetched))

    @property
    def _note(self) -> Path:
        return self.folder / f"{self._stem}.json"

    @property
    def _stem(self) -> str:
        return self.query.stem
