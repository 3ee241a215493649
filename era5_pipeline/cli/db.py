"""`era5 db`: the database by itself."""

import typer

db = typer.Typer(no_args_is_help=True, help="The database: its URL, starting and stopping the embedded server.")


@db.command("url")
def url() -> None:
    """Print a URL that any PostgreSQL client takes; starts the embedded server, which runs until `era5 db stop`.

    \b
    Examples:
      psql "$(era5 db url)"
      export ERA5_URL="$(era5 db url)"
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import start_warehouse

    typer.echo(start_warehouse(read_settings()).url)


@db.command("start")
def start() -> None:
    """Start the embedded server, and let it run until `era5 db stop`.

    \b
    Example:
      era5 db start
    """  # noqa: D301
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import start_warehouse

    warehouse = start_warehouse(read_settings())
    warehouse.connect().close()  # one that ERA5_DATABASE_URL names is not ours to start, and may not be there
    typer.echo(f"running: {warehouse.shown}")


@db.command("stop")
def stop(*, force: bool = typer.Option(False, "--force", help="Also where commands are still using it.")) -> None:
    """Stop the embedded server.

    \b
    Examples:
      era5 db stop
      era5 db stop --force
    """  # noqa: D301
    from era5_pipeline.model.errors import UsageError
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer

    settings = read_settings()
    if settings.database_url is not None:
        raise UsageError(
            "ERA5_DATABASE_URL names a server that is not ours to stop",
            remedy="Unset it to manage the embedded server, or stop that one with its own tools.",
        )
    stopped = EmbeddedServer(settings.home).stop(force=force)
    typer.echo("stopped" if stopped else "it was not running")


@db.command("init")
def init() -> None:
    """Make the table, the ledger and Dagster's database, where they are missing; a load does so by itself.

    \b
    Examples:
      era5 db init
      ERA5_DATABASE_URL=postgresql://user:password@host:5432/era5 era5 db init
    """  # noqa: D301
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import dagster_url, open_warehouse
    from era5_pipeline.warehouse.schema import ensure_schema

    settings = read_settings()
    with open_warehouse(settings, create=True) as warehouse:
        with warehouse.connect() as connection:
            schema = ensure_schema(connection)
        dagster_url(warehouse, settings)
        typer.echo(f"{warehouse.shown}: {schema.server}, layout: {schema.layout.name}")
