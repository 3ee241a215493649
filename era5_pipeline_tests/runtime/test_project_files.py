from __future__ import annotations

from pathlib import Path

import pytest

from era5_pipeline.model.errors import Era5Error
from era5_pipeline.runtime import project_files as sqlfiles
from era5_pipeline.runtime.project_files import read_sql

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.parametrize("path", sorted((REPOSITORY / "sql").glob("*.sql")), ids=lambda path: path.name)
def test_every_file_is_found_by_its_name(path: Path) -> None:
    assert read_sql(path.stem) == path.read_text(encoding="utf-8")
    assert read_sql(path.name) == read_sql(path.stem)


def test_a_missing_file_is_named_with_the_remedy() -> None:
    with pytest.raises(Era5Error, match=r"sql/nowhere\.sql is missing.*\n.*Install"):
        read_sql("nowhere")


def test_the_folder_in_an_installed_package_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for folder, text in (("package/sql", "SELECT 1"), ("sql", "SELECT 2")):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "first_folder.sql").write_text(text)
    (tmp_path / "sql" / "second_folder.sql").write_text("SELECT 3")
    monkeypatch.setattr(sqlfiles, "_FOLDERS", (tmp_path / "package" / "sql", tmp_path / "sql"))
    assert read_sql("first_folder") == "SELECT 1"
    assert read_sql("second_folder") == "SELECT 3"
