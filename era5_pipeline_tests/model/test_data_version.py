"""The version of a month from its counts of hours by version."""

from __future__ import annotations

import pytest

from era5_pipeline.model.data_version import version_of


@pytest.mark.parametrize(
    ("expver", "version"),
    [
        ({"a": {"0001": 744}, "b": {"0001": 744}}, "final"),
        ({"a": {"0005": 744}, "b": {"0005": 744}}, "preliminary"),
        ({"a": {"0001": 7, "0005": 737}}, "mixed"),
        ({"a": {"0001": 744}, "b": {"0005": 744}}, "mixed"),
        ({"a": {"0005": 1}, "b": {"unknown": 744}}, "mixed"),
        ({"a": {"unknown": 744}}, "unknown"),
        ({"a": {"0001": 744}, "b": {"unknown": 744}}, "unknown"),
        ({"a": {"0078": 744}}, "unknown"),
        ({"a": {}, "b": {"0001": 744}}, "final"),
        ({"a": {"0005": 0, "0001": 744}}, "final"),
        ({"a": {}}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_a_month_is_final_preliminary_mixed_or_unknown_by_its_counts(
    expver: dict[str, dict[str, int]], version: str
) -> None:
    assert version_of(expver) == version


@pytest.mark.parametrize(
    ("expver", "preliminary", "version"),
    [
        ({"a": {"0001": 744, "0005": 744}}, {}, "final"),
        ({"a": {"0001": 744, "0005": 744}}, {"a": ()}, "final"),
        ({"a": {"0001": 744, "0005": 744}}, {"a": ("2024-12-31T23",)}, "mixed"),
        ({"a": {"0005": 744}}, {"a": ("2024-12-01T00 to 2024-12-31T23",)}, "preliminary"),
        ({"a": {"unknown": 744, "0005": 744}}, {}, "unknown"),
    ],
)
def test_preliminary_data_are_ignored_if_all_their_hours_have_final_data_too(
    expver: dict[str, dict[str, int]], preliminary: dict[str, tuple[str, ...]], version: str
) -> None:
    assert version_of(expver, preliminary) == version
