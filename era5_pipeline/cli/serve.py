"""`era5 serve`: the warehouse over HTTP.

Options only; the server is in `era5_pipeline.serving`.
"""

from typing import Annotated

import typer

from era5_pipeline.cli.options import Dataset


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
    fetch: Annotated[
        bool,
        typer.Option(
            "--fetch", help="Load a place that the table has nothing of when it is asked for, as era5 load --place."
        ),
    ] = False,
    fetch_limit: Annotated[
        int | None,
        typer.Option(
            "--fetch-limit", metavar="PLACES", min=1, help="The most places fetched in a day.", show_default="none"
        ),
    ] = None,
    dataset: Dataset = None,
    access_log: Annotated[
        bool, typer.Option("--access-log/--no-access-log", help="Log a line for each request.")
    ] = True,
) -> None:
    """Answer questions about the table over HTTP, as JSON, CSV and pages, until Ctrl-C. It only reads.

    Each data set of the database is answered when it is asked for; --dataset is for requests that name none.

    With --fetch, places that the table has nothing of are loaded when they are asked for, by a process of its own.

    \b
    Examples:
      era5 serve
      era5 serve --fetch
      era5 serve --port 8080 --workers 2
      era5 serve --host 0.0.0.0 --allowed-host weather.example.org --cors https://example.org
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    from contextlib import ExitStack

    from era5_pipeline.cli.fetch import require_may_fetch
    from era5_pipeline.model.errors import UsageError
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.postgres.connect import open_warehouse, server_kept
    from era5_pipeline.postgres.embedded.server import EmbeddedDatabaseWatch
    from era5_pipeline.postgres.roles import user_who_may_write
    from era5_pipeline.serving.application import ServedApp
    from era5_pipeline.serving.browser_guard import AllowedHosts
    from era5_pipeline.serving.fetch import FetchRequests
    from era5_pipeline.serving.fetch_runner import running_fetches
    from era5_pipeline.serving.requests import ServingLimits
    from era5_pipeline.serving.server import address_of, bound_socket, is_loopback, run_server, tended

    def warn(text: str) -> None:
        typer.echo(f"era5: {text}", err=True)

    settings = read_settings(dataset=dataset)
    hosts = AllowedHosts.of((*(allowed_host or ()), *settings.allowed_host_names), listening_on=host)
    if fetch_limit is not None and not fetch:
        raise UsageError("--fetch-limit is for places that are fetched", remedy="Add --fetch, or leave it out.")
    with ExitStack() as stack:
        bound = stack.enter_context(bound_socket(host, port))
        if fetch:
            if fetch_limit is None and not is_loopback(bound):
                raise UsageError(
                    f"anyone who can reach {host} could have any number of places loaded",
                    remedy="Say how many a day: --fetch-limit PLACES; or listen on this machine only, without --host.",
                )
            stack.enter_context(server_kept(settings))
            require_may_fetch(settings)
        warehouse = stack.enter_context(open_warehouse(settings))
        with warehouse.connect() as connection:  # report problems now, not at the first request
            writer = user_who_may_write(connection)
        if writer is not None and settings.database_url is not None:
            loader = ", and the loader's URL to ERA5_FETCH_DATABASE_URL" if fetch else ""
            warn(
                f"the user {writer} may change the table; era5 serve only reads, and asks for read-only sessions. "
                f"Give it a user that may only read{loader}: era5 db init --roles"
            )
        if not is_loopback(bound):
            warn(f"anyone who can reach {host} can send requests: there is no password. See docs/http.md#on-a-network")
        fetches = FetchRequests(settings.home, fetch_limit) if fetch else None
        app = ServedApp(warehouse.url, ServingLimits.of(settings), tuple(cors or ()), hosts, fetches, warehouse.dataset)
        url = address_of(bound)
        typer.echo(f"era5 serve: {url}, its routes: {url}/docs")
        stack.enter_context(tended(EmbeddedDatabaseWatch(settings, warn).look, warn))
        if fetch:
            stack.enter_context(running_fetches(settings, warn))
        run_server(app, bound, workers, access_log=access_log)
    typer.echo("stopped")
