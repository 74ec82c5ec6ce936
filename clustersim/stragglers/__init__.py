"""Stragglers: who is slow, when, and by how much.

A source of slowness multiplies compute times; it knows nothing of layers, links or strategies, so that
two strategies under one seed meet the same bad luck.
"""

from __future__ import annotations

from clustersim.registry import Registry
from clustersim.stragglers.constant import Constant
from clustersim.stragglers.distributions import Exponential, Gamma, Lognormal, Pareto, Uniform
from clustersim.stragglers.factors import factors, layer_factors
from clustersim.stragglers.straggler import OfHosts, Straggler

__all__ = [
    "STRAGGLERS",
    "AnyStraggler",
    "Constant",
    "Exponential",
    "Gamma",
    "Lognormal",
    "OfHosts",
    "Pareto",
    "Straggler",
    "Uniform",
    "factors",
    "layer_factors",
]

AnyStraggler = Constant | Exponential | Gamma | Lognormal | Pareto | Uniform

STRAGGLERS: Registry[type[Straggler]] = Registry(
    "straggler",
    {
        "constant": Constant,
        "exponential": Exponential,
        "gamma": Gamma,
        "lognormal": Lognormal,
        "pareto": Pareto,
        "uniform": Uniform,
    },
)
