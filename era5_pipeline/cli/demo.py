"""`era5 demo`: load real months that come with the project, then query them."""

import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

# 2023 around Qatar; October 2018 in western Norway; one hour of the globe. Each has another netCDF layout.
_AREAS = ("era5/gulf-2023", "era5/norway-2018-10-packed", "era5/global-2019-01-01T12-packed")
# January 2020 to May 2025 at one place.
_SERIES = "timeseries/mekong-2020-2025-csv-zip"
_SERIES_FROM = "2020"
FOLDERS = (*_AREAS, _SERIES)
_MEKONG = (10.75, 106.25)
_QUESTION = "Is it getting warmer near Ho Chi Minh City?"
_DOHA = (25.25, 51.5)
_HARDANGER = (60.25, 7.0)
_RAIN_FROM, _RAIN_TO = "2018-10-14T06", "2018-10-14T17"
_MAP_TIME = "2019-01-01T12:00"
# For who changes the place of the query.
ELSEWHERE = f"Elsewhere the table has only one hour, {_MAP_TIME} UTC: a query of other times finds nothing there."


def demo(
    *,
    out: Annotated[
        Path,
        typer.Option(
            "--out", metavar="DIR", help="Folder for the plots and the page.", show_default="the current folder"
        ),
    ] = Path(),  # a path is immutable
) -> None:
    """Load real months from files, show the ledger, a series, two plots and a page on climate, then what to do next.

    The files come with the project. The demo has a home and an embedded server of its own, in the folder `demo` below
    ERA5_HOME; other settings are ignored, and your own data are not changed.

    \b
    Examples:
      era5 demo
      era5 demo --out pictures
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.cli.map import map_
    from era5_pipeline.cli.series import series
    from era5_pipeline.cli.status import status
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.read.credit import era5_credit
    from era5_pipeline.runtime.project_files import data_folder

    home = read_settings().home / "demo"
    folders = [data_folder(name) for name in _AREAS]
    pictures = out.absolute()
    here = Path.cwd()

    def shown(path: Path) -> str:
        return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))

    def say(command: str) -> None:
        typer.echo(f"\n$ {command}")

    typer.echo("Real ERA5, from files that come with the project: 2023 around Qatar, October 2018 in western")
    typer.echo("Norway, 12:00 UTC of 1 January 2019 on the whole globe, and 2020 to May 2025 at a place near Ho Chi")
    typer.echo("Minh City.")
    typer.echo(f"{era5_credit(2018, 2025)}")
    typer.echo("(licence CC BY 4.0, doi:10.24381/cds.adbb2d47, doi:10.24381/1cf1ad76).")
    say(f"export ERA5_HOME={shown(home)}")
    # The server runs until the end, rather than starting for each command.
    with _isolated_settings(home), open_warehouse(read_settings(), create=True):
        options = " ".join(f"--files-dir {shown(folder)}" for folder in folders)
        say(f"era5 load {options} --allow-incomplete")
        _load(folders, allow_incomplete=True)
        say("era5 status")
        status()
        (latitude, longitude), picture = _HARDANGER, pictures / "demo-series.png"
        say(f"era5 series --lat {latitude:g} --lon {longitude:g} --from {_RAIN_FROM} --to {_RAIN_TO}")
        series(lat=latitude, lon=longitude, from_=_RAIN_FROM, to=_RAIN_TO)
        latitude, longitude = _DOHA
        say(f"era5 series --lat {latitude:g} --lon {longitude:g} --from 2023 --to 2023 --plot {shown(picture)}")
        series(lat=latitude, lon=longitude, from_="2023", to="2023", plot=picture)
        picture = pictures / "demo-map.png"
        say(f"era5 map --time {_MAP_TIME} --column temperature_2m --out {shown(picture)}")
        map_(time=_MAP_TIME, column="temperature_2m", out=picture)
        _show_climate(data_folder(_SERIES), pictures / "demo-climate.html", shown, say)
    era5 = shown(_program())
    is_named = read_settings().database_url is not None
    note = " (and unset ERA5_DATABASE_URL, which names another database)" if is_named else ""
    typer.echo(f"\nWhat next? These commands work here as they are{note}:")
    for line in next_commands(era5, shown(home), shown(pictures / "demo-rain.png"), shown(pictures / "demo-july.pdf")):
        typer.echo(f"  {line}")
    typer.echo(ELSEWHERE)
    typer.echo(f"To load files of your own, into ERA5_HOME's default: unset ERA5_HOME; {era5} load --files-dir FOLDER")
    typer.echo(f"To delete the data of the demo: ERA5_HOME={shown(home)} {era5} db stop; rm -r {shown(home)}")


def _load(folders: list[Path], *, allow_incomplete: bool = False) -> None:
    """Load all months of these folders."""
    from era5_pipeline.cli.load import load

    try:
        load(files_dir=[str(folder) for folder in folders], allow_incomplete=allow_incomplete)
    except typer.Exit as ended:
        if ended.exit_code:
            raise


def _show_climate(folder: Path, page: Path, shown: Callable[[Path], str], say: Callable[[str], None]) -> None:
    """Load the point series of a folder, and show its climate in the terminal and as a page."""
    from era5_pipeline.cli.climate import climate
    from era5_pipeline.cli.report import report

    latitude, longitude = _MEKONG
    # The table also has one hour of 2019 there, from the file of the whole globe.
    point = f"--lat {latitude:g} --lon {longitude:g} --from {_SERIES_FROM} --days local"
    say(f"era5 load --files-dir {shown(folder)}")
    _load([folder])
    say(f"era5 climate {point}")
    climate(lat=latitude, lon=longitude, from_=_SERIES_FROM, days="local")
    say(f"era5 report {point} --title {shlex.quote(_QUESTION)} --out {shown(page)}")
    report(out=page, lat=latitude, lon=longitude, from_=_SERIES_FROM, days="local", title=_QUESTION)


def next_commands(era5: str, home: str, rain: str, july: str) -> list[str]:
    """Shell commands that show more of the demo's data, in the order to type them."""
    from era5_pipeline.postgres.embedded.processes import binaries

    psql = "psql" if shutil.which("psql") else shlex.quote(str(binaries() / "psql"))  # else the embedded server's
    latitude, longitude = _DOHA
    query = (
        "SELECT date_trunc('month', time, 'UTC') AS month, avg(temperature_2m) FROM weather "
        f"WHERE location_id = era5.at({latitude}, {longitude}) AND time >= '2023-01-01Z' GROUP BY month ORDER BY month"
    )
    return [
        f"export ERA5_HOME={home}",
        f"{era5} map --time 2018-10-14T15:00 --column total_precipitation --out {rain}",
        f"{era5} series --lat {latitude:g} --lon {longitude:g} --from 2023-07 --title 'July in Doha' --plot {july}",
        f'{psql} "$({era5} db url)" -c "{query}"',
        f"{era5} up",
    ]


def _program() -> Path:
    """This program as called from a shell: by its name, or by its path if it is not on PATH."""
    called = Path(sys.argv[0]).absolute()
    on_path = shutil.which("era5")
    return Path("era5") if on_path and Path(on_path).absolute() == called else called


@contextmanager
def _isolated_settings(home: Path) -> Iterator[None]:
    """Use this home and no other settings, neither from the environment nor from the `.env` in this folder."""
    settings = {name: value for name, value in os.environ.items() if name.startswith(("ERA5_", "DAGSTER_"))}
    here = Path.cwd()
    home.mkdir(parents=True, exist_ok=True)
    for name in settings:
        del os.environ[name]
    os.environ["ERA5_HOME"] = str(home)
    os.chdir(home)
    try:
        yield
    finally:
        os.chdir(here)
        del os.environ["ERA5_HOME"]
        os.environ.update(settings)
