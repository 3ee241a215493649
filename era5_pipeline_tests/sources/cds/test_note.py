"""Tests of `sources/cds/note`."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from era5_pipeline.model.errors import InputError, TransientError
from era5_pipeline.model.months import Month
from era5_pipeline.runtime.file_store import FileStore
from era5_pipeline.runtime.files import sha256_of
from era5_pipeline.runtime.stores import open_store
from era5_pipeline.sources.cds.note import Fetched, Note, State, read_note, write_note
from era5_pipeline_tests.sources.cds.source_under_test import MONTH, SourceUnderTest
from era5_pipeline_tests.stores import S3Server, aws_environment, free_port, moto_command, running

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Machines = Callable[[str], SourceUnderTest]

texts = st.text(max_size=20)
fetched = st.builds(
    Fetched,
    name=texts,
    sha256=texts,
    bytes=st.integers(0, 10**12),
    checksum=st.none() | texts,
    job=texts,
    fetched_at=texts,
    seconds=st.floats(0, 1e6),
    short=st.booleans(),
)
notes = st.builds(
    Note,
    sending_at=st.none() | st.datetimes(timezones=st.just(UTC)).map(datetime.isoformat),
    job=st.none() | st.text(min_size=1, max_size=20),
    variant=st.none() | st.permutations([f"{hour:02d}:00" for hour in range(24)]).map(tuple),
    fetched=st.none() | fetched,
    given_up=st.none() | texts,
)
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@settings(in_one_folder, max_examples=20)
@given(notes)
def test_a_written_note_is_read_back(tmp_path: Path, note: Note) -> None:
    write_note(tmp_path / "note.json", note, {"variable": ["2m_temperature"]})
    assert read_note(tmp_path / "note.json") == note


@settings(in_one_folder, max_examples=20)
@given(st.recursive(st.none() | st.integers() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_other_json_is_read_as_an_empty_note(tmp_path: Path, value: object) -> None:
    (tmp_path / "note.json").write_text(json.dumps(value))
    assert read_note(tmp_path / "note.json") == Note()


@pytest.mark.parametrize("text", ["", "{", '{"form": 1}', '{"form": 0}', '{"form": 1, "fetched": {"name": "x"}}'])
def test_an_incomplete_or_missing_note_is_read_as_an_empty_one(tmp_path: Path, text: str) -> None:
    (tmp_path / "note.json").write_text(text)
    assert read_note(tmp_path / "note.json") == Note()
    assert read_note(tmp_path / "nowhere.json") == Note()


def test_a_note_of_a_newer_program_is_refused(tmp_path: Path) -> None:
    """Its request may be under way: it is not sent again."""
    (tmp_path / "note.json").write_text('{"form": 2, "job": "7"}')
    with pytest.raises(InputError, match=r"note.json: a newer era5-pipeline .* form 2, .* up to 1\nInstall the newer"):
        read_note(tmp_path / "note.json")


def test_states_of_a_request_from_sending_to_its_file() -> None:
    order = ("01:00", "00:00")
    assert Note().state is State.NOTHING_ASKED
    note = Note().sending("2026-11-20T12:00:00+00:00", variant=order)
    assert note.state is State.SENDING
    assert (note.sending_at, note.job, note.variant) == ("2026-11-20T12:00:00+00:00", None, order)
    assert note.is_fresh
    assert note.refused() == Note(variant=order)
    assert note.refused().state is State.NOTHING_ASKED
    note = note.queued("7")
    assert note.state is State.QUEUED
    assert (note.sending_at, note.job) == (None, "7")
    assert note.dropped() == Note(variant=order, given_up="7")
    assert note.dropped().sending("2026-11-20T12:00:00+00:00", variant=None).finished_jobs == {"7"}
    file = Fetched("a.zip", "00", 1, None, "7", "2026-11-20T13:00:00+00:00", 3600.0)
    assert note.received(file) == Note(variant=order, fetched=file)
    assert note.received(file).state is State.FETCHED
    # A file that was fetched before is kept while a newer one is asked for.
    again = note.received(file).sending("2026-11-21T12:00:00+00:00", variant=None)
    assert (again.state, again.fetched) == (State.SENDING, file)
    assert again.queued("8").dropped().state is State.FETCHED
    assert note.received(file).finished_jobs == {"7"}


@pytest.mark.parametrize("sending_at", ["yesterday", "2026-11-20T12:00:00", 7])
def test_a_note_with_an_invalid_time_is_read_as_an_empty_one(tmp_path: Path, sending_at: object) -> None:
    write_note(tmp_path / "note.json", Note().queued("7"), {})
    value = json.loads((tmp_path / "note.json").read_text())
    (tmp_path / "note.json").write_text(json.dumps({**value, "sending_at": sending_at}))
    assert read_note(tmp_path / "note.json") == Note()


def on_machine(cds: SourceUnderTest, home: Path, address: str) -> SourceUnderTest:
    return replace(cds, folder=home / "raw" / "cds", said=[], file_store=FileStore(home, open_store(address)))


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
    machine("first").source().request_ahead((MONTH,))
    second = machine("second")
    assert second.fetch().files
    assert len(second.server.submissions) == 1
    assert any("resuming request" in text for text in second.said)
    # The first machine, started again, finds the month there.
    first = machine("first")
    assert first.fetch().files
    assert len(first.server.submissions) == 1


def test_a_request_for_several_months_is_taken_up_by_another_machine(machine: Machines) -> None:
    months = (Month(2020, 1), MONTH, Month(2020, 3))
    machine("first").source().request_ahead(months)
    second = machine("second")
    raw = second.fetch()
    # Each machine has the files of all three months from the store.
    third = machine("third")
    raws = [third.fetch(month) for month in months]
    assert raws[1].fingerprint == raw.fingerprint
    assert all(one.files[0].path.is_file() for one in raws)
    assert len(third.server.submissions) == 1
    assert list(third.source().request_groups(months)) == [(month,) for month in months]


def test_a_request_whose_answer_another_machine_lost_is_found(machine: Machines) -> None:
    first = machine("first")
    first.server.faults.drop_submit_reply = 1
    first.source(patience_hours=1e-9).request_ahead((MONTH,))
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
    store = first.file_store.store
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
    store = first.file_store.store
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
        first.source().request_ahead((MONTH,))
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
            assert first.file_store.store is not None
            first.file_store.store.write(key, content)
        first.while_asleep = lambda: None
        assert first.fetch().files
        assert downloads(cds) == asked
        assert len(cds.server.submissions) == 1
        assert on_machine(cds, tmp_path / "second", f"s3://{bucket}").fetch().files
        assert downloads(cds) == asked


def keys_of(cds: SourceUnderTest) -> list[str]:
    assert cds.file_store.store is not None
    return [one.key for one in cds.file_store.store.objects()]


def content_of(cds: SourceUnderTest, key: str) -> bytes:
    assert cds.file_store.store is not None
    content = cds.file_store.store.read(key)
    assert content is not None
    return content
