"""Servers with settings of their own: started, and gone without a trace."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from benchmarks.cells import CannotRunError
from benchmarks.servers import own_server
from era5_pipeline.model.errors import Era5Error
from era5_pipeline_tests.commands import new_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def folder() -> Iterator[Path]:
    with new_home() as home:
        yield home.path


def test_a_server_has_the_settings_and_is_gone_afterwards(folder: Path) -> None:
    for pages, jit in (("off", "on"), ("on", "off")):
        with own_server(folder / "server", {"full_page_writes": pages, "jit": jit}) as target:
            with target.connect() as connection:
                shown = [connection.execute(f"SHOW {name}".encode()).fetchone() for name in ("full_page_writes", "jit")]
                connection.execute("CREATE TABLE only_here ()")
            assert shown == [(pages,), (jit,)]
        with pytest.raises(Era5Error), target.connect():
            pass
        assert sorted(path.name for path in (folder / "server").iterdir()) == ["server.log"]
    with own_server(folder / "server", {}) as target, target.connect() as connection:
        assert connection.execute("SELECT to_regclass('only_here')").fetchone() == (None,)


def test_a_server_that_does_not_start_says_why(folder: Path) -> None:
    with (
        pytest.raises(CannotRunError, match="no_such_setting"),
        own_server(folder / "server", {"no_such_setting": "1"}),
    ):
        pass
    assert sorted(path.name for path in (folder / "server").iterdir()) == ["server.log"]
