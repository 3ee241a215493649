"""Real Dask clusters on this machine: a scheduler and workers, each the command that a user starts."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from era5_pipeline_tests.commands import BIN, ROOT, environment

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_SECONDS = 240.0
_HERE = ("--host", "127.0.0.1", "--dashboard-address", "127.0.0.1:0")


@dataclass
class DaskCluster:
    """A scheduler, and workers with one thread each, that are started and killed by a test."""

    folder: Path
    env: Mapping[str, str]
    protocol: str = "tcp"
    scheduler: subprocess.Popen[bytes] | None = None
    workers: list[subprocess.Popen[bytes]] = field(default_factory=list)

    @property
    def address(self) -> str:
        address: str = json.loads((self.folder / "scheduler.json").read_text())["address"]
        return address

    @property
    def local_directory(self) -> Path:
        """Where the workers keep temporary files."""
        return self.folder / "workers"

    def start_scheduler(self) -> None:
        file = self.folder / "scheduler.json"
        arguments = ("scheduler", "--port", "0", "--protocol", self.protocol, "--scheduler-file", str(file), *_HERE)
        self.scheduler = self._start(*arguments, log="scheduler.log")
        self._await(self.scheduler, "scheduler.log", "Scheduler at:")
        deadline = time.monotonic() + _SECONDS
        while not (file.is_file() and file.read_text().endswith("}")):  # it is there before all of its text is
            assert time.monotonic() < deadline
            time.sleep(0.1)

    def start_worker(self, preload: str = "", other_version_of: str = "") -> subprocess.Popen[bytes]:
        """Start a worker, and wait until it has joined.

        `preload` is Python that it runs first; a distribution `other_version_of` is installed for it as version 1.2.3.
        """
        log = f"worker-{len(self.workers)}.log"
        more = []
        if preload:
            path = self.folder / f"preload_{len(self.workers)}.py"
            path.write_text(preload)
            more = ["--preload", str(path)]
        env = dict(self.env)
        if other_version_of:
            installed = self.folder / f"{other_version_of}-1.2.3.dist-info"
            installed.mkdir()
            (installed / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {other_version_of}\nVersion: 1.2.3\n")
            env["PYTHONPATH"] = os.pathsep.join([str(self.folder), env["PYTHONPATH"]])
        worker = self._start(
            *("worker", self.address, "--nthreads", "1", "--no-nanny", "--memory-limit", "2GB"),
            *("--local-directory", str(self.local_directory), *more, *_HERE),
            log=log,
            env=env,
        )
        self.workers.append(worker)
        self._await(worker, log, "Registered to:")
        return worker

    @property
    def living(self) -> list[subprocess.Popen[bytes]]:
        """The workers that were not killed."""
        return [worker for worker in self.workers if worker.poll() is None]

    def start_missing(self, workers: int) -> None:
        """Start the scheduler and missing workers, up to the given number."""
        if self.scheduler is None or self.scheduler.poll() is not None:
            for worker in self.living:  # of an earlier scheduler
                kill(worker)
            (self.folder / "scheduler.json").unlink(missing_ok=True)
            self.start_scheduler()
        for _ in range(workers - len(self.living)):
            self.start_worker()

    def _start(self, *arguments: str, log: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        with (self.folder / log).open("wb") as output:
            return subprocess.Popen(
                [str(BIN / "dask"), *arguments],
                env=env or self.env,
                cwd=self.folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def _await(self, process: subprocess.Popen[bytes], log: str, text: str) -> None:
        deadline = time.monotonic() + _SECONDS
        while text not in (printed := (self.folder / log).read_text()):
            assert process.poll() is None, printed
            assert time.monotonic() < deadline, printed
            time.sleep(0.1)


def kill(process: subprocess.Popen[bytes] | None) -> None:
    """Kill with -9."""
    assert process is not None
    process.send_signal(signal.SIGKILL)
    process.wait(_SECONDS)


@contextmanager
def dask_cluster(
    workers: int, *, preload: str = "", other_version_of: str = "", protocol: str = "tcp", **env: str
) -> Iterator[DaskCluster]:
    """Start a scheduler and workers; kill them at the end."""
    folder = Path(tempfile.mkdtemp(prefix="era5-dask-"))
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    cluster = DaskCluster(folder, environment(folder, PYTHONPATH=paths, **env), protocol)
    try:
        cluster.start_scheduler()
        for _ in range(workers):
            cluster.start_worker(preload, other_version_of)
        yield cluster
    finally:
        for process in (*cluster.workers, cluster.scheduler):
            if process is not None and process.poll() is None:
                kill(process)
        shutil.rmtree(folder)
