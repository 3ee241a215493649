"""One contract for objects of every kind of store: a folder, a web server with and without ranges, and S3."""

from __future__ import annotations

import time
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest
from zarr.core.sync import sync

from era5_pipeline.model.errors import SourceError, TransientError
from era5_pipeline.runtime import stores
from era5_pipeline.sources.zarr import objects
from era5_pipeline.sources.zarr.objects import ForbiddenError
from era5_pipeline.sources.zarr.store import ReadOnlyStore
from era5_pipeline_tests.arco_store import served
from era5_pipeline_tests.failing_proxy import FailingProxy, failing_proxy
from era5_pipeline_tests.stores import aws_environment
from era5_pipeline_tests.zarr_stores import upload

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from era5_pipeline.runtime.object_store import Part

CONTENT = bytes(range(200)) * 50
KEY = "t2m/c/0/0"
SERVERS = ("http", "http without Range", "s3")


@dataclass
class Place:
    """A store with one object, the proxy in front of its server, what was said, and the pauses before retries."""

    store: ReadOnlyStore
    proxy: FailingProxy | None
    said: list[str]
    paused: list[float]

    @property
    def web(self) -> FailingProxy:
        assert self.proxy is not None
        return self.proxy

    @property
    def is_http(self) -> bool:
        return isinstance(self.store._objects, objects.HttpObjects)

    def requests(self) -> int:
        return sum(KEY in request for request in self.web.asked)


@pytest.fixture
def short_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """Give up a silent server after a second; before a store is opened."""
    monkeypatch.setattr(objects, "_SILENCE_SECONDS", 1.0)
    monkeypatch.setattr(stores, "_SILENT_TRANSFER_SECONDS", 1.0)


@pytest.fixture(params=["folder", *SERVERS])
def place(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Place]:
    # Those of the store are the six tries; S3's own come before each.
    monkeypatch.setattr(stores, "_ATTEMPTS", 1)
    (tmp_path / "store/t2m/c/0").mkdir(parents=True)
    (tmp_path / "store" / KEY).write_bytes(CONTENT)
    said: list[str] = []
    paused: list[float] = []

    async def pause(seconds: float) -> None:
        paused.append(seconds)

    @contextmanager
    def opened(url: str, proxy: FailingProxy | None = None) -> Iterator[Place]:
        with closing(ReadOnlyStore.at(url, said.append, pause=pause)) as store:
            yield Place(store, proxy, said, paused)

    if request.param == "folder":
        with opened(str(tmp_path / "store")) as place:
            yield place
    elif request.param == "s3":
        address, server = request.getfixturevalue("s3_address"), request.getfixturevalue("s3_server")
        upload(tmp_path / "store", server.client(), address)
        with failing_proxy(server.url) as proxy, aws_environment(proxy.url), opened(address, proxy) as place:
            yield place
    else:
        with_ranges = request.param == "http"
        with (
            served(tmp_path / "store", with_ranges=with_ranges) as web,
            failing_proxy(web.url) as proxy,
            opened(proxy.url, proxy) as place,
        ):
            yield place


on_servers = pytest.mark.parametrize("place", SERVERS, indirect=True)


@pytest.mark.parametrize("part", [None, (0, 1), (100, 200), (9_000, None), (-300, 300), (0, len(CONTENT))])
def test_an_object_and_its_parts_are_read(place: Place, part: Part | None) -> None:
    first, length = part or (0, None)
    first = first % len(CONTENT)
    assert sync(place.store.fetch(KEY, part)) == CONTENT[first : None if length is None else first + length]
    assert place.store.absent == set()


def test_an_object_that_is_absent_is_none(place: Place) -> None:
    for key in ("none", "t2m/c/1/0"):
        assert place.store.read(key) is None
        assert place.store.size_of(key) is None
    assert place.store.absent == {"none", "t2m/c/1/0"}
    assert place.store.size_of(KEY) == len(CONTENT)


def test_a_part_beyond_the_end_is_an_error(place: Place) -> None:
    for first in (len(CONTENT) - 10, len(CONTENT) + 10):
        with pytest.raises((RuntimeError, TransientError)):
            sync(place.store.fetch(KEY, (first, 20)))


FAULTS = ("500", "503", "cut", "half")


@pytest.mark.parametrize(
    ("place", "how"),
    [(server, how) for server in SERVERS for how in (*FAULTS, *(("408", "425", "429") if server != "s3" else ()))],
    indirect=["place"],
)
def test_a_server_that_fails_for_a_moment_is_asked_again(place: Place, how: str) -> None:
    place.web.fail(how, 2, KEY)
    place.web.retry_after = "7"
    assert place.store.read(KEY) == CONTENT
    # On the web, an answer that never begins is asked for again at once, by the client itself; S3 is asked for the size
    # first, whose answer has no other half.
    assert len(place.said) == len(place.paused) == (1 if how == ("cut" if place.is_http else "half") else 2)
    assert "reading again in" in place.said[0]
    if how.isdigit() and place.is_http:
        assert min(place.paused) >= 7


@on_servers
def test_a_server_that_stays_busy_ends_with_a_transient_error(place: Place) -> None:
    place.web.fail("503", where=KEY)
    with pytest.raises(TransientError, match=rf"{KEY} cannot be read in 6 tries \(.*(503|SlowDown)") as caught:
        place.store.read(KEY)
    assert "Check the network" in caught.value.remedy
    assert place.requests() == 6
    assert 20 <= sum(place.paused) <= 41


@on_servers
@pytest.mark.parametrize("status", ["401", "403", "426"])
def test_a_refusal_is_not_asked_again(place: Place, status: str) -> None:
    place.web.fail(status, where=KEY)
    is_forbidden = status == "403" or (status == "401" and not place.is_http)
    with pytest.raises(SourceError, match=rf"{KEY} cannot be read \(.*{403 if is_forbidden else status}") as caught:
        place.store.read(KEY)
    assert isinstance(caught.value, ForbiddenError) == is_forbidden
    assert caught.value.exit_code == SourceError.exit_code
    assert place.requests() == 1
    assert place.said == []


@on_servers
def test_a_server_that_falls_silent_is_asked_again(short_silence: None, place: Place) -> None:
    del short_silence
    place.web.fail("silent", 1, KEY)
    started = time.monotonic()
    assert place.store.read(KEY) == CONTENT
    assert time.monotonic() - started < 25
    assert len(place.said) == 1


def test_a_closed_store_is_not_read(place: Place) -> None:
    assert place.store.read(KEY) == CONTENT
    place.store.close()
    with pytest.raises(SourceError, match="was closed"):
        place.store.read(KEY)
