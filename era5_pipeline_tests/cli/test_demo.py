"""`era5 demo`: what it shows is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PIL import Image

from era5_pipeline_tests.commands import Home, new_home

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def home() -> Iterator[Home]:
    with new_home() as home:
        yield home


def test_demo_shows_two_months(home: Home) -> None:
    said = home.run("demo", "--out", str(home.path))
    assert "generated data, not ERA5" in said.err
    assert "\x1b" not in said.out + said.err
    commands = [line for line in said.out.splitlines() if line.startswith("$ ")]
    assert [line.split()[2] for line in commands] == ["load", "status", "series", "series", "map"]
    for month in ("2024-01", "2024-02"):
        assert f"\n{month}  loaded" in said.out
    for name in ("demo-series.png", "demo-map.png"):
        with Image.open(home.path / name) as picture:
            picture.load()
            assert picture.format == "PNG"
            assert picture.convert("L").getextrema() != (255, 255)
    assert {month: entry["state"] for month, entry in home.months().items()} == {
        "2024-01": "loaded",
        "2024-02": "loaded",
    }
    assert not home.server.is_running()
