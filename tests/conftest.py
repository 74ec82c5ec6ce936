"""How random tests draw: the same cases every time, unless CLUSTERSIM_FUZZ asks for others (`make fuzz`)."""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("same", derandomize=True, deadline=None)
settings.register_profile("fuzz", print_blob=True, deadline=None)
settings.load_profile("fuzz" if os.environ.get("CLUSTERSIM_FUZZ") else "same")
