"""Connecting to a Dask scheduler: none there, another version, TLS."""

from __future__ import annotations

import logging
import socket
from importlib.metadata import version
from typing import TYPE_CHECKING

import dask
import pytest

from era5_pipeline import __version__
from era5_pipeline.flat.cluster.dask_client import connected, own_versions
from era5_pipeline.model.errors import TransientError, UsageError
from era5_pipeline_tests.commands import InProcess
from era5_pipeline_tests.dask_clusters import dask_cluster
from era5_pipeline_tests.postgres.test_tls import make_authority, make_certificate

if TYPE_CHECKING:
    from pathlib import Path


def test_a_scheduler_that_is_not_there_is_a_temporary_error(
    capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # not listening: nobody else gets the port, and connections are refused
        address = f"tcp://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(TransientError, match="no Dask scheduler answers") as raised, connected(address):
            pass
    assert address in raised.value.message
    assert "Connection refused" in raised.value.message
    assert "dask scheduler" in raised.value.remedy
    assert "ERA5_DASK_SCHEDULER" in raised.value.remedy
    assert capsys.readouterr().err == ""
    assert caplog.records == []


def test_what_answers_may_be_no_scheduler() -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(TransientError, match="no Dask scheduler answers"), connected(address):
            pass


def test_the_logging_of_dask_is_as_before() -> None:
    names = ("distributed", "distributed.client")
    before = [logging.getLogger(name).level for name in names]
    with pytest.raises(TransientError), connected("tcp://127.0.0.1:1"):
        pass
    assert [logging.getLogger(name).level for name in names] == before


@pytest.mark.parametrize(("module", "own"), [("era5_pipeline", __version__), ("dask", version("dask"))])
def test_a_worker_of_another_version_is_refused(module: str, own: str) -> None:
    with (
        dask_cluster(1, other_version_of=module) as cluster,
        pytest.raises(UsageError) as raised,
        connected(cluster.address),
    ):
        pass
    assert raised.value.message.startswith("the Dask worker tcp://127.0.0.1:")
    assert raised.value.message.endswith(f"has 1.2.3 of {module}, and this process {own}")
    assert "one environment or one image" in raised.value.remedy


def test_what_must_be_equal_is_known_here() -> None:
    assert own_versions() == {name: version(name) for name in ("era5_pipeline", "dask", "distributed")}


def test_a_cluster_with_certificates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = make_authority(tmp_path, "right")
    make_certificate(tmp_path, "right", "node", "node", "IP:127.0.0.1")
    tls = {"DASK_DISTRIBUTED__COMM__TLS__CA_FILE": str(authority)}
    for role in ("SCHEDULER", "WORKER", "CLIENT"):
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{role}__CERT"] = str(tmp_path / "node.crt")
        tls[f"DASK_DISTRIBUTED__COMM__TLS__{role}__KEY"] = str(tmp_path / "node.key")
    with dask_cluster(1, protocol="tls", **tls) as cluster:
        assert cluster.address.startswith("tls://")
        with pytest.raises(UsageError, match="cannot be used") as raised, connected(cluster.address):
            pass  # without certificates
        assert "DASK_DISTRIBUTED__COMM__TLS__CA_FILE" in raised.value.remedy
        for name, path in tls.items():
            monkeypatch.setenv(name, path)
        dask.config.refresh()
        try:
            with connected(cluster.address) as client:
                assert sum(client.nthreads().values()) == 1  # type: ignore[no-untyped-call]
        finally:
            monkeypatch.undo()
            dask.config.refresh()


def test_an_address_of_another_form_is_a_usage_error(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    here = InProcess(capsys, monkeypatch, tmp_path)
    for address in ("127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://127.0.0.1", "tcp://:8786"):
        here.set(ERA5_DASK_SCHEDULER=address)
        printed = here.run("plan", "--from", "2023-07", "--to", "2023-07", code=2)
        assert "ERA5_DASK_SCHEDULER: Input should be tcp://HOST:PORT or tls://HOST:PORT" in printed.err
