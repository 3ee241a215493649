"""`postgres.embedded.data_folder`: homes that other commands created, and those near by, are named."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from era5_pipeline.postgres.embedded.data_folder import known_homes
from era5_pipeline_tests.commands import Home, new_home

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


def with_data(home: Path) -> Path:
    (home / "postgres").mkdir(parents=True)
    (home / "postgres" / "PG_VERSION").write_text("18\n")
    return home


def test_homes_below_this_folder_and_those_above_it_are_known(tmp_path: Path) -> None:
    demo, above = with_data(tmp_path / "work" / ".era5" / "demo"), with_data(tmp_path / ".era5")
    (tmp_path / "work" / ".era5" / "raw").mkdir()
    (tmp_path / "work" / "deeper").mkdir()
    assert known_homes(tmp_path / "work") == (demo, above)
    assert known_homes(tmp_path / "work" / "deeper") == (demo, above)


def test_a_broken_note_is_no_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "era5-pipeline").mkdir()
    for text in ("", "[1]", "3", '["/nowhere"]', "\udcff"):
        (tmp_path / "era5-pipeline" / "homes.json").write_text(text, errors="surrogateescape")
        assert known_homes(tmp_path) == ()


def test_status_elsewhere_names_the_database_that_a_command_created(tmp_path: Path) -> None:
    state = str(tmp_path / "state")
    second = tmp_path / "second"
    second.mkdir()
    # Not below `tmp_path`: another session of pytest takes the server's user the permission to pass through it.
    with new_home() as first:
        first.run("db", "init", XDG_STATE_HOME=state)
        printed = Home(second).run("status", code=5, XDG_STATE_HOME=state).err
        assert f"Others exist: ERA5_HOME={first.path}" in " ".join(printed.split())
        assert json.loads((tmp_path / "state" / "era5-pipeline" / "homes.json").read_text()) == [str(first.path)]
        assert list(second.iterdir()) == []
