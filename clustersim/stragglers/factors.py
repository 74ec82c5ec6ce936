"""Draws everybody's slowness for a whole run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

import numpy as np

from clustersim.seeding import stream
from clustersim.stragglers.straggler import Straggler


def factors(specs: Sequence[Straggler], seed: int, hosts: np.ndarray, num_iterations: int) -> np.ndarray:
    """Return [num_ranks, num_iterations] how many times as long each rank computes in each iteration.

    The product over all sources that are drawn per iteration or per GPU; `hosts` [num_ranks] is the host
    of each rank. Each source has a stream of its own for each rank, named after its kind and how many of
    that kind stand before it: one more rank, iteration or source of another kind shifts nobody's numbers,
    and every strategy under one seed meets the same ones.
    """
    product = np.ones((len(hosts), num_iterations))
    for name, spec in _named(specs):
        if spec.per == "layer":
            continue
        for rank in np.flatnonzero(spec.meets(hosts)):
            rng = stream(seed, "stragglers", *name, int(rank))
            product[rank] *= spec.draw(rng, 1 if spec.per == "gpu" else num_iterations)
    return product


def layer_factors(
    specs: Sequence[Straggler], seed: int, rank: int, hosts: np.ndarray, num_iterations: int, num_layers: int
) -> np.ndarray | None:
    """Return [num_iterations, num_layers] the factors that one rank's layers have beside those of `factors`.

    None where no source is drawn per layer, so that the caller need not hold an array of ones.
    """
    product = None
    for name, spec in _named(specs):
        if spec.per != "layer":
            continue
        product = np.ones((num_iterations, num_layers)) if product is None else product
        if spec.meets(hosts)[rank]:
            rng = stream(seed, "stragglers", *name, rank)
            product *= spec.draw(rng, num_iterations * num_layers).reshape(num_iterations, num_layers)
    return product


def _named(specs: Sequence[Straggler]) -> Iterator[tuple[tuple[str, int], Straggler]]:
    """Yield each source with its kind and how many of that kind stand before it."""
    seen: Counter[str] = Counter()
    for spec in specs:
        yield (spec.kind, seen[spec.kind]), spec
        seen[spec.kind] += 1
