"""Layout of figures: canvas, axes placed in inches, title, credit, labels of degrees, and saving."""

from __future__ import annotations

from textwrap import wrap
from typing import TYPE_CHECKING

import matplotlib as mpl
from matplotlib import font_manager
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from era5_pipeline.draw.file_formats import picture_format
from era5_pipeline.maps.styles import FAINT, INK
from era5_pipeline.model.errors import UsageError
from era5_pipeline.runtime.files import replacing

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.text import Text

# Names within an SVG follow from its contents instead of being random.
mpl.rcParams["svg.hashsalt"] = "era5-pipeline"
# Letters of a PDF as TrueType: many journals refuse Type 3, and editors cannot change its text.
mpl.rcParams["pdf.fonttype"] = 42

DPI = 160
_RIGHT_OF_TITLE = 0.15  # inches
_METADATA: dict[str, dict[str, str | None]] = {
    "png": {"Software": "era5-pipeline"},
    "pdf": {"Creator": "era5-pipeline", "CreationDate": None},
    "svg": {"Creator": "era5-pipeline", "Date": None},
}
_NOTE_LINE = 0.15  # inches
_NOTE_CHARACTERS_PER_INCH = 16
_MOST_NOTE_LINES = 4
_CREDIT_CHARACTERS_PER_INCH = 18.5
_LONGEST_WORD = 12


def new_figure(width: float, height: float, dpi: float = DPI) -> Figure:
    """An empty white figure; width and height in inches."""
    figure = Figure(figsize=(width, height), dpi=dpi, facecolor="white")
    FigureCanvasAgg(figure)
    return figure


def add_axes(figure: Figure, left: float, bottom: float, width: float, height: float) -> Axes:
    """Add axes; position and size in inches."""
    across, up = figure.get_size_inches()
    return figure.add_axes((left / across, bottom / up, width / across, height / up))


def print_title(figure: Figure, left: float, title: str, below: str, *, scale: float = 1.0) -> Text:
    """Print a title and a line below it at the top, starting at `left` (inches), smaller if they are too long.

    `scale` is the size of both lines, and of the space above them, relative to large figures.

    Returns the line below.
    """
    height = figure.get_size_inches()[1]
    upper, lower = 1 - 0.42 * scale / height, 1 - 0.66 * scale / height
    size, smallest = 13.0 * scale, 7.0 * scale
    _print_line(figure, left, upper, title, size=size, smallest=smallest, weight="bold", colour=INK)
    size, smallest = 9.5 * scale, 6.0 * scale
    return _print_line(figure, left, lower, below, size=size, smallest=smallest, weight="normal", colour=FAINT)


def _print_line(
    figure: Figure, left: float, up: float, text: str, *, size: float, smallest: float, weight: str, colour: str
) -> Text:
    """Print one line starting at `left` (inches), smaller if it is too long, and cut off if that is not enough."""
    width = figure.get_size_inches()[0]
    most = (width - left - _RIGHT_OF_TITLE) * figure.dpi
    # Text of users is literal, even with two dollar signs.
    line = figure.text(left / width, up, text, fontsize=size, fontweight=weight, color=colour, parse_math=False)
    wide = line.get_window_extent().width if text else 0.0
    if wide <= most:
        return line
    # A little smaller than what would fit: letters are aligned with pixels.
    line.set_fontsize(max(0.99 * size * most / wide, smallest))
    kept = text
    while line.get_window_extent().width > most:
        kept = kept[: min(int(len(kept) * most / line.get_window_extent().width) + 1, len(kept) - 1)]
        line.set_text(f"{kept}\u2026")
    return line


def require_drawable(text: str, option: str) -> str:
    """The title on one line."""
    line = " ".join(text.split())
    font = font_manager.get_font(font_manager.findfont("DejaVu Sans"))
    lacking = "".join(dict.fromkeys(one for one in line if not font.get_char_index(ord(one))))
    if lacking:
        raise UsageError(
            f"{option}: the font of pictures lacks {' '.join(map(ascii, lacking[:10]))}",
            remedy="Write it in Latin, Greek or Cyrillic letters.",
        )
    return line


# Points of a credit on one line, on two and on three, which fit below the notes.
_CREDIT_SIZES = (6.5, 5.5, 4.5)
_CREDIT_BOTTOM = 0.05  # inches
# Of a line's width, as lines of equally many characters are not equally long.
_FILLED = 0.97


def print_credit(figure: Figure, left: float, credit: str) -> None:
    """Print the credit at the bottom, starting at `left` (inches): smaller, and on several lines, if it is long."""
    width, height = figure.get_size_inches()
    line = figure.text(left / width, 0.12 / height, credit, fontsize=_CREDIT_SIZES[0], color=FAINT)
    if not credit:
        return
    most = _FILLED * (width - left - _RIGHT_OF_TITLE) * figure.dpi
    lines = [credit]
    for count, size in enumerate(_CREDIT_SIZES, start=1):
        line.set_fontsize(size)
        lines = wrap(credit, max(int(len(credit) * most / line.get_window_extent().width), 1))
        if len(lines) <= count:
            break
    if len(lines) > 1:
        line.set_text("\n".join(lines))
        line.set_y(_CREDIT_BOTTOM / height)


def wrapped_notes(notes: Sequence[str], width: float) -> list[str]:
    """Wrap notes to at most four lines of `width` inches; the last one says how many did not fit."""
    if not notes:
        return []
    lines = [line for note in notes for line in wrap(note, int(width * _NOTE_CHARACTERS_PER_INCH))]
    if len(lines) > _MOST_NOTE_LINES:
        lines = [*lines[: _MOST_NOTE_LINES - 1], f"and {len(lines) - _MOST_NOTE_LINES + 1} more lines, as printed"]
    return lines


def notes_height(lines: Sequence[str]) -> float:
    """Inches to reserve for these lines above the credit."""
    return _NOTE_LINE * len(lines)


def print_notes(figure: Figure, left: float, lines: Sequence[str]) -> None:
    """Print the notes above the credit line, starting at `left` (inches)."""
    width, height = figure.get_size_inches()
    for number, line in enumerate(reversed(lines)):
        bottom = (0.27 + number * _NOTE_LINE) / height
        figure.text(left / width, bottom, line, fontsize=7.5, color=INK)


def longitude_label(degrees: float) -> str:
    """Label of a longitude in any range: `106.5°E`, `170°W` (for 190), `180°`."""
    degrees = (round(degrees, 4) + 180.0) % 360.0 - 180.0
    if degrees in {0.0, -180.0}:
        return f"{abs(degrees):g}°"
    return f"{abs(degrees):g}°{'E' if degrees > 0 else 'W'}"


def latitude_label(degrees: float) -> str:
    """Label of a latitude: `6.25°S`, `0°`, `25.5°N`."""
    degrees = round(degrees, 4)
    if degrees == 0.0:
        return "0°"
    return f"{abs(degrees):g}°{'N' if degrees > 0 else 'S'}"


def save_figure(figure: Figure, path: Path) -> None:
    """Write the figure as PNG, PDF or SVG, by the suffix of `path`, atomically.

    The same figure gives the same bytes: files have no date or random names.
    """
    format_ = picture_format(path)
    with replacing(path) as temporary:
        figure.savefig(temporary, format=format_, metadata=_METADATA[format_])
