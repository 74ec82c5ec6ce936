"""Weighted proportional fairness: the rates that maximise sum(weight * log(rate)) under the capacities.

Kelly (Charging and rate control for elastic traffic, European Transactions on Telecommunications, 1997) shows that
every link then has a price, above 0 only if it is full, and that a flow gets its weight over the sum of the prices
on its path. So a flow through k full links of equal price gets a k-th of what it would get through one: about what
TCP flows with equal windows get through first-in, first-out queues, where queues for each flow give max-min.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from clustersim.errors import SimulationError
from clustersim.network.flow import Flow, Link

_SAME = 1e-12  # rates closer than this, relatively, are the same
_SOLVED = 1e-13  # aim for the error in the conditions of the optimum, as part of capacities and prices,
_ACCEPTED = 1e-10  # and what is accepted where rounding allows no better
_MOST_STEPS = 2000
_MOST_HALVINGS = 40
_LEAST_STEEP = 1e-14  # curvature that is added, relatively: full links may depend on each other
_DAMPING = 0.1  # curvature that is added while the error is large, per unit of error
_DESCENT = 1e-4  # part of the expected descent that a step must bring (Armijo)


class Proportional:
    """Proportionally fair rates of the flows on links. `num_solves` and `num_levels` (Newton steps) count the work.

    What changes is solved again together with all flows and links connected to it, from the prices before.
    """

    def __init__(self) -> None:
        self.num_solves = self.num_levels = 0
        self._prices: dict[Link, float] = {}  # of links in use whose price is above 0, per byte/s

    def share(
        self, now_s: float, started: Iterable[Flow], left: Iterable[Link], rerated: Iterable[Link] = ()
    ) -> list[Flow]:
        """Let flows start, after others have left links and links have new rates; return the flows whose rates are new.

        Started flows are on their links already, and others have left them.
        """
        new = dict.fromkeys(started)
        flows, links = _connected([*(link for flow in new for link in flow.path.links), *left, *rerated])
        if not flows:
            return []
        changed = []
        for flow, rate in zip(flows, self._rates(list(flows), list(links)), strict=True):
            if flow not in new and abs(rate - flow.bytes_per_s) <= _SAME * rate:
                continue
            left_bytes = flow.left_bytes - flow.bytes_per_s * (now_s - flow.since_s)
            flow.left_bytes = left_bytes if left_bytes > 0 else 0.0  # rounding may take it below
            flow.since_s = now_s
            flow.bytes_per_s = rate
            changed.append(flow)
        return changed

    def _rates(self, flows: list[Flow], links: list[Link]) -> list[float]:
        """Return the rate of each of these flows, which share these links with no others."""
        place = {link: number for number, link in enumerate(links)}
        longest = max(len(flow.path.links) for flow in flows)
        routes = np.full((len(flows), longest), len(links))
        for row, flow in zip(routes, flows, strict=True):
            row[: len(flow.path.links)] = [place[link] for link in flow.path.links]
        capacity = np.array([*(link.bytes_per_s for link in links), np.inf])
        before = np.array([*(self._prices.get(link, 0.0) for link in links), 0.0])
        solved = _solve(routes, np.array([flow.weight for flow in flows]), capacity, before)
        self.num_solves += solved.num_steps > 0
        self.num_levels += solved.num_steps
        for link, price in zip(links, solved.prices.tolist(), strict=False):
            if price > 0 and link.number >= 0:  # a private one is not used again
                self._prices[link] = price
            else:
                self._prices.pop(link, None)
        rates: list[float] = solved.rates.tolist()
        return rates


def proportional_rates(routes: np.ndarray, weights: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Return the weighted proportionally fair rate of each flow [num_flows], in bytes per second.

    `routes` [num_flows, longest] has the links of each flow, padded with the number of a link whose capacity is
    infinite.

    >>> proportional_rates(np.array([[0, 1], [0, 2], [1, 2]]), np.ones(3), np.array([3.0, 3.0, np.inf])).round(9)
    array([1., 2., 2.])
    """
    return _solve(routes, weights, capacity, np.zeros(len(capacity))).rates


def _connected(links: Iterable[Link]) -> tuple[dict[Flow, None], dict[Link, None]]:
    """Return all flows and links that these links are connected to by flows."""
    flows: dict[Flow, None] = {}
    found = dict.fromkeys(links)
    waiting = list(found)
    while waiting:
        for flow in waiting.pop().flows:
            if flow not in flows:
                flows[flow] = None
                for link in flow.path.links:
                    if link not in found:
                        found[link] = None
                        waiting.append(link)
    return flows, found


class _Solved(NamedTuple):
    """Rates [num_flows], the prices of links [num_links] and the Newton steps taken."""

    rates: np.ndarray
    prices: np.ndarray
    num_steps: int


def _solve(routes: np.ndarray, weights: np.ndarray, capacity: np.ndarray, before: np.ndarray) -> _Solved:
    """Solve for rates and prices, from prices that may be near."""
    narrowest = capacity[routes].min(axis=1)
    rates = np.where(narrowest > 0, np.inf, 0.0)
    prices = np.zeros(len(capacity))
    held = np.flatnonzero((narrowest > 0) & np.isfinite(narrowest))
    if not len(held):
        return _Solved(rates, prices, 0)
    limited = np.isfinite(capacity)
    padded = np.where(limited[routes[held]], routes[held], len(capacity))
    kinds, which = np.unique(np.sort(padded, axis=1), axis=0, return_inverse=True)  # flows that take the same links
    which = which.ravel()
    weight = np.bincount(which, weights[held])
    links = _binding(kinds, capacity)
    problem = _Problem(kinds, weight, links, capacity)
    if len(links) == 1:
        price, num_steps = np.array([weight.sum()]), 0
    else:
        price, num_steps = problem.solve(before[links] * capacity[links])
    rates[held] = (problem.rates(price) / weight)[which] * weights[held]
    prices[links] = price / capacity[links]
    return _Solved(rates, prices, num_steps)


def _binding(kinds: np.ndarray, capacity: np.ndarray) -> np.ndarray:
    """Return the links that may limit a flow: there is not room for all, or they are a flow's narrowest.

    Of several that the same flows cross, only the narrowest is among them, or the first of those.
    """
    kind, column = np.nonzero(kinds < len(capacity))
    link = kinds[kind, column]
    num_kinds = np.bincount(link, minlength=len(capacity))
    order = np.lexsort((-num_kinds[link], capacity[link], kind))
    narrowest = link[order][np.searchsorted(kind, np.arange(len(kinds)))]  # among equals the one that most cross
    wanted = np.bincount(link, capacity[narrowest][kind], len(capacity))
    needed = wanted > capacity * (1 + _SAME)
    needed[narrowest] = True
    crossed: dict[int, list[int]] = {number: [] for number in np.flatnonzero(needed).tolist()}
    for which, number in zip(link.tolist(), kind.tolist(), strict=True):
        if needed[which]:
            crossed[which].append(number)
    best: dict[tuple[int, ...], int] = {}
    for which, numbers in crossed.items():
        key = tuple(numbers)
        if key not in best or capacity[which] < capacity[best[key]]:
            best[key] = which
    return np.array(sorted(best.values()))


class _Problem:
    """The dual: minimise sum(price) - sum(weight * log(prices on the path)) over prices of 0 or more.

    Scaled so that every capacity is 1 and every uncontended flow has the rate 1. `link`, `flow` and `part`
    [num_crossings] say which flow crosses which link, and which part of it the flow takes when uncontended.
    """

    def __init__(self, kinds: np.ndarray, weight: np.ndarray, links: np.ndarray, capacity: np.ndarray):
        place = np.full(len(capacity) + 1, -1)
        place[links] = np.arange(len(links))
        flow, column = np.nonzero(place[kinds] >= 0)
        self._link, self._flow = place[kinds[flow, column]], flow
        crossed = capacity[links][self._link]
        self._uncontended = np.full(len(weight), np.inf)
        np.minimum.at(self._uncontended, flow, crossed)
        self._narrowest = self._link[np.lexsort((crossed, flow))][np.searchsorted(flow, np.arange(len(weight)))]
        self._part = self._uncontended[flow] / crossed
        self._weight = weight
        self._num_links = len(links)
        self._most = np.bincount(self._link, weight[flow], len(links))  # no price is above the weights on its link
        self._pairs = self._crossings_of_one_flow()

    def _crossings_of_one_flow(self) -> tuple[np.ndarray, np.ndarray]:
        """Return all pairs of crossings of the same flow: flows come in order, each with its crossings together."""
        counts = np.bincount(self._flow, minlength=len(self._weight))
        first = np.cumsum(counts) - counts
        own = counts[self._flow]
        one = np.repeat(np.arange(len(self._flow)), own)
        other = np.arange(len(one)) - np.repeat(np.cumsum(own) - own, own) + first[self._flow[one]]
        return one, other

    def rates(self, price: np.ndarray) -> np.ndarray:
        """Return the rates at these prices, in bytes per second."""
        rates: np.ndarray = self._uncontended * self._weight / self._paid(price)
        return rates

    def solve(self, price: np.ndarray) -> tuple[np.ndarray, int]:
        """Return the best prices and the number of steps, by projected Newton steps (Bertsekas, 1982)."""
        price = self._affordable(np.clip(price, 0.0, self._most))
        best, least = price, np.inf
        for num_steps in range(_MOST_STEPS):
            rate = self._weight / self._paid(price)
            room = 1.0 - np.bincount(self._link, self._part * rate[self._flow], self._num_links)
            missed = self._missed(price, room)
            if missed < least:
                best, least = price, missed
            if missed <= _SOLVED:
                return price, num_steps
            following = self._step(price, room, rate, missed)
            if following is None:  # rounding hides any better prices
                break
            price = following
        if least > _ACCEPTED:
            raise SimulationError(
                f"proportional rates of {len(self._weight)} kinds of flows over {self._num_links} links were not "
                f"found: their conditions are missed by {least:.1e}, and {_ACCEPTED:.0e} is allowed; share max-min"
            )
        return best, num_steps

    def _paid(self, price: np.ndarray) -> np.ndarray:
        """Return the sum of prices on each flow's path."""
        return np.bincount(self._flow, self._part * price[self._link], len(self._weight))

    def _affordable(self, price: np.ndarray) -> np.ndarray:
        """Return prices at which no flow wants more than its uncontended rate; its narrowest link gets the rest."""
        lacking = np.maximum(self._weight - self._paid(price), 0.0)
        return price + np.bincount(self._narrowest, lacking, self._num_links)

    def _missed(self, price: np.ndarray, room: np.ndarray) -> float:
        """Return the error in the conditions: no link is overfull, and none with room has a price."""
        return float(np.abs(np.minimum(price / self._most, room)).max())

    def _step(self, price: np.ndarray, room: np.ndarray, rate: np.ndarray, missed: float) -> np.ndarray | None:
        """Return prices nearer to the best, or None where rounding hides them."""
        to_zero = (price <= min(missed, 1e-3) * self._most) & (room > 0)
        change = np.where(to_zero, -price, 0.0)
        free = np.flatnonzero(~to_zero)
        change[free] = self._newton(rate, free, room, missed)
        paid = self._paid(price)
        for halving in range(_MOST_HALVINGS):
            tried = np.maximum(price + 0.5**halving * change, 0.0)
            grown = self._paid(tried) / paid - 1.0
            descent = float(room @ (tried - price))  # expected of the cost; what comes on top of that is not below 0
            if grown.min() > -1.0 and self._weight @ (grown - np.log1p(grown)) <= (_DESCENT - 1.0) * descent:
                return tried if descent < 0 else None
        return None

    def _newton(self, rate: np.ndarray, free: np.ndarray, room: np.ndarray, missed: float) -> np.ndarray:
        """Return the Newton step of free prices; the gradient of the cost is the room on each link."""
        one, other = self._pairs
        value = (self._part[one] * self._part[other]) * (rate**2 / self._weight)[self._flow[one]]
        size = self._num_links
        steepness = np.bincount(self._link[one] * size + self._link[other], value, size * size).reshape(size, size)
        steepness = steepness[np.ix_(free, free)]
        scale = 1 / np.sqrt(np.diagonal(steepness))
        scaled = steepness * scale * scale[:, None] + max(_LEAST_STEEP, _DAMPING * min(missed, 1.0)) * np.eye(len(free))
        step: np.ndarray = -scale * np.linalg.solve(scaled, scale * room[free])
        return step
