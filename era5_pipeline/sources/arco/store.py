"""The Zarr store: opened with xarray through fsspec, its extent by its attributes, hours of a variable read from it.

Source of the layout: ARCO-ERA5 (google-research/arco-era5). One hour a chunk; the time axis is made beforehand, from
1900 to 2050, and holds NaN where there is nothing: only the attributes say how far it goes, in whole days. Not here:
areas, files (`source`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, TypeVar

import aiohttp
import numpy as np
import xarray as xr
from fsspec.exceptions import FSTimeoutError
from tenacity import RetryCallState, Retrying, retry_if_exception_type, stop_after_attempt, wait_random_exponential

from era5_pipeline import grid
from era5_pipeline.errors import SourceError, TransientError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from era5_pipeline.variables import Variable

    Floats = npt.NDArray[np.float32]
    Indices = npt.NDArray[np.int32]

T = TypeVar("T")

_GOOGLE, _GOOGLE_HTTPS = "gs://", "https://storage.googleapis.com/"
_EPOCH = np.datetime64("1900-01-01T00", "h")
# What the network does, and goes by: of HTTP, of sockets, of fsspec.
_PASSING = (aiohttp.ClientError, FSTimeoutError, ConnectionError, TimeoutError)
_ATTEMPTS = 6
_FIRST_WAIT_SECONDS, _LONGEST_WAIT_SECONDS = 2.0, 60.0
_REMEDY = "Correct ERA5_ARCO_URL, or leave it unset for the public store."


@dataclass(frozen=True)
class Extent:
    """How far the store goes: the first hour, the last final one, and the last one of all (UTC)."""

    first: datetime
    last_final: datetime
    last: datetime


@dataclass(frozen=True)
class Store:
    """An open store. `say` is told of each read that is tried again."""

    url: str
    dataset: xr.Dataset
    extent: Extent
    hours: npt.NDArray[np.int64]
    latitude_index: Indices
    longitude_index: Indices
    say: Callable[[str], None] = field(repr=False)
    sleep: Callable[[float], None] = field(repr=False, default=time.sleep)

    def require(self, variables: tuple[Variable, ...]) -> None:
        """See that the store has the variables.

        Raises:
            SourceError: naming those that it has not.
        """
        lacking = [v.cds_name for v in variables if v.cds_name not in self.dataset.data_vars]
        if lacking:
            raise SourceError(
                f"{self.url} has no {', '.join(lacking)}",
                remedy="Leave them out: --variables with the others. Their columns are NULL then.",
            )

    def read(self, variable: Variable, hours: range) -> Floats:
        """The values at `hours` (since 1970-01-01 UTC), (hour, latitude, longitude) in the units of ERA5's files.

        Raises:
            TransientError: if the store could not be reached, several times in a row.
        """
        first = int(np.searchsorted(self.hours, hours.start))
        part = slice(first, first + len(hours))
        if not np.array_equal(self.hours[part], hours):
            raise SourceError(f"{self.url} lacks hours on its time axis", remedy=_REMEDY)
        return _insisting(self.url, self.say, self.sleep, lambda: self.dataset[variable.cds_name][part].values)


def open_store(url: str, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep) -> Store:
    """Open the store at a URL, or in a folder.

    Raises:
        UsageError: if the URL is of a kind that cannot be read.
        SourceError: if there is no store, or it is not laid out as ARCO-ERA5 is.
        TransientError: if it could not be reached.
    """
    try:
        dataset = _insisting(url, say, sleep, lambda: _opened(_address(url)))
    except (FileNotFoundError, KeyError) as error:
        raise SourceError(f"{url} is no Zarr store with consolidated metadata", remedy=_REMEDY) from error
    except (ImportError, ValueError) as error:
        raise UsageError(f"{url} cannot be opened ({' '.join(str(error).split())})", remedy=_REMEDY) from error
    try:
        return Store(
            url=url,
            dataset=dataset,
            extent=_extent(dataset),
            hours=_hours(dataset),
            latitude_index=grid.latitude_indices(dataset["latitude"].values),
            longitude_index=grid.longitude_indices(dataset["longitude"].values),
            say=say,
            sleep=sleep,
        )
    except (KeyError, ValueError, TypeError) as error:
        said = " ".join(str(error).split())
        raise SourceError(f"{url} is not laid out as ARCO-ERA5 is ({said})", remedy=_REMEDY) from error


def _address(url: str) -> str:
    """Public objects of Google's storage are read over HTTPS: that takes neither a key nor Google's packages."""
    return _GOOGLE_HTTPS + url.removeprefix(_GOOGLE) if url.startswith(_GOOGLE) else url


def _extent(dataset: xr.Dataset) -> Extent:
    def day(name: str) -> datetime:
        return datetime.fromisoformat(str(dataset.attrs[name])[:10]).replace(tzinfo=UTC)

    end = timedelta(hours=23)
    last_final = day("valid_time_stop") + end
    last = day("valid_time_stop_era5t") + end if "valid_time_stop_era5t" in dataset.attrs else last_final
    return Extent(day("valid_time_start"), last_final, max(last, last_final))


def _hours(dataset: xr.Dataset) -> npt.NDArray[np.int64]:
    times = dataset["time"].values
    # Where the axis says no unit, it counts hours from 1900 on.
    stamps = _EPOCH + times.astype("timedelta64[h]") if np.issubdtype(times.dtype, np.integer) else times
    return stamps.astype("datetime64[h]").astype(np.int64)


def _opened(address: str) -> xr.Dataset:
    """The store; unmasked, for hour 0 of its time axis is Zarr's fill value.

    As format 2 first, which it has: looking for the others, zarr asks for files that a storage may refuse to speak of.
    """

    def as_format(number: int | None) -> xr.Dataset:
        dataset: xr.Dataset = xr.open_zarr(
            address,
            consolidated=True,
            chunks=None,
            mask_and_scale=False,
            decode_timedelta=False,
            zarr_format=number,
        )
        return dataset

    try:
        return as_format(2)
    except (FileNotFoundError, KeyError, ValueError):
        return as_format(None)


def _insisting(url: str, say: Callable[[str], None], sleep: Callable[[float], None], read: Callable[[], T]) -> T:
    """What `read` gives, tried again some times where the network fails, and told of."""

    def tell(state: RetryCallState) -> None:
        error = state.outcome.exception() if state.outcome is not None else None
        say(f"{url}: {_how(error)}; reading again in {state.upcoming_sleep:.0f} s")

    retrying = Retrying(
        retry=retry_if_exception_type(_PASSING),
        wait=wait_random_exponential(multiplier=_FIRST_WAIT_SECONDS, max=_LONGEST_WAIT_SECONDS),
        stop=stop_after_attempt(_ATTEMPTS),
        before_sleep=tell,
        sleep=sleep,
        reraise=True,
    )
    try:
        return retrying(read)
    except _PASSING as error:
        raise TransientError(
            f"{url} cannot be read ({_how(error)})",
            remedy="Run it again: days that have come are kept. Is the network there?",
        ) from error


def _how(error: BaseException | None) -> str:
    """In a few words, without the address, which is long."""
    if isinstance(error, aiohttp.ClientResponseError):
        return f"status {error.status}"
    if isinstance(error, FSTimeoutError | TimeoutError):
        return "no answer in time"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return "the connection was cut off"
