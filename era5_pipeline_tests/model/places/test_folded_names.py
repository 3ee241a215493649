"""Names as they are compared."""

from __future__ import annotations

import pytest

from era5_pipeline.model.places.folded_names import folded


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("São Paulo", "sao paulo"),
        ("REYKJAVÍK", "reykjavik"),
        ("N\u2019Djamena", "ndjamena"),
        ("Łódź", "lodz"),
        ("Tromsø", "tromso"),
        ("Diyarbak\u0131r", "diyarbakir"),
        ("İzmir", "izmir"),
        ("Gießen", "giessen"),
        ("Saint-Denis", "saint denis"),
        ("Washington, D.C.", "washington, dc"),
        ("서울", "서울"),
        ("東京", "東京"),
    ],
)
def test_names_are_compared_without_case_accents_and_punctuation(name: str, expected: str) -> None:
    assert folded(name) == expected
    assert folded(expected) == expected


def test_many_names_are_folded_at_once() -> None:
    assert folded("Zürich\nKöln\tBonn\n") == "zurich\nkoln\tbonn\n"
