"""Proportionally fair rates meet the conditions of the optimum, and those of simple cases are known."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import SimulationError
from clustersim.network import FlowRate, max_min_rates
from clustersim.network.python_engine import proportional
from clustersim.network.python_engine.proportional import proportional_rates

from .clusters import line, link_between, make_network, star


def padded(routes: list[list[int]], capacity: list[float]) -> tuple[np.ndarray, np.ndarray]:
    longest = max(map(len, routes))
    rows = np.array([route + [len(capacity)] * (longest - len(route)) for route in routes])
    return rows, np.array([*capacity, np.inf])


def rates(routes: list[list[int]], capacity: list[float], weights: list[float] | None = None) -> np.ndarray:
    rows, limits = padded(routes, capacity)
    return proportional_rates(rows, np.ones(len(routes)) if weights is None else np.array(weights), limits)


def now(network) -> list[float]:
    """Return the rates of all flows at once, by the order in which they were sent."""
    seen: list[list[FlowRate]] = []
    network.watch(lambda time_s, flows: seen.append(flows))
    network.env.run(1e-6)
    return [flow.bytes_per_s / 1e9 for flow in seen[-1]]


@pytest.mark.parametrize("num_links", [1, 2, 3, 4, 9])
def test_a_flow_through_all_links_of_a_parking_lot_gets_a_part_for_each_link(num_links):
    """Its price is the sum of those of `num_links` links, each with a flow of its own: 1 / (n + 1) and n / (n + 1)."""
    routes = [list(range(num_links)), *([link] for link in range(num_links))]
    own = num_links / (num_links + 1)
    assert rates(routes, [1.0] * num_links) == pytest.approx([1 - own, *[own] * num_links], rel=1e-12)


def test_mixed_flows_of_a_star_share_a_third_and_two_thirds():
    """1 to 0, 2 to 0 and 1 to 3: the first crosses two full links, the others one each."""
    network = make_network(star(4, latency_s=0.0), sharing="proportional")
    for ends in ((1, 0), (2, 0), (1, 3)):
        network.transfer(*ends, 1e9)
    assert sorted(now(network)) == pytest.approx([1 / 3, 2 / 3, 2 / 3], rel=1e-12)


@pytest.mark.parametrize("num_hosts", [3, 4])
def test_a_line_of_hosts_is_a_parking_lot(num_hosts):
    network = make_network(line(num_hosts), sharing="proportional")
    for host in range(num_hosts - 1):
        network.transfer(host, host + 1, 1e9)
    network.transfer(0, num_hosts - 1, 1e9)
    own = (num_hosts - 1) / num_hosts  # the last shares every switch's link with one other, the first also an uplink
    assert sorted(now(network)) == pytest.approx([1 - own, *[own] * (num_hosts - 1)], rel=1e-12)


def test_links_that_depend_on_each_other_are_no_trouble():
    """All to all on a star: what goes up comes down, so one full link follows from the others."""
    network = make_network(star(5, latency_s=0.0), sharing="proportional")
    for src in range(5):
        for dst in range(5):
            if src != dst:
                network.transfer(src, dst, 1e9)
    assert now(network) == pytest.approx([0.25] * 20, rel=1e-12)


@given(weights=st.lists(st.floats(0.01, 100.0), min_size=1, max_size=20))
def test_on_one_link_it_is_max_min(weights):
    rows, limits = padded([[0]] * len(weights), [3.0])
    expected = max_min_rates(rows, np.array(weights), limits)
    assert proportional_rates(rows, np.array(weights), limits) == pytest.approx(expected, rel=1e-12)


@st.composite
def shared_links(draw: st.DrawFn) -> tuple[list[list[int]], list[float], list[float]]:
    num_links = draw(st.integers(1, 8))
    one_rate = st.sampled_from([1e-9, 0.5, 1.0, 1.0, 2.0, 3.5, 1e9])
    capacity = draw(st.lists(one_rate, min_size=num_links, max_size=num_links))
    one_route = st.lists(st.integers(0, num_links - 1), min_size=1, max_size=num_links, unique=True)
    routes = draw(st.lists(one_route, min_size=1, max_size=14))
    weights = draw(st.lists(st.sampled_from([0.1, 1.0, 1.0, 3.0]), min_size=len(routes), max_size=len(routes)))
    return routes, capacity, weights


@given(shared_links())
@settings(max_examples=80, deadline=None)
def test_no_other_rates_are_better(case):
    """The conditions of Karush, Kuhn and Tucker: for any feasible y, sum(weight * (y - x) / x) is at most 0.

    That is linear in y, so its largest value over all feasible y is a linear program, and 0 at the optimum.
    """
    from scipy.optimize import linprog

    routes, capacity, weights = case
    found = rates(*case)
    crosses = np.array([[link in route for route in routes] for link in range(len(capacity))])
    load = crosses @ found
    assert (load <= np.array(capacity) * (1 + 1e-11)).all()
    parts = crosses * found / np.array(capacity)[:, None]  # in units of the rates found
    best = linprog(-np.array(weights), A_ub=parts, b_ub=np.ones(len(capacity)), bounds=(0, None), method="highs")
    assert -best.fun == pytest.approx(sum(weights), rel=1e-7)


@given(st.integers(0, 1000))
@settings(max_examples=30, deadline=None)
def test_rates_kept_up_to_date_are_those_of_solving_anew(seed):
    """Flows come and go, links change their rate, and only what is connected with that is solved."""
    rng = np.random.default_rng(seed)
    network = make_network(line(4), sharing="proportional")
    capacity = network.topology.links.bytes_per_s.copy()

    def look(time_s: float, flows: list[FlowRate]) -> None:
        if flows:
            rows, limits = padded([list(flow.links) for flow in flows], capacity.tolist())
            anew = proportional_rates(rows, np.array([flow.weight for flow in flows]), limits)
            assert [flow.bytes_per_s for flow in flows] == pytest.approx(anew, rel=1e-9)

    def live():
        sent = []
        for _ in range(12):
            yield network.env.timeout(rng.exponential(0.1))
            kind = rng.integers(0, 4)
            if kind == 0 and sent:
                network.cancel(sent[rng.integers(0, len(sent))])
            elif kind == 1:
                link = int(rng.integers(0, len(capacity)))
                capacity[link] = rng.choice([0.0, 5e8, 2e9])
                network.set_rate(link, capacity[link])
            else:
                sent.append(
                    network.transfer(*rng.integers(0, 4, 2).tolist(), rng.uniform(1e7, 1e9), rng.choice([1.0, 3.0]))
                )
        for link in range(len(capacity)):
            capacity[link] = 1e9
            network.set_rate(link, 1e9)

    network.watch(look)
    network.env.run(network.env.process(live()))
    network.env.run()
    assert not network.flows()


def test_flows_that_share_no_link_are_left_alone():
    network = make_network(line(6), sharing="proportional")
    network.transfer(0, 1, 1e9)
    network.transfer(0, 2, 1e9)
    far = network.transfer(4, 5, 1e9)
    network.env.run(far)
    solves = network.counts.solves
    network.transfer(4, 5, 1e9)
    network.env.run(network.env.now + 0.1)
    assert network.counts.solves == solves


def test_a_capped_flow_leaves_the_rest_of_a_link_to_the_other():
    network = make_network(star(3, latency_s=0.0), sharing="proportional")
    capped, other = network.transfer(0, 2, 1e8, cap_bytes_per_s=1e8), network.transfer(1, 2, 9e8)
    network.env.run()
    assert (capped.value.end_s, other.value.end_s) == pytest.approx((1.0, 1.0), rel=1e-9)


def test_what_stands_on_a_link_of_rate_zero_waits_and_holds_nobody_back():
    network = make_network(star(3, latency_s=0.0), sharing="proportional")
    network.set_rate(link_between(network, "gpu0", "switch"), 0.0)
    waits, other = network.transfer(0, 2, 1e9), network.transfer(1, 2, 1e9)
    network.env.run(other)
    assert network.env.now == pytest.approx(1.0, rel=1e-12)
    network.set_rate(link_between(network, "gpu0", "switch"), 1e9)
    assert network.env.run(waits).end_s == pytest.approx(2.0, rel=1e-12)


def test_rates_that_are_not_found_are_an_error(monkeypatch):
    monkeypatch.setattr(proportional, "_MOST_STEPS", 1)
    with pytest.raises(SimulationError, match="proportional rates of 3 kinds of flows over 2 links were not found"):
        rates([[0, 1], [0], [1]], [1.0, 2.0])
