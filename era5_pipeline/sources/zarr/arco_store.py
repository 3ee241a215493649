"""The Zarr store of ARCO-ERA5: opening it with xarray through fsspec, its extent, and reading hours of a variable.

Transient errors are retried; all others become errors with a remedy.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import aiohttp
import fsspec
import numpy as np
import xarray as xr
from fsspec.exceptions import FSTimeoutError
from fsspec.utils import get_protocol
from tenacity import RetryCallState, Retrying, retry_if_exception, stop_after_attempt, wait_random_exponential

from era5_pipeline.model import grid
from era5_pipeline.model.errors import MonthFailedError, SourceError, TransientError, UsageError
from era5_pipeline.model.times import from_datetime64, time_of
from era5_pipeline.runtime.http import describe_proxy_failure
from era5_pipeline.sources.zarr.codecs import use_checked_blosc
from era5_pipeline.sources.zarr.store import https_of_google, without_password

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable

    Floats = npt.NDArray[np.float32]
    Indices = npt.NDArray[np.int32]

T = TypeVar("T")

# Source of the layout: ARCO-ERA5 (google-research/arco-era5). A chunk is one hour. The time axis always runs from 1900
# to 2050, and hours without data read as NaN: only the attributes tell which days have data.


_DIMENSIONS = ("time", "latitude", "longitude")
_PACKED = frozenset({"scale_factor", "add_offset"})
_EPOCH = np.datetime64("1900-01-01T00", "h")
# A chunk is 2 to 4 MB: a connection silent for this long is lost.
_SILENCE_SECONDS, _CHUNK_SECONDS = 60.0, 600.0
_REMEDY = "Correct ERA5_ARCO_URL, or leave it unset for the public store."


@dataclass(frozen=True)
class Extent:
    """The first hour, the last final hour, and the last hour of the store (UTC)."""

    first: datetime
    last_final: datetime
    last: datetime


@dataclass(frozen=True)
class ZarrStore:
    """An open store; `url` is for messages. `say` reports each retried read."""

    url: str
    dataset: xr.Dataset
    extent: Extent
    hours: npt.NDArray[np.int64]
    latitude_index: Indices
    longitude_index: Indices
    say: Callable[[str], None] = field(repr=False)
    sleep: Callable[[float], None] = field(repr=False, default=time.sleep)

    def require(self, variables: tuple[Variable, ...]) -> None:
        """Require the variables, one global hour per chunk, in the units and type of ERA5's files.

        Units missing from a copy of the store are assumed correct; values are checked against bounds later.
        """
        lacking = [v.cds_name for v in variables if v.cds_name not in self.dataset.data_vars]
        if lacking:
            raise SourceError(
                f"{self.url} has no {', '.join(lacking)}",
                remedy="Name only the others in --variables; the columns of these stay NULL.",
            )
        for variable in variables:
            array = self.dataset[variable.cds_name]
            if array.dims != _DIMENSIONS:
                held = f"{variable.cds_name} is along {', '.join(map(str, array.dims))}"
                raise SourceError(f"{self.url} does not have the layout of ARCO-ERA5 ({held})", remedy=_REMEDY)
            units = str(array.attrs.get("units", variable.file_units[0])).strip()
            held = ""
            if units not in variable.file_units:
                held = f"{variable.cds_name} is in {units}, not in {' or '.join(variable.file_units)}"
            elif array.dtype.kind != "f" or _PACKED & set(array.attrs):
                held = f"{variable.cds_name} is packed ({array.dtype})"
            elif tuple(array.encoding["chunks"][1:]) != array.shape[1:]:
                # With several chunks per hour, the fill value of a missing one could not be told from weather.
                held = f"{variable.cds_name} has chunks of {array.encoding['chunks']}"
            if held:
                raise SourceError(f"{self.url} does not have the layout of ARCO-ERA5 ({held})", remedy=_REMEDY)

    def read(self, variable: Variable, hours: range) -> Floats:
        """Read the values at `hours` (since 1970-01-01 UTC), shape (hour, latitude, longitude), in ERA5's file units.

        Hours without data are NaN.

        Raises:
            TransientError: if the store could not be reached several times in a row.
            SourceError: if the store refuses.
            MonthFailedError: if its data cannot be decoded.
        """
        first = int(np.searchsorted(self.hours, hours.start))
        part = slice(first, first + len(hours))
        if not np.array_equal(self.hours[part], hours):
            raise SourceError(f"{self.url} lacks hours on its time axis", remedy=_REMEDY)
        what = f"{time_of(hours.start):%Y-%m-%d}: {variable.cds_name} from {self.url}"
        values = _read_with_retries(
            what,
            "If that happens again, fetch the month from the source cds.",
            self.say,
            self.sleep,
            _with_decoding_errors(lambda: self.dataset[variable.cds_name][part].values),
        )
        return _without_fill(values)


def open_store(
    url: str, month: Month, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> ZarrStore:
    """Open the store at a URL, or in a folder; `month` is for messages."""
    use_checked_blosc()
    address, url = https_of_google(url), without_password(url)
    try:
        fsspec.get_filesystem_class(get_protocol(address))
    except (ImportError, ValueError) as error:
        raise UsageError(f"{url} cannot be opened ({' '.join(str(error).split())})", remedy=_REMEDY) from error
    try:
        dataset = _read_with_retries(f"{month}: {url}", _REMEDY, say, sleep, lambda: _opened(address))
    except TransientError as error:
        raise SourceError(error.message, remedy=f"Check the network. {_REMEDY}") from error
    except (FileNotFoundError, KeyError, ValueError, TypeError) as error:
        raise SourceError(f"{url} is not a Zarr store with consolidated metadata", remedy=_REMEDY) from error
    try:
        return ZarrStore(
            url=url,
            dataset=dataset,
            extent=_extent(dataset),
            hours=_hours(dataset),
            latitude_index=_complete(grid.latitude_indices(dataset["latitude"].values), grid.N_LATITUDES, "latitudes"),
            longitude_index=_complete(
                grid.longitude_indices(dataset["longitude"].values), grid.N_LONGITUDES, "longitudes"
            ),
            say=say,
            sleep=sleep,
        )
    except (KeyError, ValueError, TypeError) as error:
        said = " ".join(str(error).split())
        raise SourceError(f"{url} does not have the layout of ARCO-ERA5 ({said})", remedy=_REMEDY) from error


def _extent(dataset: xr.Dataset) -> Extent:
    def day(name: str) -> datetime:
        return datetime.fromisoformat(str(dataset.attrs[name])[:10]).replace(tzinfo=UTC)

    end = timedelta(hours=23)
    last_final = day("valid_time_stop") + end
    last = day("valid_time_stop_era5t") + end if "valid_time_stop_era5t" in dataset.attrs else last_final
    return Extent(day("valid_time_start"), last_final, max(last, last_final))


def _hours(dataset: xr.Dataset) -> npt.NDArray[np.int64]:
    times = dataset["time"].values
    # A time axis without a unit counts hours since 1900.
    stamps = _EPOCH + times.astype("timedelta64[h]") if np.issubdtype(times.dtype, np.integer) else times
    return from_datetime64(stamps)


def _complete(indices: Indices, count: int, what: str) -> Indices:
    if indices.size != count or np.unique(indices).size != count:
        raise ValueError(f"it has {indices.size} {what}, not {count}")
    return indices


def _opened(address: str) -> xr.Dataset:
    """Open the dataset, unmasked, because hour 0 of its time axis equals Zarr's fill value.

    Format 2, ARCO-ERA5's, is tried first: to detect the format, zarr requests files that servers may refuse.
    """
    timeout = aiohttp.ClientTimeout(total=_CHUNK_SECONDS, sock_connect=_SILENCE_SECONDS, sock_read=_SILENCE_SECONDS)
    # Use the proxies set in the environment, as for the Climate Data Store.
    options = {"client_kwargs": {"timeout": timeout, "trust_env": True}}

    def as_format(number: int) -> xr.Dataset:
        dataset: xr.Dataset = xr.open_zarr(
            address,
            consolidated=True,
            chunks=None,
            mask_and_scale=False,
            decode_timedelta=False,
            zarr_format=number,
            storage_options=options if address.startswith("http") else None,
        )
        return dataset

    try:
        return as_format(2)
    except (FileNotFoundError, KeyError, ValueError):
        return as_format(3)


def _without_fill(values: Floats) -> Floats:
    """Set hours without a chunk to NaN: they read as the fill value everywhere, which a copy of the store may change.

    No real hour of any of our variables has a single value all over the Earth.
    """
    flat = values.reshape(len(values), -1)
    same = (flat == flat[:, :1]).all(axis=1)
    if same.any():
        values[same] = np.nan
    return values


# --- Reading again what failed for a moment ---


# Errors of HTTP, sockets and fsspec that may be gone on a later attempt.
_RETRYABLE = (aiohttp.ClientError, FSTimeoutError, ConnectionError, TimeoutError)
# Permanent, though each is a ClientError.
_PERMANENT = (aiohttp.ClientSSLError, aiohttp.InvalidURL)
# The error raised by decoding. Retried, because the answer may have been truncated or replaced in transit.
_UNDECODABLE = RuntimeError
_RETRYABLE_STATUS = frozenset({408, 425, 429})
_ATTEMPTS = 6
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 2.0, 60.0


def _read_with_retries(
    what: str, remedy: str, say: Callable[[str], None], sleep: Callable[[float], None], read: Callable[[], T]
) -> T:
    """Return the result of `read`, calling it up to six times; `say` reports each error and the wait after it.

    `what` names the data in messages.
    """

    def report(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        tries = f"{state.attempt_number} of {_ATTEMPTS} tries"
        say(f"{what}: {_how(error)}; reading again in {state.upcoming_sleep:.0f} s ({tries})")

    retrying = Retrying(
        retry=retry_if_exception(lambda error: _is_retryable(error) or isinstance(error, _UNDECODABLE)),
        wait=wait_random_exponential(multiplier=_FIRST_WAIT_SECONDS, max=_LONGEST_WAIT_SECONDS),
        stop=stop_after_attempt(_ATTEMPTS),
        before_sleep=report,
        sleep=sleep,
        reraise=True,
    )
    try:
        return retrying(read)
    except FileNotFoundError:
        raise
    except (*_RETRYABLE, OSError, _UNDECODABLE) as error:
        if _is_retryable(error):
            raise TransientError(
                f"{what} cannot be read ({_how(error)})",
                remedy="Check the network and run it again: days that are complete are kept.",
            ) from error
        kind = MonthFailedError if isinstance(error, _UNDECODABLE) else SourceError
        raise kind(f"{what} cannot be read ({_how(error)})", remedy=remedy) from error


def _with_decoding_errors(read: Callable[[], T]) -> Callable[[], T]:
    """Wrap `read` so that all decoding errors have one type: each codec raises its own for a damaged chunk."""

    def wrapped() -> T:
        try:
            return read()
        except Exception as error:
            is_network_error = isinstance(error, (*_RETRYABLE, *_PERMANENT))
            if is_network_error or (isinstance(error, OSError) and error.errno is not None):
                raise
            raise _UNDECODABLE(f"{type(error).__name__}: {error}") from error

    return wrapped


def _is_retryable(error: BaseException) -> bool:
    """Return True if the error may be gone on a later attempt."""
    if isinstance(error, aiohttp.ClientResponseError):
        return error.status in _RETRYABLE_STATUS or error.status >= 500
    return isinstance(error, _RETRYABLE) and not isinstance(error, _PERMANENT)


def _how(error: BaseException | None) -> str:
    """Describe the error briefly, without its long URL."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"status {error.status}"
    if isinstance(error, FSTimeoutError | TimeoutError):
        return "no answer in time"
    if isinstance(error, aiohttp.ClientProxyConnectionError):
        return describe_proxy_failure(error.strerror or "refused")
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, _UNDECODABLE):
        return "the data cannot be decoded"
    return "the connection was cut off"
