"""What holds for any traffic, whichever way links are shared and whichever engine plays it."""

from __future__ import annotations

from typing import NamedTuple

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.network import FlowRate, Network
from clustersim.topology import load_topology

from .clusters import line, make_network

pytestmark = pytest.mark.usefixtures("engine", "shared_by")

NUM_GPUS = 5
RATES = [1e9, 3e8, 1e9, 2e9, 7e8, 1e9]


class Message(NamedTuple):
    """A message from GPU to GPU, asked for at a time."""

    src: int
    dst: int
    num_bytes: float
    weight: float
    start_s: float


messages = st.lists(
    st.builds(
        Message,
        st.integers(0, NUM_GPUS - 1),
        st.integers(0, NUM_GPUS - 1),
        st.sampled_from([0.0, 1.0, 1e7, 3e7, 5e7]),
        st.sampled_from([0.5, 1.0, 1.0, 3.0]),
        st.sampled_from([0.0, 0.0, 0.01, 0.02, 0.035]),
    ),
    min_size=1,
    max_size=14,
)
either_way = pytest.mark.parametrize("sharing", ["max-min", "proportional"])


def cluster(order: list[int] | None = None) -> nx.DiGraph:
    """Return a row of GPUs with links of several rates, its nodes and links given in an order."""
    graph = line(NUM_GPUS, latency_s=1e-3)
    for number, ends in enumerate(graph.edges):
        graph.edges[ends]["bytes_per_s"] = RATES[number % len(RATES)]
    if order is None:
        return graph
    shuffled = nx.DiGraph()
    for node in [f"{kind}{number}" for kind in ("gpu", "switch") for number in order]:
        shuffled.add_node(node, **graph.nodes[node])
    edges = list(graph.edges(data=True))
    for number in np.random.default_rng(order).permutation(len(edges)).tolist():
        src, dst, of = edges[number]
        shuffled.add_edge(src, dst, **of)
    return shuffled


def send(network: Network, sent: list[Message]) -> np.ndarray:
    """Send messages and return when each has ended."""
    src, dst, num_bytes, weight, start_s = zip(*sent, strict=True)
    ends = ([f"gpu{number}" for number in each] for each in (src, dst))
    times = network.env.run(network.transfers(*ends, num_bytes, weight, start_s))
    return np.asarray(times.end_s)


@either_way
@given(sent=messages)
@settings(max_examples=20, deadline=None)
def test_bytes_in_are_bytes_out_on_every_link(sharing, sent):
    network = make_network(cluster(), sharing=sharing)
    send(network, sent)
    expected = np.zeros(len(network.topology.links))
    for message in sent:
        ends = (network.topology.node(f"gpu{number}") for number in message[:2])
        expected[network.topology.route(*ends)] += message.num_bytes
    assert network.link_bytes == pytest.approx(expected)


@either_way
@given(sent=messages)
@settings(max_examples=20, deadline=None)
def test_no_link_is_above_its_capacity_at_any_instant(sharing, sent):
    network = make_network(cluster(), sharing=sharing)
    capacity, seen = network.topology.links.bytes_per_s, []

    def look(time_s: float, flows: list[FlowRate]) -> None:
        load = np.zeros(len(capacity))
        for flow in flows:
            load[list(flow.links)] += flow.bytes_per_s
        assert (load <= capacity * (1 + 1e-9)).all()
        seen.append(time_s)

    network.watch(look)
    send(network, sent)
    assert len(seen) >= any(message.src != message.dst and message.num_bytes for message in sent)


@given(sent=messages)
@settings(max_examples=20, deadline=None)
def test_no_flow_could_go_faster_without_slowing_one_that_has_no_more_for_its_weight(sent):
    network = make_network(cluster())
    capacity = network.topology.links.bytes_per_s

    def look(time_s: float, flows: list[FlowRate]) -> None:
        load, highest = np.zeros(len(capacity)), np.zeros(len(capacity))
        for flow in flows:
            on = list(flow.links)
            load[on] += flow.bytes_per_s
            highest[on] = np.maximum(highest[on], flow.bytes_per_s / flow.weight)
        for flow in flows:
            on = list(flow.links)
            has_most = flow.bytes_per_s / flow.weight >= highest[on] * (1 - 1e-9)
            assert (has_most & (load[on] >= capacity[on] * (1 - 1e-9))).any()

    network.watch(look)
    send(network, sent)


@either_way
@given(sent=messages, order=st.permutations(range(NUM_GPUS)))
@settings(max_examples=20, deadline=None)
def test_the_order_in_which_hosts_and_links_are_given_changes_nothing(sharing, sent, order):
    plain, shuffled = make_network(cluster(), sharing=sharing), make_network(cluster(order), sharing=sharing)
    assert send(shuffled, sent) == pytest.approx(send(plain, sent), rel=1e-9)


@either_way
@given(sent=messages)
@settings(max_examples=20, deadline=None)
def test_two_halves_with_half_the_weight_each_are_the_whole(sharing, sent):
    whole = send(make_network(cluster(), sharing=sharing), sent)
    halves = [message._replace(num_bytes=message.num_bytes / 2, weight=message.weight / 2) for message in sent]
    ends = send(make_network(cluster(), sharing=sharing), [*halves, *halves])
    assert ends == pytest.approx(np.tile(whole, 2), rel=1e-9)


@either_way
@given(sent=messages, factor=st.sampled_from([0.125, 3.0]))
@settings(max_examples=20, deadline=None)
def test_weights_matter_only_beside_each_other(sharing, sent, factor):
    plain = send(make_network(cluster(), sharing=sharing), sent)
    heavier = [message._replace(weight=message.weight * factor) for message in sent]
    assert send(make_network(cluster(), sharing=sharing), heavier) == pytest.approx(plain, rel=1e-9)


def test_the_shuffled_cluster_is_numbered_differently():
    plain, shuffled = load_topology(cluster()), load_topology(cluster([3, 1, 4, 0, 2]))
    route = [topology.route(topology.node("gpu0"), topology.node("gpu4")).tolist() for topology in (plain, shuffled)]
    assert route[0] != route[1]
    rates = [
        topology.links.bytes_per_s[links].tolist() for topology, links in zip((plain, shuffled), route, strict=True)
    ]
    assert rates[0] == rates[1]
