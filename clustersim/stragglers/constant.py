"""GPUs that are always slower (or faster) by the same factor."""

from __future__ import annotations

from typing import Literal

import numpy as np
from pydantic import Field

from clustersim.stragglers.straggler import Straggler


class Constant(Straggler):
    """The same factor every time: a throttled GPU, an older model, a slow host."""

    kind: Literal["constant"]
    factor: float = Field(gt=0, le=1e6, allow_inf_nan=False, description="compute takes this many times as long")

    def draw(self, rng: np.random.Generator, size: int) -> np.ndarray:
        return np.full(size, self.factor)
