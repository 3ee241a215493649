"""The server: jobs, and the protocol of the service.

Every answer has the form and the words of the real service (cads-processing-api-service, run on the same requests).
Not here: the data (`data`), the schema of requests (`validation`), faults (`faults`).
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
import time
import traceback
import uuid
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler
from typing import TYPE_CHECKING, Any, Self
from urllib.parse import parse_qs, urlsplit

from era5_pipeline.model.dataset import DATASETS, ERA5
from era5_pipeline_tests.cds_store import data, timeseries
from era5_pipeline_tests.cds_store.faults import Faults, Where
from era5_pipeline_tests.cds_store.validation import InvalidRequestError, validated
from era5_pipeline_tests.local_http import LocalServer

if TYPE_CHECKING:
    from pathlib import Path
    from types import TracebackType

    from era5_pipeline.model.dataset import Dataset

_CHUNK_BYTES = 16_384
_LAG = timedelta(days=5)
_GRIDDED = {dataset.cds_name: dataset for dataset in DATASETS.values()}
_TYPES = {".zip": "application/zip", ".nc": "application/netcdf", ".grib": "application/x-grib"}


@dataclass
class Job:
    """A request at the service."""

    id: str
    inputs: dict[str, Any]
    created: datetime
    finished: datetime | None = None
    status: str = "accepted"
    polls: int = 0
    error: str | None = None
    content: bytes = b""
    name: str = ""
    dataset: str = ERA5.cds_name


class CdsServer:
    """The server, running within `with` on a port of its own; `today` is its clock, which tests may set.

    `submissions` are the inputs of all jobs, `requests` method, path and headers of all requests, `retrievals` the
    number of answers that did not come from the cache.
    """

    def __init__(self, folder: Path, *, today: datetime | None = None, port: int = 0, log: bool = False) -> None:
        self.key = str(uuid.uuid4())
        self.errors: list[str] = []
        self.log = log
        self._folder = folder
        self._lock = threading.RLock()
        self._http = LocalServer(("127.0.0.1", port), _handler(self))
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        self.reset(today=today or datetime.now(tz=UTC))

    def reset(self, *, today: datetime) -> None:
        """Forget all jobs, files, faults and what was counted."""
        with self._lock:
            self.today = today
            self.final_until: datetime | None = None
            self.preliminary_differs = True
            self.faults = Faults()
            self.jobs: dict[str, Job] = {}
            self.submissions: list[dict[str, Any]] = []
            self.requests: list[tuple[str, str, dict[str, str]]] = []
            self._produced = 0
            self.truncated: set[bytes] = set()
            self.lost: set[bytes] = set()
            self._cache: dict[str | None, tuple[str, bytes]] = {}

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
        if error is None:
            assert self.errors == []

    @property
    def url(self) -> str:
        """The value for CDSAPI_URL."""
        return f"http://127.0.0.1:{self._http.server_port}/api"

    @property
    def now(self) -> datetime:
        """The time by the server's clock, in its answers and their `Date`."""
        return datetime.now(tz=UTC) + self.faults.clock_ahead

    @property
    def newest(self) -> datetime:
        """The newest available hour: the embargo of the service is a number of days, exact to the hour."""
        return (self.today - _LAG).replace(minute=0, second=0, microsecond=0)

    def forget_answers(self) -> None:
        """Empty the cache of answers."""
        self._cache.clear()

    def lose_files(self) -> None:
        """Delete the files of all answers in the cache, which goes on listing them."""
        self.lost.update(content for _, content in self._cache.values())

    def finish_jobs(self) -> None:
        """Make every waiting job finish at its next poll."""
        with self._lock:
            for job in self.jobs.values():
                job.polls = 1_000_000

    @property
    def retrievals(self) -> int:
        """The number of answers that were produced; the others came from the cache."""
        return self._produced

    # --- called by the handler ---

    def submit(self, inputs: dict[str, Any], dataset: str = ERA5.cds_name) -> Job:
        """Make a job."""
        with self._lock:
            self.submissions.append(inputs)
            job = Job(str(uuid.uuid4()), inputs, self.now, dataset=dataset)
            if self.faults.use("reject_jobs"):
                job.status, job.error = "rejected", self.faults.rejection
            elif self.faults.use("fail_jobs"):
                job.status, job.error = "failed", self.faults.failure
            self.jobs[job.id] = job
            return job

    def poll(self, job: Job) -> Job:
        """Poll the job, which moves it one step on."""
        with self._lock:
            if job.status in ("accepted", "running"):
                job.polls += 1
                if job.polls <= self.faults.accepted_polls:
                    job.status = "accepted"
                elif job.polls <= self.faults.accepted_polls + self.faults.running_polls:
                    job.status = "running"
                else:
                    self._finish(job)
            return job

    def dismiss(self, job: Job) -> None:
        """Dismiss the job, as its owner can do on the web page."""
        with self._lock:
            job.status = "dismissed"

    def _finish(self, job: Job) -> None:
        job.name, job.content = self._answer(job.dataset, job.inputs)
        job.status, job.finished = "successful", self.now

    def _answer(self, dataset: str, inputs: dict[str, Any]) -> tuple[str, bytes]:
        faults = self.faults
        if faults.zip_slip:
            return "slip.zip", data.zip_with_outside_members()
        if faults.zip_bomb:
            return "bomb.zip", data.zip_bomb()
        if faults.answer_with is not None:
            return faults.answer_with.name, faults.answer_with.read_bytes()
        if (of := timeseries.SERIES.get(dataset)) is not None:
            return self._series(of, inputs)
        request = validated(inputs, self.newest)
        key = request.cache_key
        if key in self._cache and not faults.corrupt_zip:
            return self._cache[key]  # even if it is out of date by now
        self._produced += 1
        availability = self._availability
        path = data.produce(request.lists, availability, self._folder, self._produced, _GRIDDED[dataset])
        content = data.damaged(path) if faults.use("corrupt_zip") else path.read_bytes()
        path.unlink()
        self._truncate_if_due(content)
        if key is not None:
            self._cache[key] = (path.name, content)
        return path.name, content

    def _truncate_if_due(self, content: bytes) -> None:
        if self.faults.use("truncate_answers"):
            self.truncated.add(content)

    def _series(self, of: Dataset, inputs: dict[str, Any]) -> tuple[str, bytes]:
        faults, key = self.faults, timeseries.cache_key(inputs, self.newest, of)
        if key in self._cache and not faults.corrupt_zip:
            return self._cache[key]
        self._produced += 1
        request = timeseries.validated_series(inputs, self.newest, of)
        kept = tuple(variable for variable in request.variables if variable.short_name not in faults.absent)
        request = replace(request, variables=kept, hours=request.hours[: len(request.hours) - faults.hours_cut])
        if faults.other_point:
            request = replace(request, longitude=request.longitude + 0.25)
        gap, late = faults.hours_gap, faults.hours_late
        content = timeseries.series_zip(request, self._availability, self._produced, gap, late)
        if faults.use("corrupt_zip"):
            content = content[: len(content) // 3] + b"damaged" + content[len(content) // 3 + 7 :]
        name = f"{uuid.uuid4().hex}.zip"
        self._truncate_if_due(content)
        self._cache[key] = name, content
        return name, content

    @property
    def _availability(self) -> data.Availability:
        return data.Availability(self.newest, self.final_until or self._final_by_now(), self.preliminary_differs)

    def _final_by_now(self) -> datetime:
        """The last hour of the month that ended two months before this one began."""
        number = self.today.year * 12 + self.today.month - 1 - 2
        return datetime(number // 12, number % 12 + 1, 1, tzinfo=UTC) - timedelta(hours=1)


class _RefusalError(Exception):
    """An answer with an error status."""

    def __init__(self, status: int, title: str, headers: dict[str, str] | None = None, **more: str) -> None:
        super().__init__(title)
        self.status = status
        self.content = {"type": title, "title": title, "status": status, "trace_id": str(uuid.uuid4()), **more}
        self.headers = headers or {}


def _handler(server: CdsServer) -> type[BaseHTTPRequestHandler]:
    class Handler(_Handler):
        service = server

    return Handler


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Headers and body in one packet: the client would wait 40 ms for the second.
    wbufsize = 1 << 16
    service: CdsServer

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
        if self.service.log:
            super().log_message(format, *args)

    def date_time_string(self, timestamp: float | None = None) -> str:
        return super().date_time_string(self.service.now.timestamp() if timestamp is None else timestamp)

    def do_GET(self) -> None:
        self._serve()

    def do_HEAD(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def do_DELETE(self) -> None:
        self._serve()

    def _serve(self) -> None:
        self.service.requests.append((self.command, self.path, dict(self.headers.items())))
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            self._answer(body)
        except _RefusalError as refusal:
            self._json(refusal.status, refusal.content, refusal.headers)
        except (BrokenPipeError, ConnectionResetError):
            self.close_connection = True
        except Exception:
            self.service.errors.append(traceback.format_exc())
            raise

    def _answer(self, body: bytes) -> None:
        path = urlsplit(self.path).path
        if self._redirected(path):
            return None
        if match := re.fullmatch(r"/store/([0-9a-f-]+)/[^/]+", path):
            return self._file(match[1])
        if path == "/api/catalogue/v1/messages":
            return self._json(200, {"messages": []})
        token = self.headers.get("private-token")
        if token is None:
            raise _RefusalError(401, "permission denied", detail="authentication required")
        if token != self.service.key:
            raise _RefusalError(401, "invalid authorization", detail="operation not allowed")
        if match := re.fullmatch(r"/api/retrieve/v1/processes/([^/]+)(/execution)?", path):
            if match[1] not in (*_GRIDDED, *timeseries.SERIES) or self.service.faults.unknown_dataset:
                raise _RefusalError(404, "process not found", detail=f"dataset {match[1]} not found")
            if match[2]:
                return self._submit(match[1], json.loads(body)["inputs"])
            return self._json(200, {"id": match[1], "version": "1.0.0", "links": []})
        if path == "/api/retrieve/v1/jobs":
            return self._jobs()
        if match := re.fullmatch(r"/api/retrieve/v1/jobs/([^/]+)(/results)?", path):
            return self._results(match[1]) if match[2] else self._job(match[1])
        raise _RefusalError(404, "Not Found")

    def _submit(self, dataset: str, inputs: dict[str, Any]) -> None:
        faults = self.service.faults
        self._fail_if_due("submit")
        if faults.use("too_many_requests"):
            headers = {} if faults.retry_after is None else {"Retry-After": faults.retry_after}
            raise _RefusalError(429, "rate limit exceeded", headers)
        if faults.use("disabled"):
            raise _RefusalError(403, "permission denied", detail=faults.disabled_reason)
        try:
            fields = 0
            if (of := timeseries.SERIES.get(dataset)) is not None:
                timeseries.validated_series(inputs, self.service.newest, of)
            else:
                fields = data.fields_of(validated(inputs, self.service.newest).lists)
        except InvalidRequestError as error:
            raise _RefusalError(400, "invalid request", detail=str(error)) from error
        if faults.cost or fields > faults.max_fields:
            raise _RefusalError(
                403, "cost limits exceeded", detail="Your request is too large, please reduce your selection."
            )
        if faults.licence:
            page = f"https://cds.example.org/datasets/{dataset}?tab=download#manage-licences"
            raise _RefusalError(
                403,
                "required licences not accepted",
                detail=f"Not all the required licences have been accepted; please visit {page} to accept the required "
                "licence(s).",
            )
        if faults.invalid:
            raise _RefusalError(400, "invalid request", detail="the combination of values is not valid")
        job = self.service.submit(inputs, dataset)
        if faults.use("drop_submit_reply"):
            self.close_connection = True
            return
        execution = f"{self.service.url}/retrieve/v1/processes/{dataset}/execution"
        links = [{"rel": "self", "href": execution}, {"rel": "monitor", "href": self._job_url(job)}]
        metadata = {"datasetMetadata": {"messages": []}, "origin": "api"}
        self._json(201, self._described(job) | {"links": links, "metadata": metadata})

    def _find(self, job_id: str) -> Job:
        faults, job = self.service.faults, self.service.jobs.get(job_id)
        if job is None or faults.use("lose_jobs"):
            raise _RefusalError(404, "job not found", detail=f"job {job_id} not found")
        if job.status in ("dismissed", "deleted"):
            raise _RefusalError(404, "job not found", detail=f"job {job_id} {job.status}")
        return job

    def _job(self, job_id: str) -> None:
        self._fail_if_due("poll")
        faults, job = self.service.faults, self._find(job_id)
        if self.command == "DELETE":
            self.service.dismiss(job)
            return self._json(200, self._described(job))
        # Without a query the client only checks that the job exists.
        query = parse_qs(urlsplit(self.path).query)
        answer = self._described(self.service.poll(job) if query else job)
        answer["links"].insert(0, {"rel": "self", "href": self._job_url(job)})
        if "request" in query:
            answer["metadata"]["request"] = {"ids": job.inputs, "labels": {}}
        if "log" in query:
            answer["metadata"]["log"] = []
        if query and faults.news is not None:
            message = {"content": faults.news, "severity": "warning", "date": "2026-11-20T00:00:00"}
            answer["metadata"]["datasetMetadata"] = {"messages": [message]}
        return self._json(200, answer)

    def _jobs(self) -> None:
        """The newest jobs without their inputs; filtered by status, and cut off at `limit`."""
        query = parse_qs(urlsplit(self.path).query)
        shown = query.get("status", ["accepted", "running", "successful", "failed", "rejected"])
        jobs = [job for job in self.service.jobs.values() if job.status in shown]
        jobs.sort(key=lambda job: job.created, reverse=query.get("sortby", ["-created"])[0].startswith("-"))
        entries = []
        for job in jobs[: int(query.get("limit", ["10"])[0])]:
            entry = self._described(job)
            entry["links"].insert(0, {"rel": "monitor", "href": self._job_url(job)})
            entries.append(entry)
        self._json(200, {"jobs": entries, "links": [], "metadata": {"totalCount": len(jobs), "totalCountLimit": 1000}})

    def _described(self, job: Job) -> dict[str, Any]:
        links = [{"rel": "results", "href": f"{self._job_url(job)}/results"}] if job.status == "successful" else []
        times = {"created": job.created, "finished": job.finished, "updated": job.finished or job.created}
        return {
            "processID": job.dataset,
            "type": "process",
            "jobID": job.id,
            "status": job.status,
            # UTC, and without a zone.
            **{name: time.replace(tzinfo=None).isoformat() for name, time in times.items() if time is not None},
            "links": links,
            "metadata": {"datasetMetadata": {"catalogue": "c3s"}, "origin": "api"},
        }

    def _job_url(self, job: Job) -> str:
        return f"{self.service.url}/retrieve/v1/jobs/{job.id}"

    def _results(self, job_id: str) -> None:
        self._fail_if_due("results")
        faults, job = self.service.faults, self._find(job_id)
        if job.status in ("failed", "rejected"):
            verb = "failed" if job.status == "failed" else "been rejected"
            raise _RefusalError(400, f"The job has {verb}", traceback=str(job.error))
        if job.status != "successful":
            raise _RefusalError(404, "job results not ready", detail=f"status of {job.id} is '{job.status}'")
        if faults.use("expire_results"):
            raise _RefusalError(404, "results expired", detail=f"results of job {job.id} expired")
        size = len(job.content)
        # As the service writes it: a number, whose leading zeros are lost.
        checksum = f"{int(hashlib.md5(job.content).hexdigest(), 16):x}"
        value = {
            "type": _TYPES[f".{job.name.rpartition('.')[2]}"],
            "href": f"/store/{job.id}/{job.name}?X-Signature=a-secret" if faults.href is None else faults.href,
            "file:checksum": "0" * 32 if faults.use("wrong_checksum") else checksum,
            "file:size": size + 1 if faults.use("wrong_size") else size,
            "file:local_path": f"s3://store/{job.name}",
        }
        if faults.no_checksum:
            del value["file:checksum"]
        self._json(200, {"asset": {"value": value}})

    def _file(self, job_id: str) -> None:
        """The file, from the service's file server, which must not be sent the key."""
        assert "private-token" not in {name.lower() for name in self.headers}
        self._fail_if_due("download")
        faults, content = self.service.faults, self.service.jobs[job_id].content
        if content in self.service.lost:
            raise _RefusalError(404, "Not Found")
        announced = len(content)
        if content in self.service.truncated:
            content = content[: announced // 2]
        start, headers = 0, {"ETag": f'"{hashlib.md5(content).hexdigest()}"'}
        if faults.ranges:
            headers["Accept-Ranges"] = "bytes"
            if asked := re.fullmatch(r"bytes=(\d+)-", self.headers.get("range", "")):
                start = int(asked[1])
                if start >= len(content):
                    raise _RefusalError(416, "range not satisfiable", {"Content-Range": f"bytes */{len(content)}"})
                headers["Content-Range"] = f"bytes {start}-{len(content) - 1}/{len(content)}"
        self.send_response(206 if start else 200)
        length = announced if faults.truncated_silently else len(content)
        for name, value in {**headers, "Content-Length": str(length - start)}.items():
            self.send_header(name, value)
        self.end_headers()
        if self.command == "HEAD":
            return
        if faults.use("garble_downloads"):
            at = len(content) - 1000 - faults.garble_downloads
            content = content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :]
        end = len(content)
        if faults.cut_download_after and end - start > faults.cut_download_after and faults.use("cut_downloads"):
            end = start + faults.cut_download_after
            self.close_connection = True
        for position in range(start, end, _CHUNK_BYTES):
            self.wfile.write(content[position : min(position + _CHUNK_BYTES, end)])
            if faults.slow_download:
                self.wfile.flush()
                time.sleep(faults.slow_download)
        if length != len(content):
            self.close_connection = True

    def _redirected(self, path: str) -> bool:
        """Redirect the request, if that fault is due."""
        faults = self.service.faults
        if faults.redirect is None or not re.search(faults.redirect.path, path) or not faults.use("redirects"):
            return False
        self.send_response(faults.redirect.status)
        self.send_header("Location", faults.redirect.to + self.path)
        self.send_header("Content-Length", "0")
        self.end_headers()
        return True

    def _fail_if_due(self, where: Where) -> None:
        if (status := self.service.faults.status(where)) is not None:
            raise _RefusalError(status, "internal error")

    def _json(self, status: int, value: object, headers: dict[str, str] | None = None) -> None:
        content = json.dumps(value).encode()
        self.send_response(status)
        for name, text in {"Content-Type": "application/json", **(headers or {})}.items():
            self.send_header(name, text)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(content)
