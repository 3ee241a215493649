"""`era5 variables`: the catalogue of variables, and which of them the table holds."""

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from era5_pipeline.cli.options import Dataset
from era5_pipeline.cli.output import new_table, print_table, terminal
from era5_pipeline.model.errors import Era5Error

if TYPE_CHECKING:
    from era5_pipeline.model.settings import Settings
    from era5_pipeline.model.variables import Catalogue, Variable

_COUNTS = {5: "five", 6: "six"}


def variables(
    search: Annotated[
        list[str] | None, typer.Argument(metavar="[WORD]...", help="Only variables that have all of these words.")
    ] = None,
    *,
    dataset: Dataset = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print all facts of each, as JSON.")] = False,
) -> None:
    """List the variables that can be loaded: any name of one can be given to --variables and --column.

    The last column says which of them the table holds, if there is a database.

    \b
    Examples:
      era5 variables
      era5 variables wind 100
      era5 variables --dataset era5-land
      era5 load --from 2023-01 --variables default,d2m,msl
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.errors import InputError
    from era5_pipeline.model.settings import read_settings

    settings = read_settings(dataset=dataset)
    catalogue = settings.wanted_dataset.catalogue
    found = []
    for one in catalogue.variables:
        text = " ".join((one.column, one.long_name, one.description, *one.names_in_files)).casefold()
        if all(word.casefold() in text for word in search or ()):
            found.append(one)
    if not found:
        catalogue.find(" ".join(search or ()))  # raises, with the reason or the nearest names, unless it is found
        raise InputError(f"no variable has the words {' '.join(search or ())}", remedy="era5 variables lists all.")
    held = _held(settings)
    if as_json:
        typer.echo(json.dumps([_to_json(variable, catalogue, held) for variable in found], indent=1))
        return
    _print(found, catalogue, held)


def _held(settings: "Settings") -> frozenset[str] | None:
    """The columns with values in the table; None if there is no database, or it cannot be read."""
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.read.held import months_held

    try:
        with open_warehouse(settings) as warehouse, warehouse.connect() as connection:
            return frozenset(column for columns in months_held(connection).values() for column in columns)
    except Era5Error:
        return None


def _to_json(variable: "Variable", catalogue: "Catalogue", held: frozenset[str] | None) -> dict[str, Any]:
    return {
        "column": variable.column,
        "short_name": variable.short_name,
        "cds_name": variable.cds_name,
        "param_id": variable.param_id,
        "long_name": variable.long_name,
        "description": variable.description,
        "unit": variable.unit,
        "unit_in_files": variable.file_units[0],
        "step_type": variable.step_type,
        "extent": variable.extent,
        "minimum": variable.minimum,
        "maximum": variable.maximum,
        "first_valid": variable.first_valid.isoformat(),
        "is_default": variable in catalogue.default_variables,
        "is_held": None if held is None else variable.column in held,
    }


def _print(found: "list[Variable]", catalogue: "Catalogue", held: frozenset[str] | None) -> None:
    from era5_pipeline.model.variables import DEFAULT_NAME

    narrow = ("name", "column", "unit", "values are", "held")
    table = new_table(*narrow[:-1], "description", "held", no_wrap=narrow)
    kinds = {"instant": "instant", "accum": "totals", "avg": "means", "max": "maxima", "min": "minima"}
    for variable in found:
        loaded = "yes" if held is not None and variable.column in held else ""
        description = variable.description.partition(", accumulated over the hour")[0]
        table.add_row(
            variable.short_name, variable.column, variable.unit, kinds[variable.step_type], description, loaded
        )
    print_table(terminal(), table, labelled=("held",))
    total, defaults = len(catalogue.variables), catalogue.default_variables
    said = f"{len(found)} of {total} variables" if len(found) < total else f"{len(found)} variables"
    first = ", ".join(variable.short_name for variable in defaults)
    count = _COUNTS[len(defaults)]
    typer.echo(f"{said}; {DEFAULT_NAME} stands for the {count} that are loaded unless others are named: {first}")
