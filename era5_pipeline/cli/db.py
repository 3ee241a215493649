"""`era5 db`: manage the database."""

from typing import TYPE_CHECKING

import typer

from era5_pipeline.cli import options
from era5_pipeline.model.words import counted

if TYPE_CHECKING:
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.postgres.roles import Roles

db = typer.Typer(
    no_args_is_help=True, help="The database: print its URL, create its tables, start and stop the embedded server."
)


@db.command("url")
def url(
    *,
    tcp: bool = typer.Option(
        False, "--tcp", help="By TCP, with its password: after era5 db start --port N, for clients that need it."
    ),
) -> None:
    """Print a URL for any PostgreSQL client; start the embedded server, which runs until `era5 db stop`.

    \b
    Examples:
      psql "$(era5 db url)"
      export ERA5_URL="$(era5 db url)"
      era5 db url --tcp
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import start_warehouse, tcp_warehouse

    settings = read_settings()
    warehouse = start_warehouse(settings)
    typer.echo((tcp_warehouse(settings) if tcp else warehouse).url)


@db.command("start")
def start(
    *,
    port: int | None = typer.Option(
        None,
        "--port",
        metavar="N",
        min=1024,
        max=65535,
        help="Also listen on this port of 127.0.0.1, with a password, until era5 db stop.",
        show_default="none",
    ),
) -> None:
    """Start the embedded server and keep it running until `era5 db stop`.

    It is reached by a Unix socket. For clients that need TCP, --port opens a port for this machine only, and prints
    its URL with a password, which stays the same.

    \b
    Examples:
      era5 db start
      era5 db start --port 5433
    """  # noqa: D301
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import start_warehouse, tcp_warehouse

    settings = read_settings()
    warehouse = start_warehouse(settings, port)
    warehouse.connect().close()  # we do not start the server of ERA5_DATABASE_URL: it may be unreachable
    typer.echo(f"running: {warehouse.shown}")
    if port is not None:
        typer.echo(f"by TCP:  {tcp_warehouse(settings).url}")


@db.command("stop")
def stop(*, force: bool = typer.Option(False, "--force", help="Stop it even if commands are using it.")) -> None:
    """Stop the embedded server.

    \b
    Examples:
      era5 db stop
      era5 db stop --force
    """  # noqa: D301
    from era5_pipeline.model.errors import UsageError
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.embedded.server import EmbeddedServer

    settings = read_settings()
    if settings.database_url is not None:
        raise UsageError(
            "ERA5_DATABASE_URL names a server that era5 does not manage",
            remedy="Unset it to stop the embedded server, or stop that server with its own tools.",
        )
    stopped = EmbeddedServer(settings.home).stop(force=force)
    typer.echo("stopped" if stopped else "the embedded server was not running")


@db.command("init")
def init(
    *,
    roles: bool = typer.Option(
        False,
        "--roles",
        help="Also create roles (groups) that own, load and read; prints the next statements.",
    ),
    role_prefix: str | None = typer.Option(
        None,
        "--role-prefix",
        metavar="NAME",
        help="Prefix of the roles' names, for a second warehouse on the same server.",
        show_default="era5",
    ),
    dataset: options.Dataset = None,
) -> None:
    """Create the table, the ledger and Dagster's database if they are missing, and upgrade those of an older version.

    A load does this by itself, for its data set. A database of a newer version is refused: install the newer version of
    era5-pipeline.

    With --roles, also create the roles era5_owner, era5_loader and era5_reader, to be granted to the roles that log in.
    No password is set or printed. Running it again only adds privileges that new objects and readers do not have.

    \b
    Examples:
      era5 db init
      era5 db init --dataset era5-land
      ERA5_DATABASE_URL=postgresql://user:password@host:5432/era5 era5 db init
      era5 db init --roles
    """  # noqa: D301
    from era5_pipeline.climate.everywhere import ensure_table
    from era5_pipeline.model.errors import UsageError
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import dagster_url, open_warehouse
    from era5_pipeline.postgres.roles import (
        DEFAULT_PREFIX,
        Roles,
        remove_what_loaders_made,
        require_may_create_roles,
    )
    from era5_pipeline.warehouse.schema import ensure_schema

    if role_prefix is not None and not roles:
        raise UsageError("--role-prefix needs --roles", remedy="Add --roles.")
    settings = read_settings(dataset=dataset)
    named = Roles.named(role_prefix or DEFAULT_PREFIX)
    with open_warehouse(settings, create=True) as warehouse:
        with warehouse.connect() as connection:
            if roles:
                require_may_create_roles(connection, named)
                for name in remove_what_loaders_made(connection):
                    typer.echo(f"{name}: made anew, because a loader had made it")
            schema = ensure_schema(connection)
            with connection.transaction():
                ensure_table(connection)
        url = dagster_url(warehouse, settings)
        typer.echo(f"{warehouse.shown}: {schema.server}, layout: {schema.layout.name}")
        if roles:
            _init_roles(warehouse, named, None if settings.dagster_database_url is not None else url)


@db.command("summaries")
def summaries(*, dataset: options.Dataset = None) -> None:
    """Fill the view weather_monthly for months that were loaded without summaries. Loads do this by themselves.

    The server computes them from the hours, month by month. It can be interrupted, and continues with the months that
    are left.

    \b
    Examples:
      era5 db summaries
      era5 db summaries --dataset era5-land
    """  # noqa: D301
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.warehouse.ledger import read_ledger
    from era5_pipeline.warehouse.monthly_backfill import fill_month, months_without_summaries
    from era5_pipeline.warehouse.schema import ensure_schema

    settings = read_settings(dataset=dataset)
    with open_warehouse(settings) as warehouse:
        with warehouse.connect() as connection:
            ensure_schema(connection)
            months = months_without_summaries(read_ledger(connection))
        for number, month in enumerate(months, start=1):
            locations = fill_month(
                warehouse, month, lock_timeout_seconds=settings.lock_timeout_seconds, on_wait=typer.echo
            )
            typer.echo(f"{month}: summaries of {counted(locations, 'place')} ({number:,} of {len(months):,} months)")
        if not months:
            typer.echo("every month in the table has its summaries")


def _init_roles(warehouse: "Warehouse", roles: "Roles", dagster_url: str | None) -> None:
    from era5_pipeline.defs.instance.storage import STORAGE_TABLES, WarehouseStorage
    from era5_pipeline.postgres.connect import Warehouse
    from era5_pipeline.postgres.roles import ensure_roles, give_database, next_statements
    from era5_pipeline.postgres.urls import database_of, with_user

    with warehouse.connect() as connection:
        created = ensure_roles(connection, roles)
    for name in roles.names:
        typer.echo(f"{name}: {'created' if name in created else 'was there'}")
    if dagster_url is None:
        typer.echo("Dagster's database (ERA5_DAGSTER_DATABASE_URL) is left as it is.")
    else:
        # Tables belong to the role that creates them: create them now, and give them to the loader.
        WarehouseStorage(postgres_url=dagster_url)
        with Warehouse(dagster_url).connect() as connection:
            give_database(connection, roles, STORAGE_TABLES)
    typer.echo("\nThe roles are groups, which nobody can log in as. Next, in psql, for each user who loads or reads:")
    for statement in next_statements(roles, database_of(warehouse.url)):
        typer.echo(f"  {statement}")
    typer.echo("Then:")
    typer.echo(f"  ERA5_DATABASE_URL={with_user(warehouse.shown, 'my_loader')}")
