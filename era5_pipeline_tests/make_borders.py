"""Make `era5_pipeline/draw/borders.npz`: the borders between countries that maps show.

    npm pack world-atlas@2.0.2 && tar xzf world-atlas-2.0.2.tgz
    .venv/bin/python -m era5_pipeline_tests.make_borders package/countries-10m.json

The package world-atlas (ISC licence) holds Natural Earth's "Admin 0 - Countries", version 4.1, scale 1:10m, which is in
the public domain, as TopoJSON: arcs, each of which is an outline of one country, or the border between two. Borders are
kept, simplified to `_TOLERANCE` degrees and rounded to 180 / 32,767 degrees.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from era5_pipeline.draw import outlines

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

_TOLERANCE = 0.01


def main(topology: Path, written: Path) -> None:
    """Write the borders of a TopoJSON file of countries."""
    found = json.loads(topology.read_text(encoding="utf-8"))
    scale, translate = (np.array(found["transform"][name]) for name in ("scale", "translate"))
    users = Counter(chain.from_iterable(map(set, map(_arcs, found["objects"]["countries"]["geometries"]))))
    lines = []
    for number, arc in enumerate(found["arcs"]):
        if users[number] > 1:
            points = np.cumsum(np.array(arc), axis=0) * scale + translate
            lines.append(_rounded(points[_kept(points)]))
    lines.sort(key=lambda line: (tuple(line[0]), len(line)))
    vertices = np.concatenate(lines)
    np.savez_compressed(
        written,
        steps=np.diff(vertices, axis=0, prepend=np.zeros((1, 2), dtype=np.int16)),
        counts=np.array([len(line) for line in lines], dtype=np.uint16),
    )
    print(f"{written}: {len(lines)} lines, {len(vertices):,} points, {written.stat().st_size:,} bytes")  # noqa: T201


def _arcs(geometry: dict[str, Any]) -> Iterator[int]:
    """The numbers of all arcs of a geometry; of those that it uses backwards, too."""

    def flat(arcs: Any) -> Iterator[int]:
        for one in arcs:
            if isinstance(one, list):
                yield from flat(one)
            else:
                yield one if one >= 0 else ~one

    return flat(geometry.get("arcs", []))


def _rounded(points: npt.NDArray[np.float64]) -> npt.NDArray[np.int16]:
    return np.round(points * outlines.PER_DEGREE).astype(np.int16)


def _kept(points: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """Which points, (n,), a line needs to stay within the tolerance (Douglas and Peucker)."""
    kept = np.zeros(len(points), dtype=np.bool_)
    kept[[0, -1]] = True
    todo = [(0, len(points) - 1)]
    while todo:
        first, last = todo.pop()
        if last - first < 2:
            continue
        between, chord = points[first + 1 : last] - points[first], points[last] - points[first]
        length = float(chord @ chord)
        along = np.clip(between @ chord / length, 0.0, 1.0) if length else np.zeros(len(between))
        distances = np.linalg.norm(between - along[:, None] * chord, axis=1)
        furthest = int(distances.argmax())
        if distances[furthest] > _TOLERANCE:
            middle = first + 1 + furthest
            kept[middle] = True
            todo += [(first, middle), (middle, last)]
    return kept


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(outlines.__file__).with_name("borders.npz"))
