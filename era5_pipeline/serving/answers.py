"""Answers as sent to clients: with version and ETag from the ledger, compressed if the client accepts it."""

from __future__ import annotations

import hashlib
import zlib
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from fastapi import Response

from era5_pipeline.model.months import Month
from era5_pipeline.model.package_version import __version__
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.credit import read_origin, sample_notice
from era5_pipeline.read.held import NO_LEDGER
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    import psycopg
    from fastapi import Request

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.location_set import LocationSet
    from era5_pipeline.read.credit import DataOrigin

# --- The version of an answer, from the ledger: its ETag, so that clients need not read it again ---
#
# The ETag depends on the parts of months that the answer is read from, on the URL, and on the version of this package.
# It is weak: equivalent answers may differ in their bytes, as compressed ones do. No answer has a Last-Modified, and
# If-Modified-Since is ignored: the ledger's times are those at which transactions began, so a load that commits after
# another may have the earlier time, and a client that compares times would keep the answer from before it.


# A cache may keep an answer, but must revalidate it each time.
CACHE_CONTROL = "no-cache"
# Headers of every answer from tables: data sets, sources, versions, credit, and a notice if data are generated.
ORIGIN_HEADERS = ("X-Era5-Dataset", "X-Era5-Sources", "X-Era5-Versions", "X-Era5-Credit", "X-Era5-Notice")
# Header of an answer with days: the definition of a day.
DAY_HEADER = "X-Era5-Day-Rule"


@dataclass(frozen=True)
class AnswerOrigin:
    """The origin of an answer's data, by the ledgers of its data sets, for headers and JSON."""

    data: Mapping[Dataset, DataOrigin]

    @property
    def sources(self) -> tuple[str, ...]:
        """The sources of the hours, by name."""
        return tuple(sorted({source for one in self.data.values() for source in one.sources}))

    @property
    def versions(self) -> tuple[str, ...]:
        """The versions of the hours, by name."""
        return tuple(sorted({version for one in self.data.values() for version in _versions(one)}))

    @property
    def credit(self) -> str:
        """The credit of each data set."""
        return "; ".join(dict.fromkeys(one.credit for one in self.data.values()))

    @property
    def notice(self) -> str | None:
        """The warning that must precede generated data; None if none are generated."""
        return sample_notice(self.sources)

    @property
    def headers(self) -> dict[str, str]:
        """The origin as headers, for answers in any format."""
        names = ", ".join(dataset.name for dataset in self.data)
        sources = ", ".join(self.sources) or "unknown"
        texts = (names, sources, ", ".join(self.versions), self.credit, self.notice or "")
        return {name: text for name, text in zip(ORIGIN_HEADERS, texts, strict=True) if text}

    @property
    def facts(self) -> dict[str, object]:
        """The origin for JSON."""
        datasets = [
            {"name": dataset.name, "title": dataset.title, "doi": dataset.doi, "versions": _versions(one)}
            for dataset, one in self.data.items()
        ]
        return {"datasets": datasets, "sources": self.sources, "versions": self.versions, "credit": self.credit}


def _versions(origin: DataOrigin) -> tuple[str, ...]:
    return tuple(sorted(origin.versions)) or ("unknown",)


@dataclass(frozen=True)
class AnswerVersion:
    """The ETag of an answer.

    `contents` is the same for all answers from the same parts by the same version of this package, as is `origin`.
    """

    etag: str
    contents: str
    origin: AnswerOrigin

    @classmethod
    def joined(cls, versions: Sequence[AnswerVersion | None]) -> AnswerVersion | None:
        """The version of an answer that is made of others; None if that of any is unknown."""
        known = [version for version in versions if version is not None]
        if not known or len(known) < len(versions):
            return None
        if len(known) == 1:
            return known[0]
        data = {dataset: origin for version in known for dataset, origin in version.origin.data.items()}
        tag = hashlib.sha256("\n".join(version.etag for version in known).encode()).hexdigest()[:32]
        return cls(f'W/"{tag}"', "\n".join(version.contents for version in known), AnswerOrigin(data))

    @property
    def headers(self) -> dict[str, str]:
        """The headers of an answer of this version, also of one that says it is unchanged."""
        return {"ETag": self.etag, "Cache-Control": CACHE_CONTROL, "Vary": "Accept-Encoding", **self.origin.headers}

    def unchanged_answer(self, request: Request) -> Response | None:
        """The answer 304 if the client has this version; None if the answer must be read."""
        tags = [tag.strip().removeprefix("W/") for tag in request.headers.get("if-none-match", "").split(",")]
        is_known = "*" in tags or self.etag.removeprefix("W/") in tags
        return Response(status_code=304, headers=self.headers) if is_known else None


def read_version(
    connection: psycopg.Connection[Any],
    request: Request,
    locations: LocationSet | None = None,
    start: datetime | None = None,
    end: datetime | None = None,
    *,
    columns: Iterable[str] | None = None,
    besides: str = "",
) -> AnswerVersion | None:
    """The version of the answer to this request, for these locations with `start <= time < end` (None: unlimited).

    Its origin is that of these hours, of these columns (None: of all).

    Read it before the hours: a month replaced in between is then read once too often rather than never. `besides` names
    anything else that the answer depends on, such as today's UTC offset. None without a ledger: the version is unknown.
    """
    parameters = {
        "location_ids": None if locations is None else locations.multirange,
        "first": Month.of(start).start.date() if start else None,
        "last": Month.of(end - timedelta(microseconds=1)).start.date() if end else None,
    }
    try:
        row = connection.execute(read_sql("answer_version", dataset_of(connection)), parameters).fetchone()
    except NO_LEDGER:
        return None
    parts, digest = row or (0, None)
    contents = f"{__version__} {parts} {digest}"
    text = "\n".join((contents, request.url.path, request.url.query, besides))
    tag = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    origin = AnswerOrigin({dataset_of(connection): read_origin(connection, start, end, locations, columns)})
    return AnswerVersion(f'W/"{tag}"', contents, origin)


# --- Answers as sent to clients: compressed if the client accepts it, with the headers of their version ---
#
# Compression is the most expensive part of a large answer, so it runs in the route's thread, at zlib's level 1: a year
# of hours of one variable, 210 kB of JSON, takes 0.7 ms and becomes 32 kB; level 6 takes 16 ms for 27 kB.


JSON_TYPE = "application/json; charset=utf-8"
_LEVEL = 1
_AS_GZIP = 31  # zlib's window of 15 bits, with the header of gzip
# Smaller answers fit in one network packet anyway.
_SMALLEST = 1_000


def encoded_answer(
    request: Request,
    content: bytes,
    media_type: str = JSON_TYPE,
    *,
    version: AnswerVersion | None = None,
    headers: dict[str, str] | None = None,
    status: int = 200,
) -> Response:
    """The answer with this content; call it in the thread of a route, never in a coroutine."""
    sent = {"Vary": "Accept-Encoding", **(version.headers if version else {"Cache-Control": "no-store"})}
    sent |= headers or {}
    if len(content) >= _SMALLEST and _takes_gzip(request.headers.get("accept-encoding", "")):
        packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, _AS_GZIP)
        content = packer.compress(content) + packer.flush()
        sent["Content-Encoding"] = "gzip"
    return Response(content, status, media_type=media_type, headers=sent)


def _takes_gzip(accepted: str) -> bool:
    """Return True if an Accept-Encoding accepts gzip, by name or wildcard, with a quality above zero."""
    qualities = {}
    for part in accepted.lower().split(","):
        name, _, rest = part.partition(";")
        quality = rest.strip().removeprefix("q=").strip()
        try:
            qualities[name.strip()] = float(quality) if quality else 1.0
        except ValueError:
            qualities[name.strip()] = 0.0
    return qualities.get("gzip", qualities.get("*", 0.0)) > 0
