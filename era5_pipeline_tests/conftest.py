"""Settings of hypothesis, for all tests. The plugins (servers, flat months, real files) are named one folder up."""

from __future__ import annotations

import os

from hypothesis import settings

# No deadline: how fast an example ran tells of the machine's other work. In CI the same examples at every run, so that
# a change is judged by what it changed; at the desk new ones, which is where bugs are found.
settings.register_profile("era5", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("era5")
