"""Ways of sharing links, and max-min fairness: no flow can get more unless one with no more gets less."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from clustersim.network.python_engine.instants import Sharing
from clustersim.network.python_engine.max_min import MaxMin
from clustersim.network.python_engine.proportional import Proportional
from clustersim.registry import Registry

_TIE = 1e-12  # levels closer than this, relatively, are one level


def max_min_rates(routes: np.ndarray, weights: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Return the weighted max-min fair rate of each flow [num_flows], in bytes per second.

    `routes` [num_flows, longest] has the links of each flow, padded with the number of a link whose
    capacity is infinite; a flow's rate is its weight times the level of its bottleneck. Links are filled
    in order of level (Bertsekas and Gallager, Data Networks, 1992, section 6.5.2), all links at once that
    are the lowest on every one of their flows, which fixes the same rates in fewer rounds.

    >>> max_min_rates(np.array([[0, 2], [0, 1]]), np.ones(2), np.array([8.0, 2.0, np.inf]))
    array([6., 2.])
    """
    links, local = np.unique(routes, return_inverse=True)
    local = local.reshape(routes.shape)
    residual = capacity[links].astype(float)
    rates = np.zeros(len(routes))
    open_flows = np.arange(len(routes))
    while len(open_flows):
        members, weight = local[open_flows], weights[open_flows]
        load = np.bincount(members.ravel(), np.repeat(weight, members.shape[1]), len(links))
        level = np.full(len(links), np.inf)
        np.divide(residual, load, out=level, where=load > 0)
        own_level = level[members].min(axis=1)
        lowest = np.full(len(links), np.inf)
        np.minimum.at(lowest, members, own_level[:, None])
        bottleneck = np.isfinite(level) & (lowest >= level * (1 - _TIE))
        fixed = bottleneck[members].any(axis=1)
        if not fixed.any():  # only links without a limit are left
            rates[open_flows] = np.inf
            break
        rates[open_flows[fixed]] = weight[fixed] * own_level[fixed]
        taken = np.repeat(weight[fixed] * own_level[fixed], members.shape[1])
        residual -= np.bincount(members[fixed].ravel(), taken, len(links))
        np.maximum(residual, 0.0, out=residual)
        open_flows = open_flows[~fixed]
    return rates


SHARING: Registry[Callable[[], Sharing]] = Registry(
    "way of sharing links", {"max-min": MaxMin, "proportional": Proportional}
)
