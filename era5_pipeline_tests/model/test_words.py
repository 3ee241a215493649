"""Tests of `model/words`."""

from __future__ import annotations

import subprocess
import sys

import pytest

from era5_pipeline.model.words import counted, pip_install


@pytest.mark.parametrize(
    ("number", "one", "words"),
    [(0, "hour", "0 hours"), (1, "hour", "1 hour"), (2, "hour", "2 hours"), (1020, "month", "1,020 months")],
)
def test_a_number_has_its_noun(number: int, one: str, words: str) -> None:
    assert counted(number, one) == words


def test_a_noun_may_have_its_own_plural() -> None:
    assert [counted(number, "city", "cities") for number in (1, 2)] == ["1 city", "2 cities"]


def test_what_is_missing_is_installed_for_this_python() -> None:
    command = pip_install("era5-pipeline[lake]")
    assert command == f"{sys.executable} -m pip install 'era5-pipeline[lake]'"
    # As a shell reads it.
    words = subprocess.run(["sh", "-c", f"printf '%s|' {command}"], capture_output=True, text=True, check=True).stdout
    assert words == f"{sys.executable}|-m|pip|install|era5-pipeline[lake]|"
