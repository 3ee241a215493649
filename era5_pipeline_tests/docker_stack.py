"""The system of docker/compose.yaml, started under a name of its own, on an engine and with images that are given."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import psycopg

from era5_pipeline_tests.cli.test_up import WebUI
from era5_pipeline_tests.commands import ROOT
from era5_pipeline_tests.stores import free_port

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

DOCKER = ROOT / "docker"
# "BASE DATABASE PROXY": see .ci/docker. Those that are not given are the defaults of compose.yaml.
IMAGES = os.environ.get("ERA5_TEST_DOCKER", "").split()
SERVICES = ("db", "code", "web", "daemon", "serve")
_SECONDS = 600


def docker(*arguments: str, **more: Any) -> str:
    """Run the command `docker`; return its output."""
    done = subprocess.run(["docker", *arguments], capture_output=True, text=True, check=False, timeout=_SECONDS, **more)
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stdout[-3000:]}{done.stderr[-3000:]}"
    return str(done.stdout)


def inspected(container: str) -> Any:
    """What `docker inspect` shows of the container."""
    return json.loads(docker("inspect", container))[0]


def wait_for(condition: Callable[[], Any], what: str, seconds: float = 300) -> Any:
    """Wait until the condition returns something true; return that."""
    until = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < until, f"not within {seconds:.0f} s: {what}"
        time.sleep(1)
    return found


def kill(container: str) -> None:
    """Kill the container's first process from outside, as the kernel would: `docker kill` counts as being stopped."""
    pid = inspected(container)["State"]["Pid"]
    assert pid > 1
    os.kill(pid, signal.SIGKILL)


@dataclass(frozen=True)
class Stack:
    """A running system. `passwords` are those of its secrets."""

    name: str
    folder: Path
    image: str
    ports: dict[str, int]
    web: WebUI

    def compose(self, *arguments: str, **settings: str) -> str:
        return docker(*self._command, *arguments, env={**os.environ, **settings})

    def start(self, *arguments: str) -> subprocess.Popen[str]:
        """Start a compose command, and do not wait for it."""
        return subprocess.Popen(
            ["docker", *self._command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    @property
    def _command(self) -> tuple[str, ...]:
        file = ("--file", str(DOCKER / "compose.yaml"), "--env-file", str(self.folder / ".env"))
        return "compose", "--project-name", self.name, *file

    def era5(self, *arguments: str) -> str:
        """Run a command `era5` in a container of its own."""
        return self.compose("run", "--rm", "--no-TTY", "era5", *arguments)

    def secret(self, name: str) -> str:
        return (self.folder / "secrets" / name).read_text().strip()

    @property
    def passwords(self) -> list[str]:
        return [self.secret(f"{name}_password") for name in ("superuser", "loader", "reader")]

    def connect(self, user: str, secret: str) -> psycopg.Connection:
        return psycopg.connect(
            host="127.0.0.1",
            port=self.ports["db"],
            dbname="era5",
            user=user,
            password=self.secret(secret),
            autocommit=True,
        )

    def containers(self) -> dict[str, str]:
        """The ids of the services' containers."""
        return {service: self.compose("ps", "--quiet", service).strip() for service in SERVICES}

    def run_containers(self) -> dict[str, str]:
        """The ids of the containers of runs, ended ones too, by run."""
        lines = docker(
            *("ps", "--all", "--no-trunc", "--filter", f"network={self.name}", "--filter", "label=dagster/run_id"),
            *("--format", '{{.Label "dagster/run_id"}} {{.ID}}'),
        )
        return dict(line.split() for line in lines.splitlines())


def prepared(folder: Path) -> dict[str, int]:
    """Settings and secrets as `sh docker/prepare` makes them, in a copy of its folder; with free ports for all."""
    for name in ("prepare", ".env.example"):
        shutil.copy(DOCKER / name, folder)
    socket = os.environ.get("DOCKER_HOST", "unix:///var/run/docker.sock").removeprefix("unix://")
    made = subprocess.run(
        ["sh", str(folder / "prepare")],
        env=os.environ | {"STACK_DOCKER_SOCKET": socket, "CDSAPI_RC": str(folder / "none")},
        capture_output=True,
        text=True,
        check=True,
    )
    (folder / "printed").write_text(made.stdout)
    return {name: free_port() for name in ("ui", "db", "serve", "public")}


@contextmanager
def running_stack(folder: Path, **settings: str) -> Iterator[Stack]:
    """Build the image and start the system; afterwards remove its containers, volumes and image."""
    name = f"era5-test-{secrets.token_hex(3)}"
    ports = prepared(folder)
    lines = {
        "STACK_IMAGE": f"{name}:test",
        **dict(zip(("STACK_BASE", "STACK_DB_IMAGE", "STACK_PROXY_IMAGE"), IMAGES, strict=False)),
        "STACK_SETTINGS": str(folder / ".env"),
        "STACK_SECRETS": str(folder / "secrets"),
        **{f"STACK_{port.upper()}_PORT": str(number) for port, number in ports.items()},
        **settings,
    }
    with (folder / ".env").open("a") as file:
        file.writelines(f"{key}={value}\n" for key, value in lines.items())
    stack = Stack(name, folder, lines["STACK_IMAGE"], ports, WebUI(f"http://127.0.0.1:{ports['ui']}"))
    try:
        stack.compose("up", "--detach", "--build")
        wait_for(lambda: _is_healthy(stack.containers()["web"]), "the web UI is healthy")
        yield stack
    finally:
        for container in stack.run_containers().values():
            subprocess.run(["docker", "rm", "--force", container], capture_output=True, check=False)
        stack.compose(
            "--profile", "public", "--profile", "tools", "down", "--volumes", "--remove-orphans", "--timeout", "5"
        )
        docker("image", "rm", "--force", stack.image)


def _is_healthy(container: str) -> bool:
    state = inspected(container)["State"]
    assert state["Running"], docker("logs", "--tail", "50", container)
    return bool(state["Health"]["Status"] == "healthy")
