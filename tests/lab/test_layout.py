"""The real cluster has the layout and routes of the simulated one."""

from __future__ import annotations

from itertools import pairwise

import pytest

from clustersim.topology import load_topology
from validate.lab.layout import Layout

LAYOUTS = [Layout.star(4), Layout.torus(3), Layout.torus(4), Layout.torus(5), Layout.torus(2, 3), Layout.torus(3, 3)]


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_messages_pass_the_routers_that_they_pass_in_the_simulator(layout: Layout) -> None:
    topology = load_topology(layout.topology(100))
    first = len(topology.node_names) - layout.num_routers
    for src in range(layout.num_hosts):
        for dst in set(range(layout.num_hosts)) - {src}:
            route = topology.route(topology.node(src), topology.node(dst))
            entered = topology.links.dst[route][:-1] - first
            assert layout.routers_between(src, dst) == entered.tolist()


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_routers_are_joined_as_their_routes_need(layout: Layout) -> None:
    needed = set()
    for src in range(layout.num_hosts):
        for dst in range(layout.num_hosts):
            passed = layout.routers_between(src, dst)
            needed |= {(min(pair), max(pair)) for pair in pairwise(passed)}
    assert needed == set(layout.cables)


def test_a_star_is_one_router_with_no_cable_to_another() -> None:
    assert Layout.star(5).cables == ()
    assert Layout.star(5).routers_between(1, 4) == [0]


def test_the_simulated_cluster_has_the_rate_and_the_sharing_that_were_asked_for() -> None:
    topology = load_topology(Layout.torus(3, 3).topology(80, "proportional"))
    assert topology.sharing == "proportional"
    assert topology.links.bytes_per_s.min() == pytest.approx(10e6)
