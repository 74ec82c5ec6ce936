"""Links that the same paths cross are one, and are split when a path crosses only some of them."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

from clustersim.network import Network
from clustersim.network.python_engine.engine import PythonEngine

from .clusters import line, link_between, make_network


def links(network: Network) -> list[set[int]]:
    """Return the numbers of the links that the Python engine keeps apart."""
    assert isinstance(network.engine, PythonEngine)
    return [set(link.rates) for link in dict.fromkeys(network.engine.paths.links.values())]


def way(network: Network, *nodes: str) -> set[int]:
    """Return the numbers of the links from node to neighbour."""
    return {link_between(network, *ends) for ends in pairwise(nodes)}


def test_all_links_of_a_lone_path_are_one_as_fast_as_the_narrowest():
    network = make_network(line(4))
    network.set_rate(link_between(network, "switch1", "switch2"), 0.5e9)
    times = network.env.run(network.transfer("gpu0", "gpu3", 1e9))
    assert times.end_s == pytest.approx(2.0, rel=1e-12)
    narrow = way(network, "switch1", "switch2")  # split off since its rate changed
    whole = way(network, "gpu0", "switch0", "switch1", "switch2", "switch3", "gpu3")
    assert sorted(links(network), key=len) == [narrow, whole - narrow]
    assert network.link_bytes[list(whole)].tolist() == [1e9] * 5


def test_a_path_over_some_of_them_tells_them_apart_in_the_middle_of_a_message():
    """The second message shares one link with the first from 1 s on, until it ends at 2 s."""
    network = make_network(line(4))
    first = network.transfer("gpu0", "gpu3", 2e9)
    assert len(links(network)) == 1
    network.env.run(1.0)
    second = network.transfer("gpu1", "gpu2", 0.5e9)
    shared = way(network, "switch1", "switch2")
    assert shared in links(network)
    assert len(links(network)) == 3
    assert network.env.run(second).end_s == pytest.approx(2.0, rel=1e-12)
    assert network.env.run(first).end_s == pytest.approx(2.5, rel=1e-12)
    assert network.link_bytes[list(shared)].tolist() == [2.5e9]
    assert network.link_bytes[list(way(network, "gpu0", "switch0", "switch1"))].tolist() == [2e9, 2e9]


def test_a_capped_message_on_its_way_is_on_both_parts_as_well():
    network = make_network(line(4))
    capped = network.transfer("gpu0", "gpu3", 1e9, cap_bytes_per_s=0.8e9)
    network.env.run(0.5)
    other = network.transfer("gpu1", "gpu2", 1e9)
    assert sorted(flow.bytes_per_s for flow in network.flows()) == pytest.approx([0.5e9, 0.5e9])
    assert network.env.run(capped).end_s == pytest.approx(0.5 + 0.6e9 / 0.5e9)
    network.env.run(other)
    assert network.link_bytes[list(way(network, "switch1", "switch2"))].tolist() == pytest.approx([2e9])


def test_one_of_several_links_that_are_one_becomes_the_narrowest_and_is_so_no_more():
    network = make_network(line(3))
    message = network.transfer("gpu0", "gpu2", 2e9)
    link = link_between(network, "switch0", "switch1")
    network.env.run(1.0)
    network.set_rate(link, 0.25e9)
    network.env.run(2.0)
    network.set_rate(link, 3e9)
    assert network.env.run(message).end_s == pytest.approx(2.75, rel=1e-12)


def test_flows_are_told_with_all_links_of_their_way():
    network = make_network(line(4))
    network.transfer("gpu0", "gpu3", 1e9)
    (flow,) = network.flows()
    assert set(flow.links) == set(network.topology.route(network.topology.node(0), network.topology.node(3)).tolist())
    assert np.isclose(flow.bytes_per_s, 1e9)
