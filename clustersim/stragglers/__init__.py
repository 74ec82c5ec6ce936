"""Stragglers: which GPUs, hosts and links are slow, when, and by how much.

A straggler multiplies compute times (`factors`, `Draws`: how many times as long an iteration or a layer takes),
or follows the clock (`paces`: the speed of a rank over time; `link_paces`: the same for links). It does not
depend on the strategy: two strategies with one seed get the same random numbers.
"""

from __future__ import annotations

from clustersim.registry import Registry
from clustersim.stragglers.constant import Constant
from clustersim.stragglers.distribution import Distribution
from clustersim.stragglers.distributions import Exponential, ExponentialTail, Gamma, Lognormal, Pareto, Uniform
from clustersim.stragglers.factors import (
    Draws,
    are_constant,
    are_steady,
    constant_factors,
    factors,
    has_layer_factors,
    layer_factors,
)
from clustersim.stragglers.links import LinkOutages, LinkSlowDowns, LinkStraggler, LinkTable, link_changes, link_paces
from clustersim.stragglers.pace import Pace
from clustersim.stragglers.slowest import Awaited, slowest, slowest_beside
from clustersim.stragglers.straggler import ComputeStraggler, FactorStraggler, OfHosts, Straggler
from clustersim.stragglers.timed import Pauses, SlowPeriods, TimedSlowdown, delayed, has_given_times, paces
from clustersim.stragglers.trace import TraceStraggler

__all__ = [
    "STRAGGLERS",
    "Awaited",
    "ComputeStraggler",
    "Constant",
    "Distribution",
    "Draws",
    "Exponential",
    "ExponentialTail",
    "FactorStraggler",
    "Gamma",
    "LinkOutages",
    "LinkSlowDowns",
    "LinkStraggler",
    "LinkTable",
    "Lognormal",
    "OfHosts",
    "Pace",
    "Pareto",
    "Pauses",
    "SlowPeriods",
    "Straggler",
    "TimedSlowdown",
    "TraceStraggler",
    "Uniform",
    "are_constant",
    "are_steady",
    "constant_factors",
    "delayed",
    "factors",
    "has_given_times",
    "has_layer_factors",
    "layer_factors",
    "link_changes",
    "link_paces",
    "paces",
    "slowest",
    "slowest_beside",
]

STRAGGLERS: Registry[type[Straggler]] = Registry(
    "straggler",
    {
        "constant": Constant,
        "exponential": Exponential,
        "exponential-tail": ExponentialTail,
        "gamma": Gamma,
        "link-outages": LinkOutages,
        "link-slow-downs": LinkSlowDowns,
        "lognormal": Lognormal,
        "pareto": Pareto,
        "pauses": Pauses,
        "slow-periods": SlowPeriods,
        "trace": TraceStraggler,
        "uniform": Uniform,
    },
)
