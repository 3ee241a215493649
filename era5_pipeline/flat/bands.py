"""Write a flat month for a lake: a Parquet file for each band of locations, in row groups that a point reads few of.

A band is a twelfth of ERA5's grid, 60 rows of it; ERA5-Land has 75 of 24 rows, and so files of no larger size. An
engine that looks for one place opens one file a month, by the bounds in the lake's manifests, and in it reads one or
two row groups, by theirs.
"""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Self

import numpy as np
import pyarrow as pa

from era5_pipeline.flat.formats import Sink, parquet_sink
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from types import TracebackType

    import numpy.typing as npt

# Iceberg's transform `truncate[86521]` gives ERA5 12 bands: ids count from 1, so that 86,520, a twelfth of its grid,
# would leave the last location alone in a thirteenth.
BAND_LOCATIONS = 86_521
# A group has all hours of some locations: at most this many rows, and at least half as many, except at a file's end.
# Statistics of a group then name few locations, and the file's footer stays below half a megabyte.
GROUP_ROWS = 262_144
_LEAST_ROWS = GROUP_ROWS // 2


def band_of(location_id: int) -> int:
    """The band of a location, from 0."""
    return location_id // BAND_LOCATIONS


class BandSink:
    """Writes tables into a file for each band, which appear when all are complete.

    `path_of` gives the path of a band. After the sink is closed, `paths` are the files, by band.
    """

    def __init__(self, path_of: Callable[[int], Path], schema: pa.Schema) -> None:
        self._path_of = path_of
        self._schema = schema
        self._files = ExitStack()
        self._sinks: dict[int, Sink] = {}
        self._band = 0
        self._waiting: list[pa.Table] = []

    @property
    def paths(self) -> tuple[Path, ...]:
        """The files that were written."""
        return tuple(self._path_of(band) for band in sorted(self._sinks))

    def write(self, table: pa.Table) -> None:
        """Append the rows, which hold whole locations."""
        for start, end in _groups(table.column("location_id").to_numpy()):
            part = table.slice(start, end - start)
            band = band_of(part.column("location_id")[0].as_py())
            if band != self._band or sum(each.num_rows for each in self._waiting) + part.num_rows > GROUP_ROWS:
                self._flush()
            self._band = band
            self._waiting.append(part)
            if sum(each.num_rows for each in self._waiting) >= _LEAST_ROWS:
                self._flush()

    def _flush(self) -> None:
        if self._waiting:
            self._sink(self._band).write(pa.concat_tables(self._waiting))
            self._waiting = []

    def _sink(self, band: int) -> Sink:
        if band not in self._sinks:
            path = self._files.enter_context(replacing(self._path_of(band)))
            self._sinks[band] = self._files.enter_context(parquet_sink(path, self._schema, for_lake=True))
        return self._sinks[band]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._files:
            if error is not None:
                raise error
            self._flush()
            if not self._sinks:
                self._sink(0)


def _groups(ids: npt.NDArray[np.int32]) -> Iterator[tuple[int, int]]:
    """Cut rows, sorted by location, into groups of at most `GROUP_ROWS`: whole locations of one band, without gaps."""
    starts = np.flatnonzero(np.diff(ids, prepend=-1))
    locations = ids[starts]
    is_new_run = (np.diff(locations, prepend=locations[:1] - 2) != 1) | (
        np.diff(locations // BAND_LOCATIONS, prepend=-1) != 0
    )
    begins = np.append(starts[is_new_run], ids.size)
    for begin, end in zip(begins[:-1].tolist(), begins[1:].tolist(), strict=True):
        own = starts[(starts >= begin) & (starts < end)]
        # A cut moves down to where its location begins, so a group may have nearly a location more than its share.
        largest = int(np.diff(own, append=end).max())
        count = 1 if end - begin <= GROUP_ROWS else -(-(end - begin) // max(1, GROUP_ROWS - largest))
        wanted = begin + (end - begin) * np.arange(1, count) // count
        cuts = own[np.searchsorted(own, wanted, side="right") - 1]
        bounds = np.unique([begin, *cuts.tolist(), end])
        yield from zip(bounds[:-1].tolist(), bounds[1:].tolist(), strict=True)
