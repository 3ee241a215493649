from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from era5_pipeline.sources.cds.note import Fetched, Note, read_note, write_note

if TYPE_CHECKING:
    from pathlib import Path

texts = st.text(max_size=20)
fetched = st.builds(
    Fetched,
    name=texts,
    sha256=texts,
    bytes=st.integers(0, 10**12),
    md5=st.none() | texts,
    job=texts,
    fetched_at=texts,
    seconds=st.floats(0, 1e6),
    short=st.booleans(),
)
notes = st.builds(
    Note,
    sending_at=st.none() | texts,
    job=st.none() | texts,
    no_cache=st.booleans(),
    fetched=st.none() | fetched,
)
in_one_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@in_one_folder
@given(notes)
def test_what_is_written_is_read(tmp_path: Path, note: Note) -> None:
    write_note(tmp_path / "note.json", note, {"variable": ["2m_temperature"]})
    assert read_note(tmp_path / "note.json") == note


@in_one_folder
@given(st.recursive(st.none() | st.integers() | texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_any_other_json_is_no_note(tmp_path: Path, value: object) -> None:
    (tmp_path / "note.json").write_text(json.dumps(value))
    assert read_note(tmp_path / "note.json") == Note()


@pytest.mark.parametrize("text", ["", "{", '{"form": 1}', '{"form": 0}', '{"form": 1, "fetched": {"name": "x"}}'])
def test_half_a_note_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "note.json").write_text(text)
    assert read_note(tmp_path / "note.json") == Note()
    assert read_note(tmp_path / "nowhere.json") == Note()


def test_a_request_from_before_it_is_sent_until_its_answer_is_there() -> None:
    note = Note().sending("2026-11-20T12:00:00+00:00", no_cache=True)
    assert (note.sending_at, note.job, note.no_cache) == ("2026-11-20T12:00:00+00:00", None, True)
    note = note.sent("7")
    assert (note.sending_at, note.job) == (None, "7")
    assert note.forgotten().job is None
    file = Fetched("a.zip", "00", 1, None, "7", "2026-11-20T13:00:00+00:00", 3600.0)
    assert note.arrived(file) == Note(no_cache=True, fetched=file)
