"""`era5 demo`: it loads and shows real data, separate from the user's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from PIL import Image

from era5_pipeline_tests.commands import Home, new_home

if TYPE_CHECKING:
    from collections.abc import Iterator

MONTHS = ["2018-10", "2019-01", *(f"2023-{number:02d}" for number in range(1, 13))]


@pytest.fixture
def home() -> Iterator[Home]:
    with new_home() as home:
        yield home


def test_demo_shows_real_months_and_ignores_user_settings(home: Home) -> None:
    # User settings under which the demo would fail, or load into another database.
    (home.path / ".env").write_text("ERA5_VARIABLES=t2m,sf\nERA5_DATABASE_URL=postgresql://me@127.0.0.1:9/mine\n")
    printed = home.run("demo", "--out", "pictures", ERA5_AREA="-5/106/-8/108", ERA5_SOURCE="sample")
    assert "Contains modified Copernicus Climate Change Service information" in printed.out
    assert "generated" not in printed.out + printed.err
    assert "\x1b" not in printed.out + printed.err
    commands = [line for line in printed.out.splitlines() if line.startswith("$ era5")]
    assert [line.split()[2] for line in commands] == ["load", "status", "series", "series", "map"]
    # Heavy rain before the flood of 15 October 2018 in western Norway.
    assert "\n2018-10-14 15:00          10.38               1.722\n" in printed.out
    assert "1,038,240 locations, -43.44 to 42.15 degC" in printed.out
    for name in ("demo-series.png", "demo-map.png"):
        with Image.open(home.path / "pictures" / name) as picture:
            picture.load()
            assert picture.format == "PNG"
            assert picture.convert("L").getextrema() != (255, 255)
    assert "unset ERA5_DATABASE_URL" in printed.out
    assert not (home.path / "postgres").exists()

    (home.path / ".env").unlink()
    own = Home(home.path / "demo")
    assert not own.server.is_running()
    ledger = own.months()
    assert list(ledger) == MONTHS
    assert {entry["source"] for entry in ledger.values()} == {"files"}
    assert [month for month, entry in ledger.items() if entry["state"] != "loaded"] == ["2019-01"]
    assert ledger["2019-01"]["hours"] == 1

    again = home.run("demo", "--out", "pictures")
    assert again.out.count("  unchanged\n") == len(MONTHS)
