"""`era5 demo`: load real months that come with the project, then query them."""

import os
import shlex
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

# 2023 around Qatar; October 2018 in western Norway; one hour of the globe. Each has another netCDF layout.
FOLDERS = ("era5/gulf-2023", "era5/norway-2018-10-packed", "era5/global-2019-01-01T12-packed")
_DOHA = (25.25, 51.5)
_HARDANGER = (60.25, 7.0)
_RAIN_FROM, _RAIN_TO = "2018-10-14T06", "2018-10-14T17"
_MAP_TIME = "2019-01-01T12:00"


def demo(
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Folder for the two plots.", show_default="the current folder")
    ] = Path(),  # a path is immutable
) -> None:
    """Load real months from netCDF files, show the ledger, a series and two plots, then what to do next.

    The files come with the project. The demo has a home and an embedded server of its own, in the folder `demo` below
    ERA5_HOME; other settings are ignored, and your own data are not changed.

    \b
    Examples:
      era5 demo
      era5 demo --out pictures
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.cli.load import load
    from era5_pipeline.cli.map import map_
    from era5_pipeline.cli.series import series
    from era5_pipeline.cli.status import status
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.query.credit import era5_credit
    from era5_pipeline.runtime.data_files import data_folder

    home = read_settings().home / "demo"
    folders = [data_folder(name) for name in FOLDERS]
    pictures = out.absolute()
    here = Path.cwd()

    def shown(path: Path) -> str:
        return shlex.quote(str(path.relative_to(here) if path.is_relative_to(here) else path))

    def say(command: str) -> None:
        typer.echo(f"\n$ {command}")

    typer.echo("Real ERA5, from files that come with the project: 2023 around Qatar, October 2018 in western")
    typer.echo("Norway, and 12:00 UTC of 1 January 2019 on the whole globe.")
    typer.echo(f"{era5_credit(2018, 2023)} (licence CC BY 4.0, doi:10.24381/cds.adbb2d47).")
    say(f"export ERA5_HOME={shown(home)}")
    with _isolated_settings(home):
        options = " ".join(f"--files-dir {shown(folder)}" for folder in folders)
        say(f"era5 load {options} --allow-incomplete")
        try:
            load(files_dir=[str(folder) for folder in folders], allow_incomplete=True)
        except typer.Exit as ended:
            if ended.exit_code:
                raise
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
    era5 = shown(_program())
    typer.echo(f"\nWhat next? These commands work here as they are{_database_note()}:")
    for line in _next_commands(era5, shown(home), shown(pictures / "demo-rain.png"), shown(pictures / "demo-july.pdf")):
        typer.echo(f"  {line}")
    typer.echo(f"To load files of your own, into ERA5_HOME's default: unset ERA5_HOME; {era5} load --files-dir FOLDER")
    typer.echo(f"To delete the data of the demo: ERA5_HOME={shown(home)} {era5} db stop; rm -r {shown(home)}")


def _next_commands(era5: str, home: str, rain: str, july: str) -> list[str]:
    """Shell commands that show more of the demo's data, in the order in which they are meant to be typed."""
    latitude, longitude = _DOHA
    query = (
        "SELECT date_trunc('month', time, 'UTC') AS month, avg(temperature_2m) FROM weather "
        f"WHERE location_id = era5.at({latitude}, {longitude}) AND time >= '2023-01-01Z' GROUP BY month ORDER BY month"
    )
    return [
        f"export ERA5_HOME={home}",
        f"{era5} map --time 2018-10-14T15:00 --column total_precipitation --out {rain}",
        f"{era5} series --lat {latitude:g} --lon {longitude:g} --from 2023-07 --title 'July in Doha' --plot {july}",
        f'{_psql()} "$({era5} db url)" -c "{query}"',
        f"{era5} up",
    ]


def _program() -> Path:
    """This program as a shell finds it: by its name, or by its path where that is not on PATH."""
    called = Path(sys.argv[0]).absolute()
    on_path = shutil.which("era5")
    return Path("era5") if on_path and Path(on_path).absolute() == called else called


def _psql() -> str:
    """The command psql: the one on PATH, or that of the embedded server."""
    from era5_pipeline.postgres.embedded.server_account import binaries

    return "psql" if shutil.which("psql") else shlex.quote(str(binaries() / "psql"))


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


def _database_note() -> str:
    """A note for users whose settings name a database."""
    from era5_pipeline.model.settings import read_settings

    if read_settings().database_url is None:
        return ""
    return " (and unset ERA5_DATABASE_URL, which names another database)"
