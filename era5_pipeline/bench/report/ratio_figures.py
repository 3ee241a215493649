"""Ratios, which machines share where rates differ: ours against the study's, the ladder against the article's."""

from __future__ import annotations

from typing import TYPE_CHECKING

from matplotlib.ticker import FuncFormatter

from era5_pipeline.bench.report.chart_style import COLOURS, OURS, chart, save_chart
from era5_pipeline.bench.report.found_results import published, published_rate, rate_of_cell
from era5_pipeline.bench.suites.ladder_suite import STEPS
from era5_pipeline.query.plots.variable_styles import FAINT, INK

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from era5_pipeline.bench.report.found_results import Results

_ROW_INCHES = 0.29
_BASE = "copy, full, psycopg3 rows"


def draw_against_study(results: Results, path: Path) -> bool:
    """Draw each way's rate over that of psycopg rows, in the study and here."""
    study = published()
    base = next(entry for entry in study["rates"] if entry["row"] == _BASE)
    ours_base, _ = published_rate(results, base, "regular")
    if ours_base is None:
        return False
    pairs: list[tuple[str, float | None, float | None]] = []
    for entry in study["rates"]:
        if entry["row"] == _BASE:
            continue
        rate, _ = published_rate(results, entry, "regular")
        ours = None if rate is None else rate.median / ours_base.median
        pairs.append((entry["row"], entry["regular"] / base["regular"], ours))
    for words, suite, name in (
        ("asyncpg records", "copy", "asyncpg records"),
        ("ADBC", "copy", "ADBC ingest"),
        ("this pipeline's loader", "copy", "our loader"),
    ):
        rate = results.rate(suite, f"{name}, regular")
        pairs.append((words, None, None if rate is None else rate.median / ours_base.median))
    _dumbbells(
        pairs,
        "Rates relative to psycopg's row-by-row COPY: the study and here",
        f"Regular table, log scale. Study: {study['study']['hardware']}. Here: {results.hardware}",
        path,
    )
    return True


def draw_ladder(results: Results, path: Path) -> bool:
    """Draw how many times as fast as the first step each is, in the article and here."""
    server = results.main_server("ladder")
    if server is None:
        return False
    cells = results.of_suite("ladder", server)
    first = rate_of_cell(cells.get(f"1. {STEPS[0].name}"))
    if first is None:
        return False
    pairs: list[tuple[str, float | None, float | None]] = []
    for number, step in enumerate(STEPS, 1):
        name = f"{number}. {step.name}"
        rate = rate_of_cell(cells.get(name))
        ours = None if rate is None else rate.median / first.median
        pairs.append((name, STEPS[0].article_seconds / step.article_seconds, ours))
    rows = next(iter(cells.values()))["rows"]
    _dumbbells(
        pairs,
        "Loading 60x faster: each step's factor since the first",
        f"Article: 27,405,000 rows, Apple M1. Here: {rows:,} rows, {server}, {results.hardware}",
        path,
        them="article",
    )
    return True


def _dumbbells(
    pairs: Sequence[tuple[str, float | None, float | None]], title: str, below: str, path: Path, them: str = "study"
) -> None:
    figure, axes = chart(title, below, height=_ROW_INCHES * len(pairs), left=3.1)
    for number, (_, theirs, ours) in enumerate(pairs):
        up = number * _ROW_INCHES
        if theirs is not None and ours is not None:
            axes.plot([theirs, ours], [up, up], color="#c9c9c9", linewidth=2, zorder=1)
        right = max(value for value in (theirs, ours, 0.0) if value is not None)
        for value, colour in ((theirs, COLOURS["regular"]), (ours, OURS)):
            if value is None:
                continue
            axes.plot([value], [up], "o", color=colour, markersize=7, zorder=2)
            is_right = value == right
            axes.annotate(
                f"{float(f'{value:.2g}'):,g} x",
                (value, up),
                (8 if is_right else -8, 0),
                textcoords="offset points",
                ha="left" if is_right else "right",
                va="center",
                fontsize=8,
                color=colour,
            )
        if ours is None:
            axes.annotate(
                "null here",
                (right or 1, up),
                (44, 0),
                textcoords="offset points",
                va="center",
                fontsize=7.5,
                color=FAINT,
            )
    axes.axvline(1, color=INK, linewidth=0.8)
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    axes.set_xlim(low / 4, high * 3)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g} x"))
    axes.set_yticks([number * _ROW_INCHES for number in range(len(pairs))], [label for label, _, _ in pairs])
    axes.set_ylim(len(pairs) * _ROW_INCHES - _ROW_INCHES * 0.4, -_ROW_INCHES * 0.6)
    axes.grid(axis="y", visible=False)
    below_axes = -0.42 / (axes.get_position().height * figure.get_size_inches()[1])
    for place, (label, colour) in enumerate(((f"● {them}", COLOURS["regular"]), ("● here", OURS))):
        axes.text(place * 0.16, below_axes, label, transform=axes.transAxes, fontsize=9, color=colour)
    save_chart(figure, path)
