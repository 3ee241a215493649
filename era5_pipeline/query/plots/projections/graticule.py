"""Meridians and parallels of a projected map, and their labels at its border."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

import numpy as np

from era5_pipeline.query.plots.figures import latitude_label, longitude_label
from era5_pipeline.query.plots.projections.map_projection import densified

if TYPE_CHECKING:
    from era5_pipeline.query.plots.projections.map_projection import MapProjection, Metres

# Degrees between lines, and the most lines of a map.
_STEPS = (0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0, 60.0, 90.0)
_MOST_MERIDIANS, _MOST_PARALLELS = 12, 8


@dataclass(frozen=True)
class GraticuleLabel:
    """The text of a meridian or parallel, and where it stands: left of a point of the border, or below it (metres)."""

    text: str
    side: Literal["left", "below"]
    x: float
    y: float


@dataclass(frozen=True)
class Graticule:
    """The lines inside of a map, (n, 2) each, in metres, and their labels."""

    lines: list[Metres]
    labels: list[GraticuleLabel]

    @classmethod
    def of(cls, projection: MapProjection, label_width: float) -> Graticule:
        """Lines at round degrees; labels of meridians are at least `label_width` (metres) apart."""
        west, east, south, north = projection.window
        lines, labels = [], []
        for longitude in _inside(west, east, _step(east - west, _MOST_MERIDIANS)):
            lines.append(projection.forward(densified(np.array([(longitude, south), (longitude, north)]))))
        ends = projection.forward(np.array([(west, south), (east, south)]))
        most = int(min((ends[1, 0] - ends[0, 0]) / label_width, _MOST_MERIDIANS))
        for longitude in _inside(west, east, _step(east - west, max(most, 1))):
            (at,) = projection.forward(np.array([(longitude, south)]))
            labels.append(GraticuleLabel(longitude_label(longitude), "below", *map(float, at)))
        for latitude in _inside(south, north, _step(north - south, _MOST_PARALLELS)):
            line = projection.forward(np.array([(west, latitude), (east, latitude)]))
            lines.append(line)
            labels.append(GraticuleLabel(latitude_label(latitude), "left", *map(float, line[0])))
        return cls(lines, labels)


def _step(length: float, most: int) -> float:
    """Degrees between lines, for at most `most` intervals."""
    return next((step for step in _STEPS if length / step <= most), _STEPS[-1])


def _inside(low: float, high: float, step: float) -> list[float]:
    """The multiples of a step between two degrees, without these."""
    near = 1e-6
    first, last = int(np.ceil((low + near) / step)), int(np.floor((high - near) / step))
    return [step * number for number in range(first, last + 1)]
