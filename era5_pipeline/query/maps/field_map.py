"""The field that one map draws: values on a rectangle of the grid, with their unit, title and time in words."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC
from typing import TYPE_CHECKING, Literal, Self

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from era5_pipeline.model.variables import Variable
    from era5_pipeline.query.snapshots import Snapshot

    FloatArray = npt.NDArray[np.float32]

FieldKind = Literal["hour", "day", "month", "season", "year", "anomaly", "trend"]
# The time over which values are summed up: it decides the steps of the colours of amounts.
Period = Literal["hour", "day", "month", "season", "year"]


@dataclass(frozen=True, eq=False)
class FieldMap:
    """One field to draw, on the smallest rectangle of the grid that holds all locations found.

    `latitudes` (n,) ascend from the south, `longitudes` (m,) from the west; both are degrees in float32, 0.25 apart.
    Longitudes are in (-180, 180], except where the rectangle crosses the antimeridian: there they continue past 180, so
    that they ascend (180.25 is 179.75 W). `values` (n, m) float32 are in `unit`, NaN where there is none.

    `unit` is a text for the colour bar ("mm in the day", "°C per decade"), `title` names what is drawn ("2 m
    temperature, mean of the day"), `when` its time or period in UTC. `is_difference`: the values are differences or
    changes, drawn around zero. `period`: over which totals are summed up. `stippled` (n, m): where a trend is
    significant, to be marked; None for other kinds.
    """

    kind: FieldKind
    variable: Variable
    latitudes: FloatArray
    longitudes: FloatArray
    values: FloatArray
    unit: str
    title: str
    when: str
    is_difference: bool = False
    period: Period = "hour"
    stippled: npt.NDArray[np.bool_] | None = None

    @classmethod
    def of_snapshot(cls, snapshot: Snapshot) -> Self:
        """The map of one hour."""
        # The folder of plots imports matplotlib, which only a map that is drawn costs.
        from era5_pipeline.query.plots.variable_styles import unit_of_hour, variable_title  # noqa: PLC0415

        return cls(
            kind="hour",
            variable=snapshot.variable,
            latitudes=snapshot.latitudes,
            longitudes=snapshot.longitudes,
            values=snapshot.values,
            unit=unit_of_hour(snapshot.variable),
            title=variable_title(snapshot.variable),
            when=f"{snapshot.time.astimezone(UTC):%a %d %b %Y, %H:%M} UTC",
        )
