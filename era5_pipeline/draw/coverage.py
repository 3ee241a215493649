"""The months that the table holds, as a figure: a panel for each area, a row for each variable."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from matplotlib.colors import ListedColormap
from matplotlib.patches import Patch

from era5_pipeline.draw import figures
from era5_pipeline.maps.styles import FAINT, INK
from era5_pipeline.model.dataset import ERA5
from era5_pipeline.model.months import Month, month_range
from era5_pipeline.model.words import counted
from era5_pipeline.read.fetch import nothing_loaded

if TYPE_CHECKING:
    from collections.abc import Sequence

    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.read.held import AreaCoverage

# From Okabe and Ito's palette: distinct for all kinds of colour blindness, and in lightness.
COLOURS = {
    "complete": "#0072B2",
    "incomplete": "#D55E00",
    "preliminary": "#56B4E9",
    "incomplete and preliminary": "#CC79A7",
    "not loaded": "#EDEDED",
}
_NUMBERS = {state: number for number, state in enumerate(COLOURS)}  # in the image

# Inches.
_LEFT, _RIGHT, _TOP, _BOTTOM = 1.95, 1.0, 1.0, 0.75
_NARROWEST, _WIDEST, _MONTH_WIDTH = 7.5, 14.0, 0.0135
_ROW, _HEADING = 0.19, 0.34
_CHARACTER, _LABEL_MARGIN = 0.064, 0.4  # for a column's name
# The most rows of the figure (6,000 pixels); a note names the others.
_MOST_ROWS = 150
_FEW_MONTHS = 72
_MOST_LABELS = 14


def coverage_figure(areas: Sequence[AreaCoverage], *, credit: str = "", dataset: Dataset = ERA5) -> Figure:
    """Draw the months of each area and variable of a data set: complete, incomplete, preliminary or not loaded.

    All panels share the time axis; right of each row is its number of complete months, out of the months of all
    areas. `credit` is printed small at the bottom.
    """
    if not areas:
        raise nothing_loaded(dataset)
    months = tuple(month_range(min(area.first for area in areas), max(area.last for area in areas)))
    # As many areas as fit, at least one.
    rows = np.cumsum([len(area.columns) for area in areas])
    shown = areas[: max(int((rows <= _MOST_ROWS).sum()), 1)]
    more = len(areas) - len(shown)
    width = min(max(len(months) * _MONTH_WIDTH, _NARROWEST), _WIDEST)
    note = f"{more:,} smaller areas are not drawn: the table of era5 status --coverage has all"
    notes = figures.wrapped_notes([note] if more else [], width)
    bottom = _BOTTOM + figures.notes_height(notes)
    heights = [len(area.columns) * _ROW for area in shown]
    longest = max(len(column) for area in shown for column in area.columns)
    left = max(_LEFT, _LABEL_MARGIN + longest * _CHARACTER)
    figure = figures.new_figure(left + width + _RIGHT, bottom + sum(heights) + _HEADING * len(shown) + _TOP)
    at = figure.get_size_inches()[1] - _TOP
    for number, (area, height) in enumerate(zip(shown, heights, strict=True)):
        at -= _HEADING + height
        axes = figures.add_axes(figure, left, at, width, height)
        _draw_area(axes, area, months)
        _month_axis(axes, months, is_lowest=number == len(shown) - 1)
    variables = {column for area in areas for column in area.columns}
    figures.print_title(
        figure,
        0.3,
        "Months in the table",
        f"{months[0]} to {months[-1]}: {counted(len(months), 'month')}, {counted(len(areas), 'area')}, "
        f"{counted(len(variables), 'variable')}",
    )
    _legend(figure, dataset)
    figures.print_notes(figure, 0.3, notes)
    figures.print_credit(figure, 0.3, credit)
    return figure


def _draw_area(axes: Axes, area: AreaCoverage, months: tuple[Month, ...]) -> None:
    columns = area.columns
    first, after = months[0].number, months[-1].number + 1
    axes.imshow(
        np.array([[_NUMBERS[area.states[column].get(month, "not loaded")] for month in months] for column in columns]),
        extent=(first, after, len(columns), 0),
        aspect="auto",
        interpolation="nearest",
        cmap=ListedColormap(list(COLOURS.values())),
        vmin=-0.5,
        vmax=len(COLOURS) - 0.5,
    )
    # White seams between rows, and between months that are wide enough for them.
    axes.hlines(np.arange(1, len(columns)), first, after, color="white", linewidth=1.2)
    if len(months) <= _FEW_MONTHS:
        axes.vlines(np.arange(first + 1, after), 0, len(columns), color="white", linewidth=0.8)
    axes.set_yticks(np.arange(len(columns)) + 0.5, labels=list(columns))
    axes.set_title(area.name, fontsize=8.5, fontweight="bold", loc="left", color=INK, pad=3)
    for row, column in enumerate(columns):
        complete = len(area.months(column, "complete"))
        axes.text(
            *(1.008, row + 0.5, f"{complete:,} of {len(months):,}"),
            transform=axes.get_yaxis_transform(),
            va="center",
            fontsize=7,
            color=FAINT,
        )
    for spine in axes.spines.values():
        spine.set_visible(False)


def _month_axis(axes: Axes, months: tuple[Month, ...], *, is_lowest: bool) -> None:
    """Label years (months, if there are few) below the lowest panel only."""
    if len(months) <= _MOST_LABELS:
        shown = list(months)
    elif len(months) <= _FEW_MONTHS // 2:
        shown = [month for month in months if month.month in (1, 4, 7, 10)]
    else:
        years = months[-1].year - months[0].year + 1
        step = next(step for step in (1, 2, 5, 10, 20, 50) if years <= step * _MOST_LABELS)
        shown = [month for month in months if month.month == 1 and month.year % step == 0]
    is_by_year = len(months) > _FEW_MONTHS // 2
    places = [month.number if is_by_year else month.number + 0.5 for month in shown]
    axes.set_xticks(places, labels=[str(month.year) if is_by_year else str(month) for month in shown])
    axes.tick_params(axis="y", labelsize=7.5, length=0, colors=INK)
    axes.tick_params(axis="x", labelsize=8, width=0.5, length=3, colors=INK, labelbottom=is_lowest)
    if len(months) <= _MOST_LABELS and len(months) > _MOST_LABELS // 2:
        axes.tick_params(axis="x", labelsize=6.5)


def _legend(figure: Figure, dataset: Dataset) -> None:
    height = figure.get_size_inches()[1]
    words = {
        "incomplete": "incomplete: some place lacks an hour",
        "preliminary": f"preliminary ({dataset.preliminary_title})",
    }
    figure.legend(
        handles=[Patch(facecolor=colour, label=words.get(state, state)) for state, colour in COLOURS.items()],
        loc="upper left",
        bbox_to_anchor=(0.3 / figure.get_size_inches()[0], 1 - 0.78 / height),
        bbox_transform=figure.transFigure,
        borderaxespad=0.0,
        borderpad=0.0,
        ncols=len(COLOURS),
        fontsize=8,
        frameon=False,
        handlelength=1.2,
        columnspacing=1.4,
    )
