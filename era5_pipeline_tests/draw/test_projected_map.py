"""Tests of `draw/projected_map`."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np
import pyproj
import pytest
from PIL import Image

from era5_pipeline.draw.figures import save_figure
from era5_pipeline.draw.maps import draw_map
from era5_pipeline.draw.projected_map import Graticule, projected_borders, projected_coastlines, projected_land
from era5_pipeline.draw.projections import MapProjection, choose_projection
from era5_pipeline.model import grid
from era5_pipeline_tests.draw.pixels import picture_of, pixel_at
from era5_pipeline_tests.draw.variables_of_each_kind import field_of

if TYPE_CHECKING:
    from pathlib import Path

    from era5_pipeline.draw.maps import DrawnMap
    from era5_pipeline.draw.projections import ProjectionChoice


def graticule_of(window: tuple[float, float, float, float], centre: float | None = None) -> Graticule:
    projection = choose_projection("equal-earth", window, window, centre)
    return Graticule.of(projection, 2.2e6)


def texts(graticule: Graticule, side: str) -> list[str]:
    return [label.text for label in graticule.labels if label.side == side]


def test_the_globe_has_labels_at_round_degrees() -> None:
    found = graticule_of((-180.0, 180.0, -90.0, 90.0))
    assert texts(found, "left") == ["60°S", "30°S", "0°", "30°N", "60°N"]
    assert texts(found, "below") == ["120°W", "60°W", "0°", "60°E", "120°E"]
    assert len(found.lines) == 11 + 5


def test_labels_are_those_of_the_meridians_about_any_centre() -> None:
    found = graticule_of((-180.0, 180.0, -90.0, 90.0), 150.0)
    assert texts(found, "below") == ["0°", "60°E", "120°E", "180°", "120°W", "60°W"]
    # Left to right, below the map.
    places = [label.x for label in found.labels if label.side == "below"]
    assert places == sorted(places)
    assert len({label.y for label in found.labels if label.side == "below"}) == 1


def test_a_meridian_is_curved_and_a_parallel_is_straight() -> None:
    found = graticule_of((-180.0, 180.0, -90.0, 90.0))
    meridian, parallel = found.lines[0], found.lines[-1]
    assert np.ptp(meridian[:, 0]) > 5e6
    assert len(meridian) > 150
    assert np.ptp(parallel[:, 1]) == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("window", [(-11.0, 3.0, 49.0, 61.0), (106.0, 108.0, -7.25, -5.25), (0.0, 200.0, -10.0, 85.0)])
def test_any_window_has_a_few_lines_of_each(window: tuple[float, float, float, float]) -> None:
    found = graticule_of(window)
    assert 2 <= len(texts(found, "left")) <= 9
    assert 2 <= len(found.lines) <= 22


SVALBARD, ANTARCTIC_COAST, BERING = "81/10/76/34", "-62/-75/-75/-50", "85/170/75/-150"


@pytest.mark.parametrize(
    ("area", "side", "meridians", "parallels"),
    [
        (SVALBARD, "below", ["10°E", "15°E", "20°E", "25°E", "30°E"], ["76°N", "77°N", "78°N", "79°N", "80°N", "81°N"]),
        (ANTARCTIC_COAST, "above", ["75°W", "70°W", "65°W", "60°W", "55°W", "50°W"], ["74°S", "72°S", "70°S"]),
        (BERING, "below", ["170°E", "175°E", "180°", "175°W", "170°W"], ["76°N", "78°N", "80°N", "82°N", "84°N"]),
    ],
)
def test_a_polar_map_has_its_meridians_along_its_longer_arc(
    area: str, side: str, meridians: list[str], parallels: list[str]
) -> None:
    drawn = draw_map(field_of(area), dpi=COARSE)
    found = Graticule.of(drawn.projection, 1e5)
    assert texts(found, side)[: len(meridians)] == meridians
    assert texts(found, "left")[: len(parallels)] == parallels
    parallel = found.lines[-1]
    np.testing.assert_allclose(np.hypot(*parallel.T), np.hypot(*parallel[0]))
    for line in projected_coastlines(drawn.projection):
        assert np.hypot(*np.diff(line, axis=0).T).max() < 250_000.0


def test_labels_of_a_disc_are_inside_of_it() -> None:
    drawn = draw_map(field_of("-60/-180/-90/180"), dpi=COARSE)
    assert drawn.projection.is_disc
    found = Graticule.of(drawn.projection, 1.0)
    edge = np.hypot(*drawn.projection.outline[0])
    assert {label.side for label in found.labels} == {"inside"}
    assert all(np.hypot(label.x, label.y) < 0.96 * edge for label in found.labels)
    names = [label.text for label in found.labels]
    assert len(names) == len(set(names)) == 12 + 5
    assert {"180°", "0°", "90°W", "90°E", "65°S", "85°S"} <= set(names)


@pytest.mark.parametrize("area", [SVALBARD, ANTARCTIC_COAST, BERING, "90/-180/60/180", "90/-30/80/60"])
@pytest.mark.parametrize("what", ["latitude", "longitude"])
def test_a_pixel_of_a_polar_map_has_the_colour_of_the_value_there(area: str, what: str) -> None:
    field = field_of(area, what)
    drawn = draw_map(field, dpi=COARSE)
    projection = drawn.projection
    pixels = picture_of(drawn.figure)
    forward = pyproj.Proj(f"+proj=stere +lat_0={90 * projection.pole} +R=6371000 +lon_0={projection.centre}")
    off = []
    for row in np.linspace(3, len(field.latitudes) - 4, 7).astype(int):
        for column in np.linspace(3, len(field.longitudes) - 4, 9).astype(int):
            at = forward(float(field.longitudes[column]), float(field.latitudes[row]))
            shown = pixel_at(drawn.axes, *at, picture=pixels)
            off.append(np.abs(colour_of(drawn, float(field.values[row, column])) - shown).max())
    # Some are below lines and letters.
    assert (np.array(off) <= 12).mean() > 0.6


CENTRES = [0.0, 25.0, 150.0, -97.3]


def globe(centre: float) -> MapProjection:
    return MapProjection("equal-earth", centre, (centre - 180.0, centre + 180.0, -90.0, 90.0))


@pytest.mark.parametrize("centre", CENTRES)
def test_no_line_runs_across_the_map(centre: float) -> None:
    for lines in (projected_coastlines(globe(centre)), projected_borders(globe(centre))):
        assert len(lines) > 50
        longest = max(float(np.hypot(*np.diff(line, axis=0).T).max()) for line in lines)
        # The 49th parallel is a border of a thousand kilometres without a vertex, and Russia's coast has none longer.
        assert longest < 250_000.0


@pytest.mark.parametrize("centre", CENTRES)
def test_land_is_within_the_outline_and_covers_what_land_covers(centre: float) -> None:
    projection = globe(centre)
    west, east, south, north = projection.bounds
    area = 0.0
    for is_land, ring in projected_land(projection):
        assert ring[:, 0].min() >= west - 1.0
        assert ring[:, 0].max() <= east + 1.0
        assert south - 1.0 <= ring[:, 1].min() <= ring[:, 1].max() <= north + 1.0
        x, y = ring.T
        size = 0.5 * abs(float(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1])))
        area += size if is_land else -size
    # Land is 29 % of the globe; the coarse shorelines leave small islands out, and have ice shelves.
    assert area / (4 * np.pi * 6_371_000.0**2) == pytest.approx(0.29, abs=0.01)


WHITE, GREY_SEA, GREY_LAND = (255, 255, 255), (228, 228, 228), (203, 201, 196)
# The open ocean, far from shores, from lines at round degrees, and from the edge; then two deserts.
SEA = [(-140.3, -40.2), (-35.4, 40.4), (75.3, -35.4), (-100.4, 10.4), (165.3, 40.3), (-160.2, -55.3)]
LAND = [(10.4, 25.3), (134.4, -25.6)]


def colour_of(drawn: DrawnMap, value: float) -> np.ndarray:
    norm: Any = drawn.image.norm
    return np.asarray(drawn.image.cmap(norm(value), bytes=True))[:3].astype(int)


# Dots per inch, where it does not matter how fine a map is: half of the usual.
COARSE = 110.0
# As coarse as lines leave room between them at the pole, and in deserts.
HALF_COARSE = 165.0


# Each two of their values together.
@pytest.mark.parametrize(
    ("name", "proj", "centre", "what"),
    [
        ("equal-earth", "eqearth", None, "latitude"),
        ("equal-earth", "eqearth", 150.0, "longitude"),
        ("robinson", "robin", None, "longitude"),
        ("robinson", "robin", 150.0, "latitude"),
        ("plate-carree", None, None, "latitude"),
        ("plate-carree", None, 150.0, "longitude"),
    ],
)
def test_a_pixel_has_the_colour_of_the_value_there(
    name: str, proj: str | None, centre: float | None, what: str
) -> None:
    field = field_of("global", what)
    drawn = draw_map(field, projection=name, centre=centre, dpi=COARSE)  # type: ignore[arg-type]
    pixels = picture_of(drawn.figure)
    west = (centre or 0.0) - 180.0
    forward = pyproj.Proj(f"+proj={proj} +R=6371000 +lon_0={centre or 0.0}") if proj else None
    for longitude, latitude in SEA:
        value = latitude if what == "latitude" else longitude / 3
        expected = colour_of(drawn, value)
        at = forward(longitude, latitude) if forward else (west + (longitude - west) % 360.0, latitude)
        shown = pixel_at(drawn.axes, *at, picture=pixels)
        assert np.abs(expected - shown).max() <= 3, (longitude, latitude)


def test_where_there_is_no_data_land_and_sea_are_greys_and_outside_is_white() -> None:
    field = field_of("global")
    field.values[:, :] = np.nan
    field.values[0, 0] = 1.0
    drawn = draw_map(field, dpi=HALF_COARSE)
    assert drawn.projection.name == "equal-earth"
    pixels = picture_of(drawn.figure)
    forward = pyproj.Proj("+proj=eqearth +R=6371000")
    assert {pixel_at(drawn.axes, *forward(*point), picture=pixels) for point in SEA} == {GREY_SEA}
    assert {pixel_at(drawn.axes, *forward(*point), picture=pixels) for point in LAND} == {GREY_LAND}
    west, east, south, north = drawn.projection.bounds
    corners = [(x, y) for x in (0.99 * west, 0.99 * east) for y in (0.98 * south, 0.98 * north)]
    assert {pixel_at(drawn.axes, *corner, picture=pixels) for corner in corners} == {WHITE}


def test_a_pixel_of_the_picture_is_a_pixel_of_the_cells() -> None:
    """Noise, so that a shift by a part of a pixel would be seen."""
    field = field_of("global")
    field.values[:] = np.random.default_rng(0).uniform(0.0, 30.0, field.values.shape)
    drawn = draw_map(field)
    pixels, box = picture_of(drawn.figure), drawn.axes.get_window_extent()
    shown: Any = np.ma.asarray(drawn.image.get_array())
    top, left = round(pixels.shape[0] - box.y1), round(box.x0)
    height, width = shown.shape
    assert (round(box.width), round(box.height)) == (width, height)
    assert width >= 1900
    expected = np.asarray(drawn.image.cmap(drawn.image.norm(shown), bytes=True))[..., :3].astype(int)
    found = pixels[top : top + height, left : left + width].astype(int)
    same = np.abs(expected - found).max(axis=2) <= 1
    assert same[~np.ma.getmaskarray(shown)].mean() > 0.85  # the others are under lines


@pytest.mark.parametrize(("name", "proj"), [("equal-earth", "eqearth"), ("robinson", "robin"), ("plate-carree", None)])
def test_significant_cells_have_dots_and_their_colours_and_others_are_pale(
    name: ProjectionChoice, proj: str | None
) -> None:
    field = field_of("global", "longitude")
    northern = np.repeat(field.latitudes[:, None] > 0.0, grid.ERA5_GRID.columns, axis=1)
    marked = dataclasses.replace(field, stippled=northern)
    drawn, plain = (draw_map(one, projection=name, dpi=COARSE) for one in (marked, field))
    with_marks, without = picture_of(drawn.figure).astype(int), picture_of(plain.figure).astype(int)
    differs = np.abs(with_marks - without).max(axis=2) > 40
    forward = pyproj.Proj(f"+proj={proj} +R=6371000") if proj else None
    equator = with_marks.shape[0] - drawn.axes.transData.transform((0.0, 0.0))[1]
    north = differs[: int(equator) - 5]
    assert 750 < north.sum() < 0.1 * north.size
    for longitude, latitude in (*SEA, *LAND):
        if latitude > 0:
            continue
        at = forward(longitude, latitude) if forward else (longitude, latitude)
        full = np.array(colour_of(plain, longitude / 3))
        assert np.abs(pixel_at(plain.axes, *at, picture=without) - full).max() <= 3
        # No dot, and more white than colour.
        pale = np.array(pixel_at(drawn.axes, *at, picture=with_marks))
        np.testing.assert_allclose(pale, 255 - 0.35 * (255 - full), atol=3)


@pytest.mark.parametrize("name", ["equal-earth", "plate-carree"])
def test_cells_without_a_value_are_no_paler_than_elsewhere(name: ProjectionChoice) -> None:
    field = field_of("global")
    field.values[:300] = np.nan
    marked = dataclasses.replace(field, stippled=np.zeros(field.values.shape, dtype=bool))
    drawn = draw_map(marked, projection=name, dpi=COARSE)
    forward = pyproj.Proj("+proj=eqearth +R=6371000") if name == "equal-earth" else None
    pixels = picture_of(drawn.figure)
    for (longitude, latitude), grey in ((SEA[0], GREY_SEA), (LAND[1], GREY_LAND)):
        at = forward(longitude, latitude) if forward else (longitude, latitude)
        assert pixel_at(drawn.axes, *at, picture=pixels) == grey


@pytest.mark.parametrize(("suffix", "image"), [("pdf", b"/Subtype /Image"), ("svg", b"<image")])
def test_files_of_vectors_have_the_cells_as_an_image_and_lines_as_lines(
    suffix: str, image: bytes, tmp_path: Path
) -> None:
    save_figure(draw_map(field_of("global")).figure, tmp_path / f"map.{suffix}")
    written = (tmp_path / f"map.{suffix}").read_bytes()
    assert written.count(image) <= 3
    assert image in written
    assert len(written) < 3_000_000
    if suffix == "svg":
        assert written.count(b"<path") > 100


def test_the_picture_is_small_and_of_the_usual_size(tmp_path: Path) -> None:
    save_figure(draw_map(field_of("global"), credit="a credit line", notes=["a note"]).figure, tmp_path / "map.png")
    with Image.open(tmp_path / "map.png") as picture:
        assert 2000 < picture.width < 2400
        assert 1200 < picture.height < 1700
    assert (tmp_path / "map.png").stat().st_size < 1_000_000
