"""`era5 places`: the cities that a name may mean, each with its time zone and its grid cell."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from era5_pipeline.cli import options
from era5_pipeline.cli.output import new_table, print_table, terminal

if TYPE_CHECKING:
    from era5_pipeline.model.dataset import Dataset
    from era5_pipeline.model.places import AskedPlace


def places(
    name: Annotated[list[str], typer.Argument(metavar="NAME", help="A name; a country or state may follow a comma.")],
    *,
    as_json: Annotated[bool, typer.Option("--json", help="Print all facts of each, as JSON.")] = False,
    dataset: options.Dataset = None,
) -> None:
    """List the cities that a name may mean, and which of them --place takes.

    Names are compared without accents and case, other names of a city too. The cell is that of the data set's nearest
    grid point. Neither a database nor a network is needed.

    \b
    Examples:
      era5 places Jakarta
      era5 places Saigon
      era5 places "Paris, US"
      era5 places Springfield --json
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.places import (
        ATTRIBUTION,
        ambiguous_place,
        find_candidates,
        place_meant,
        unknown_place,
    )
    from era5_pipeline.model.question import place_with_cell

    text, wanted = " ".join(name), options.dataset_settings(dataset).wanted_dataset
    candidates = find_candidates(text)
    if not candidates:
        raise unknown_place(text)
    meant = place_meant(candidates)
    found = [place_with_cell(one.place, grid=wanted.grid) for one in candidates]
    if as_json:
        typer.echo(json.dumps([one.as_json() | {"is_meant": one.place == meant} for one in found], indent=1))
        return
    _print(found, wanted)
    if meant is not None:
        typer.echo(f"--place {text.strip()!r} is {meant}")
    else:
        remedy = ambiguous_place(text, candidates).remedy.partition(":\n")[0]
        typer.echo(f"--place {text.strip()!r} is ambiguous. {remedy}")
    typer.echo(ATTRIBUTION)


def _print(found: "list[AskedPlace]", dataset: "Dataset") -> None:
    from rich.text import Text

    from era5_pipeline.model.land_mask import has_values_at

    numbers = ("population", "latitude", "longitude", "number")
    columns = ("place", *numbers[:-1], "time zone", "cell", "of the cell", "number")
    table = new_table(*columns, right=numbers, no_wrap=(*numbers, "cell"))
    for one in found:
        if one.place is not None:
            where = one.cell.location
            table.add_row(
                Text(str(one.place)),
                f"{one.place.population:,}",
                f"{one.latitude:g}",
                f"{one.longitude:g}",
                one.place.time_zone,
                f"{where.latitude:g}/{where.longitude:g}",
                one.cell.land_words or ("has values" if has_values_at(dataset, where) else "at sea, without values"),
                str(one.place.geoname_id),
            )
    print_table(terminal(), table, labelled=("cell",))
