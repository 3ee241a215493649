"""Travelling waves of generated weather: lows, highs and clusters of thunderstorms, and their factors of latitude."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    import numpy.typing as npt

    Float64 = npt.NDArray[np.float64]
    Int64 = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Waves:
    """Travelling waves, arrays of shape (n,): radians, and radians per hour."""

    zonal: Int64
    meridional: Float64
    centre: Float64
    width: Float64
    frequency: Float64
    phase: Float64
    speed: Float64
    cloud: Float64
    cloud_lead: Float64

    @classmethod
    def draw(cls) -> Waves:
        """Draw forty waves of the size of lows and highs, and eighty down to the size of thunderstorm clusters."""
        # RandomState: numpy guarantees that its numbers never change; those of Generator may.
        random = np.random.RandomState(1940)
        lows, clusters = 40, 80
        zonal = np.concatenate(
            [random.randint(2, 13, lows), np.exp(random.uniform(np.log(3), np.log(100), clusters))]
        ).astype(np.int64)
        sign = random.choice([-1.0, 1.0], (2, lows + clusters))
        meridional = sign[0] * np.concatenate([random.uniform(3, 10, lows), random.uniform(5, 60, clusters)])
        centre = np.concatenate([random.uniform(20, 70, lows), random.uniform(0, 65, clusters)])
        width = np.radians(np.concatenate([random.uniform(12, 22, lows), random.uniform(15, 30, clusters)]))
        # Westerlies carry weather eastward, the trades westward; to that each wave adds a speed of its own.
        eastward = centre > 28
        own = 2 * np.pi / (24 * random.uniform(3, 9, lows + clusters))
        return cls(
            zonal=zonal,
            meridional=meridional,
            centre=np.radians(sign[1] * centre),
            width=width,
            frequency=np.where(eastward, 0.008 * zonal + own, -0.004 * zonal - own),
            phase=random.uniform(0, 2 * np.pi, lows + clusters),
            speed=np.repeat([4.0, 1.0], [lows, clusters]),
            cloud=np.repeat([0.22, 0.16], [lows, clusters]),
            cloud_lead=random.uniform(-0.6, 0.6, lows + clusters) - 0.9,
        )


def wave_terms(latitude: Float64, waves: Waves) -> dict[str, Float64]:
    """Compute the factors of latitude of the waves' cosines and sines, shape (y, 2 n) each.

    The wind is that of a stream function, so that it turns around highs and lows; air from the equator is warm. All
    vanish at the poles, where a field has one value.
    """
    from_centre = (latitude - waves.centre) / waves.width
    bell = np.exp(-(from_centre**2))
    sine, cosine = np.sin(latitude), np.maximum(np.cos(latitude), 0)
    # The taper, 1 - sine**10, is near 1 up to 60 degrees and 0 at the poles, where this form has no 0 / 0.
    taper_by_cosine = cosine * sum(sine ** (2 * n) for n in range(5))
    taper = taper_by_cosine * cosine
    height = waves.speed / np.hypot(waves.zonal, waves.meridional)
    slope = bell * (-2 * from_centre / waves.width * taper - 10 * sine**9 * cosine)
    northward = height * waves.zonal * bell * taper_by_cosine
    phase = waves.meridional * latitude
    quarter = np.pi / 2
    return {
        "t": _shifted(0.9 * sine * northward, phase + quarter + 0.9),
        "u": _shifted(-height * slope, phase) + _shifted(height * waves.meridional * bell * taper, phase - quarter),
        "v": _shifted(northward, phase + quarter),
        "c": _shifted(waves.cloud * bell * taper, phase + waves.cloud_lead),
    }


def _shifted(amplitude: Float64, phase: Float64) -> Float64:
    """Compute the factors of cos(a) and sin(a) in amplitude * cos(a + phase): shape (y, n) becomes (y, 2 n)."""
    return np.hstack([amplitude * np.cos(phase), -amplitude * np.sin(phase)])
