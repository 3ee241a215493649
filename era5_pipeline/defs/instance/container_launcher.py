"""A container for each run: dagster-docker's launcher, with the image, volumes and settings of the code server.

Defines a run's container, and checks whether it is still running. The services are those of docker/compose.yaml.
"""

from __future__ import annotations

import os
import re
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Any

import dagster as dg
import docker
from dagster_docker import DockerRunLauncher
from dagster_docker.docker_run_launcher import DOCKER_CONTAINER_ID_TAG
from docker.errors import APIError, DockerException, ImageNotFound, NotFound
from docker.utils import parse_bytes

from era5_pipeline.defs.instance.dagster_internals import CheckRunHealthResult, WorkerStatus, instance_of
from era5_pipeline.defs.instance.lost_runs import note_lost
from era5_pipeline.defs.run_tags import HOST, MAX_RETRIES
from era5_pipeline.model.errors import Era5Error
from era5_pipeline.model.package_version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dagster._core.launcher import LaunchRunContext
    from dagster._serdes import ConfigurableClassData
    from dagster_docker.container_context import DockerContainerContext

VERSION_LABEL = "org.opencontainers.image.version"
# Variables of the daemon's environment passed to runs. `docker inspect` shows their values: put passwords in files.
_PASSED_ON = ("ERA5_", "CDSAPI_", "AWS_", "STACK_RUN_")
# The host name that Docker gives a container by default.
_CONTAINER_ID = re.compile(r"[0-9a-f]{12}")


class ContainerRunLauncher(DockerRunLauncher):
    """Launches runs in containers like that of the code server.

    A run's container has the image of the code server's container, even if its name means another by now: they cannot
    differ. It also shares the code server's volumes, including secrets.
    """

    def __init__(
        self,
        inst_data: ConfigurableClassData | None = None,
        *,
        code_server: str,
        network: str,
        memory: str,
        cpus: str,
        container_kwargs: Mapping[str, Any] | None = None,
    ) -> None:
        self._code_server = code_server
        of_each_run = {
            "volumes_from": [code_server],
            "mem_limit": _memory_bytes(memory),
            "nano_cpus": _nano_cpus(cpus),
        }
        super().__init__(
            inst_data, env_vars=[], network=network, container_kwargs={**(container_kwargs or {}), **of_each_run}
        )

    @classmethod
    def config_type(cls) -> dict[str, Any]:
        """The image and volumes of a run's container, its network and limits, and further options of docker-py."""
        return {
            "code_server": dg.Field(dg.StringSource, description="Container whose image and volumes each run shares"),
            "network": dg.Field(dg.StringSource, description="Network of the services"),
            "memory": dg.Field(dg.StringSource, description="Memory limit of a run, such as 2g"),
            "cpus": dg.Field(dg.StringSource, description="Cores that a run may use, such as 1.5"),
            "container_kwargs": dg.Field(
                dg.Permissive(),  # type: ignore[no-untyped-call]
                is_required=False,
                description="Further arguments of docker-py's containers.create",
            ),
        }

    @classmethod
    def from_config_value(
        cls, inst_data: ConfigurableClassData | None, config_value: Mapping[str, Any]
    ) -> ContainerRunLauncher:
        """Create the launcher; Dagster calls this when it loads an instance."""
        return cls(inst_data, **config_value)

    def get_container_context(self, dagster_run: dg.DagsterRun) -> DockerContainerContext:
        """The configuration, with the settings of this process."""
        context: DockerContainerContext = super().get_container_context(dagster_run)
        settings = [f"{name}={value}" for name, value in os.environ.items() if name.startswith(_PASSED_ON)]
        return context._replace(env_vars=[*settings, *context.env_vars])

    def launch_run(self, context: LaunchRunContext) -> None:
        """Start a container for the run."""
        with self._engine_errors():
            self.image, version = self._image()
            if version != __version__:
                # Dagster retries runs whose launch failed, which would not help here.
                instance_of(self).add_run_tags(context.dagster_run.run_id, {MAX_RETRIES: "0"})
                raise Era5Error(
                    f"the code server's image is era5-pipeline {version}, that of the daemon {__version__}",
                    remedy="Start all services from one image: docker compose up --detach. Then launch it again.",
                )
            super().launch_run(context)

    def _image(self) -> tuple[str, str]:
        """Id and version of the image that the code server's container has."""
        with closing(docker.from_env()) as engine:
            image = engine.containers.get(self._code_server).image
        return str(image.id), str(image.labels.get(VERSION_LABEL, "of unknown version"))

    @contextmanager
    def _engine_errors(self) -> Iterator[None]:
        try:
            yield
        except ImageNotFound as error:
            raise Era5Error(
                f"the image of the container {self._code_server} is gone: {error.explanation}",
                remedy="Build it again and start all services from it: docker compose up --build --detach.",
            ) from error
        except NotFound as error:
            raise Era5Error(
                f"the run's container could not be made: {error.explanation}",
                remedy=f"Is the container {self._code_server} there? Start all services: docker compose up --detach.",
            ) from error
        except APIError as error:
            raise Era5Error(
                f"the Docker engine refused the run's container: {error.explanation}",
                remedy="Correct what it names: in docker/.env (STACK_RUN_MEMORY, STACK_RUN_CPUS), or disk space.",
            ) from error
        except (DockerException, OSError) as error:
            raise Era5Error(
                f"the Docker engine cannot be reached: {error}",
                remedy="The daemon needs its socket (STACK_DOCKER_SOCKET), and its group (STACK_DOCKER_GID: "
                "stat -c %g /var/run/docker.sock).",
            ) from error

    def check_run_worker_health(self, run: dg.DagsterRun) -> CheckRunHealthResult:
        """Return whether the container of a run is running; the run may be one of `era5 load` in a container.

        Dagster's own launcher considers runs of other launchers lost, and would have them marked as failed.
        """
        if DOCKER_CONTAINER_ID_TAG in run.tags:
            launched: CheckRunHealthResult = super().check_run_worker_health(run)
            if launched.status is not WorkerStatus.RUNNING:
                note_lost(instance_of(self), run)
            return launched
        host = run.tags.get(HOST, "")
        if not _CONTAINER_ID.fullmatch(host):  # a process outside containers: unknown here
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        try:
            with closing(docker.from_env()) as engine:
                status = engine.containers.get(host).status
        except NotFound:
            status = "gone"
        if status == "running":
            return CheckRunHealthResult(WorkerStatus.RUNNING)
        return CheckRunHealthResult(WorkerStatus.FAILED, msg=f"The container {host} of the command is {status}.")


def _memory_bytes(text: str) -> int:
    try:
        return int(parse_bytes(text))
    except DockerException as error:
        raise Era5Error(
            f"{text!r} is not an amount of memory", remedy="Set STACK_RUN_MEMORY as in docker/.env.example: 2g."
        ) from error


def _nano_cpus(text: str) -> int:
    try:
        return round(float(text) * 1e9)
    except ValueError:
        raise Era5Error(
            f"{text!r} is not a number of cores", remedy="Set STACK_RUN_CPUS as in docker/.env.example: 1.5."
        ) from None
