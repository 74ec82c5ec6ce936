"""The tokens of a sample, from which tokens per second and the length of a training in samples follow."""

from __future__ import annotations

from clustersim.kernels.packing import filling, tokens_of
from clustersim.simulate.setup import Setup


def tokens_per_sample(setup: Setup) -> float | None:
    """Return the tokens of a sample, of documents only if sequences are packed or padded; None if it has no tokens."""
    packing = setup.point.packing
    if packing is None:
        return setup.model.tokens
    return filling(packing, tokens_of(setup.model)).tokens
