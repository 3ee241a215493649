"""`era5 climate --everywhere`: trends and normals at every place, as a map, a file, or the table `weather_trend`."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from era5_pipeline.cli.options import require_picture
from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import psycopg
    import pyarrow as pa

    from era5_pipeline.climate.answer import YearSpan
    from era5_pipeline.climate.everywhere import Engine, EverywhereQuestion
    from era5_pipeline.climate.question import YearPart
    from era5_pipeline.model.settings import Settings

_TABLES = (".csv", ".parquet")


@dataclass(frozen=True)
class EverywhereOptions:
    """The options of `era5 climate` that `--everywhere` uses, as they were given."""

    column: str
    area: str | None
    first: str | None
    last: str | None
    baseline: str
    season: str | None
    calendar_month: int | None
    all_parts: bool
    engine: "Engine"
    out: Path | None
    title: str | None
    save: bool


def climate_everywhere(options: EverywhereOptions) -> None:
    """Compute, show the progress, write what was asked for, and say what it is.

    Raises:
        UsageError: if the options do not go together, or one is invalid.
        NoDataError: if no place has a complete year.
    """
    from rich.console import Console

    from era5_pipeline.cli.bars import stage_bars
    from era5_pipeline.climate import everywhere
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.server_errors import server_errors
    from era5_pipeline.runtime.files import replacing

    out = options.out
    if out is None and not options.save:
        raise UsageError(
            "--everywhere needs to know where its answer goes",
            remedy="Add --out trend.png (a map), --out trend.parquet or .csv, or --save (the table weather_trend).",
        )
    if out is not None and out.suffix.lower() not in _TABLES:
        require_picture(out, "--out")
    settings = read_settings()
    with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
        with server_errors("reading which months there are"):
            question = _question(connection, options)
        with server_errors("computing trends"), stage_bars(Console(stderr=True), question.variable.column, "read"):
            rows = everywhere.all_rows(question, _blocks(connection, settings, question, options.engine))
            if options.save:
                everywhere.save(connection, question, rows)
        if out is not None and out.suffix.lower() in _TABLES:
            with replacing(out) as temporary:
                _write_table(rows, temporary, out.suffix.lower())
        elif out is not None:
            with server_errors("reading whom to credit"):
                _draw(connection, question, rows, out, options.title)
    for part in question.parts:
        typer.echo(_summary(question, part, rows))
    if options.save:
        typer.echo(f"wrote {rows.num_rows:,} rows into the table weather_trend")
    if out is not None:
        typer.echo(f"wrote {out}")


def _question(connection: "psycopg.Connection", options: EverywhereOptions) -> "EverywhereQuestion":
    from era5_pipeline.climate.anomalies import parse_baseline
    from era5_pipeline.climate.everywhere import EverywhereQuestion
    from era5_pipeline.maps.question import require_summaries, statistic_for
    from era5_pipeline.model.question import asked_area, asked_column

    variable = asked_column(options.column)
    require_summaries(variable)
    return EverywhereQuestion(
        variable=variable,
        statistic=statistic_for(variable),
        parts=_parts(options),
        years=_years(connection, options),
        baseline=parse_baseline(options.baseline),
        area=asked_area(options.area),
    )


def _parts(options: EverywhereOptions) -> "tuple[YearPart, ...]":
    from era5_pipeline.climate.question import WHOLE_YEAR, all_parts, calendar_month, season

    given = [options.season is not None, options.calendar_month is not None, options.all_parts]
    if sum(given) > 1:
        raise UsageError("--season, --calendar-month and --all-parts cannot be combined", remedy="Give one of them.")
    if options.all_parts:
        if options.out is not None and options.out.suffix.lower() not in _TABLES:
            raise UsageError("a map shows one part of the year", remedy="Leave --all-parts out, or --out of the map.")
        return all_parts()
    if options.season is not None:
        return (season(options.season),)
    return (WHOLE_YEAR if options.calendar_month is None else calendar_month(options.calendar_month),)


def _years(connection: "psycopg.Connection", options: EverywhereOptions) -> "YearSpan":
    """The years asked for; by default from the first to the last of the table."""
    from era5_pipeline.climate.answer import YearSpan
    from era5_pipeline.climate.question import parse_year
    from era5_pipeline.read.fetch import nothing_loaded
    from era5_pipeline.read.held import months_held

    held = sorted(months_held(connection))
    if not held:
        raise nothing_loaded()
    first = parse_year(options.first) if options.first else held[0].year
    last = parse_year(options.last) if options.last else held[-1].year
    if first > last:
        raise UsageError(f"the years {first}-{last} are empty", remedy="Give the earlier year first.")
    return YearSpan(first, last)


def _blocks(
    connection: "psycopg.Connection", settings: "Settings", question: "EverywhereQuestion", engine: "Engine"
) -> "Iterator[pa.Table]":
    from era5_pipeline.climate import everywhere
    from era5_pipeline.lake.open_lake import open_lake

    if engine == "warehouse":
        return everywhere.answers_of_warehouse(connection, question)
    tasks = everywhere.lake_tasks(connection, open_lake(settings), question)
    if engine == "spark":
        return everywhere.answers_of_spark(tasks)
    return everywhere.answers_of_dask(tasks, settings.dask_scheduler)


def _write_table(rows: "pa.Table", path: Path, suffix: str) -> None:
    from era5_pipeline.climate.everywhere import csv_of

    if suffix == ".csv":
        path.write_bytes(csv_of(rows, header=True))
        return
    import pyarrow.parquet as pq

    pq.write_table(rows, path, compression="zstd")


def _draw(
    connection: "psycopg.Connection", question: "EverywhereQuestion", rows: "pa.Table", out: Path, title: str | None
) -> None:
    from era5_pipeline.draw.maps import plot_map
    from era5_pipeline.maps.question import TrendQuestion
    from era5_pipeline.maps.read import trend_field
    from era5_pipeline.model.errors import NoDataError
    from era5_pipeline.model.months import Month
    from era5_pipeline.read.credit import read_credit

    (part,) = question.parts
    has_trend = rows.filter(rows.column("slope").is_valid())
    if not has_trend.num_rows:
        raise NoDataError(
            f"no place has a trend of {part.in_years(question.years)}", remedy="A trend needs 20 complete years."
        )
    low, high = (has_trend.column(name).to_numpy() for name in ("low", "high"))
    complete = int(has_trend.column("years").to_numpy().max())
    field = trend_field(
        question.variable,
        TrendQuestion(part, question.years, question.statistic),
        has_trend.column("location_id").to_numpy(),
        has_trend.column("slope").to_numpy(),
        (low > 0) | (high < 0),
        f"{part.in_years(question.years)}, {complete} complete years",
    )
    start, end = Month(question.years.first, 1).start, Month(question.years.last, 12).end
    without = rows.num_rows - has_trend.num_rows
    notes = [f"{without:,} places have too few complete years for a trend"] if without else []
    credit = read_credit(connection, start, end, field.locations, [question.variable.column])
    plot_map(field, out, credit=credit, notes=notes, title=title)


def _summary(question: "EverywhereQuestion", part: "YearPart", rows: "pa.Table") -> str:
    import pyarrow.compute as pc

    from era5_pipeline.climate.everywhere import mean_over_places

    own = rows.filter(pc.equal(rows.column("part"), part.code))
    name = f"{question.variable.column} {part.in_years(question.years)}"
    trends = own.filter(own.column("slope").is_valid())
    if not trends.num_rows:
        return f"{name}: no trend, at most {pc.max(own.column('years')).as_py() or 0} complete years"
    significant = pc.sum(pc.or_(pc.greater(trends.column("low"), 0), pc.less(trends.column("high"), 0))).as_py()
    unit = question.variable.unit
    normal = mean_over_places(own, "normal")
    return (
        f"{name}: a trend at {trends.num_rows:,} of {own.num_rows:,} places, significant at {significant:,}; "
        f"their mean {mean_over_places(trends, 'slope'):+.3f} {unit} per decade"
        + ("" if normal != normal else f"; normal {question.baseline}: {normal:.2f} {unit}")  # noqa: PLR0124  # NaN
    )
