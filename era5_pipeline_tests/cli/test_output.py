"""Problems with their remedies, and `--json` and `--format json` of all commands."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import click
import netCDF4
import psycopg
import pytest
import typer
from hypothesis import given
from hypothesis import strategies as st
from rich.box import SIMPLE
from rich.console import Console
from rich.table import Table
from rich.text import Text

from era5_pipeline.cli import app
from era5_pipeline.cli.output import ResultsCommand, escaped, grouped_problems, print_table, terminal
from era5_pipeline.postgres.connect import Warehouse
from era5_pipeline.warehouse.load_month import load_month
from era5_pipeline_tests import era5_files
from era5_pipeline_tests.commands import InProcess, assert_explained, in_a_terminal

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline_tests.flat_months import FlatMonths

words = st.sampled_from("abcd")

# `--json FILE` of `era5 bench run` is a file for its measurements.
OTHER_MEANING = {("bench", "run")}


def commands(group: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(group, click.Group):
        context = click.Context(group)
        for name in group.list_commands(context):
            command = group.get_command(context, name)
            assert command is not None
            yield from commands(command, (*path, name))
    else:
        yield path, group


COMMANDS = dict(commands(typer.main.get_command(app)))


def option(command: click.Command, name: str) -> click.Option | None:
    return next((one for one in command.params if isinstance(one, click.Option) and name in one.opts), None)


def choices(command: click.Command) -> tuple[str, ...]:
    declared = option(command, "--format")
    return tuple(declared.type.choices) if declared and isinstance(declared.type, click.Choice) else ()


# Commands that print results as JSON.
WITH_JSON = [path for path in COMMANDS if path not in OTHER_MEANING and option(COMMANDS[path], "--json")]
# The one among these whose `--format` means something else.
OTHER_FORMAT = [("load",)]


def test_commands_that_print_json_take_both_options() -> None:
    assert {("load",), ("plan",), ("revise",), ("status",), ("watch",), ("series",), ("doctor",)} <= set(WITH_JSON)
    for path, command in COMMANDS.items():
        has_json = option(command, "--json") is not None and path not in OTHER_MEANING
        assert has_json == ("json" in choices(command) or path in OTHER_FORMAT), path
        assert isinstance(command, ResultsCommand) or not has_json, path


def parsed(path: tuple[str, ...], *arguments: str) -> dict[str, object]:
    """The values that the command's function would get."""
    command = COMMANDS[path]
    given_ = list(arguments)
    for parameter in command.params:
        if parameter.required:
            given_ += [parameter.opts[0], "1"] if isinstance(parameter, click.Option) else ["1"]
    with click.Context(command, info_name=path[-1]) as context:
        command.parse_args(context, given_)
    return context.params


@pytest.mark.parametrize("path", [path for path in WITH_JSON if path not in OTHER_FORMAT], ids=" ".join)
def test_json_and_format_json_mean_the_same(path: tuple[str, ...]) -> None:
    neither, short, long = parsed(path), parsed(path, "--json"), parsed(path, "--format", "json")
    assert short == long == parsed(path, "--json", "--format", "json")
    assert short != neither
    # Nothing but the declared option reaches the function.
    assert set(neither) == {one.name for one in COMMANDS[path].params} - {"results_format", "results_as_json", "help"}


@pytest.mark.parametrize("given", [".", "2020-01"])
def test_a_folder_or_month_without_an_option_is_told_which(here: InProcess, given: str) -> None:
    told = here.run("load", given, code=2)
    assert_explained(told, f"'{given}' belongs to none", f"--files-dir {given}. Months: --from")
    files_dir = option(COMMANDS[("load",)], "--files-dir")
    assert files_dir is not None
    assert "folder of ERA5 files, a file" in str(files_dir.help)


@pytest.mark.parametrize(("columns", "width"), [(None, 100), ("", 100), ("70", 70), ("130", 130)])
def test_a_pipe_has_100_columns_unless_it_is_said_how_many(
    monkeypatch: pytest.MonkeyPatch, columns: str | None, width: int
) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    if columns is not None:
        monkeypatch.setenv("COLUMNS", columns)
    assert terminal(file=io.StringIO()).width == width
    assert terminal(file=io.StringIO(), width=42).width == 42


@pytest.mark.parametrize(
    "arguments",
    [("places", "Paris"), ("variables", "temp"), ("plan", "--from", "1940", "--to", "2024", "--source", "cds")],
    ids=" ".join,
)
def test_tables_fit_a_pipe_and_a_narrow_terminal_and_lose_no_word(
    here: InProcess, monkeypatch: pytest.MonkeyPatch, arguments: tuple[str, ...]
) -> None:
    wide = without_sizes(here.run(*arguments).out)
    monkeypatch.delenv("COLUMNS")
    printed = here.run(*arguments).out
    assert max(len(line) for line in printed.splitlines() if not line.endswith("t2m, u10, v10, tcc, tp, sf")) <= 100
    assert sorted(without_sizes(printed)) == sorted(wide)
    here.set(COLUMNS="80")
    narrow = here.run(*arguments).out
    assert "…" not in printed + narrow
    # As paragraphs, with other headings: names, cells and numbers stay whole.
    facts = {word.strip(":,") for word in wide if re.search(r"[\d_/]", word)}
    assert facts <= {word.strip(":,") for word in without_sizes(narrow)}


def without_sizes(text: str) -> list[str]:
    """The words of a table, without the free disk space, which changes from one command to the next."""
    return [word for word in re.sub(r"(free disk|has)\s+[\d.]+\s+\w+", "", text).split() if "─" not in word]


@pytest.mark.parametrize("path", [path for path in WITH_JSON if path not in OTHER_FORMAT], ids=" ".join)
def test_json_and_another_format_are_refused(here: InProcess, path: tuple[str, ...]) -> None:
    for other in set(choices(COMMANDS[path])) - {"json"}:
        needed = [word for one in COMMANDS[path].params if one.required for word in (one.opts[0], "1")]
        printed = here.run(*path, *needed, "--json", "--format", other, code=2)
        assert_explained(printed, f"--json and --format {other} cannot be combined", "--format json")


def test_the_format_of_flat_files_names_json(here: InProcess) -> None:
    printed = here.run("load", "--from", "2020-01", "--format", "json", code=2)
    assert_explained(printed, "--format json: Format of flat files", "give --json")
    assert "'parquet', 'csv'" in " ".join(here.run("load", "--format", "xml", code=2).err.split())


@given(st.lists(st.tuples(words, words)))
def test_every_message_is_in_the_group_of_its_remedy_once(problems: list[tuple[str, str]]) -> None:
    groups = [tuple(group.split("\n")) for group in grouped_problems(problems)]
    assert [group[-1].strip() for group in groups] == list(dict.fromkeys(remedy for _, remedy in problems))
    for *messages, remedy in groups:
        assert messages == list(dict.fromkeys(message for message, of in problems if of == remedy.strip()))


@pytest.mark.parametrize("width", [200, 40, 30, 12])
def test_a_table_folds_between_words_and_becomes_paragraphs_before_a_word_is_cut(
    width: int, capsys: pytest.CaptureFixture[str]
) -> None:
    table = Table(box=SIMPLE)
    table.add_column("name", no_wrap=True)
    table.add_column("rows", justify="right", no_wrap=True)
    table.add_column("description")
    table.add_row("zonal_wind_10m", "4,464", "one two three four five six")
    table.add_row("", "", "[b]seven[/b]")  # no number: no heading either
    table.add_row(Text("sf [mm]"), "1", "")
    print_table(Console(width=width), table)
    printed = capsys.readouterr().out
    words = set(printed.split())
    assert {"zonal_wind_10m", "4,464", "one", "two", "three", "four", "five", "six", "seven", "sf", "[mm]"} <= words
    assert "…" not in printed
    assert ("rows: 4,464" in " ".join(printed.split())) is (width < 40)
    assert ("one two three four five six" in printed) is (width == 200)


# What a terminal obeys: erase the screen, set the title, turn the direction of text, start a line over.
HOSTILE = "\x1b[2J\x1b]0;mine\x07\x9b31m\u202e\rloaded"


def controls(text: str) -> set[str]:
    return {
        sign for sign in text if sign not in "\n\t" and (ord(sign) < 32 or 127 <= ord(sign) < 160 or sign == "\u202e")
    }


def test_control_characters_of_files_are_shown_and_not_sent(here: InProcess, tmp_path: Path) -> None:
    (path,) = era5_files.write(tmp_path / "files", era5_files.weather(era5_files.hours_from("2023-07-01T00", 744)))
    with netCDF4.Dataset(path, "a") as dataset:
        dataset["t2m"].units = f"{HOSTILE}\nera5: loaded"
    name = "\x1b]0;mine\x07\nera5: loaded \x9b31m.nc"
    path.rename(path.with_name(name))
    printed = here.run("load", "--source", "files", "--files-dir", str(tmp_path / "files"), code=3)
    assert controls(printed.out + printed.err) == set()
    assert r"\u001b]0;mine\u0007\u000aera5: loaded \u009b31m.nc" in printed.err
    assert r"\u001b]0;mine\u0007\u009b31m\u202e\u000dloaded\u000aera5: loaded" in printed.err
    assert [line for line in printed.err.splitlines() if line.startswith("era5: loaded")] == []


def test_control_characters_in_the_ledger_are_shown_and_not_sent(
    database_url: str, flat_months: FlatMonths, tmp_path: Path
) -> None:
    load_month(Warehouse(database_url), flat_months())
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE era5.ledger SET source = %s, area = %s, warnings = ARRAY[%s]", (HOSTILE,) * 3)
        connection.execute(
            "INSERT INTO era5.load_attempt (month, outcome, error) VALUES ('2023-08-01', 'failed', %s)", (HOSTILE,)
        )
    for arguments in (("status",), ("drop", "--from", "2023-07")):
        with in_a_terminal(tmp_path, *arguments, ERA5_DATABASE_URL=database_url) as (_, terminal):
            terminal.read_until("Remove" if "drop" in arguments else "\r\n")
            if "drop" not in arguments:
                terminal.read_all()
        plain = re.sub(r"\x1b\[[0-9;]*m", "", terminal.written.replace("\r\n", "\n"))  # rich's own colours
        assert controls(plain) == set(), arguments
        assert r"\u001b]0;mine" in re.sub(r"\s", "", plain), arguments


def test_json_is_that_of_the_texts(database_url: str, flat_months: FlatMonths, here: InProcess) -> None:
    load_month(Warehouse(database_url), flat_months())
    with psycopg.connect(database_url) as connection:
        connection.execute("UPDATE era5.ledger SET area = %s", (HOSTILE,))
    here.set(ERA5_DATABASE_URL=database_url)
    printed = here.run("status", "--json")
    assert controls(printed.out) == set()
    assert printed.json()[0]["parts"][0]["area"] == HOSTILE


@given(st.text())
def test_escaped_text_has_no_control_characters_and_is_itself_otherwise(text: str) -> None:
    shown = escaped(text)
    assert controls(shown) == set()
    if not controls(text):
        assert "\\u" in shown or shown == text
