"""The outer optimizer of DiLoCo: SGD with Nesterov momentum on what workers have changed in the mean.

Source: Douillard et al., arXiv:2311.08105, algorithm 1, with its rate and momentum, as in OpenDiLoCo
(open_diloco/train_diloco_torch.py, PrimeIntellect-ai/OpenDiloco, commit 828b643c).
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

OUTER_RATE, OUTER_MOMENTUM = 0.7, 0.9

_SIGMAS, _NUM_LEVELS = 6, 256


class Outer:
    """The weights of the last outer step [num_weights], and the momentum; all workers have the same."""

    def __init__(self, initial: Tensor, number: str):
        self._parameter = torch.nn.Parameter(initial.clone())
        self._number = NUMBERS[number]
        self._optimizer = torch.optim.SGD([self._parameter], lr=OUTER_RATE, momentum=OUTER_MOMENTUM, nesterov=True)

    def step(self, weights: Tensor) -> Tensor:
        """Return the weights after a step with what each worker has changed; `weights` [num_workers, num_weights]."""
        changes = self._parameter.data - weights
        sent = torch.stack([self._number(change) for change in changes])
        self._parameter.grad = self._number(sent.mean(0))
        self._optimizer.step()
        return self._parameter.data


def _cast(number: torch.dtype) -> Callable[[Tensor], Tensor]:
    return lambda values: values.to(number).to(values.dtype)


def _in_levels(values: Tensor) -> Tensor:
    """Return values in 8 bits: 256 equal steps over 6 standard deviations, each the mean of the values in it.

    Source: Uniform8BitQuantization in hivemind/compression/quantization.py (learning-at-home/hivemind, commit
    01792b39), which OpenDiLoCo uses.
    """
    step = float(_SIGMAS * values.std() / _NUM_LEVELS)
    if not 0 < step < torch.inf:
        return values.clone()
    half = _NUM_LEVELS // 2
    levels = ((values - values.mean()) / step).round().clamp(-half, half - 1).long() + half
    sums = torch.zeros(_NUM_LEVELS, dtype=values.dtype).index_add_(0, levels, values)
    return (sums / torch.bincount(levels, minlength=_NUM_LEVELS).clamp(min=1))[levels]


NUMBERS: dict[str, Callable[[Tensor], Tensor]] = {
    "fp32": lambda values: values,
    "fp16": _cast(torch.float16),
    "bf16": _cast(torch.bfloat16),
    "int8": _in_levels,
}
"""What receivers get of outer gradients in each number format; their mean travels in it too."""
