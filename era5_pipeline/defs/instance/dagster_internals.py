"""All that this package uses of Dagster beyond its public names, with the reason for each.

Dagster may change a name with an underscore in any release. `test_dagster_internals` fails for each that a new release
lacks, and this is the module to change then. One more is overridden where it is needed: `_connect` in `storage`.

Imported where they are used are names that only annotations have, as a release without them breaks nothing, and names
without an underscore that no page of Dagster's documentation has, tested in the same way: of `dagster_webserver`
(`web_server`), `dagster_postgres` (`storage`, `open_instance`) and `dagster_docker`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# Executing a run that is stored, in this process: `execute_in_process` stores a new one, without the origin below.
from dagster._core.definitions.job_base import InMemoryJob
from dagster._core.execution.api import execute_run

# Results of a launcher. Writing a launcher is documented, but its types have no public names.
from dagster._core.launcher import CheckRunHealthResult, WorkerStatus

# Where a run's job is served. Without it, the web UI cannot execute the run again.
from dagster._core.remote_origin import GrpcServerCodeLocationOrigin, RemoteJobOrigin, RemoteRepositoryOrigin

# The web UI as an ASGI application. `dagster-webserver` has no option for a guard in front of it.
from dagster._core.workspace.context import WorkspaceProcessContext
from dagster._core.workspace.load_target import WorkspaceFileTarget

# The command line that executes a stored run in another process, as the launchers of Docker and Kubernetes use it.
from dagster._grpc.types import ExecuteRunArgs

if TYPE_CHECKING:
    import dagster as dg

__all__ = [
    "STEP_LOGGER",
    "CheckRunHealthResult",
    "ExecuteRunArgs",
    "RemoteJobOrigin",
    "WorkerStatus",
    "WorkspaceFileTarget",
    "WorkspaceProcessContext",
    "execute_here",
    "instance_of",
    "job_origin_at",
]

# Logs each check of a skipped month as not executed. Dagster sets the level of its logger "dagster" again in every run.
STEP_LOGGER = "dagster._core.execution.plan.active"


def instance_of(plugin: Any) -> dg.DagsterInstance:  # noqa: ANN401  # a launcher or a queue, without a common class
    """The instance whose configuration names this launcher or queue; Dagster's own use the same attribute."""
    instance: dg.DagsterInstance = plugin._instance
    return instance


def execute_here(instance: dg.DagsterInstance, job: dg.JobDefinition, run: dg.DagsterRun) -> dg.JobExecutionResult:
    """Execute the stored run in this process; errors of its steps are in the result."""
    return execute_run(InMemoryJob(job), run, instance)


def job_origin_at(socket: str, location: str, repository: str, job: str) -> RemoteJobOrigin:
    """The origin of a job that a code server serves on this socket."""
    server = GrpcServerCodeLocationOrigin(host="localhost", socket=socket, location_name=location)
    return RemoteRepositoryOrigin(server, repository).get_job_origin(job)
