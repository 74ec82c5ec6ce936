"""Stragglers: who is slow, when, and by how much.

A source of slowness multiplies compute times; it knows nothing of layers, links or strategies, so that
two strategies under one seed meet the same bad luck.
"""

from __future__ import annotations

from clustersim.registry import Registry
from clustersim.stragglers.constant import Constant
from clustersim.stragglers.distribution import Distribution
from clustersim.stragglers.distributions import Exponential, ExponentialTail, Gamma, Lognormal, Pareto, Uniform
from clustersim.stragglers.factors import Draws, are_steady, factors, has_layer_factors, layer_factors
from clustersim.stragglers.straggler import ComputeStraggler, Drawn, OfHosts, Straggler

__all__ = [
    "STRAGGLERS",
    "ComputeStraggler",
    "Constant",
    "Distribution",
    "Drawn",
    "Draws",
    "Exponential",
    "ExponentialTail",
    "Gamma",
    "Lognormal",
    "OfHosts",
    "Pareto",
    "Straggler",
    "Uniform",
    "are_steady",
    "factors",
    "has_layer_factors",
    "layer_factors",
]

STRAGGLERS: Registry[type[Straggler]] = Registry(
    "straggler",
    {
        "constant": Constant,
        "exponential": Exponential,
        "exponential-tail": ExponentialTail,
        "gamma": Gamma,
        "lognormal": Lognormal,
        "pareto": Pareto,
        "uniform": Uniform,
    },
)
