"""`era5 report`: a page about how the weather of a place has changed, in one file."""

from pathlib import Path
from typing import Annotated

import typer

from era5_pipeline.cli import climate_options, options
from era5_pipeline.cli.fetch import Fetch, fetch_if_absent
from era5_pipeline.model.errors import UsageError
from era5_pipeline.model.times import NORMAL_PERIOD

_SUFFIXES = (".html", ".htm")


def require_page(path: Path, option: str) -> None:
    """Require a path for a page."""
    if path.suffix.lower() not in _SUFFIXES or path.is_dir():
        raise UsageError(
            f"{option} {path}: a page is an HTML file",
            remedy=f"Give a file name that ends with .html, such as {path.stem or 'place'}.html.",
        )


def report(
    *,
    out: Annotated[Path, typer.Option("--out", metavar="FILE", help="The page: an HTML file.")],
    place: options.Place = None,
    lat: options.Latitude = None,
    lon: options.Longitude = None,
    cell: options.Cell = "nearest",
    area: climate_options.Area = None,
    from_: climate_options.From = None,
    to: climate_options.To = None,
    baseline: climate_options.Baseline = NORMAL_PERIOD,
    days: climate_options.Days = None,
    utc_offset: climate_options.Offset = None,
    title: Annotated[
        str | None,
        typer.Option(
            "--title", metavar="TEXT", help="Heading of the page.", show_default="is the place getting warmer"
        ),
    ] = None,
    fetch: Fetch = False,
    strict: options.Strict = False,
    dataset: options.Dataset = None,
) -> None:
    """Write a page about a place: is it getting warmer, by how much, how certain, and from which data.

    One HTML file with all of its pictures, which opens without network and without JavaScript, on a phone, on a desk
    and on paper. It says the same as era5 climate; what it shows: docs/climate.md.

    \b
    Examples:
      era5 report --place Jakarta --out jakarta.html
      era5 report --lat 10.75 --lon 106.25 --days local --title "Near Ho Chi Minh City" --out mekong.html
      era5 report --area -5.5/106/-7/108 --baseline 1961-1990 --out java.html
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.climate.reading import read_climate
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_connection

    require_page(out, "--out")
    settings = read_settings(dataset=dataset)
    question = climate_options.asked_climate(
        *(place, lat, lon, cell, area, from_, to, baseline, days, utc_offset), settings.wanted_dataset
    )
    if fetch and question.place.location is not None:
        fetch_if_absent(settings, question.place.location)
    with open_connection(settings, "reading the climate") as connection:
        answer = read_climate(connection, question)
    from era5_pipeline.report.page import write_page

    write_page(answer, out, title)
    typer.echo(answer.sentence)
    dates = " to ".join(f"{day:%Y-%m-%d}" for day in answer.whole_days)
    typer.echo(f"wrote {out}: {answer.place.title}, {dates} ({answer.provenance.credit})", err=True)
    options.warn_of_gaps(list(answer.provenance.gaps), strict=strict)
