"""One pass in the order of passes of a pipeline stage."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from clustersim.program.ops import WEIGHTS


class Slot(NamedTuple):
    """One pass of a micro-batch through a chunk of a stage: forward, backward, or gradients of weights.

    Or the update by the gradients of this micro-batch alone. Micro-batches of earlier iterations have numbers below 0.
    A pass that `overlaps` is computed in turn with the pass after it.
    """

    phase: str
    micro_batch: int
    chunk: int
    overlaps: bool = False


def deferred_weights(slots: Sequence[Slot]) -> frozenset[tuple[int, int]]:
    """Return the micro-batches and chunks whose backward pass leaves the gradients of weights to a later slot."""
    return frozenset((slot.micro_batch, slot.chunk) for slot in slots if slot.phase == WEIGHTS)
