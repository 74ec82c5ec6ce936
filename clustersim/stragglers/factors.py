"""Draws the factors of all ranks, on demand."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial

import numpy as np

from clustersim.seeding import stream
from clustersim.stragglers.constant import Constant
from clustersim.stragglers.straggler import FactorStraggler, Straggler, job_hosts

Name = tuple[str, int]


def factors(specs: Sequence[Straggler], seed: int, hosts: np.ndarray, num_iterations: int) -> np.ndarray:
    """Return [num_ranks, num_iterations] how many times as long each rank computes in each iteration.

    The product over all stragglers that are drawn per iteration or per GPU; `hosts` [num_ranks] is the host
    of each rank. Each straggler has its own random stream for each rank, named after its kind and its number
    among those of its kind. One more rank, iteration or straggler of another kind changes no other numbers,
    and every strategy with one seed gets the same ones.
    """
    draws = Draws(specs, seed, hosts)
    product = [draws.of_rank(rank, num_iterations) for rank in range(len(hosts))]
    return np.array(product).reshape(len(hosts), num_iterations)


def layer_factors(
    specs: Sequence[Straggler], seed: int, rank: int, hosts: np.ndarray, num_iterations: int, num_layers: int
) -> np.ndarray | None:
    """Return [num_iterations, num_layers] the factors of one rank's layers, on top of those of `factors`.

    None if no straggler is drawn per layer, which saves an array of ones.
    """
    draws = Draws(specs, seed, hosts)
    return draws.layers_of_rank(rank, num_iterations, num_layers) if draws.has_layers else None


def constant_factors(specs: Sequence[Straggler], hosts: np.ndarray) -> np.ndarray:
    """Return [num_ranks] the product of the constant factors of each rank; `hosts` [num_ranks] is the host of each."""
    product = np.ones(len(hosts))
    for spec in specs:
        if isinstance(spec, Constant):
            product[spec.affects(hosts)] *= spec.factor
    return product


def are_constant(specs: Sequence[Straggler]) -> bool:
    """Return whether every replicate of a run has the same factors."""
    return all(isinstance(spec, Constant) for spec in specs)


def are_steady(specs: Sequence[Straggler]) -> bool:
    """Return whether every iteration of a run has the same factors."""
    return all(spec.is_steady for spec in specs)


def has_layer_factors(specs: Sequence[Straggler]) -> bool:
    """Return whether a straggler is drawn per layer."""
    return any(isinstance(spec, FactorStraggler) and spec.per == "layer" for spec in specs)


class Draws:
    """The factors of every rank of a job; a request for a later iteration draws more of them.

    Drawn factors never change, and the draws of a rank do not depend on how many another rank has: asynchronous
    workers get the same factors as synchronous ones.

    >>> from clustersim.stragglers import Exponential
    >>> draws = Draws([Exponential(kind="exponential", cv=0.5)], 1, np.array([0, 0]))
    >>> draws.factor(1, 100) == float(factors(draws.specs, 1, draws.hosts, 101)[1, 100])
    True
    """

    def __init__(self, specs: Sequence[Straggler], seed: int, hosts: np.ndarray):
        self.specs = tuple(specs)
        self.seed = seed
        self.hosts = hosts
        self._job_hosts = job_hosts(hosts)
        found = [(name, spec) for name, spec in named(self.specs) if isinstance(spec, FactorStraggler)]
        drawn = [(name, spec, spec.affects(hosts)) for name, spec in found]
        self._whole = [each for each in drawn if each[1].per != "layer"]
        self._by_layer = [each for each in drawn if each[1].per == "layer"]
        self._known: dict[int, list[float]] = {}
        self._known_layers: dict[int, np.ndarray] = {}

    @property
    def has_layers(self) -> bool:
        """Whether a straggler is drawn per layer."""
        return bool(self._by_layer)

    def factor(self, rank: int, iteration: int) -> float:
        """Return how many times as long a rank computes in one iteration."""
        known = self._known.get(rank, ())
        if iteration >= len(known):
            known = self._known[rank] = self.of_rank(rank, _draw_size(iteration)).tolist()
        return known[iteration]

    def layers(self, rank: int, iteration: int, num_layers: int) -> np.ndarray:
        """Return [num_layers] the factors of a rank's layers in one iteration, on top of `factor`."""
        known = self._known_layers.get(rank)
        if known is None or iteration >= len(known) or known.shape[1] != num_layers:
            known = self._known_layers[rank] = self.layers_of_rank(rank, _draw_size(iteration), num_layers)
        found: np.ndarray = known[iteration]
        return found

    def of_rank(self, rank: int, num_iterations: int) -> np.ndarray:
        """Return [num_iterations] the factors of one rank from the first iteration."""
        product = np.ones(num_iterations)
        for name, spec, affected in self._whole:
            if affected[rank]:
                product *= self._draw(name, spec, rank, 1 if spec.per == "gpu" else num_iterations, 1)
        return product

    def layers_of_rank(self, rank: int, num_iterations: int, num_layers: int) -> np.ndarray:
        """Return [num_iterations, num_layers] the factors of one rank's layers from the first iteration."""
        product = np.ones(num_iterations * num_layers)
        for name, spec, affected in self._by_layer:
            if affected[rank]:
                product *= self._draw(name, spec, rank, len(product), num_layers)
        return product.reshape(num_iterations, num_layers)

    def _draw(self, name: Name, spec: FactorStraggler, rank: int, size: int, per_iteration: int) -> np.ndarray:
        own = stream(self.seed, "stragglers", *name, rank)
        shared = partial(stream, self.seed, "stragglers", *name, "host", int(self._job_hosts[rank]))
        return spec.draw(own, shared, size, per_iteration)


def named(specs: Sequence[Straggler]) -> Iterator[tuple[Name, Straggler]]:
    """Yield each straggler with its kind and its number among those of its kind."""
    seen: Counter[str] = Counter()
    for spec in specs:
        yield (spec.kind, seen[spec.kind]), spec
        seen[spec.kind] += 1


def _draw_size(iteration: int) -> int:
    """Return how many iterations to draw for a request: a power of two, so that few are drawn again."""
    return max(16, 1 << (iteration + 1).bit_length())
