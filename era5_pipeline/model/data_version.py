"""The version of ERA5 that a month consists of: final, preliminary (ERA5T), or some hours of each.

Here: the versions as files name them (`expver`), and the version of a month by its counts of them. Not here: reading
them from files (`netcdf.contents`), or choosing between two versions of a value (`flat.merge`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

FINAL = "0001"
PRELIMINARY = "0005"

Version = Literal["final", "preliminary", "mixed", "unknown"]


def version_of(
    expver: Mapping[str, Mapping[str, int]], preliminary_hours: Mapping[str, Sequence[str]] | None = None
) -> Version:
    """The version of a month, from its number of hours by column and version (`expver`).

    "unknown" where the files do not name their version, "mixed" where some hours are preliminary.

    `preliminary_hours` are runs of hours by column. If it is given and empty, preliminary data are ignored: the files
    have final data for the same hours as well. None: all hours counted as preliminary are.
    """
    counted = {version for counts in expver.values() for version, hours in counts.items() if hours}
    if preliminary_hours is not None and not any(preliminary_hours.values()):
        counted.discard(PRELIMINARY)
    if PRELIMINARY in counted:
        return "preliminary" if counted == {PRELIMINARY} else "mixed"
    return "final" if counted == {FINAL} else "unknown"
