"""Max-min fair rates are those of slow filling, and no flow can get more."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.network import SHARING, max_min_rates

from .clusters import filled


@st.composite
def shared_links(draw: st.DrawFn) -> tuple[list[list[int]], list[float], list[float]]:
    num_links = draw(st.integers(1, 6))
    capacity = draw(st.lists(st.sampled_from([1.0, 2.0, 3.5, 10.0]), min_size=num_links, max_size=num_links))
    one_route = st.lists(st.integers(0, num_links - 1), min_size=1, max_size=num_links, unique=True)
    routes = draw(st.lists(one_route, min_size=1, max_size=12))
    weights = draw(st.lists(st.sampled_from([0.5, 1.0, 3.0]), min_size=len(routes), max_size=len(routes)))
    return routes, weights, capacity


def solve(routes: list[list[int]], weights: list[float], capacity: list[float]) -> np.ndarray:
    longest = max(len(route) for route in routes)
    padded = np.array([route + [len(capacity)] * (longest - len(route)) for route in routes])
    return max_min_rates(padded, np.array(weights), np.append(capacity, np.inf))


@given(shared_links())
def test_rates_are_those_of_filling_all_flows_together(case):
    assert solve(*case) == pytest.approx(filled(*case), rel=1e-9)


@given(shared_links())
def test_every_flow_has_a_full_link_on_which_nobody_gets_more_per_weight(case):
    routes, weights, capacity = case
    rates = solve(*case)
    level = rates / np.array(weights)
    for number, route in enumerate(routes):
        members = {link: [f for f in range(len(routes)) if link in routes[f]] for link in route}
        full = [link for link in route if rates[members[link]].sum() >= capacity[link] * (1 - 1e-9)]
        assert any(level[number] >= level[members[link]].max() * (1 - 1e-9) for link in full)


def test_ways_of_sharing_that_nobody_knows_are_refused():
    with pytest.raises(InputError, match="did you mean 'max-min'"):
        SHARING["maxmin"]
