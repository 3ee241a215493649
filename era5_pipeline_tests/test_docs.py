"""The documents against the code: commands parse, settings and columns are all there, links lead somewhere."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click
import pytest
from distributed.cli import dask_scheduler, dask_worker
from PIL import Image
from typer.main import get_command

from era5_pipeline import __version__
from era5_pipeline.cli import app
from era5_pipeline.cli.demo import next_commands
from era5_pipeline.model.grid import N_LOCATIONS
from era5_pipeline.model.months import Month, month_range
from era5_pipeline.model.settings import Settings
from era5_pipeline.model.variables import DEFAULT_VARIABLES
from era5_pipeline.planning.current_contents import CurrentContents, DiskSpace
from era5_pipeline.planning.extent import Load
from era5_pipeline.planning.load_plan import make_plan

ROOT = Path(__file__).parents[1]
DOCUMENTS = (
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    ROOT / "benchmarks" / "README.md",
    *sorted((ROOT / "docs").glob("*.md")),
)
_CONSOLE = re.compile(r"```console\n(.*?)```", re.DOTALL)
_LINK = re.compile(r"\]\(([^)#]*)(?:#([^)]*))?\)")


def _commands() -> list[tuple[str, str]]:
    found = []
    for document in DOCUMENTS:
        for block in _CONSOLE.findall(document.read_text(encoding="utf-8")):
            found += [(document.name, line[2:]) for line in block.splitlines() if line.startswith("$ ")]
    return found


def _era5_arguments(command: str) -> list[list[str]]:
    """The arguments of every `era5` call in a shell line, that in `$(...)` too."""
    inner = re.findall(r"\$\((era5 [^)]*)\)", command)
    plain = re.sub(r"\$\([^)]*\)", "X", command)
    plain = plain.removeprefix("docker compose -f docker/compose.yaml run --rm ")
    plain = plain.replace(".venv/bin/python -m benchmarks ", "era5 bench ")
    calls = [plain] if plain.startswith("era5 ") else []
    return [shlex.split(call.split(" > ")[0])[1:] for call in calls + inner]


@pytest.mark.parametrize(("document", "command"), _commands())
def test_every_documented_command_is_one(document: str, command: str) -> None:
    for arguments in _era5_arguments(command):
        command_: Any = get_command(app)
        while isinstance(command_, click.Group):
            name, *arguments = arguments  # noqa: PLW2901
            command_ = command_.get_command(click.Context(command_), name)
            assert command_ is not None, f"{document}: there is no command {name}"
        command_.make_context(name, arguments)  # parses, and runs nothing
    words = shlex.split(command)
    if words[0] == "make":
        assert re.search(rf"^{re.escape(words[1])}:", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    if words[0] == ".venv/bin/dask":
        {"scheduler": dask_scheduler.main, "worker": dask_worker.main}[words[1]].make_context(words[1], words[2:])
    # The environment in ~/era5 is that of test_wheel.py.
    installed = {"python3", "~/era5/bin/pip", "~/era5/bin/era5"}
    if words[0] in {"docker", "sh"}:  # started by test_docker.py: with other ports, and another name
        assert words[:4] in (["sh", "docker/prepare"], ["docker", "compose", "-f", "docker/compose.yaml"]), command
        return
    assert words[0] in {
        "era5",
        "make",
        "psql",
        "export",
        "curl",  # serving/test_http_page.py
        ".venv/bin/dask",
        ".venv/bin/dg",
        ".venv/bin/python",
        *installed,
    }, f"{document}: nobody tests {words[0]}"


def test_the_documents_show_commands_at_all() -> None:
    assert len(_commands()) > 20


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_relative_links_lead_somewhere(document: Path) -> None:
    for target, anchor in _LINK.findall(document.read_text(encoding="utf-8")):
        if "://" in target:
            continue
        path = document.parent / target if target else document
        assert path.exists(), target
        if anchor:
            assert anchor in _anchors(path), f"{target}#{anchor}"


def _anchors(document: Path) -> set[str]:
    """What a forge calls the headings of a document."""
    headings = re.findall(r"^#+ (.+)$", document.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings}


def test_the_readme_is_short_and_the_index_lists_every_page() -> None:
    assert len((ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= 250
    index = ROOT / "docs" / "README.md"
    pages = {path.name for path in index.parent.glob("*.md")} - {index.name}
    listed = {target for target, _ in _LINK.findall(index.read_text(encoding="utf-8")) if "/" not in target}
    assert pages <= listed


def test_messages_and_settings_name_pages_that_exist() -> None:
    named = 0
    for path in (ROOT / ".env.example", *sorted((ROOT / "era5_pipeline").rglob("*.py"))):
        for page, anchor in re.findall(r"docs/([\w-]+\.md)(?:#([\w-]+))?", path.read_text(encoding="utf-8")):
            named += 1
            assert (ROOT / "docs" / page).is_file(), f"{path.name}: {page}"
            assert not anchor or anchor in _anchors(ROOT / "docs" / page), f"{path.name}: {page}#{anchor}"
    assert named > 10


def test_every_command_is_documented() -> None:
    text = (ROOT / "docs" / "commands.md").read_text(encoding="utf-8")
    for name, command in get_command(app).commands.items():  # type: ignore[attr-defined]
        assert f"`era5 {name}" in text
        for sub in command.list_commands(click.Context(command)) if isinstance(command, click.Group) else ():
            assert f"`era5 {name} {sub}" in text


def test_the_settings_example_has_every_setting_with_its_default() -> None:
    text = (ROOT / ".env.example").read_text(encoding="utf-8")
    named = dict(re.findall(r"^#ERA5_(\w+)=(.*)$", text, re.MULTILINE))
    assert set(named) == {name.upper() for name in Settings.model_fields}
    for name in ("home", "format", "allow_incomplete", "force", "lock_timeout_seconds"):
        default = Settings.model_fields[name].default
        assert named[name.upper()] == str(default).lower() if isinstance(default, bool) else str(default)


def test_the_page_of_queries_describes_every_column_with_its_unit() -> None:
    text = (ROOT / "docs" / "queries.md").read_text(encoding="utf-8")
    rows = [line for line in text.splitlines() if line.startswith("| `")]
    for variable in DEFAULT_VARIABLES:
        row = next(row for row in rows if f"`{variable.column}`" in row)
        assert variable.unit in row
        assert f"`{variable.short_name}`" in row


def test_the_commands_that_the_readme_says_work_as_they_are_are_those_of_the_demo() -> None:
    """Those that the demo prints are run, as printed, in its own test."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    _, said, after = text.partition("These commands work here as they are:\n")
    assert said
    block, _, end = after.partition("```")[0].partition("To load files")
    printed = [line.removeprefix("  ") for line in block.splitlines()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("shutil.which", lambda _: "/usr/bin/psql")
        assert printed == next_commands(".venv/bin/era5", ".era5/demo", "demo-rain.png", "demo-july.pdf")
    assert not any("..." in line or "$ " in line for line in (*printed, end))


def test_licence_attribution_and_changelog_are_there() -> None:
    assert "Apache License" in (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Contains modified Copernicus" in " ".join((ROOT / "README.md").read_text(encoding="utf-8").split())
    assert f"## [{__version__}]" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_what_a_global_year_takes_is_what_era5_plan_says() -> None:
    database = (ROOT / "docs" / "database.md").read_text(encoding="utf-8")
    choosing = (ROOT / "docs" / "choosing.md").read_text(encoding="utf-8")
    sizes = {}
    for layout in ("partitions", "hypertable", "columnstore"):
        for first, last in (("2024-01", "2024-12"), ("1940-01", "2024-12")):
            months = tuple(month_range(Month.parse(first), Month.parse(last)))
            plan = make_plan(
                Load(months, "cds"),
                CurrentContents((), layout=layout),
                DiskSpace(),
                now=datetime(2026, 11, 21, tzinfo=UTC),
                available_after_days=6,
            )
            sizes[layout, first] = plan.to_json()["table_bytes"]
    rows = [line for line in database.splitlines() if re.match(r"\| (embedded or your|TimescaleDB,)", line)]
    assert len(rows) == 3
    for row, layout in zip(rows, ("partitions", "hypertable", "columnstore"), strict=True):
        year, all_years = sizes[layout, "2024-01"], sizes[layout, "1940-01"]
        assert f"| {year / (8784 * N_LOCATIONS):.1f} | {year / 1e9:.0f} GB | {all_years / 1e12:.1f} TB |" in row
        assert f"{year / 1e9:.0f} GB |" in choosing


def test_the_pictures_of_the_documents_are_small_and_have_a_text() -> None:
    shown = set()
    for document in DOCUMENTS:
        for text, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
            assert len(text) > 40
            shown.add((document.parent / target).resolve())
    pictures = set((ROOT / "docs" / "pictures").iterdir())
    # Those of benchmarks/figures are checked with the report that draws them.
    assert {path for path in shown if "figures" not in path.parts} == {path.resolve() for path in pictures}
    assert all(path.is_file() for path in shown)
    for path in pictures:
        assert path.stat().st_size < 80_000, path.name
        with Image.open(path) as picture:
            picture.verify()


_MEASURED = re.compile(
    r"\btook [\d.,]+ (?:ms|s|MB)\b|\b[Mm]edians? of (?:two|three|four|five|nine|\d+)\b|[\d.]+ (?:million )?rows/s"
)


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.relative_to(ROOT).as_posix())
def test_figures_come_from_the_results_or_name_their_day(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    # Written from results, unless they are not there yet; and what a command prints.
    text = re.sub(
        r"<!-- bench: [\w-]+ -->.*?<!-- end -->",
        lambda part: part[0] if part[0].split("-->\n", 1)[-1].startswith("Measured on 20") else "",
        text,
        flags=re.DOTALL,
    )
    text = re.sub(r"```.*?```|`[^`]*`", "", text, flags=re.DOTALL)
    for section in re.split(r"^#+ ", text, flags=re.MULTILINE):
        found = _MEASURED.search(section)
        assert found is None or re.search(r"\b20\d\d-\d\d-\d\d\b", section), f"{section.splitlines()[0]}: {found[0]}"
