"""What to use when, with the number that says so: the table of docs/choosing.md, calculated from results."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from era5_pipeline.bench.report.found_results import rate_of_cell
from era5_pipeline.bench.report.number_words import rows_per_second, short
from era5_pipeline.bench.report.result_tables import markdown_table

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from era5_pipeline.bench.report.found_results import Rate, Results

_OURS = "era5-pipeline"
_HELPS = 1.05
Advice = tuple[str, str, str]


def advice_table(results: Results) -> list[str]:
    """The lines of the table; what was not measured is left out."""
    makers: tuple[Callable[[Results], Advice | None], ...] = (
        _columns,
        _tuples,
        _csv,
        _single_rows,
        _connections,
        _hypertable,
        _durable,
        _not_durable,
        _place_year,
        _month_mean,
    )
    rows = [advice for make in makers if (advice := make(results)) is not None]
    text = markdown_table(("you have, or want", "take", "measured"), rows)
    text[1] = "|---|---|---|"
    return [
        f"Measured on {results.hardware}, {results.date}; regular tables, all preparation included unless said:",
        "",
        *text,
    ]


def _best(results: Results, suite: str, names: Iterable[str], figure: str = "seconds") -> tuple[str, Rate] | None:
    found = [
        (name, rate) for name in names if (rate := results.rate(suite, f"{name}, regular", figure=figure)) is not None
    ]
    return max(found, key=lambda one: one[1].median, default=None)


def _columns(results: Results) -> Advice | None:
    ours, base = results.rate("copy", "our loader, regular"), results.rate("copy", "psycopg rows, regular")
    if ours is None or base is None:
        return None
    best = _best(results, "copy", ("our loader", "ADBC ingest", "pgpq from memory"))
    assert best is not None  # noqa: S101  # ours is one of them
    more = "" if best[0] == "our loader" else f"; fastest: {best[0]}, {rows_per_second(best[1].median)}"
    return (
        "columns: netCDF, Parquet, Arrow",
        "`era5 load`, or binary COPY of Arrow (pgpq, ADBC) into tables of your own",
        f"{rows_per_second(ours.median)} rows/s with its Parquet file, {short(ours.median / base.median)} times "
        f"psycopg's rows{more}",
    )


def _tuples(results: Results) -> Advice | None:
    best = _best(results, "copy", ("psycopg rows", "psycopg binary rows", "asyncpg records"))
    base = results.rate("copy", "psycopg rows, regular")
    if best is None or base is None:
        return None
    return (
        "tuples in Python",
        f"COPY, never INSERT: {best[0]}",
        f"{rows_per_second(best[1].median)} rows/s; psycopg rows {rows_per_second(base.median)}",
    )


def _csv(results: Results) -> Advice | None:
    server = results.main_server("tools")
    tools = {
        name.removesuffix(", regular"): rate
        for name, cell in ({} if server is None else results.of_suite("tools", server)).items()
        if cell["parameters"]["table"] == "regular" and (rate := rate_of_cell(cell)) is not None
    }
    plain = results.rate("copy", "pyarrow CSV + COPY, regular", figure="copy_seconds")
    if plain is not None:
        tools["COPY of the file"] = plain
    if not tools:
        return None
    ranked = sorted(tools, key=lambda name: -tools[name].median)
    return (
        "CSV files that are ready",
        ranked[0],
        ", ".join(f"{name} {rows_per_second(tools[name].median)}" for name in ranked[:3]) + " rows/s",
    )


def _single_rows(results: Results) -> Advice | None:
    one = results.rate("insert", "psycopg, regular")
    names = ("psycopg executemany", "psycopg multi-VALUES", "psycopg UNNEST", "SQLAlchemy", "pandas")
    best = _best(results, "multi-insert", names)
    if one is None or best is None:
        return None
    return (
        "rows that arrive a few at a time",
        f"collect some, then {best[0]}",
        f"{rows_per_second(best[1].median)} rows/s; an INSERT a row {rows_per_second(one.median)}",
    )


def _connections(results: Results) -> Advice | None:
    server = results.main_server("parallel")
    rates = {
        cell["parameters"]["workers"]: rate
        for cell in ({} if server is None else results.of_suite("parallel", server)).values()
        if (cell["parameters"]["method"], cell["parameters"]["table"]) == ("our loader", "regular")
        if (rate := rate_of_cell(cell)) is not None
    }
    if len(rates) < 2:
        return None
    best = max(rates, key=lambda count: rates[count].median)
    shown = ", ".join(f"{count}: {rows_per_second(rate.median)}" for count, rate in sorted(rates.items()))
    return "a long load", f"{best} connection{'s' if best > 1 else ''} at once, here", f"by connections {shown} rows/s"


def _seconds(results: Results, suite: str, name: str) -> float | None:
    server = results.main_server(suite)
    cell = None if server is None else results.of_suite(suite, server).get(name)
    return None if cell is None or cell["reason"] is not None else float(cell["medians"]["seconds"][1])


def _hypertable(results: Results) -> Advice | None:
    converted = _seconds(results, "conversion", "regular table, then migrate_data")
    straight = _seconds(results, "conversion", "straight into the hypertable")
    if converted is None or straight is None:
        return None
    take = "load straight into it" if straight < converted else "load a regular table, then convert it"
    return "a hypertable", take, f"straight {short(straight)} s, converted afterwards {short(converted)} s"


def _setting(results: Results, names: Iterable[str]) -> tuple[str, float] | None:
    """The setting that helps most, and its ratio to the default; None if none does."""
    server = results.main_server("settings")
    ratios: dict[str, Any] = {} if server is None else results.contents["ratios"].get(server, {}).get("settings", {})
    table = "a new table for each batch"
    found = [(name, ratios[f"{name}, {table}"]) for name in names if ratios.get(f"{name}, {table}")]
    best = max(found, key=lambda one: one[1], default=None)
    # Less than that is within what repeats differ by.
    return best if best is not None and best[1] >= _HELPS else None


def _durable(results: Results) -> Advice | None:
    names = ("wal_level=minimal", "max_wal_size=16GB", "wal_compression=pglz", "jit=off", "together, durable")
    best = _setting(results, names)
    if best is None:
        return None
    return "faster, as safe as before", f"`{best[0]}` (no replicas)", f"{short(best[1])} times the default's rate"


def _not_durable(results: Results) -> Advice | None:
    names = ("synchronous_commit=off", "full_page_writes=off", "fsync=off", "unlogged", "together, not durable")
    best = _setting(results, names)
    if best is None:
        return None
    take = f"`{best[0]}`, only for data that you can load again"
    return "faster, whatever a power failure does", take, f"{short(best[1])} times the default's rate"


def _place_year(results: Results) -> Advice | None:
    return _question(results, "place_year_warm_ms", "one place's year, again and again")


def _month_mean(results: Results) -> Advice | None:
    return _question(results, "month_mean_warm_ms", "the mean of a whole month, all places")


def _question(results: Results, figure: str, words: str) -> Advice | None:
    """Who answers it fastest; said also where that is not this project."""
    server = results.main_server("others")
    times = {
        name: cell["medians"][figure][1]
        for name, cell in ({} if server is None else results.of_suite("others", server)).items()
        if cell["reason"] is None and figure in cell["medians"]
    }
    if len(times) < 2 or _OURS not in times:
        return None
    ranked = sorted(times, key=lambda name: times[name])
    shown = ", ".join(f"{name} {short(times[name])}" for name in ranked)
    return words, "this table" if ranked[0] == _OURS else ranked[0], f"{shown} ms, warm"
