"""Finding a place by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from era5_pipeline.model.errors import UsageError

if TYPE_CHECKING:
    from era5_pipeline.model.places.place import Place


def find_place(text: str) -> Place:
    """The place that a text names: `Jakarta`, `Saigon`, `Paris, US`, `Paris, TX, US`.

    Raises:
        UsageError: if there is none, or several; it lists the candidates, or the nearest names.
    """
    raise UsageError(f"{text!r}: there is no table of places yet", remedy="Give --lat and --lon.")
