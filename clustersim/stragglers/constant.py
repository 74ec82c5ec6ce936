"""GPUs that are always slower (or faster) by a constant factor."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np
from pydantic import Field

from clustersim.stragglers.straggler import FactorStraggler


class Constant(FactorStraggler):
    """A constant factor: a throttled GPU, an older model, a slow host."""

    kind: Literal["constant"]
    factor: float = Field(gt=0, le=1e6, allow_inf_nan=False, description="compute takes this many times as long")

    @property
    def is_steady(self) -> bool:
        return True

    @property
    def gives_every_gpu(self) -> bool:
        return False

    def draw(
        self, own: np.random.Generator, shared: Callable[[], np.random.Generator], size: int, per_iteration: int = 1
    ) -> np.ndarray:
        return np.full(size, self.factor)
