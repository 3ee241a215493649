"""Types of a measurement: its figures by name, the error for what cannot be measured on this machine, ratios."""

from __future__ import annotations

Numbers = dict[str, float]


class CannotRunError(Exception):
    """An item cannot be measured here; the message says why."""


def ratio(above: float | None, below: float | None) -> float | None:
    """The quotient, rounded to 0.001; None if one of the values is missing."""
    return None if above is None or not below else round(above / below, 3)
