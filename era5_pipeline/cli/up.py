"""`era5 up`: run database, webserver and daemon together, until Ctrl-C."""

import typer


def up(
    *,
    port: int = typer.Option(3000, "--port", min=1, max=65535, help="Port of the web UI, on 127.0.0.1."),
) -> None:
    """Run the embedded database, Dagster's web UI and its daemon; Ctrl-C stops them all.

    What is killed is started again, up to five times within ten minutes. With ERA5_DATABASE_URL set, that server is
    used, and no embedded one is started.

    \b
    Examples:
      era5 up
      era5 up --port 3001
    """  # noqa: D301  # \b is meant: it keeps the examples on their own lines
    import os
    import socket

    from era5_pipeline.defs.instance.open_instance import dagster_home, open_instance
    from era5_pipeline.defs.instance.run_launcher import end_runs
    from era5_pipeline.defs.instance.services import LOOPBACK, dagster_services, sole_services
    from era5_pipeline.model.errors import UsageError
    from era5_pipeline.model.settings import read_settings
    from era5_pipeline.model.source_kinds import source_kind
    from era5_pipeline.postgres.connect import open_warehouse
    from era5_pipeline.postgres.embedded.server import EmbeddedDatabaseWatch
    from era5_pipeline.runtime.supervisor import supervise
    from era5_pipeline.serving.browser_guard import AllowedHosts
    from era5_pipeline.sources.open_source import source_of
    from era5_pipeline.warehouse.schema import ensure_schema, require_may_load

    settings = read_settings()
    AllowedHosts.of(settings.allowed_host_names)  # report an invalid name here, not in the web server's log
    if settings.files_dir and source_kind(settings.source_name).has_own_files:
        source_of(settings)  # report a folder that does not exist here, not in each run
    with socket.socket() as probe:
        # Two webservers on one port would start without an error and share its requests: check first.
        if probe.connect_ex((LOOPBACK, port)) == 0:
            raise UsageError(
                f"port {port} is in use",
                remedy="Stop what uses it, or choose another: era5 up --port N.",
            )
    home = dagster_home(settings.home)
    with sole_services(home), open_warehouse(settings, create=True) as warehouse:
        with warehouse.connect() as connection:
            ensure_schema(connection)
            require_may_load(connection)
        with open_instance(settings.home, no_daemon=True):
            pass  # creates Dagster's tables, and marks lost runs as failed
        logs = settings.home / "logs"
        env = {**os.environ, "DAGSTER_HOME": str(home), "ERA5_HOME": str(settings.home)}

        def on_ready() -> None:
            typer.echo(f"database  {warehouse.shown}")
            typer.echo(f"web UI    http://{LOOPBACK}:{port}")
            typer.echo(f"logs      {logs}")
            typer.echo("Press Ctrl-C to stop all.")

        def warn(text: str) -> None:
            typer.echo(f"era5: {text}", err=True)

        typer.echo("starting ...", err=True)
        try:
            code = supervise(
                dagster_services(home, port),
                env=env,
                log_folder=logs,
                on_ready=on_ready,
                on_restart=warn,
                tend=EmbeddedDatabaseWatch(settings, warn).look,
            )
        finally:
            end_runs(home)
    typer.echo("stopped")
    raise typer.Exit(code)
