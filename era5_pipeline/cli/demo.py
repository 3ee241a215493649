"""`era5 demo`: the main job on two small generated months, then what can be asked of them."""

from pathlib import Path
from typing import Annotated

import typer

_MONTHS = ("2024-01", "2024-02")
_LATITUDE, _LONGITUDE = -6.25, 106.75
_PLACE = f"--lat {_LATITUDE} --lon {_LONGITUDE}"


def demo(
    *,
    out: Annotated[
        Path, typer.Option("--out", metavar="DIR", help="Where the two pictures go.", show_default="here")
    ] = Path(),  # a path is immutable
) -> None:
    """Take two generated months (around Jakarta) from netCDF to the table, then show ledger, series and two pictures.

    Generated data: plausible, not ERA5. It never replaces real months.

    \b
    Examples:
      era5 demo
      era5 demo --out pictures
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.cli.load import load
    from era5_pipeline.cli.map import map_
    from era5_pipeline.cli.series import series
    from era5_pipeline.cli.status import status

    _say(f"era5 load --from {_MONTHS[0]} --to {_MONTHS[1]} --source sample")
    try:
        load(from_=_MONTHS[0], to=_MONTHS[1], source="sample")
    except typer.Exit as ended:
        if ended.exit_code:
            raise
    _say("era5 status")
    status()
    _say(f"era5 series {_PLACE} --from 2024-02-29T12")
    series(lat=_LATITUDE, lon=_LONGITUDE, from_="2024-02-29T12")
    picture = out / "demo-series.png"
    _say(f"era5 series {_PLACE} --column temperature_2m --plot {picture}")
    series(lat=_LATITUDE, lon=_LONGITUDE, column=["temperature_2m"], plot=picture)
    picture = out / "demo-map.png"
    _say(f"era5 map --time 2024-01-15T06:00 --column temperature_2m --out {picture}")
    map_(time="2024-01-15T06:00", column="temperature_2m", out=picture)


def _say(command: str) -> None:
    typer.echo(f"\n$ {command}")
