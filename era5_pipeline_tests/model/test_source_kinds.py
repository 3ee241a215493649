"""Tests of `model/source_kinds`."""

from __future__ import annotations

import ast
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import era5_pipeline
from era5_pipeline.model.dataset import DATASETS, ERA5, ERA5_LAND
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.grid import Area
from era5_pipeline.model.settings import Settings, read_settings
from era5_pipeline.model.source_kinds import (
    DEFAULT_SOURCE,
    SOURCE_KINDS,
    SOURCE_OF_FOLDERS,
    SourceKind,
    names_of,
    require_dataset,
    source_kind,
    version_of,
)
from era5_pipeline.sources.open_source import module_of

if TYPE_CHECKING:
    from collections.abc import Iterator

PACKAGE = Path(era5_pipeline.__file__).parent
# The table, and each source's own folder; for exports, Zarr is a format.
MAY_KNOW_NAMES = (PACKAGE / "model" / "source_kinds.py", PACKAGE / "sources", PACKAGE / "export")


def test_the_setting_takes_the_sources_of_the_table_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SOURCE_KINDS:
        assert Settings(_env_file=None, source=name).source_name == name
    monkeypatch.setenv("ERA5_SOURCE", "csd")
    with pytest.raises(UsageError, match=f"ERA5_SOURCE: Input should be {names_of()}"):
        read_settings()


@pytest.mark.parametrize("name", SOURCE_KINDS)
def test_every_source_has_a_module_that_opens_it(name: str) -> None:
    assert callable(import_module(module_of(name)).open_source)


def test_names_are_listed_in_words() -> None:
    assert names_of() == "cds, arco, point, zarr, earthmover, edh, ecmwf-arco, files or sample"
    assert names_of(services=True) == "cds, arco, point, zarr, earthmover, edh or ecmwf-arco"


def test_a_source_that_the_table_does_not_have_has_no_traits() -> None:
    assert source_kind("of another version") == SourceKind("of another version")
    assert source_kind(None) == SourceKind("")


def test_every_source_has_known_data_sets_and_era5_has_every_source() -> None:
    for kind in SOURCE_KINDS.values():
        assert set(kind.datasets) <= set(DATASETS)
        require_dataset(kind.name, ERA5)


def test_a_source_without_the_data_set_says_so_and_names_those_with_it() -> None:
    require_dataset("files", ERA5_LAND)
    with pytest.raises(UsageError, match="the source arco has no ERA5-Land: it has ERA5 alone") as caught:
        require_dataset("arco", ERA5_LAND)
    assert (
        caught.value.remedy
        == "Load ERA5-Land from another source: --source cds or point or zarr or edh or ecmwf-arco or files or sample."
    )
    made_up = replace(ERA5, name="made-up")
    for name in ("files", "sample"):
        require_dataset(name, made_up)
    with pytest.raises(UsageError, match="the source cds has no ERA5"):
        require_dataset("cds", made_up)


def test_traits_fit_together() -> None:
    assert source_kind(DEFAULT_SOURCE).is_service
    assert source_kind(SOURCE_OF_FOLDERS).has_own_files
    for name, kind in SOURCE_KINDS.items():
        assert kind.name == name
        assert Area.parse(kind.default_area)
        assert kind.is_service or not (kind.is_queued or kind.downloads_globe)
        assert kind.is_service + kind.is_generated + kind.has_own_files == 1


def names_compared_in(path: Path) -> Iterator[str]:
    """Every comparison with a source's name, directly or by a constant of the module; and every table by names."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    constants = {
        target.id
        for node in tree.body
        if isinstance(node, ast.Assign | ast.AnnAssign) and node.value is not None
        for target in (node.targets if isinstance(node, ast.Assign) else [node.target])
        if isinstance(target, ast.Name) and _named_in(node.value)
    }
    for node in ast.walk(tree):
        compared: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            compared = [node.left, *node.comparators]
        elif isinstance(node, ast.MatchValue):
            compared = [node.value]
        elif isinstance(node, ast.Dict) and len(_named_in(node)) > 1:
            compared = [node]
        for part in compared:
            names = {one.id for one in ast.walk(part) if isinstance(one, ast.Name)}
            if _named_in(part) or names & constants:
                yield f"{path.relative_to(PACKAGE)}:{node.lineno}"  # type: ignore[attr-defined]


def _named_in(node: ast.AST) -> set[str]:
    return {one.value for one in ast.walk(node) if isinstance(one, ast.Constant) and one.value in SOURCE_KINDS}


def test_no_other_module_compares_against_a_sources_name() -> None:
    elsewhere = [
        path for path in PACKAGE.rglob("*.py") if not any(path.is_relative_to(allowed) for allowed in MAY_KNOW_NAMES)
    ]
    assert len(elsewhere) > 50
    assert [place for path in elsewhere for place in names_compared_in(path)] == []


@pytest.mark.parametrize(
    "text",
    [
        'if source == "cds": pass',
        'if source in ("cds", "arco"): pass',
        '_SAMPLE = "sample"\nx = [s for s in sources if s != _SAMPLE]',
        'STAGES = {"cds": "download", "arco": "download"}',
        'match source:\n    case "files": pass',
    ],
)
def test_a_comparison_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setattr(f"{__name__}.PACKAGE", tmp_path)
    (tmp_path / "module.py").write_text(text)
    assert list(names_compared_in(tmp_path / "module.py"))


@pytest.mark.parametrize(
    ("expver", "version"),
    [
        ({"a": {"0001": 744}, "b": {"0001": 744}}, "final"),
        ({"a": {"0005": 744}, "b": {"0005": 744}}, "preliminary"),
        ({"a": {"0001": 7, "0005": 737}}, "mixed"),
        ({"a": {"0001": 744}, "b": {"0005": 744}}, "mixed"),
        ({"a": {"0005": 1}, "b": {"unknown": 744}}, "mixed"),
        ({"a": {"unknown": 744}}, "unknown"),
        ({"a": {"0001": 744}, "b": {"unknown": 744}}, "unknown"),
        ({"a": {"0078": 744}}, "unknown"),
        ({"a": {}, "b": {"0001": 744}}, "final"),
        ({"a": {"0005": 0, "0001": 744}}, "final"),
        ({"a": {}}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_a_month_is_final_preliminary_mixed_or_unknown_by_its_counts(
    expver: dict[str, dict[str, int]], version: str
) -> None:
    assert version_of(expver) == version


@pytest.mark.parametrize(
    ("expver", "preliminary", "version"),
    [
        ({"a": {"0001": 744, "0005": 744}}, {}, "final"),
        ({"a": {"0001": 744, "0005": 744}}, {"a": ()}, "final"),
        ({"a": {"0001": 744, "0005": 744}}, {"a": ("2024-12-31T23",)}, "mixed"),
        ({"a": {"0005": 744}}, {"a": ("2024-12-01T00 to 2024-12-31T23",)}, "preliminary"),
        ({"a": {"unknown": 744, "0005": 744}}, {}, "unknown"),
    ],
)
def test_preliminary_data_are_ignored_if_all_their_hours_have_final_data_too(
    expver: dict[str, dict[str, int]], preliminary: dict[str, tuple[str, ...]], version: str
) -> None:
    assert version_of(expver, preliminary) == version
