"""Dagster's web server, protected against requests from pages of other sites; run this module with `python -m`.

`dagster-webserver` obeys every request that reaches its port, and has no option to refuse any.
"""

from __future__ import annotations

import argparse
import signal
from contextlib import suppress
from pathlib import Path

import uvicorn
from dagster import DagsterInstance
from dagster_webserver.app import create_app_from_workspace_process_context
from dagster_webserver.cli import (
    DEFAULT_DB_STATEMENT_TIMEOUT,
    DEFAULT_POOL_MAX_OVERFLOW,
    DEFAULT_POOL_RECYCLE,
)

from era5_pipeline.defs.instance.dagster_internals import WorkspaceFileTarget, WorkspaceProcessContext
from era5_pipeline.model.settings import read_settings
from era5_pipeline.serving.browser_guard import AllowedHosts, BrowserGuard
from era5_pipeline.serving.connections import PromptConnection, raise_file_limit


def main() -> None:
    """Serve Dagster's web UI until SIGINT or SIGTERM."""
    parser = argparse.ArgumentParser(prog="web_server", description=main.__doc__)
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=3000)
    parser.add_argument("--workspace", type=Path, required=True, help="workspace.yaml that names the code server")
    asked = parser.parse_args()
    hosts = AllowedHosts.of(read_settings().allowed_host_names)
    raise_file_limit()
    signal.signal(signal.SIGTERM, signal.getsignal(signal.SIGINT))
    with DagsterInstance.get() as instance:
        instance.optimize_for_webserver(DEFAULT_DB_STATEMENT_TIMEOUT, DEFAULT_POOL_RECYCLE, DEFAULT_POOL_MAX_OVERFLOW)
        target = WorkspaceFileTarget([str(asked.workspace)])
        with WorkspaceProcessContext(instance, target) as workspace:
            app = BrowserGuard(create_app_from_workspace_process_context(workspace), hosts)
            with suppress(KeyboardInterrupt):  # uvicorn raises it again after a clean shutdown
                uvicorn.run(app, host=asked.host, port=asked.port, log_level="warning", http=PromptConnection)


if __name__ == "__main__":
    main()
