from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from era5_pipeline.model.errors import InputError
from era5_pipeline.sources.cds.note import Fetched, Note, State, read_note, write_note

if TYPE_CHECKING:
    from pathlib import Path

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


@in_one_folder
@given(notes)
def test_a_written_note_is_read_back(tmp_path: Path, note: Note) -> None:
    write_note(tmp_path / "note.json", note, {"variable": ["2m_temperature"]})
    assert read_note(tmp_path / "note.json") == note


@in_one_folder
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
