"""Which version of ERA5 a month is of: final, preliminary (ERA5T), or some of each.

Here: the versions as files name them (`expver`), and what a month's counts of them come to. Not here: reading them from
files (`netcdf.inspect`), or which version of a value counts (`merge`).
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
    """What hours by column and version come to: "unknown" where files do not say, "mixed" where some are preliminary.

    With `preliminary_hours` (runs by column), a preliminary version that is counted nowhere in them is passed over: the
    files have it, and final data for the same hours. None: whatever is counted as preliminary is.
    """
    counted = {version for counts in expver.values() for version, hours in counts.items() if hours}
    if preliminary_hours is not None and not any(preliminary_hours.values()):
        counted.discard(PRELIMINARY)
    if PRELIMINARY in counted:
        return "preliminary" if counted == {PRELIMINARY} else "mixed"
    return "final" if counted == {FINAL} else "unknown"
