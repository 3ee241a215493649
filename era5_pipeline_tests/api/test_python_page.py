"""docs/python.md and docs/python.ipynb run as they are on what the demo loads, and the examples of docstrings."""

from __future__ import annotations

import doctest
import json
import subprocess
import sys
import warnings
from typing import TYPE_CHECKING, Any

from PIL import Image

from era5_pipeline.model import cf_names
from era5_pipeline.model.cf_names import STANDARD_NAMES
from era5_pipeline.model.derived_variables import DERIVED
from era5_pipeline.model.variables import VARIABLES
from era5_pipeline_tests.commands import ROOT, environment

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from era5_pipeline.postgres.connect import Warehouse

PAGE = ROOT / "docs" / "python.md"
NOTEBOOK = ROOT / "docs" / "python.ipynb"
# What the legend must not cover: drawn lines, the map, and texts.
_OF_THE_PICTURE = """
figure.draw_without_rendering()
(legend,) = (*figure.legends, *filter(None, (axes.get_legend() for axes in figure.axes)))
texts = [text for axes in figure.axes for text in axes.texts + [axes.title, axes.xaxis.label, axes.yaxis.label]]
boxes = [part.get_window_extent() for part in (*figure.axes, *texts, figure._supxlabel)]
print(any(legend.get_window_extent().overlaps(box) for box in boxes))
print(len(days), set(doha["temperature_2m"].resample("D").count()), int(mean.isnull().sum()))
"""


def test_the_examples_of_the_page_are_true(
    demo_table: Warehouse, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("ERA5_DATABASE_URL", demo_table.url)
    monkeypatch.chdir(tmp_path)
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    text = "\n".join("" if line.startswith("```") else line for line in lines)
    test = doctest.DocTestParser().get_doctest(text, {}, PAGE.name, str(PAGE), 0)
    assert len(test.examples) > 20
    problems: list[str] = []
    with warnings.catch_warnings():  # one of the examples makes a warning an error
        doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test, out=problems.append)
    assert not problems, "".join(problems)


def test_the_examples_of_docstrings_are_true() -> None:
    assert doctest.testmod(cf_names) == (0, 3)


def test_every_standard_name_is_of_a_variable() -> None:
    assert set(STANDARD_NAMES) <= {*DERIVED, *(variable.column for variable in VARIABLES)}


def test_the_notebook_goes_from_open_to_the_picture(demo_table: Warehouse, tmp_path: Path) -> None:
    notebook: dict[str, Any] = json.loads(NOTEBOOK.read_text(encoding="utf-8"))
    cells = ["".join(cell["source"]) for cell in notebook["cells"] if cell["cell_type"] == "code"]
    assert cells[0].startswith("import era5_pipeline as era5\n\ndb = era5.open()")
    assert all(not cell["outputs"] for cell in notebook["cells"] if cell["cell_type"] == "code")
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join((*cells, _OF_THE_PICTURE))],
        env=environment(tmp_path, PYTHONPATH=str(ROOT), ERA5_DATABASE_URL=demo_table.url, MPLBACKEND="agg"),
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    # The legend covers nothing; each of 31 days is whole; no place of the map is empty.
    assert result.stdout == "False\n31 {24} 0\n"
    with Image.open(tmp_path / "july.png") as picture:
        assert picture.size == (1100, 400)
        assert len(picture.convert("RGB").getcolors(maxcolors=1_000_000) or ()) > 100
