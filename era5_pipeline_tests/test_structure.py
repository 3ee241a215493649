"""The structure of the package and of the benchmarks: rooms, imports that only go down, tests that mirror modules.

docs/architecture.md shows the rooms; the last tests compare it with the package.
"""

from __future__ import annotations

import ast
import re
from functools import cache
from graphlib import CycleError, TopologicalSorter
from typing import TYPE_CHECKING

import pytest

from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.conftest import ENDURANCE, SLOW_MODULES

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "era5_pipeline"
BENCHMARKS = ROOT / "benchmarks"  # beside the package, and no part of its wheel
TESTS = ROOT / "era5_pipeline_tests"
ARCHITECTURE = ROOT / "docs" / "architecture.md"

# From the bottom to the top: a room may import those before it, never one after it.
ROOMS = (
    *("model", "runtime", "postgres", "netcdf", "sources", "flat", "warehouse", "lake", "read", "climate"),
    *(
        "maps",
        "draw",
        "report",
        "export",
        "api",
        "planning",
        "monitor",
        "serving",
        "stages",
        "defs",
        "definitions",
        "cli",
        "benchmarks",
    ),
    "",  # the package itself, which hands on what Python asks by: no room may import from it
)

# The rooms that answer questions to the table.
ANSWERS = {"read", "climate", "maps", "draw", "report", "export", "api"}
# Libraries, and the only rooms that may import them; `dagster` stands for all of its packages.
ONLY_IN = {
    "dagster": {"defs", "definitions"},
    "ecmwf": {"sources"},
    "eccodes": {"netcdf"},
    "fastapi": {"serving"},
    "matplotlib": {"draw", "report", "benchmarks"},  # benchmarks: figures of results, which no other command draws
    "netCDF4": {"netcdf"},
    "pyiceberg": {"lake"},
    "psycopg": {"postgres", "warehouse", "lake", *ANSWERS, "planning", "monitor", "serving", "benchmarks", "cli"},
    "rich": {"cli", "benchmarks", "planning", "monitor"},  # the last two: only to write numbers of bytes
    "starlette": {"serving", "benchmarks"},  # benchmarks: a store's own server, as its files are read
    "typer": {"cli", "benchmarks"},
    "uvicorn": {"serving", "defs", "benchmarks"},  # defs: runs the web server of Dagster
    # api: answers as labelled arrays; benchmarks: what a user would do without a warehouse
    "xarray": {"netcdf", "sources", "api", "benchmarks"},
    "zarr": {"sources", "export", "benchmarks"},  # export, benchmarks: write it
}

# Test modules about a topic that several modules of their room share.
TOPICS = {
    "cli": {
        *(
            "test_backfill_killed",
            "test_cli",
            "test_load_failed",
            "test_load_dataset",
            "test_load_icechunk",
            "test_load_interrupted",
            "test_series_and_map",
        ),
        *("test_services_killed", "test_web_ui"),
    },
    "defs": {"test_alerts", "test_cds", "test_freshness"},
    "postgres": {"test_tls"},
    "api": {"test_python_page"},
    "draw": {"test_plots"},
    "export": {"test_export_faults", "test_export_memory"},
    "lake": {
        "test_buckets_that_fail",
        "test_clickhouse",
        "test_engines",
        "test_lake_page",
        "test_spark",
        "test_versitygw",
    },
    "report": {"test_page_in_chromium"},
    "serving": {"test_datasets", "test_fuzzed", "test_http_page"},
    "sources": {"test_ncar"},
    "sources/cds": {"test_months_together"},
    "warehouse": {
        "test_datasets",  # two data sets in one database
        "test_confirmed",
        "test_load_faults",
        "test_load_interrupted",
        "test_parts",
        "test_revised",
        "test_workers",
    },
    "warehouse/layouts": {"test_layouts"},
}


def module_name(path: Path) -> str:
    """The dotted name, without the package's: `flat.tiles`, `benchmarks.run`; of an `__init__.py`, its folder's."""
    parts = path.relative_to(PACKAGE if path.is_relative_to(PACKAGE) else ROOT).with_suffix("").parts
    return ".".join(parts).removesuffix("__init__").removesuffix(".")


FILES = {module_name(path): path for path in (*sorted(PACKAGE.rglob("*.py")), *sorted(BENCHMARKS.rglob("*.py")))}
# Without the `__init__` modules.
MODULES = sorted(name for name, path in FILES.items() if path.name != "__init__.py")
FOLDERS = sorted({module_name(path.parent / "__init__.py").replace(".", "/") for path in FILES.values()} - {""})


def room_of(module: str) -> str:
    return module.split(".", maxsplit=1)[0]


@cache
def tree(module: str) -> ast.Module:
    return ast.parse(FILES[module].read_text(encoding="utf-8"))


@cache
def imported_by(module: str) -> frozenset[str]:
    """The absolute names of what the module imports: anywhere in it, in functions and under TYPE_CHECKING too."""
    names = set()
    for node in ast.walk(tree(module)):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: a relative import"
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return frozenset(names)


@cache
def own_imports(module: str) -> set[str]:
    """Those that the module imports of `FILES`: `a.b.name` is the module `a.b` unless `a.b.name` is one."""
    own = {
        name.removeprefix("era5_pipeline").removeprefix(".")
        for name in imported_by(module)
        if name.partition(".")[0] in ("era5_pipeline", "benchmarks")
    }
    found = {name if name in FILES else name.rpartition(".")[0] for name in own}
    assert found <= set(FILES), f"{module} imports what does not exist: {found - set(FILES)}"
    return found


def modules_in(folder: str) -> list[str]:
    where = ROOT if folder == "benchmarks" else PACKAGE
    return sorted(p.stem for p in (where / folder).glob("*.py") if p.name != "__init__.py")


def test_the_top_of_the_package_has_the_known_rooms() -> None:
    assert {room_of(module) for module in FILES} == set(ROOMS)


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_room_says_what_belongs_in_it(folder: str) -> None:
    assert ast.get_docstring(tree(folder.replace("/", ".")))


def test_imports_only_go_down() -> None:
    upward = [
        f"{module} imports {imported}"
        for module in FILES
        for imported in sorted(own_imports(module))
        if ROOMS.index(room_of(imported)) > ROOMS.index(room_of(module))
    ]
    assert upward == []


def test_the_package_itself_names_only_what_python_asks_by() -> None:
    """For type checkers; at run time it imports little (api/test_open_database.py)."""
    assert {name for name in own_imports("") if not name.startswith("api.")} == {
        "model.errors",
        "model.package_version",
        "runtime.shared_libraries",
    }


def test_no_modules_import_each_other_in_a_circle() -> None:
    # A folder's `__init__` counts as one of the modules.
    try:
        TopologicalSorter({module: own_imports(module) for module in FILES}).prepare()
    except CycleError as error:
        pytest.fail(f"imports in a circle: {' -> '.join(error.args[1])}")


@pytest.mark.parametrize("library", ONLY_IN)
def test_a_library_is_imported_in_its_rooms_only(library: str) -> None:
    packages = {module: {name.split(".")[0] for name in imported_by(module)} for module in FILES}
    if library == "dagster":
        packages = {module: {name.split("_")[0] for name in names} for module, names in packages.items()}
    importing = sorted(module for module, names in packages.items() if library in names)
    assert importing, f"{library} is imported nowhere"
    assert [module for module in importing if room_of(module) not in ONLY_IN[library]] == []


def test_the_warehouse_reads_no_files_of_era5() -> None:
    """It is given flat months, though rooms below it read files."""
    importing = {module: own_imports(module) for module in FILES if room_of(module) == "warehouse"}
    assert importing
    assert not [module for module, names in importing.items() for name in names if room_of(name) == "netcdf"]
    assert not [module for module, names in importing.items() if "flat.flatten" in names]


def test_nothing_is_closed_by_handlers_of_pythons_exit() -> None:
    """What a command holds is closed before it returns: Python 3.12 starts no thread or process while it ends."""
    holding = {module for module in FILES if "atexit" in {name.split(".")[0] for name in imported_by(module)}}
    assert holding == set()
    # A database that a user's script has not closed; there is no command around it.
    finalizing = {module for module, path in FILES.items() if "weakref.finalize" in path.read_text(encoding="utf-8")}
    assert finalizing == {"api.database"}


def test_every_test_module_is_named_after_a_module_of_its_room_or_a_known_topic() -> None:
    strangers = []
    for path in sorted(TESTS.rglob("test_*.py")):
        folder = path.parent.relative_to(TESTS).as_posix()
        if folder == ".":
            continue
        assert folder in FOLDERS, f"no room {folder} for {path.name}"
        named_after = path.stem.removeprefix("test_")
        if named_after not in modules_in(folder) and path.stem not in TOPICS.get(folder, set()):
            strangers.append(f"{folder}/{path.name}")
    assert strangers == []


def test_the_modules_that_are_marked_slow_exist() -> None:
    assert {module for module in SLOW_MODULES if not (TESTS / module).is_file()} == set()


def test_what_is_marked_as_endurance_exists() -> None:
    for marked in ENDURANCE:
        module, _, test = marked.partition("::")
        assert f"def {test.partition('[')[0] or 'test_'}" in (TESTS / module).read_text(encoding="utf-8"), marked


# --- docs/architecture.md: a line for each room ----------------------------------------------------------------------


def listing() -> dict[str, str]:
    """The sentence for each room in the document's listing."""
    text = ARCHITECTURE.read_text(encoding="utf-8")
    match = re.search(r"```text\nera5_pipeline/\n(.*?)```", text, re.DOTALL)
    assert match is not None
    rooms = (line.split(maxsplit=1) for line in match[1].splitlines() if line)
    return {room.removesuffix("/"): sentence for room, sentence in rooms}


def test_the_architecture_page_lists_every_room_with_a_sentence() -> None:
    assert set(listing()) == set(FOLDERS) | {f"{module}.py" for module in MODULES if "." not in module}


def test_the_architecture_page_lists_the_rooms_from_the_bottom_to_the_top() -> None:
    tops = [room_of(room.removesuffix(".py").replace("/", ".")) for room in listing()]
    assert list(dict.fromkeys(tops)) == list(ROOMS[:-1])


# The numbers of ERA5's grid: step, half of it, rows, columns, points, westernmost meridian.
_OF_GRID = re.compile(r"(?<![\w.])(0\.25|0\.125|721|1[,_]?440|1[,_]?038[,_]?240|179\.75)(?![\d_]|[.,]\d)")
# Where such a number means something else, and what.
_OTHER_MEANINGS = {
    ("draw.climate_axes", "0.25"): "how opaque lines are",
    ("draw.climate_cell", "0.25"): "how opaque a rectangle is",
    ("draw.maps", "0.25"): "inches",
    ("draw.projected_map", "0.25"): "degrees between lines of a graticule; how opaque borders are",
    ("model.places", "0.25"): "how near to each other namesakes are the same place, degrees",
    ("model.variables", "0.25"): "the grid of ERA5 that its waves are not on",
    ("netcdf.grib", "1440"): "minutes of a day",
    ("serving.requests", "0.25"): "seconds of a histogram",
    ("sources.sample_weather", "0.25"): "the share of a belt of rain in generated clouds",
}


def numbers_of_the_grid(code: str) -> set[str]:
    """The numbers of ERA5's grid in code: as numbers, and in texts that are no docstrings."""
    tree = ast.parse(code)
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    values = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and id(node) not in docstrings]
    texts = [str(value) for value in values if isinstance(value, int | float | str) and not isinstance(value, bool)]
    return {re.sub("[,_]", "", found) for text in texts for found in _OF_GRID.findall(text)}


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("x = 1440 + 1_038_240 - 0.25", {"1440", "1038240", "0.25"}),
        (
            "x = -179.75 if f'{y} of 721' else 'id % 1440 * 0.125, 1 to 1,038,240.'",
            {"179.75", "721", "1440", "0.125", "1038240"},
        ),
        ('def f():\n    """Of 0.25 degrees."""\n    return 0.5  # 1440', set()),
        ("x = 14400 + 10.25 + 0.255 + 1721\ny = 'a0.25 0.25.1 11,440 721,5'", set()),
    ],
)
def test_numbers_of_the_grid_are_found(code: str, found: set[str]) -> None:
    assert numbers_of_the_grid(code) == found


def test_only_the_grid_knows_its_numbers() -> None:
    found = {
        (name, number)
        for name, path in FILES.items()
        if path.is_relative_to(PACKAGE) and name != "model.grid"
        for number in numbers_of_the_grid(path.read_text(encoding="utf-8"))
    }
    assert found == _OTHER_MEANINGS.keys()
