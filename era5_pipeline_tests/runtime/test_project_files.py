from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.runtime import project_files as sqlfiles
from era5_pipeline.runtime.project_files import read_sql

if TYPE_CHECKING:
    from pathlib import Path


def test_a_missing_file_is_named_with_the_remedy() -> None:
    with pytest.raises(Era5Error, match=r"sql/nowhere\.sql is missing.*\n.*Install"):
        read_sql("nowhere")


def test_the_folder_in_an_installed_package_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, text in (("package/sql", "SELECT 1"), ("sql", "SELECT 2")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "first_folder.sql").write_text(text)
    (tmp_path / "sql" / "second_folder.sql").write_text("SELECT 3")
    monkeypatch.setattr(sqlfiles, "_FOLDERS", (tmp_path / "package", tmp_path))
    assert read_sql("first_folder") == "SELECT 1"
    assert read_sql("second_folder.sql") == read_sql("second_folder") == "SELECT 3"
