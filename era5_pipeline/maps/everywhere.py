"""The answer of `era5 climate --everywhere`: trends and normals at every place, as rows, as a map and in sentences.

The rows are computed in `era5_pipeline.climate.everywhere`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.compute as pc

from era5_pipeline.climate import everywhere
from era5_pipeline.climate.answer import YearSpan
from era5_pipeline.climate.question import parse_year
from era5_pipeline.climate.trends import significant_in_field
from era5_pipeline.lake.open_lake import open_lake
from era5_pipeline.maps.question import TrendQuestion
from era5_pipeline.maps.read import NO_SIGNIFICANCE, significance_words, trend_field
from era5_pipeline.model.errors import NoDataError, UsageError
from era5_pipeline.model.location_set import LocationSet
from era5_pipeline.postgres.dataset_connection import dataset_of
from era5_pipeline.read.fetch import nothing_loaded
from era5_pipeline.read.held import months_held

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    import pyarrow as pa

    from era5_pipeline.climate.everywhere import Engine, EverywhereQuestion
    from era5_pipeline.climate.question import YearPart
    from era5_pipeline.maps.fields import FieldMap
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.read.credit import DataOrigin


@dataclass(frozen=True, eq=False)
class EverywhereAnswer:
    """The rows of the table `weather_trend` for each part of the year, and where the hours behind them come from."""

    question: EverywhereQuestion
    rows: pa.Table
    origin: DataOrigin

    def field(self) -> tuple[FieldMap, list[str]]:
        """The map of the question's only part, and lines that say what is missing on it."""
        question, (part,) = self.question, self.question.parts
        when, drawn = part.in_years(question.years), self.rows.filter(self.rows.column("slope").is_valid())
        if not drawn.num_rows:
            raise NoDataError(f"no place has a trend of {when}", remedy="A trend needs 20 complete years.")
        field = trend_field(
            question.variable,
            TrendQuestion(part, question.years, question.statistic),
            LocationSet.of_ids(drawn.column("location_id").to_numpy(), question.grid),
            drawn.column("slope").to_numpy(),
            None if self.origin.notice else significant_in_field(drawn.column("p").to_numpy()),
            f"{when}, {int(drawn.column('years').to_numpy().max())} complete years",
        )
        without = self.rows.num_rows - drawn.num_rows
        return field, [f"{without:,} places have too few complete years for a trend"] if without else []

    @property
    def lines(self) -> list[str]:
        """The answer in sentences: the notice of generated data, one for each part of the year, and the credit."""
        notice = [self.origin.notice] if self.origin.notice else []
        return [*notice, *map(self._summary, self.question.parts), self.origin.credit]

    def _summary(self, part: YearPart) -> str:
        question = self.question
        own = self.rows.filter(pc.equal(self.rows.column("part"), part.code))
        name = f"{question.variable.column} {part.in_years(question.years)}"
        trends = own.filter(own.column("slope").is_valid())
        if not trends.num_rows:
            return f"{name}: no trend, at most {pc.max(own.column('years')).as_py() or 0} complete years"
        said = NO_SIGNIFICANCE if self.origin.notice else significance_words(trends.column("p").to_numpy())
        unit = question.variable.unit
        normal = everywhere.mean_over_places(own, "normal", question.grid)
        return (
            f"{name}: a trend at {trends.num_rows:,} of {own.num_rows:,} places, {said}; "
            f"their mean {everywhere.mean_over_places(trends, 'slope', question.grid):+.3f} {unit} per decade"
            + ("" if normal != normal else f"; normal {question.baseline}: {normal:.2f} {unit}")  # noqa: PLR0124  # NaN
        )


def read_everywhere(
    connection: psycopg.Connection[Any], settings: Settings, question: EverywhereQuestion, engine: Engine
) -> EverywhereAnswer:
    """Compute the answer, from the warehouse's summaries, or from the hours of the lake by Dask or Spark."""
    origin = everywhere.read_origin_of(connection, question)
    return EverywhereAnswer(
        question, everywhere.all_rows(question, _blocks(connection, settings, question, engine), origin), origin
    )


def _blocks(
    connection: psycopg.Connection[Any], settings: Settings, question: EverywhereQuestion, engine: Engine
) -> Iterator[pa.Table]:
    if engine == "warehouse":
        return everywhere.answers_of_warehouse(connection, question)
    tasks = everywhere.lake_tasks(connection, open_lake(settings), question)
    if engine == "spark":
        return everywhere.answers_of_spark(tasks)
    return everywhere.answers_of_dask(tasks, settings.dask_scheduler)


def years_between(connection: psycopg.Connection[Any], first: str | None, last: str | None) -> YearSpan:
    """The years asked for; by default from the first to the last of the table."""
    held = sorted(months_held(connection))
    dataset = dataset_of(connection)
    if not held:
        raise nothing_loaded(dataset)
    span = YearSpan(parse_year(first) if first else held[0].year, parse_year(last) if last else held[-1].year)
    if span.first > span.last:
        raise UsageError(f"the years {span} are empty", remedy="Give the earlier year first.")
    dataset.require_months(span.starts)
    return span
