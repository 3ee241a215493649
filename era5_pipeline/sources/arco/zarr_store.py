"""The Zarr store: opened with xarray through fsspec, its extent by its attributes, hours of a variable read from it.

Source of the layout: ARCO-ERA5 (google-research/arco-era5). One hour a chunk; the time axis is made beforehand, from
1900 to 2050, and holds NaN where there is nothing: only the attributes say how far it goes, in whole days. Not here:
trying again (`trouble`), areas, files (`source`).
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import aiohttp
import fsspec
import numpy as np
import xarray as xr
from fsspec.utils import get_protocol

from era5_pipeline.model import grid
from era5_pipeline.model.errors import SourceError, TransientError, UsageError
from era5_pipeline.model.hours import from_datetime64, time_of
from era5_pipeline.sources.arco.checked_blosc import use_whole_blosc
from era5_pipeline.sources.arco.read_retries import insisting, undecodable_told

if TYPE_CHECKING:
    from collections.abc import Callable

    import numpy.typing as npt

    from era5_pipeline.model.months import Month
    from era5_pipeline.model.variables import Variable

    Floats = npt.NDArray[np.float32]
    Indices = npt.NDArray[np.int32]

_GOOGLE, _GOOGLE_HTTPS = "gs://", "https://storage.googleapis.com/"
_DIMENSIONS = ("time", "latitude", "longitude")
_PACKED = frozenset({"scale_factor", "add_offset"})
_EPOCH = np.datetime64("1900-01-01T00", "h")
# A chunk is 2 to 4 MB: an answer that pauses for so long is not slow, it is lost.
_SILENCE_SECONDS, _CHUNK_SECONDS = 60.0, 600.0
_REMEDY = "Correct ERA5_ARCO_URL, or leave it unset for the public store."


@dataclass(frozen=True)
class Extent:
    """How far the store goes: the first hour, the last final one, and the last one of all (UTC)."""

    first: datetime
    last_final: datetime
    last: datetime


@dataclass(frozen=True)
class Store:
    """An open store; `url` is for messages. `say` is told of each read that is tried again."""

    url: str
    dataset: xr.Dataset
    extent: Extent
    hours: npt.NDArray[np.int64]
    latitude_index: Indices
    longitude_index: Indices
    say: Callable[[str], None] = field(repr=False)
    sleep: Callable[[float], None] = field(repr=False, default=time.sleep)

    def require(self, variables: tuple[Variable, ...]) -> None:
        """See that the store has the variables, an hour of the globe a chunk, in the units and type of ERA5's files.

        Units that a copy of the store has lost are taken for granted; the values have their bounds.

        Raises:
            SourceError: naming those that it has not, or has otherwise.
        """
        lacking = [v.cds_name for v in variables if v.cds_name not in self.dataset.data_vars]
        if lacking:
            raise SourceError(
                f"{self.url} has no {', '.join(lacking)}",
                remedy="Leave them out: --variables with the others. Their columns are NULL then.",
            )
        for variable in variables:
            array = self.dataset[variable.cds_name]
            if array.dims != _DIMENSIONS:
                held = f"{variable.cds_name} is along {', '.join(map(str, array.dims))}"
                raise SourceError(f"{self.url} is not laid out as ARCO-ERA5 is ({held})", remedy=_REMEDY)
            units = str(array.attrs.get("units", variable.file_units[0])).strip()
            held = ""
            if units not in variable.file_units:
                held = f"{variable.cds_name} is in {units}, not in {' or '.join(variable.file_units)}"
            elif array.dtype.kind != "f" or _PACKED & set(array.attrs):
                held = f"{variable.cds_name} is packed ({array.dtype})"
            elif tuple(array.encoding["chunks"][1:]) != array.shape[1:]:
                # Of a chunk that is missing, one of several an hour, the fill value could not be told from weather.
                held = f"{variable.cds_name} has chunks of {array.encoding['chunks']}"
            if held:
                raise SourceError(f"{self.url} is not laid out as ARCO-ERA5 is ({held})", remedy=_REMEDY)

    def read(self, variable: Variable, hours: range) -> Floats:
        """The values at `hours` (since 1970-01-01 UTC), (hour, latitude, longitude) in the units of ERA5's files.

        NaN where the store has nothing.

        Raises:
            TransientError: if the store could not be reached, several times in a row.
            SourceError: if it refuses.
            MonthFailedError: if it holds what cannot be decoded.
        """
        first = int(np.searchsorted(self.hours, hours.start))
        part = slice(first, first + len(hours))
        if not np.array_equal(self.hours[part], hours):
            raise SourceError(f"{self.url} lacks hours on its time axis", remedy=_REMEDY)
        what = f"{time_of(hours.start):%Y-%m-%d}: {variable.cds_name} from {self.url}"
        values = insisting(
            what,
            "If that lasts, take the month from the source cds.",
            self.say,
            self.sleep,
            undecodable_told(lambda: self.dataset[variable.cds_name][part].values),
        )
        return _without_fill(values)


def open_store(
    url: str, month: Month, say: Callable[[str], None], sleep: Callable[[float], None] = time.sleep
) -> Store:
    """Open the store at a URL, or in a folder; `month` is what for.

    Raises:
        UsageError: if the URL is of a kind that cannot be read.
        SourceError: if there is no store, or it is not laid out as ARCO-ERA5 is.
            It could not be reached, several times in a row: whoever comes next would wait as long for nothing.
    """
    use_whole_blosc()
    address, url = _address(url), shown_url(url)
    try:
        fsspec.get_filesystem_class(get_protocol(address))
    except (ImportError, ValueError) as error:
        raise UsageError(f"{url} cannot be opened ({' '.join(str(error).split())})", remedy=_REMEDY) from error
    try:
        dataset = insisting(f"{month}: {url}", _REMEDY, say, sleep, lambda: _opened(address))
    except TransientError as error:
        raise SourceError(error.message, remedy=f"Is the network there? {_REMEDY}") from error
    except (FileNotFoundError, KeyError, ValueError, TypeError) as error:
        raise SourceError(f"{url} is no Zarr store with consolidated metadata", remedy=_REMEDY) from error
    try:
        return Store(
            url=url,
            dataset=dataset,
            extent=_extent(dataset),
            hours=_hours(dataset),
            latitude_index=_whole(grid.latitude_indices(dataset["latitude"].values), grid.N_LATITUDES, "latitudes"),
            longitude_index=_whole(
                grid.longitude_indices(dataset["longitude"].values), grid.N_LONGITUDES, "longitudes"
            ),
            say=say,
            sleep=sleep,
        )
    except (KeyError, ValueError, TypeError) as error:
        said = " ".join(str(error).split())
        raise SourceError(f"{url} is not laid out as ARCO-ERA5 is ({said})", remedy=_REMEDY) from error


def shown_url(url: str) -> str:
    """The URL without what it may hold of a user and a password."""
    scheme, found, rest = url.partition("://")
    host, *path = rest.split("/", 1)
    return "/".join([f"{scheme}://{host.rpartition('@')[2]}", *path]) if found else url


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
    return from_datetime64(stamps)


def _whole(indices: Indices, count: int, what: str) -> Indices:
    if indices.size != count or np.unique(indices).size != count:
        raise ValueError(f"it has {indices.size} {what}, not {count}")
    return indices


def _opened(address: str) -> xr.Dataset:
    """The store; unmasked, for hour 0 of its time axis is Zarr's fill value.

    As format 2 first, which it has: looking for the others, zarr asks for files that a storage may refuse to speak of.
    """
    timeout = aiohttp.ClientTimeout(total=_CHUNK_SECONDS, sock_connect=_SILENCE_SECONDS, sock_read=_SILENCE_SECONDS)
    # Proxies of the environment count, as they do for the Climate Data Store.
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
    """NaN for hours that have no chunk: they read as the fill value everywhere, which a copy of the store may have set.

    No hour of the Earth is the same everywhere, of any of our variables.
    """
    flat = values.reshape(len(values), -1)
    same = (flat == flat[:, :1]).all(axis=1)
    if same.any():
        values[same] = np.nan
    return values
