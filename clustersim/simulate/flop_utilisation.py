"""What share of the GPUs' peak a training uses: of its model's FLOP, and with those that are computed twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from clustersim.hardware import load_gpu
from clustersim.kernels.kernel_model import rates_of
from clustersim.model.precision import PRECISIONS
from clustersim.parallelism import ModelLayout
from clustersim.simulate.setup import Setup


class FlopUtilisation(NamedTuple):
    """FLOP per second over the peak of all GPUs at the scenario's precision: of the model, and of the hardware."""

    mfu: float
    hfu: float


def flop_utilisation(setup: Setup, samples_per_s: float, kinds: Sequence[str]) -> FlopUtilisation:
    """Return the utilisation of GPUs of these kinds [num_ranks]: MFU and HFU (Chowdhery et al., PaLM, 2022, sec. 4.1).

    FLOP are those of matrix products and convolutions, of a causal attention the pairs that a kernel computes. The
    peak is that of the precision that products are in, dense.
    """
    number = PRECISIONS[setup.point.precision].name
    peaks = {kind: rates_of(load_gpu(kind), number).flop_per_s for kind in set(kinds)}
    peak = sum(peaks[kind] * num for kind, num in Counter(kinds).items())
    model = setup.model
    whole = model.flop + model.flop_backward
    again = 0.0 if setup.laid_out is None else _recomputed_flop(setup, setup.laid_out)
    return FlopUtilisation(whole * samples_per_s / peak, (whole + again) * samples_per_s / peak)


def _recomputed_flop(setup: Setup, laid_out: ModelLayout) -> float:
    """Return the forward FLOP of a sample that its backward pass repeats."""
    layers = setup.model.layers
    return sum(
        layers[part.first + number].flop
        for part in laid_out.parts
        for number, repeats in enumerate(part.recomputes)
        if repeats
    )
