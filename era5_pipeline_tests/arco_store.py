"""A Zarr store laid out as ARCO-ERA5 is, with the hours that a test needs; and a web server that serves it.

The grid is the real one and so is the time axis, made beforehand from 1900 to 2050: hours that were never written have
no chunk, and read as NaN.
"""

from __future__ import annotations

import functools
import json
import re
import threading
from contextlib import contextmanager
from datetime import UTC, datetime
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

import numpy as np
import zarr

from era5_pipeline.sources.sample_fields import SampleWeather
from era5_pipeline.variables import BY_COLUMN, VARIABLES

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    import numpy.typing as npt

LATITUDES = np.arange(90.0, -90.1, -0.25)
LONGITUDES = np.arange(0.0, 360.0, 0.25)
_EPOCH = datetime(1900, 1, 1, tzinfo=UTC)
_END = datetime(2051, 1, 1, tzinfo=UTC)


def hours_since_1900(time: datetime) -> int:
    return int((time - _EPOCH).total_seconds()) // 3600


class ArcoStore:
    """The store in a folder. `stop` and `stop_era5t` are the last days, `YYYY-MM-DD`, that its attributes promise."""

    def __init__(self, folder: Path, columns: Iterable[str] = tuple(BY_COLUMN)) -> None:
        self.folder = folder
        self._weather = SampleWeather(LATITUDES, LONGITUDES)
        self._group = zarr.open_group(str(folder), mode="w", zarr_format=2)
        hours = hours_since_1900(_END)
        self._coordinate(
            "time", np.arange(hours), {"units": "hours since 1900-01-01", "calendar": "proleptic_gregorian"}
        )
        self._coordinate("latitude", LATITUDES.astype(np.float32), {"units": "degrees_north"})
        self._coordinate("longitude", LONGITUDES.astype(np.float32), {"units": "degrees_east"})
        self._columns = tuple(columns)
        for column in self._columns:
            variable = BY_COLUMN[column]
            array = self._group.create_array(
                variable.cds_name,
                shape=(hours, LATITUDES.size, LONGITUDES.size),
                chunks=(1, LATITUDES.size, LONGITUDES.size),
                dtype="f4",
                fill_value=np.nan,
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

    def write(
        self, first: datetime, hours: int, *, columns: Iterable[str] = tuple(BY_COLUMN), offset: float = 0.0
    ) -> None:
        """Fill in hours with generated weather, as far as ERA5 has it; the temperature is off by `offset` K."""
        for number in range(hours):
            position = hours_since_1900(first) + number
            hour = np.array([int(first.timestamp()) // 3600 + number])
            fields = self._weather.at(hour)
            fields["temperature_2m"] += np.float32(offset)
            for variable in VARIABLES:
                written = variable.column in self._columns and variable.column in columns
                if written and int(variable.first_valid.timestamp()) // 3600 <= hour[0]:
                    array: Any = self._group[variable.cds_name]
                    array[position] = fields[variable.column][0]

    def promise(self, stop: str, stop_era5t: str | None = None, *, start: str = "1940-01-01") -> None:
        """Write the attributes, and the consolidated metadata, without which nothing can be opened."""
        attributes = {"valid_time_start": start, "valid_time_stop": stop}
        if stop_era5t is not None:
            attributes["valid_time_stop_era5t"] = stop_era5t
        self._group.attrs.put({**attributes, "last_updated": "2026-11-20 02:18:01.385142+00:00"})
        zarr.consolidate_metadata(str(self.folder), zarr_format=2)

    def forget(self, *names: str) -> None:
        """Take attributes away."""
        for path in (self.folder / ".zattrs", self.folder / ".zmetadata"):
            value = json.loads(path.read_text())
            attributes = value["metadata"][".zattrs"] if "metadata" in value else value
            for name in names:
                del attributes[name]
            path.write_text(json.dumps(value))


class Web:
    """What a web server that serves a store is asked, and how often it fails from now on."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.asked: list[str] = []
        self.failures = 0
        self.cuts = 0


@contextmanager
def served(folder: Path) -> Iterator[Web]:
    """The folder over HTTP."""

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # the base class's name
            """Be silent."""

        def do_GET(self) -> None:
            web.asked.append(self.path)
            # As zarr asks for metadata of several formats by turns, what fails there it takes for not there.
            is_chunk = re.fullmatch(r".*/\d+\.\d+\.\d+", self.path) is not None
            if is_chunk and web.failures > 0:
                web.failures -= 1
                self.send_error(503)
            elif is_chunk and web.cuts > 0:
                web.cuts -= 1
                self.send_response(200)
                self.send_header("Content-Length", "1000000")
                self.end_headers()
                self.wfile.write(bytes(1000))
                self.close_connection = True
            else:
                super().do_GET()

    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Handler, directory=str(folder)))
    server.daemon_threads = True
    web = Web(f"http://127.0.0.1:{server.server_port}")
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield web
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
