"""Settings of hypothesis, for all tests. The plugins (servers, flat months, real files) are named one folder up."""

from __future__ import annotations

from hypothesis import settings

# No deadline: how fast an example ran tells of the machine's other work.
settings.register_profile("era5", deadline=None)
settings.load_profile("era5")
