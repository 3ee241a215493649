"""`era5 serve`: the warehouse over HTTP.

Options only; the server is in `era5_pipeline.serving`.
"""

from typing import Annotated

import typer


def serve(
    *,
    host: Annotated[
        str, typer.Option("--host", metavar="ADDRESS", help="Address to listen on; 0.0.0.0: all networks.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option("--port", min=0, max=65535, help="Port; 0: one that is free.")] = 8000,
    workers: Annotated[int, typer.Option("--workers", min=1, max=64, help="Number of processes.")] = 1,
    cors: Annotated[
        list[str] | None,
        typer.Option(
            "--cors",
            metavar="ORIGIN",
            help="Let pages of this origin send requests from a browser, such as https://example.org; can be given "
            "several times; '*': any.",
            show_default="none",
        ),
    ] = None,
    allowed_host: Annotated[
        list[str] | None,
        typer.Option(
            "--allowed-host",
            metavar="NAME",
            help="A host name to answer to, in addition to localhost and addresses, such as that of a proxy in front; "
            "can be given several times; '*': any. With those of ERA5_ALLOWED_HOSTS.",
            show_default="none",
        ),
    ] = None,
    access_log: Annotated[
        bool, typer.Option("--access-log/--no-access-log", help="Log a line for each request.")
    ] = True,
) -> None:
    """Answer questions about the table over HTTP, as JSON, CSV and pages, until Ctrl-C. It only reads.

    \b
    Examples:
      era5 serve
      era5 serve --port 8080 --workers 2
      era5 serve --host 0.0.0.0 --allowed-host weather.example.org --cors https://example.org
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.embedded.server import EmbeddedDatabaseWatch
    from era5_pipeline.postgres.roles import user_who_may_write
    from era5_pipeline.serving.application import ServedApp
    from era5_pipeline.serving.browser_guard import AllowedHosts
    from era5_pipeline.serving.requests import ServingLimits
    from era5_pipeline.serving.server import address_of, bound_socket, is_loopback, run_server, tended

    def warn(text: str) -> None:
        typer.echo(f"era5: {text}", err=True)

    settings = read_settings()
    hosts = AllowedHosts.of((*(allowed_host or ()), *settings.allowed_host_names), listening_on=host)
    with bound_socket(host, port) as bound, open_warehouse(settings) as warehouse:
        with warehouse.connect() as connection:  # report problems now, not at the first request
            writer = user_who_may_write(connection)
        if writer is not None and settings.database_url is not None:
            warn(
                f"the user {writer} may change the table; era5 serve only reads, and asks for read-only sessions. "
                "Give it a user that may only read: era5 db init --roles"
            )
        if not is_loopback(bound):
            warn(f"anyone who can reach {host} can send requests: there is no password. See docs/http.md#on-a-network")
        app = ServedApp(warehouse.url, ServingLimits.of(settings), tuple(cors or ()), hosts)
        url = address_of(bound)
        typer.echo(f"era5 serve: {url}, its routes: {url}/docs")
        with tended(EmbeddedDatabaseWatch(settings, warn).look, warn):
            run_server(app, bound, workers, access_log=access_log)
    typer.echo("stopped")
