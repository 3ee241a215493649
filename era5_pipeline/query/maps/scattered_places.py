"""Places far apart: the part of them that one map can show."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from era5_pipeline.model.grid import Area

if TYPE_CHECKING:
    import numpy.typing as npt

# A map of which more is filled shows its places. In the demonstration's July it is 0.4 %: a field of 64 cells in Qatar
# and one cell at the Mekong.
_FILLED = 0.05
# Places belong together if no empty block of so many cells (five degrees) is between them.
_BLOCK = 20
_SHOWN_PARTS = 4


@dataclass(frozen=True)
class MainPart:
    """The rows and columns of a map to draw, their area, and a line that says what is left out."""

    rows: slice
    columns: slice
    area: Area
    line: str | None


def main_part(
    latitudes: npt.NDArray[np.float32], longitudes: npt.NDArray[np.float32], has_value: npt.NDArray[np.bool_]
) -> MainPart | None:
    """The part of a map (n, m) with the most places, if these would be lost on a map of all; None: draw all.

    Latitudes (n,) and longitudes (m,) ascend, as in a `FieldMap`.
    """
    rows, columns = np.nonzero(has_value)
    if not rows.size or rows.size >= _FILLED * has_value.size:
        return None
    labels = _labels(rows, columns)
    counts = np.bincount(labels)
    order = np.argsort(-counts, kind="stable")

    def area(part: int) -> Area:
        where = labels == part
        south, north = (float(latitudes[end(rows[where])]) for end in (np.min, np.max))
        west, east = ((float(longitudes[end(columns[where])]) + 180.0) % 360.0 - 180.0 for end in (np.min, np.max))
        return Area(north, west, south, east)

    first, others = int(order[0]), order[1:]
    named = [f"--area {area(int(part))}" for part in others[:_SHOWN_PARTS]]
    more = f" and {len(others) - _SHOWN_PARTS:,} more" if len(others) > _SHOWN_PARTS else ""
    where = labels == first
    return MainPart(
        rows=slice(int(rows[where].min()), int(rows[where].max()) + 1),
        columns=slice(int(columns[where].min()), int(columns[where].max()) + 1),
        area=area(first),
        line=f"the map shows {counts[first]:,} of {rows.size:,} places, those of {area(first)}; the others are far "
        f"away: {', '.join(named)}{more}"
        if named
        else None,
    )


def _labels(rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp]) -> npt.NDArray[np.int32]:
    """The number, from 0 on, of the part that each place (k,) is in."""
    from scipy import ndimage  # noqa: PLC0415  # takes a while, and few maps need it

    blocks = np.zeros((int(rows.max()) // _BLOCK + 1, int(columns.max()) // _BLOCK + 1), dtype=np.bool_)
    blocks[rows // _BLOCK, columns // _BLOCK] = True
    labels, _ = ndimage.label(blocks, structure=np.ones((3, 3)))
    found: npt.NDArray[np.int32] = labels[rows // _BLOCK, columns // _BLOCK].astype(np.int32) - np.int32(1)
    return found
