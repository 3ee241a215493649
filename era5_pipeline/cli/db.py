"""`era5 db`: manage the database."""

import typer

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
    warehouse.connect().close()  # the server of ERA5_DATABASE_URL is not started by us, and may be unreachable
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
    from era5_pipeline.postgres.embedded.embedded_server import EmbeddedServer

    settings = read_settings()
    if settings.database_url is not None:
        raise UsageError(
            "ERA5_DATABASE_URL names a server that era5 does not manage",
            remedy="Unset it to stop the embedded server, or stop that server with its own tools.",
        )
    stopped = EmbeddedServer(settings.home).stop(force=force)
    typer.echo("stopped" if stopped else "the embedded server was not running")


@db.command("init")
def init() -> None:
    """Create the table, the ledger and Dagster's database if they are missing. A load does this by itself.

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
