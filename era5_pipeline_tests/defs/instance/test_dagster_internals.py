"""Dagster's private and undocumented names, one test for each: a release that lacks one fails here, by its name.

The names are read from the sources, whose import would fail at the first.
"""

from __future__ import annotations

import ast
import inspect
import re
from importlib import import_module
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from dagster._serdes import ConfigurableClassData

from era5_pipeline.defs.instance.dagster_internals import STEP_LOGGER
from era5_pipeline_tests.commands import ROOT

if TYPE_CHECKING:
    from pathlib import Path

PACKAGE = ROOT / "era5_pipeline"
INSTANCE = PACKAGE / "defs" / "instance"
SOURCE = INSTANCE / "dagster_internals.py"
ELSEWHERE = sorted(
    path
    for folder in (PACKAGE, ROOT / "benchmarks", ROOT / "docker")
    for path in folder.rglob("*.py")
    if path != SOURCE
)
PRIVATE = re.compile(r"\bdagster(_\w+)?(\.\w+)*\._\w+")


def imported_names(path: Path) -> list[str]:
    """List the dotted names that the file imports from Dagster, without those imported under TYPE_CHECKING."""
    text = path.read_text(encoding="utf-8")
    if "from dagster" not in text:  # most modules: parsing them all would take a second of each worker's start
        return []
    tree = ast.parse(text)
    tree.body = [
        node for node in tree.body if not (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test))
    ]
    return [
        f"{node.module}.{alias.name}"
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("dagster")
        for alias in node.names
    ]


def undocumented_names() -> list[str]:
    """What the other modules import from inside of Dagster's packages, without an underscore: `dagster_docker.a.b`."""
    names = {name for path in ELSEWHERE for name in imported_names(path) if name.count(".") > 1}
    return sorted(names)


def modules_by_name(path: Path) -> list[str]:
    """The private modules that the file names in texts: to start one, to import them early, to silence one's log."""
    texts = {node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant)}
    return sorted(text for text in texts if isinstance(text, str) and PRIVATE.fullmatch(text))


def private_attributes(path: Path) -> list[str]:
    """The attributes with one underscore that the file uses and does not define itself."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    attributes = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and re.match(r"_[^_]", node.attr)]
    own = {node.attr for node in attributes if isinstance(node.ctx, ast.Store)}
    own |= {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
    own |= {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)}
    return [ast.unparse(node) for node in attributes if node.attr not in own]


def found(name: str) -> Any:
    """The object with this dotted name: of a module, or an attribute of a class there."""
    module, *attributes = name.split(":")
    value: Any = import_module(module)
    for attribute in attributes:
        value = getattr(value, attribute)
    return value


@pytest.mark.parametrize("name", [*imported_names(SOURCE), *undocumented_names()])
def test_name_exists(name: str) -> None:
    module, _, attribute = name.rpartition(".")
    try:
        found(f"{module}:{attribute}")
    except AttributeError:  # a module, such as the daemon's controller
        import_module(name)


def test_module_of_the_silenced_log_exists() -> None:
    import_module(STEP_LOGGER)


# Attributes that are used, overridden or replaced, each with the parameters that it is called with.
ATTRIBUTES = {
    "dagster:DefaultRunLauncher:_instance": None,
    "dagster:QueuedRunCoordinator:_instance": None,
    "dagster:DagsterInstance:create_run_for_job": {"job_def", "run_config", "tags", "remote_job_origin"},
    "dagster:DagsterInstance:optimize_for_webserver": {"statement_timeout", "pool_recycle", "max_overflow"},
    "dagster:DagsterInstance:from_config": {"config_dir", "config_filename"},
    "dagster:OpExecutionContext:log_event": {"event"},
    "dagster_postgres:DagsterPostgresStorage:__init__": {"postgres_url", "should_autocreate_tables", "inst_data"},
    "dagster_postgres:PostgresEventLogStorage:_connect": {"self"},
    "dagster_postgres:PostgresEventLogStorage:dispose": {"self"},
    "dagster_postgres:PostgresRunStorage:connect": {"self"},
    "dagster_postgres:PostgresRunStorage:dispose": {"self"},
    "dagster_postgres:PostgresRunStorage:add_run": {"self", "dagster_run"},
    "dagster_postgres:PostgresScheduleStorage:connect": {"self", "run_id"},
    "dagster._core.execution.api:execute_run": {"job", "dagster_run", "instance"},
    "dagster._core.workspace.context:WorkspaceProcessContext:__init__": {"instance", "workspace_load_target"},
    "dagster._grpc.types:ExecuteRunArgs:get_command_args": {"self"},
}


@pytest.mark.parametrize("name", ATTRIBUTES)
def test_attribute_has_the_parameters_that_are_used(name: str) -> None:
    value, used = found(name), ATTRIBUTES[name]
    if used is not None:
        assert used <= set(inspect.signature(value).parameters)


@pytest.mark.parametrize(
    "file", ["dagster.yaml", "docker/dagster-docker.yaml", "docker/kubernetes/values.yaml"], ids=str
)
def test_classes_of_the_configuration_exist(file: str) -> None:
    def classes(value: Any) -> list[tuple[str, str]]:
        if isinstance(value, list):
            return [name for one in value for name in classes(one)]
        if not isinstance(value, dict):
            return []
        own = [(value["module"], value["class"])] if {"module", "class"} <= set(value) else []
        return own + [name for one in value.values() for name in classes(one)]

    named = classes(yaml.safe_load((ROOT / file).read_text()))
    assert named
    for module, name in named:
        # Dagster's configuration names its modules without underscores.
        assert "._" not in module
        assert getattr(import_module(ConfigurableClassData(module, name, "").module_name), name)


def test_private_names_are_in_one_module() -> None:
    def names(path: Path) -> list[str]:
        return [*filter(PRIVATE.match, imported_names(path)), *modules_by_name(path)]

    assert {str(path.relative_to(ROOT)): found for path in ELSEWHERE if (found := names(path))} == {}


def test_private_attributes_are_used_in_one_module() -> None:
    used = {path.name: found for path in (PACKAGE / "defs").rglob("*.py") if (found := private_attributes(path))}
    assert used == {
        "container_launcher.py": ["context._replace"],  # the documented method of a named tuple
        "dagster_internals.py": ["plugin._instance"],
        "months_ahead.py": ["os._exit"],  # documented
    }


def test_one_private_method_is_overridden() -> None:
    modules = [import_module(f"era5_pipeline.defs.instance.{path.stem}") for path in INSTANCE.glob("[a-z]*.py")]
    overridden = {
        f"{own.__name__}.{name}"
        for module in modules
        for own in vars(module).values()
        if inspect.isclass(own) and own.__module__ == module.__name__
        for base in own.__mro__[1:]
        if base.__module__.startswith("dagster")
        for name in set(vars(own)) & set(vars(base))
        if re.match(r"_[^_]", name) and name != "_abc_impl"  # Python's own
    }
    assert overridden == {"_EventLog._connect"}


@pytest.mark.parametrize(
    "name", ["storage:WarehouseStorage", "run_launcher:ForkingRunLauncher", "run_queue:MonthQueue"]
)
def test_classes_of_a_dagster_yaml_of_earlier_versions_exist(name: str) -> None:
    assert found(f"era5_pipeline.defs.{name}") is found(f"era5_pipeline.defs.instance.{name}")
