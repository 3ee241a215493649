"""`era5 bench`: the benchmarks, which stand beside the package in a checkout and are no part of the wheel."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    import click

_CHECKOUT = Path(__file__).parents[2]


class _Benchmarks(TyperGroup):
    """The commands of `benchmarks`, imported once one of them is asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        names: list[str] = _commands().list_commands(ctx)
        return names

    def get_command(self, ctx: click.Context, cmd_name: str) -> Any:  # noqa: ANN401  # typer has a copy of click
        return _commands().get_command(ctx, cmd_name)


def _commands() -> Any:  # noqa: ANN401  # typer has a copy of click
    # By its place: another package of this name, installed or in the working directory, is not meant.
    if not (_CHECKOUT / "benchmarks" / "commands.py").is_file():
        raise UsageError(
            "the benchmarks are not part of the installed package",
            remedy="Run them in a checkout of the project: make setup, then .venv/bin/python -m benchmarks run SUITE.",
        )
    return typer.main.get_command(importlib.import_module("benchmarks.commands").app)


bench = typer.Typer(
    cls=_Benchmarks,
    no_args_is_help=True,
    help="Benchmarks of loading, and what they found as tables and figures (in a checkout).",
)
