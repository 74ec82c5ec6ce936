"""Stragglers: who is slow, when, and by how much.

A source of slowness is drawn with the work (`factors`, `Draws`: how many times as long an iteration or a
layer takes), or follows the clock (`paces`: how fast a rank is as time passes; `link_paces`: the same of
links). It knows nothing of strategies, so that two of them under one seed meet the same bad luck.
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
from clustersim.stragglers.spells import Pauses, SlowPeriods, Spells, delayed, has_given_times, paces
from clustersim.stragglers.straggler import ComputeStraggler, Drawn, OfHosts, Straggler
from clustersim.stragglers.trace import Trace

__all__ = [
    "STRAGGLERS",
    "Awaited",
    "ComputeStraggler",
    "Constant",
    "Distribution",
    "Drawn",
    "Draws",
    "Exponential",
    "ExponentialTail",
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
    "Spells",
    "Straggler",
    "Trace",
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
        "trace": Trace,
        "uniform": Uniform,
    },
)
