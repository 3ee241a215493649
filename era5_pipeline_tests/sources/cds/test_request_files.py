"""Months of the Climate Data Store on several machines, whose homes have nothing in common but a store."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from era5_pipeline.model.errors import TransientError
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline.runtime.store.depot import Depot
from era5_pipeline.runtime.store.object_store import open_store
from era5_pipeline_tests.sources.cds.source_under_test import MONTH, SourceUnderTest
from era5_pipeline_tests.stores import S3Server, aws_environment, free_port, moto_command, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Machines = Callable[[str], SourceUnderTest]


def on_machine(cds: SourceUnderTest, home: Path, address: str) -> SourceUnderTest:
    return replace(cds, folder=home / "raw" / "cds", said=[], depot=Depot(home, open_store(address)))


@pytest.fixture
def machine(cds: SourceUnderTest, tmp_path: Path, store_address: str) -> Machines:
    """Gives the source on a machine, by the machine's name."""
    return lambda name: on_machine(cds, tmp_path / name, store_address)


def downloads(cds: SourceUnderTest) -> int:
    return sum("/files/" in path or path.endswith((".zip", ".nc")) for _, path, _ in cds.server.requests)


def test_a_month_that_another_machine_fetched_is_not_asked_for(
    machine: Machines, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = machine("first").fetch()
    asked = len(machine("first").server.requests)
    monkeypatch.delenv("CDSAPI_KEY")
    second = machine("second")
    known = second.source().known(MONTH)
    assert known is not None
    assert known.fingerprint == first.fingerprint
    assert not known.files[0].path.exists()
    fetched = second.fetch()
    assert fetched == known
    assert fetched.files[0].path.is_relative_to(second.folder)
    assert sha256_of(fetched.files[0].path) == first.files[0].sha256
    assert len(second.server.requests) == asked


def test_a_request_that_another_machine_sent_is_taken_up(machine: Machines) -> None:
    machine("first").source().ask(MONTH)
    second = machine("second")
    assert second.fetch().files
    assert len(second.server.submissions) == 1
    assert any("taking up request" in text for text in second.said)
    # The first machine, started again, finds the month there.
    first = machine("first")
    assert first.fetch().files
    assert len(first.server.submissions) == 1


def test_a_request_for_several_months_is_taken_up_by_another_machine(machine: Machines) -> None:
    months = (Month(2020, 1), MONTH, Month(2020, 3))
    machine("first").source().ask_together(months)
    second = machine("second")
    raw = second.fetch()
    # Each machine has the files of all three months from the store.
    third = machine("third")
    raws = [third.fetch(month) for month in months]
    assert raws[1].fingerprint == raw.fingerprint
    assert all(one.files[0].path.is_file() for one in raws)
    assert len(third.server.submissions) == 1
    assert not third.source().can_go_together(months)


def test_a_request_whose_answer_another_machine_lost_is_found(machine: Machines) -> None:
    first = machine("first")
    first.server.faults.drop_submit_reply = 1
    first.source(patience_hours=1e-9).ask(MONTH)
    assert len(first.server.submissions) == 1
    second = machine("second")
    assert second.fetch().files
    assert len(second.server.submissions) == 1


def test_an_incomplete_month_is_fetched_again_by_another_machine(machine: Machines) -> None:
    first = machine("first")
    first.source().invalidate(first.fetch())
    second = machine("second")
    assert second.source().known(MONTH) is None
    second.fetch()
    assert len(second.server.submissions) == 2


def test_a_damaged_object_is_fetched_again(machine: Machines) -> None:
    first = machine("first")
    first.fetch()
    store = first.depot.store
    assert store is not None
    (found,) = [one for one in store.objects() if one.key.endswith(".zip")]
    store.write(found.key, bytes(found.bytes))
    second = machine("second")
    raw = second.fetch()
    assert len(second.server.submissions) == 2
    assert sha256_of(raw.files[0].path) == raw.files[0].sha256
    assert machine("third").fetch().fingerprint == raw.fingerprint
    assert len(second.server.submissions) == 2


def test_a_newer_file_takes_the_place_of_the_older_in_the_store(machine: Machines) -> None:
    first = machine("first")
    old = first.fetch()
    first.server.preliminary_differs = False
    new = machine("second").fetch(refetch=True)
    store = first.depot.store
    assert store is not None
    held = [one.key for one in store.objects() if one.key.endswith(".zip")]
    assert len(held) == 1
    assert new.files[0].sha256[:16] in held[0]
    assert (old.files[0].sha256[:16] in held[0]) is (old.fingerprint == new.fingerprint)


def test_a_month_of_the_home_is_shared_once_there_is_a_store(
    cds: SourceUnderTest, tmp_path: Path, machine: Machines
) -> None:
    """A store is set later: what was downloaded before is neither lost nor downloaded again."""
    alone = replace(cds, folder=tmp_path / "first" / "raw" / "cds")
    raw = alone.fetch()
    machine("first").fetch()
    assert machine("second").fetch().fingerprint == raw.fingerprint
    assert len(cds.server.submissions) == 1


def test_what_arrived_while_the_store_was_away_is_not_downloaded_again(cds: SourceUnderTest, tmp_path: Path) -> None:
    port = free_port()
    with running(moto_command(port), port) as server, aws_environment(server.url):
        bucket = server.bucket()
        first = on_machine(cds, tmp_path / "first", f"s3://{bucket}")
        first.source().ask(MONTH)
        note = {key: content_of(first, key) for key in keys_of(first)}

        def stop(server: S3Server = server) -> None:
            server.stop()

        cds.server.faults.accepted_polls = 2
        first.while_asleep = stop
        with pytest.raises(TransientError, match=bucket):
            first.fetch()
        asked = downloads(cds)
        server.start()
        server.client().create_dir(bucket)  # it kept its objects in memory
        for key, content in note.items():
            assert first.depot.store is not None
            first.depot.store.write(key, content)
        first.while_asleep = lambda: None
        assert first.fetch().files
        assert downloads(cds) == asked
        assert len(cds.server.submissions) == 1
        assert on_machine(cds, tmp_path / "second", f"s3://{bucket}").fetch().files
        assert downloads(cds) == asked


def keys_of(cds: SourceUnderTest) -> list[str]:
    assert cds.depot.store is not None
    return [one.key for one in cds.depot.store.objects()]


def content_of(cds: SourceUnderTest, key: str) -> bytes:
    assert cds.depot.store is not None
    content = cds.depot.store.read(key)
    assert content is not None
    return content
