"""A Zarr store in the layout of ARCO-ERA5, with the hours that a test needs; and a web server for it.

It has the real grid, and a time axis of some months, or the real one from 1900 to 2050, which takes a tenth of a second
to open: hours that were never written have no chunk, and read as NaN. Its weather is one generated hour, which moves a
grid step east each hour: generating every hour separately would take longer than the tests.
"""

from __future__ import annotations

import atexit
import functools
import json
import re
import shutil
import ssl
import tempfile
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import SimpleHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import urlsplit

import numpy as np
import zarr
from numcodecs import Blosc

from era5_pipeline.model.variables import BY_COLUMN, DEFAULT_COLUMNS, in_table_order
from era5_pipeline.sources.sample_weather import SampleWeather
from era5_pipeline_tests.local_http import LocalServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import numpy.typing as npt
    from numcodecs.abc import Codec

LATITUDES = np.arange(90.0, -90.1, -0.25)
LONGITUDES = np.arange(0.0, 360.0, 0.25)
_EPOCH = datetime(1900, 1, 1, tzinfo=UTC)
# The default compressor of zarr 2, with which ARCO-ERA5 is written.
COMPRESSOR = Blosc(cname="lz4", clevel=5, shuffle=Blosc.SHUFFLE)
# The axis of time: the real one, and one with the months that most tests need.
REAL_YEARS = _EPOCH, datetime(2051, 1, 1, tzinfo=UTC)
_SOME_MONTHS = datetime(2020, 1, 1, tzinfo=UTC), datetime(2020, 4, 1, tzinfo=UTC)


# A field of the globe takes a while to compress and to write, and tests want the same hours: written once a session.
_chunks: dict[tuple[str, int, float, str], Path] = {}


@functools.cache
def _chunk_folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="era5-arco-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def hours_since_1900(time: datetime) -> int:
    return int((time - _EPOCH).total_seconds()) // 3600


def weather_at(column: str, hour: int) -> npt.NDArray[np.float32]:
    """The globe's field in the store at `hour`, since 1970-01-01T00:00 UTC; NaN where ERA5 has no values.

    What is missing over land is missing at the same places each hour, so these fields stay in place and grow instead.
    """
    field = _one_hour(column)
    if BY_COLUMN[column].extent == "everywhere":
        return np.roll(field, hour, axis=-1)
    return field + np.float32(hour % 24 / 64)


@functools.cache
def _one_hour(column: str) -> npt.NDArray[np.float32]:
    hours = np.array([int(datetime(2020, 2, 1, tzinfo=UTC).timestamp()) // 3600])
    field: npt.NDArray[np.float32] = SampleWeather(LATITUDES, LONGITUDES).at(hours, [BY_COLUMN[column]])[column][0]
    return field


class ArcoStore:
    """The store in a folder. Its chunks are links, shared with those of other stores."""

    def __init__(
        self,
        folder: Path,
        columns: Iterable[str] = DEFAULT_COLUMNS,
        compressor: Codec | None = COMPRESSOR,
        *,
        axis: tuple[datetime, datetime] = _SOME_MONTHS,
    ) -> None:
        self.folder = folder
        self._compressor = compressor
        self._group = zarr.open_group(str(folder), mode="w", zarr_format=2)
        hours = np.arange(*map(hours_since_1900, axis))
        self._first = int(hours[0])
        self._coordinate("time", hours, {"units": "hours since 1900-01-01", "calendar": "proleptic_gregorian"})
        self._coordinate("latitude", LATITUDES.astype(np.float32), {"units": "degrees_north"})
        self._coordinate("longitude", LONGITUDES.astype(np.float32), {"units": "degrees_east"})
        self._columns = tuple(columns)
        for column in self._columns:
            variable = BY_COLUMN[column]
            array = self._group.create_array(
                variable.cds_name,
                shape=(hours.size, LATITUDES.size, LONGITUDES.size),
                chunks=(1, LATITUDES.size, LONGITUDES.size),
                dtype="f4",
                fill_value=np.nan,
                compressors=self._compressor,
            )
            array.attrs.update(
                {
                    "_ARRAY_DIMENSIONS": ["time", "latitude", "longitude"],
                    "short_name": variable.short_name,
                    "units": variable.file_units[0],
                }
            )

    def _coordinate(self, name: str, values: npt.NDArray[Any], attributes: dict[str, str]) -> None:
        array = self._group.create_array(name, shape=values.shape, chunks=values.shape, dtype=values.dtype)
        array[:] = values
        array.attrs.update({"_ARRAY_DIMENSIONS": [name], **attributes})

    def _position(self, time: datetime) -> int:
        return hours_since_1900(time) - self._first

    def write(self, first: datetime, hours: int, *, columns: Iterable[str] | None = None, offset: float = 0.0) -> None:
        """Write hours of weather, as far as ERA5 has them; `offset` (K) is added to the temperature."""
        for number in range(hours):
            position = self._position(first) + number
            hour = int(first.timestamp()) // 3600 + number
            for variable in in_table_order(self._columns if columns is None else columns):
                if hour < int(variable.first_valid.timestamp()) // 3600:
                    continue
                of = (variable.column, hour, offset, repr(self._compressor))
                chunk = self.folder / variable.cds_name / f"{position}.0.0"
                if of not in _chunks:
                    array: Any = self._group[variable.cds_name]
                    field = weather_at(variable.column, hour)
                    array[position] = field + np.float32(offset) if variable.column == "temperature_2m" else field
                    _chunks[of] = _chunk_folder() / str(len(_chunks))
                    shutil.move(chunk, _chunks[of])
                chunk.unlink(missing_ok=True)
                chunk.symlink_to(_chunks[of])

    def announce(self, stop: str, stop_era5t: str | None = None, *, start: str = "1940-01-01") -> None:
        """Write the last days, `YYYY-MM-DD`, that the attributes announce, and the consolidated metadata.

        Without that the store cannot be opened.
        """
        attributes = {"valid_time_start": start, "valid_time_stop": stop}
        if stop_era5t is not None:
            attributes["valid_time_stop_era5t"] = stop_era5t
        self._group.attrs.put({**attributes, "last_updated": "2026-11-20 02:18:01.385142+00:00"})
        zarr.consolidate_metadata(str(self.folder), zarr_format=2)

    def remove_attributes(self, *names: str) -> None:
        """Remove attributes."""
        for path in (self.folder / ".zattrs", self.folder / ".zmetadata"):
            value = json.loads(path.read_text())
            attributes = value["metadata"][".zattrs"] if "metadata" in value else value
            for name in names:
                del attributes[name]
            path.write_text(json.dumps(value))


Fault = Literal["refuse", "garble", "redirect", "flip"]
CHUNKS = r".*/\d+\.\d+\.\d+"


class Web:
    """The control of a web server for a store: the paths requested, and the faults to apply."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.requested: list[str] = []
        # The Range and the Authorization of each request, in the same order; "" without.
        self.ranges: list[str] = []
        self.authorizations: list[str] = []
        # The header that requests must have; None: any.
        self.wanted_authorization: str | None = None
        self.location = ""
        self._lock = threading.Lock()
        self._fault: Fault = "refuse"
        self._times = 0
        self._where = CHUNKS
        self.status = 503

    def fail(self, fault: Fault, times: int = 1_000_000, *, where: str = CHUNKS, status: int = 503) -> None:
        """Apply the fault to the next `times` requests for paths that match `where`."""
        self._fault, self._times, self._where, self.status = fault, times, where, status

    def next_fault(self, path: str, part: str = "", authorization: str = "") -> Fault | None:
        """The fault to apply to a request; None: serve it."""
        with self._lock:
            self.requested.append(path)
            self.ranges.append(part)
            self.authorizations.append(authorization)
            if self.wanted_authorization not in (None, authorization):
                return "refuse"
            if self._times == 0 or re.fullmatch(self._where, path) is None:
                return None
            self._times -= 1
            return self._fault


@contextmanager
def served(folder: Path, *, with_ranges: bool = False, certificate: Path | None = None) -> Iterator[Web]:
    """Serve the folder over HTTP, as a server that ignores Range, or one that obeys it; HTTPS with a `certificate`.

    Its key is beside it.
    """

    class Handler(SimpleHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        # The body follows the headers at once, and not when the client has acknowledged those, 40 ms later.
        disable_nagle_algorithm = True

        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
            """No-op: requests are not logged."""

        def do_GET(self) -> None:
            # A proxy is sent the whole URL.
            self.path = urlsplit(self.path).path
            part = self.headers.get("Range", "")
            fault = web.next_fault(self.path, part, self.headers.get("Authorization", ""))
            if fault in (None, "flip") and with_ranges and part:
                self._send_part(part, flips=fault == "flip")
            elif fault is None:
                super().do_GET()
            elif fault == "redirect":
                self.send_response(302)
                self.send_header("Location", web.location + self.path)
                self.send_header("Content-Length", "0")
                self.end_headers()
            elif fault == "refuse":
                self.send_response(web.status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            else:
                self.send_response(200)
                self.send_header("Content-Length", "1000")
                self.end_headers()
                self.wfile.write(bytes(1000))
                self.close_connection = True

        def _send_part(self, part: str, *, flips: bool) -> None:
            path = folder / self.path.lstrip("/")
            if not path.is_file():
                self.send_error(404)
                return
            content = path.read_bytes()
            first, _, last = part.removeprefix("bytes=").partition("-")
            start = int(first) if first else max(0, len(content) - int(last))
            stop = min(len(content), int(last) + 1) if first and last else len(content)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{stop - 1}/{len(content)}")
            self.send_header("Content-Length", str(stop - start))
            self.end_headers()
            sent = bytearray(content[start:stop])
            if flips:  # a bit of the last byte but 64: of a large object, a value's
                sent[-64] ^= 1
            self.wfile.write(sent)

    server = LocalServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    web = Web(f"{'http' if certificate is None else 'https'}://127.0.0.1:{server.server_port}")
    if certificate is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate, certificate.with_suffix(".key"))
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
