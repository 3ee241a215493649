"""`--fetch`: load a place that the table has nothing of, by `era5 load` in a process of its own, before it is asked."""

import subprocess
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from era5_pipeline.model.grid import Location
    from era5_pipeline.model.settings import Settings

Fetch = Annotated[
    bool,
    typer.Option("--fetch", help="If the table has nothing of the place, load it first, as era5 load --place does."),
]


def fetch_if_absent(settings: "Settings", location: "Location") -> None:
    """Load all hours of the location that its sources have, unless the table has any of it.

    Commands that ask for the same place at once wait for the first, and load nothing. A load that was interrupted is
    continued. It is a process of its own, with the loader's database (ERA5_FETCH_DATABASE_URL, by default
    ERA5_DATABASE_URL), so that those who read need no right to write; its progress and messages are on standard error.
    If it fails, the command ends with its exit code.
    """
    from era5_pipeline.planning.fetches import FetchFolder, PlaceFetch, fetch_command, fetch_environment
    from era5_pipeline.sources.source import locked_month

    folder = FetchFolder(settings.home, settings.wanted_dataset)
    if not folder.is_needed(location, is_held=_is_held(settings, location)):
        return
    with locked_month(
        str(location),
        folder.lock_of(location),
        lambda text: typer.echo(f"era5: {text}", err=True),
        "its progress is there",
    ):
        if not folder.is_needed(location, is_held=_is_held(settings, location)):
            return
        fetch = folder.find(location) or PlaceFetch(location.location_id, time.time(), grid=location.grid)
        folder.write(replace(fetch, state="loading"))
        environment = {**fetch_environment(settings), "ERA5_DATASET": settings.dataset}
        # Standard output is for the answer.
        done = subprocess.run(  # noqa: S603  # our own command
            fetch_command(location), env=environment, stdout=2, check=False
        )
        folder.end(fetch, done.returncode)
    if done.returncode:
        raise typer.Exit(done.returncode)


def _is_held(settings: "Settings", location: "Location") -> bool:
    from era5_pipeline.model.errors import NoDatabaseError
    from era5_pipeline.planning.fetches import is_held
    from era5_pipeline.postgres.connect import open_connection

    try:
        with open_connection(settings, "looking for the place") as connection:
            return is_held(connection, location)
    except NoDatabaseError:
        return False


def require_may_fetch(settings: "Settings") -> None:
    """Require what `era5 serve --fetch` needs to load places: a source, its library, and a user who may load."""
    from era5_pipeline.cli.options import place_overrides
    from era5_pipeline.model.question import COMMAND, asked_place
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.model.source_kinds import source_kind
    from era5_pipeline.planning.fetches import require_loader
    from era5_pipeline.sources.cds.service import has_key
    from era5_pipeline.sources.open_source import source_of
    from era5_pipeline.sources.zarr.icechunk_objects import is_icechunk, require_icechunk
    from era5_pipeline.sources.zarr.presets import access_of

    if settings.source is None and not has_key():
        require_icechunk()  # of the open store, the only source then
    chosen = read_settings(**place_overrides(None, asked_place(COMMAND, None, 0.0, 0.0), None))
    known = [name for name in chosen.source_names if source_kind(name).is_known_store]
    if any(map(is_icechunk, [chosen.zarr_url or "", *(access_of(chosen.of_source(name)).url for name in known)])):
        require_icechunk()
    source_of(chosen)
    require_loader(settings)
