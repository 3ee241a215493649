"""Output shared by all commands: lines that tolerate a closed pipe, and problems with their remedies.

All that commands print on a terminal goes through `escaped_output` or, with styles, through `terminal`: control
characters in names, attributes and texts of others are shown, never sent.

Also tables that fold in a narrow terminal (`print_table`), and `--json` as a synonym of `--format json`
(`ResultsCommand`).
"""

import os
import re
import sys
import textwrap
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager
from typing import IO, TYPE_CHECKING, Any, TextIO

import click
import typer
from typer.core import TyperCommand, TyperOption

from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.months import Month, spans

if TYPE_CHECKING:
    from rich.console import Console, RenderableType
    from rich.table import Table

_COLUMNS_OF_A_PIPE = 100
_NO_BREAK = "\N{NO-BREAK SPACE}"
_WAITED = re.compile(r" \(waited [^()]*\)")
_REQUEST_ID = re.compile(r"\b[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")

# Controls of C0 but tab and newline, of C1, and marks that reverse the order of what follows: a terminal obeys them.
_CONTROLS = {
    code: f"\\u{code:04x}"
    for code in (*range(9), *range(11, 32), *range(127, 160), *range(0x202A, 0x202F), *range(0x2066, 0x206A))
}


def escaped(text: str) -> str:
    """The text with control characters as JSON writes them; tabs and newlines stay."""
    return text if text.isascii() and text.isprintable() else text.translate(_CONTROLS)


def one_line(message: str) -> str:
    """An error's message, in which a newline can only come from a name or text of others."""
    return message.replace("\n", "\\u000a")


class _EscapedStream:
    """A stream whose text is escaped. Rich finds the original by `rich_proxied_file`, and sends it its own controls."""

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        if not isinstance(text, str):  # how click finds out whether a stream takes bytes
            raise TypeError(f"a string is written, not {type(text).__name__}")
        self.rich_proxied_file.write(escaped(text))
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # those of the stream
        return getattr(self.rich_proxied_file, name)


@contextmanager
def escaped_output() -> Iterator[None]:
    """Escape what this process writes to standard output and standard error, also logs and tracebacks."""
    streams = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (stream and _EscapedStream(stream) for stream in streams)
    try:
        yield
    finally:
        sys.stdout, sys.stderr = streams


def terminal(**options: Any) -> "Console":  # those of Console  # noqa: ANN401
    """A console of rich whose texts are escaped; a pipe or file has 100 columns, unless COLUMNS says how many."""
    from rich.console import Console, ConsoleOptions, RenderableType
    from rich.segment import Segment
    from rich.text import Text

    class Terminal(Console):
        @property
        def file(self) -> IO[str]:
            # While a bar or a status is shown, rich has put its own stream before ours.
            found = super().file
            while (behind := getattr(found, "rich_proxied_file", None)) is not None:
                found = behind
            return found

        @file.setter
        def file(self, new: IO[str]) -> None:
            self._file = new

        def render_str(self, text: str, **options: Any) -> Text:  # noqa: ANN401
            return super().render_str(escaped(text), **options)

        def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
            for segment in super().render(renderable, options):
                shown = segment.text if segment.control else escaped(segment.text)
                yield segment if shown is segment.text else Segment(shown, segment.style)

    console = Terminal(**options)
    if not (console.is_terminal or "width" in options or os.environ.get("COLUMNS", "").isdigit()):
        console.width = _COLUMNS_OF_A_PIPE  # rich would take 80, or those of the terminal that the pipe is started in
    return console


def print_line(text: str) -> None:
    """Print a line on standard output; once the reader has closed the pipe, discard it."""
    try:
        typer.echo(text)
    except BrokenPipeError:
        discard_output()


def discard_output() -> None:
    """Redirect standard output to /dev/null, including what is flushed at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def new_table(*columns: str, right: Collection[str] = (), no_wrap: Collection[str] = ()) -> "Table":
    """A table with these columns; those `right` are of numbers, and those `no_wrap` are never folded."""
    from rich.box import SIMPLE
    from rich.table import Table

    table = Table(box=SIMPLE)
    for name in columns:
        table.add_column(name, justify="right" if name in right else "left", no_wrap=name in no_wrap)
    return table


def print_table(console: "Console", table: "Table", *, labelled: Collection[str] = ()) -> None:
    """Print a table; on a narrow terminal, fold the cells of columns that may wrap, between words.

    If that is still too wide, each row becomes a paragraph, with headings for numbers and the columns `labelled`.
    """
    if narrow_columns(console, table):
        console.print(table)
        return
    headings = [" ".join(_plain(column.header).split()) for column in table.columns]
    for row in zip(*(column.cells for column in table.columns), strict=True):
        texts = []
        for column, heading, cell in zip(table.columns, headings, row, strict=True):
            text = ", ".join(filter(None, map(str.strip, _plain(cell).splitlines())))
            is_labelled = heading and (column.justify == "right" or heading in labelled)
            shown = f"{heading}: {text}" if is_labelled else text
            # A short text must stay on one line.
            texts += [shown if len(shown) > console.width // 2 else shown.replace(" ", _NO_BREAK)] if text else []
        indents = ("  " if _plain(row[0]) else "      ", "      ")
        folder = textwrap.TextWrapper(console.width, initial_indent=indents[0], subsequent_indent=indents[1])
        folder.break_long_words = folder.break_on_hyphens = False
        for line in folder.wrap("   ".join(texts)):
            console.print(line.replace(_NO_BREAK, " "), markup=False, highlight=False, soft_wrap=True)


def narrow_columns(console: "Console", table: "Table") -> bool:
    """Narrow the columns that may wrap so that the table fits without breaking words; False if that is impossible."""
    from rich.cells import cell_len

    needed = console.measure(table, options=console.options.update_width(1000)).maximum
    if needed <= console.width:
        return True
    natural, least = [], []
    for column in table.columns:
        texts = [_plain(cell) for cell in (column.header, *column.cells)]
        natural.append(max(cell_len(line) for text in texts for line in (text.splitlines() or [""])))
        words = max((cell_len(word) for text in texts for word in text.split()), default=0)
        least.append(natural[-1] if column.no_wrap else words)
    spare = console.width - (needed - sum(natural)) - sum(least)
    if spare < 0:
        return False
    more = [wide - narrow for wide, narrow in zip(natural, least, strict=True)]
    for number in sorted(range(len(more)), key=lambda number: more[number]):
        given = min(more[number], spare)
        table.columns[number].width = least[number] + given
        spare -= given
    return True


def _plain(cell: "RenderableType") -> str:
    """The text of a cell, a string or a rich object."""
    from rich.text import Text

    return cell.plain if isinstance(cell, Text) else Text.from_markup(str(cell)).plain


def grouped_problems(problems: Iterable[tuple[str, str]]) -> list[str]:
    """Return one text for each group of problems (message, remedy): problems with the same remedy share it.

    A group has its messages in order, each once, followed by the shared remedy. Groups come in the order of their first
    messages.
    """
    by_remedy: dict[str, dict[str, None]] = {}
    for message, remedy in problems:
        by_remedy.setdefault(remedy, {})[one_line(message)] = None
    return ["\n".join((*messages, f"      {remedy}")) for remedy, messages in by_remedy.items()]


def by_cause(failures: Iterable[tuple[Month, str]]) -> list[str]:
    """Return a message for each cause: a cause shared by several months is stated once, with the months.

    Differences that do not matter are removed: the month itself, waiting times, ids of requests.
    """
    groups: dict[str, dict[Month, str]] = {}
    for month, message in failures:
        groups.setdefault(_cause(month, message), {}).setdefault(month, message)
    return [
        next(iter(of.values())) if len(of) == 1 else f"{spans(sorted(of), shown=8)}: {cause}"
        for cause, of in groups.items()
    ]


def _cause(month: Month, message: str) -> str:
    text = message.removeprefix(f"{month}: ")
    # Only a separate word: in the name of a file, the month says which file it is.
    text = re.sub(rf"(?<![\w/.-]){month}(?=[\s:,;]|$)", "the month", text)
    return _REQUEST_ID.sub("...", _WAITED.sub("", text))


class ResultsCommand(TyperCommand):
    """A command that prints results: both `--json` and `--format json` work, whichever of the two it declares.

    A command that declares neither is unchanged. If its `--format` selects something else, it declares `--json`.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:  # those of TyperCommand  # noqa: ANN401
        super().__init__(*arguments, **options)
        self._flag, self._format = self._option("--json"), self._option("--format")
        self._added: str | None = None
        if self._format is None and self._flag is not None and self._flag.is_flag:
            self._added = "results_format"
            self._add(
                TyperOption(
                    param_decls=["--format", self._added],
                    type=click.Choice(["table", "json"]),
                    help="json: the same as --json.",
                )
            )
        elif self._flag is None and self._format is not None and "json" in getattr(self._format.type, "choices", ()):
            self._added = "results_as_json"
            self._add(TyperOption(param_decls=["--json", self._added], is_flag=True, help="The same as --format json."))

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse the arguments, and set the declared option from the added one."""
        try:
            rest = super().parse_args(ctx, args)
        except click.BadParameter as error:
            if self._flag is not None and error.param is self._format and "'json'" in error.message:
                raise UsageError(
                    f"--format json: {self._format.help}" if self._format else "",
                    remedy="To print results as JSON, give --json.",
                ) from None
            raise
        if self._added is None:
            return rest
        added, values = ctx.params.pop(self._added), ctx.params
        if self._flag is not None:
            _require_no_contradiction(added if values[str(self._flag.name)] else None)
            values[str(self._flag.name)] |= added == "json"
        elif self._format is not None and added:
            _require_no_contradiction(values[str(self._format.name)])
            values[str(self._format.name)] = "json"
        return rest

    def _option(self, name: str) -> click.Option | None:
        return next((one for one in self.params if isinstance(one, click.Option) and name in one.opts), None)

    def _add(self, option: click.Option) -> None:
        self.params.append(option)


def _require_no_contradiction(format_: str | None) -> None:
    if format_ not in (None, "json"):
        raise UsageError(
            f"--json and --format {format_} cannot be combined", remedy="Choose one; --json means --format json."
        )
