from __future__ import annotations

import ast
import hashlib
import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from era5_pipeline.model.dataset import ERA5, ERA5_LAND
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.runtime import project_files as sqlfiles
from era5_pipeline.runtime.project_files import read_sql

ROOT = Path(__file__).parents[2]
STATEMENTS = sorted(path.stem for path in (ROOT / "sql").glob("*.sql"))
DIGESTS = Path(__file__).with_name("era5_sql.json")
# Names of a data set: of its tables, views and schemas.
NAMES = re.compile(
    r"(?<![\w{/-])(weather(_daily|_monthly|_monthly_map|_trend)?\b(?!-|\.sql)|era5(_loads)?\.(?=\w)|'era5(_loads)?')"
)
STATEMENT = re.compile(
    r"\b(SELECT|FROM|INTO|UPDATE|DELETE|ALTER|CREATE|DROP|GRANT|REVOKE|COMMENT ON|COPY|WHERE|JOIN)\b"
)
# Queries that users are shown, and the lock and the name of the one catalog of a database.
NAMED_ON_PURPOSE = {
    "cli/demo.py": 1,
    "lake/pointer.py": 1,
}


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


def test_statements_of_era5_are_the_recorded_ones() -> None:
    """Compare with recorded digests; whoever changes a statement on purpose records its new one."""
    digests = {name: hashlib.sha256(read_sql(name, ERA5).encode()).hexdigest() for name in STATEMENTS}
    assert digests == json.loads(DIGESTS.read_text())


@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_names_no_data_set_by_itself(name: str) -> None:
    made_up = replace(ERA5_LAND, name="made-up", title="Made-up", table="of_hours", schema="beside")
    text = read_sql(name, made_up)
    found = [match[0] for match in NAMES.finditer(text) if match[0] != "'era5'" or name != "lake_catalog"]
    assert found == []
    # The numbers of ERA5's grid, too.
    assert not re.search(r"\b(1440|721|1038240|179\.75|0\.125)\b|(?<![\d.])0\.25\b", text)


def test_a_grid_of_tenths_is_rendered_with_its_numbers() -> None:
    functions = read_sql("functions", ERA5_LAND)
    assert "round((latitude + 90) * 10)::integer * 3600 + (round((longitude + 179.9) * 10)" in functions
    assert "era5_land.at(-30, 30.1) is 2162101" in functions
    assert "* 0.1 - 90)::real AS latitude" in read_sql("locations", ERA5_LAND)


def statements_in(path: Path) -> list[str]:
    """The texts in a module that look like statements, without its docstrings; parts of f-strings are joined."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    joined = [node for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    parts = {id(part) for node in joined for part in node.values}
    texts = ["".join(str(part.value) for part in node.values if isinstance(part, ast.Constant)) for node in joined]
    texts += [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings | parts
    ]
    return [text for text in texts if STATEMENT.search(text)]


def test_modules_take_names_in_statements_from_the_data_set() -> None:
    package = ROOT / "era5_pipeline"
    named = {
        str(path.relative_to(package)): len([text for text in statements_in(path) if NAMES.search(text)])
        for path in package.rglob("*.py")
    }
    assert {name: count for name, count in named.items() if count} == NAMED_ON_PURPOSE
