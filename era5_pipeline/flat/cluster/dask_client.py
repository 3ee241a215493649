"""A client of a Dask cluster by the address of its scheduler, whose programs are of this version.

Here: connecting, and comparing versions. Not here: what the cluster is asked to do (`remote_tiles`).
"""

from __future__ import annotations

import asyncio
import logging
import socket
import warnings
from contextlib import contextmanager
from importlib.metadata import version
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from distributed import Client, Security
from distributed.comm.core import connect

from era5_pipeline.model.errors import TransientError, UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

CONNECT_SECONDS = 10
# How long a scheduler that was connected to may take to answer: it may be busy, or its machine.
ANSWER_SECONDS = 60
# What must be equal on both sides: Dask's own protocol, and the code that reads tiles.
_SAME = ("era5_pipeline", "dask", "distributed")
_LOGGERS = ("distributed", "distributed.client")


def own_versions() -> dict[str, str]:
    """The versions here of what must be the same on the cluster."""
    return {name: version(name.replace("_", "-")) for name in _SAME}


@contextmanager
def connected(address: str) -> Iterator[Client]:
    """Connect to the scheduler, and require that it and its workers have the versions of this process.

    Raises:
        TransientError: if there is no scheduler at the address.
        UsageError: if the address or its certificates cannot be used, or versions differ.
    """
    with _quiet():
        client = _client(address)
        try:
            _require_same_versions(client, address)
            yield client
        finally:
            client.close(timeout=CONNECT_SECONDS)  # type: ignore[no-untyped-call]


@contextmanager
def _quiet() -> Iterator[None]:
    """Leave out what Dask logs of lost connections and other versions: an error with a remedy says it."""
    before = {name: logging.getLogger(name).level for name in _LOGGERS}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", module=r"distributed(\..*)?")
        try:
            for name in _LOGGERS:
                logging.getLogger(name).setLevel(logging.CRITICAL + 1)
            yield
        finally:
            for name, level in before.items():
                logging.getLogger(name).setLevel(level)


def _client(address: str) -> Client:
    try:
        asyncio.run(_require_answer(address))
        # Results come from the workers themselves: through the scheduler, each would be sent twice.
        return Client(address, timeout=CONNECT_SECONDS, set_as_default=False, direct_to_workers=True)  # type: ignore[no-untyped-call]
    except OSError as error:
        raise TransientError(
            f"no Dask scheduler answers at {address} ({_refusal(address) or 'no answer'})",
            remedy="Start it (dask scheduler), correct ERA5_DASK_SCHEDULER, or unset it to flatten in this process.",
        ) from error
    except (TypeError, ValueError, RuntimeError, ImportError) as error:
        raise UsageError(
            f"ERA5_DASK_SCHEDULER={address} cannot be used ({' '.join(str(error).split())})",
            remedy="Write tcp://HOST:8786, or tls://HOST:8786 with the certificates of Dask's own settings "
            "(DASK_DISTRIBUTED__COMM__TLS__CA_FILE, ..__CLIENT__CERT, ..__CLIENT__KEY).",
        ) from error


def _refusal(address: str) -> str:
    """Why no connection is made: refused, unknown host; empty if one is made.

    Asked again: Dask tries until its time is over, and reports a last try that was cut short as one without a reason.
    """
    url = urlsplit(address)
    try:
        with socket.create_connection((url.hostname or "", url.port or 0), timeout=CONNECT_SECONDS / 2):
            return ""
    except OSError as error:
        return " ".join(str(error).split())


async def _require_answer(address: str) -> None:
    """Connect once: the client would wait without end for a program that listens and does not answer."""
    async with asyncio.timeout(CONNECT_SECONDS):
        security = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
        # Less than the limit above, which is for a connection that is made and not answered.
        comm = await connect(address, timeout=CONNECT_SECONDS / 2, **security)  # type: ignore[no-untyped-call]
        comm.abort()


def _require_same_versions(client: Client, address: str) -> None:
    try:
        found: Any = client.get_versions(packages=["era5_pipeline"])
    except (OSError, ValueError) as error:
        raise lost_scheduler(address) from error
    programs = {f"the Dask scheduler {address}": found["scheduler"]}
    programs |= {f"the Dask worker {worker}": of for worker, of in found["workers"].items()}
    for program, info in programs.items():
        require_versions(program, info["packages"], own_versions())


def require_versions(program: str, found: Mapping[str, str | None], wanted: Mapping[str, str]) -> None:
    """Require that a program has the wanted versions.

    Raises:
        UsageError: naming the program and the first that differs.
    """
    for name, expected in wanted.items():
        if found.get(name) != expected:
            has = "has no" if found.get(name) is None else f"has {found[name]} of"
            raise UsageError(
                f"{program} {has} {name}, and this process {expected}",
                remedy="Start scheduler, workers and era5 from one environment or one image, or unset "
                "ERA5_DASK_SCHEDULER to flatten in this process.",
            )


def lost_scheduler(address: str) -> TransientError:
    """The error of a connection that was lost while the cluster worked."""
    return TransientError(
        f"the connection to the Dask scheduler {address} was lost",
        remedy="Nothing was left half-written: run the month again once the scheduler is back.",
    )
