"""Maps in plate carree about another meridian."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from era5_pipeline.model import grid
from era5_pipeline.query.plots.map_parts.plate_carree import centred_field
from era5_pipeline.query.plots.map_windows import map_window
from era5_pipeline_tests.query.plots.projections.test_projected_map import field_of

GLOBE = field_of("global", "longitude")


@given(st.floats(-180, 360))
def test_a_centred_field_has_each_value_at_its_longitude(centre: float) -> None:
    found = centred_field(GLOBE, centre)
    east = np.diff(found.longitudes)
    np.testing.assert_array_equal(east, np.float32(grid.STEP_DEGREES))
    shown = found.values[100] * 3
    off = (shown - found.longitudes + 180.0) % 360.0 - 180.0
    assert np.abs(off).max() < 1e-3
    west, east_end, _, _ = map_window(found)
    assert east_end - west == 360.0
    assert abs((west + east_end) / 2 - centre) <= 0.125


def test_a_region_stays_where_it_is() -> None:
    region = field_of("10/90/-10/120")
    assert centred_field(region, 0.0) is region
