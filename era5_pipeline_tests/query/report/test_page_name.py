"""What the file of a page may be called."""

from __future__ import annotations

from pathlib import Path

import pytest

from era5_pipeline.model.errors import UsageError
from era5_pipeline.query.report.page_name import require_page


@pytest.mark.parametrize("name", ["jakarta.html", "a/b/Jakarta.HTM", "x.y.html"])
def test_html_files_are_pages(name: str) -> None:
    require_page(Path(name), "--out")


@pytest.mark.parametrize("name", ["jakarta", "jakarta.png", ".html", "jakarta.html.txt"])
def test_other_names_are_refused_with_one_that_would_do(name: str) -> None:
    with pytest.raises(UsageError, match="a page is an HTML file") as refused:
        require_page(Path(name), "--out")
    assert ".html" in refused.value.remedy


def test_a_folder_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "pages.html"
    folder.mkdir()
    with pytest.raises(UsageError, match="a page is an HTML file"):
        require_page(folder, "--out")
