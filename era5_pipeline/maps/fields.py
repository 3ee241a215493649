"""The field that one map draws: values on a rectangle of the grid, with unit, title and time in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Literal, Self, TypeVar

import numpy as np
import numpy.typing as npt

from era5_pipeline.maps.styles import unit_of_hour, variable_title
from era5_pipeline.model.grid import Area
from era5_pipeline.model.land_mask import mask_of
from era5_pipeline.read.fields import Field

if TYPE_CHECKING:
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.location_set import GridWindow
    from era5_pipeline.model.variables import Variable

FieldKind = Literal["hour", "day", "month", "season", "year", "anomaly", "trend"]
# The time over which totals are summed: it decides the colour steps of amounts.
Period = Literal["hour", "day", "month", "season", "year"]


Values = TypeVar("Values", npt.NDArray[np.float32], npt.NDArray[np.float64])


def as_shown(variable: Variable, values: Values) -> Values:
    """Values, of any shape, as pictures show them: of rain and the like, none below zero; NaN stays."""
    return np.maximum(values, 0.0) if variable.is_never_negative else values


@dataclass(frozen=True, eq=False, kw_only=True)
class FieldMap(Field):
    """A field to draw, in the smallest window of the grid that holds all locations found, with its words.

    `unit` is a text for the colour bar ("mm in the day", "°C per decade"), `title` names what is drawn ("2 m
    temperature, mean of the day"), `when` its time or period in UTC. `is_difference`: the values are differences or
    changes, drawn around zero; others are as pictures show them. `period`: over which totals are summed. `stippled`
    (n, m): where a trend is significant, and marked; None for other kinds.
    """

    kind: FieldKind
    title: str
    when: str
    is_difference: bool = False
    period: Period = "hour"
    stippled: npt.NDArray[np.bool_] | None = None

    def __post_init__(self) -> None:
        if not self.is_difference:
            object.__setattr__(self, "values", as_shown(self.variable, self.values))

    @classmethod
    def of_hour(cls, field: Field) -> Self:
        """The map of the field of an hour."""
        if field.time is None:
            raise ValueError("not the field of an hour")
        return cls(
            kind="hour",
            variable=field.variable,
            window=field.window,
            values=field.values,
            time=field.time,
            unit=unit_of_hour(field.variable),
            title=variable_title(field.variable),
            when=f"{field.time.astimezone(UTC):%a %d %b %Y, %H:%M} UTC",
        )


def sea_line(dataset: Dataset, window: GridWindow) -> str | None:
    """Say that a data set of land alone has no values at the sea of a window; None if it has no sea."""
    mask = mask_of(dataset)
    if mask is None:
        return None
    south, west = window.north_index - window.rows + 1, window.west_index
    rows = mask[south : window.north_index + 1]
    if rows[:, np.arange(west, west + window.columns) % window.grid.columns].all():
        return None
    return f"at sea, {dataset.short_title} has no values"


# A map that is filled more than this shows its places. July of the demonstration fills 0.4 %: a field of 64 cells in
# Qatar and one cell on the Mekong.
_FILLED = 0.05
# Places belong together unless an empty block of so many degrees separates them.
_BLOCK_DEGREES = 5.0
_SHOWN_PARTS = 4


@dataclass(frozen=True)
class MainPart:
    """The rows and columns of a map to draw, their area, and a line that names what is left out."""

    rows: slice
    columns: slice
    area: Area
    line: str | None


def main_part(window: GridWindow, has_value: npt.NDArray[np.bool_]) -> MainPart | None:
    """The part of a map (n, m) with the most places, if a map of all would make them invisible; None: draw all.

    `has_value` is from south to north, as the values of a `Field`.
    """
    latitudes, longitudes = window.latitudes[::-1], window.longitudes
    rows, columns = np.nonzero(has_value)
    if not rows.size or rows.size >= _FILLED * has_value.size:
        return None
    labels = _labels(rows, columns, round(_BLOCK_DEGREES / window.grid.step_degrees))
    counts = np.bincount(labels)
    order = np.argsort(-counts, kind="stable")

    def area(part: int) -> Area:
        where = labels == part
        south, north = (float(latitudes[end(rows[where])]) for end in (np.min, np.max))
        west, east = ((float(longitudes[end(columns[where])]) + 180.0) % 360.0 - 180.0 for end in (np.min, np.max))
        borders = (round(degrees, window.grid.decimals) for degrees in (north, west, south, east))
        return Area(*borders, grid=window.grid)

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


def _labels(rows: npt.NDArray[np.intp], columns: npt.NDArray[np.intp], block: int) -> npt.NDArray[np.int32]:
    """The number, from 0, of the part that each place (k,) belongs to; blocks of so many cells a side count."""
    from scipy import ndimage  # noqa: PLC0415  # slow to import, and few maps need it

    blocks = np.zeros((int(rows.max()) // block + 1, int(columns.max()) // block + 1), dtype=np.bool_)
    blocks[rows // block, columns // block] = True
    labels, _ = ndimage.label(blocks, structure=np.ones((3, 3)))
    found: npt.NDArray[np.int32] = labels[rows // block, columns // block].astype(np.int32) - np.int32(1)
    return found
