"""Adaptive routing: the rates of messages that are spread over all equal paths, and links that only it joins."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import networkx as nx
import numpy as np
import pytest
import simpy
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.network import Network
from clustersim.topology import Topology, describe, load_topology

RATE, HOP_S = 12.5e9, 1e-6
CABLES = {"link": "100 Gbit/s", "hop": "1 us"}
FABRICS: dict[str, dict[str, Any]] = {
    "leaf-spine": {"kind": "leaf-spine", "num_leaves": 4, "hosts_per_leaf": 4, **CABLES},
    "two to one": {"kind": "leaf-spine", "num_leaves": 4, "hosts_per_leaf": 4, "oversubscription": 2, **CABLES},
    "three spines": {"kind": "leaf-spine", "num_leaves": 4, "hosts_per_leaf": 4, "spines": 3, **CABLES},
    "fat-tree": {"kind": "fat-tree", "k": 4, **CABLES},
}
WHOLE = [name for name in FABRICS if name != "two to one"]


def built(name: str, routing: str) -> Topology:
    return load_topology({**FABRICS[name], "routing": routing})


def all_to_all(topology: Topology, engine: str | None = None) -> Network:
    """Return the network after 15 rounds of messages of 100 MB to the host r further, one after the other."""
    env = simpy.Environment()
    network = Network(env, topology, exact=True, engine=engine)
    hosts = np.arange(topology.num_gpus)

    def rounds() -> Any:
        for ahead in range(1, len(hosts)):
            yield network.transfers(hosts.tolist(), ((hosts + ahead) % len(hosts)).tolist(), 1e8)

    env.process(rounds())
    env.run()
    return network


def all_to_all_s(topology: Topology, engine: str | None = None) -> float:
    return all_to_all(topology, engine).now_s


@pytest.mark.parametrize("name", WHOLE)
def test_an_all_to_all_without_oversubscription_has_the_rate_of_the_hosts(name: str) -> None:
    ideal = 15 * 1e8 / RATE
    most_hops = int(describe(built(name, "adaptive"))["diameter_hops"])
    assert ideal < all_to_all_s(built(name, "adaptive")) <= ideal + 15 * most_hops * HOP_S + 1e-9
    assert all_to_all_s(built(name, "hashed")) > 1.5 * ideal


@pytest.mark.parametrize("name", FABRICS)
def test_both_engines_give_the_same_time(name: str) -> None:
    topology = built(name, "adaptive")
    assert all_to_all_s(topology, "numba") == pytest.approx(all_to_all_s(topology, "python"), rel=1e-9)


@pytest.mark.parametrize("name", FABRICS)
def test_no_byte_is_lost_between_two_switches(name: str) -> None:
    topology = built(name, "adaptive")
    carried = all_to_all(topology).link_bytes
    into = np.bincount(topology.links.dst, weights=carried, minlength=len(topology.node_names))
    out_of = np.bincount(topology.links.src, weights=carried, minlength=len(topology.node_names))
    assert into == pytest.approx(out_of)
    assert into[topology.gpus] == pytest.approx(15 * 1e8)


@pytest.mark.parametrize("name", FABRICS)
def test_size_of_the_network_is_that_of_hashed_paths(name: str) -> None:
    adaptive, hashed = (describe(built(name, routing)) for routing in ("adaptive", "hashed"))
    for key in ("num_hosts", "num_gpus", "bisection_bytes_per_s", "diameter_hops"):
        assert adaptive[key] == pytest.approx(hashed[key])


def test_hashed_is_the_default() -> None:
    plain, hashed = load_topology(FABRICS["fat-tree"]), built("fat-tree", "hashed")
    assert list(plain.node_names) == list(hashed.node_names)
    assert (plain.links.bytes_per_s == hashed.links.bytes_per_s).all()


PAIRS = st.lists(st.tuples(st.integers(0, 15), st.integers(0, 15)).filter(lambda p: p[0] != p[1]), min_size=1)


@settings(max_examples=25, deadline=None)
@given(name=st.sampled_from(sorted(FABRICS)), pairs=PAIRS)
def test_rates_are_max_min_fair_among_messages_that_may_be_split(name: str, pairs: list[tuple[int, int]]) -> None:
    """Evenly over all shortest paths the rates fit on the links. Each message crosses a full link or set of links which
    all its shortest paths cross, and none there is faster: no other division over paths gives it more without
    taking from a message that has no more."""
    adaptive, hashed = built(name, "adaptive"), built(name, "hashed")
    env = simpy.Environment()
    network = Network(env, adaptive, exact=True)
    network.transfers([src for src, _ in pairs], [dst for _, dst in pairs], 1e9)
    env.run(until=1e-4)
    rates = {frozenset(flow.links): flow.bytes_per_s for flow in network.flows()}
    loads = {topology: np.zeros(len(topology.links)) for topology in (adaptive, hashed)}
    fastest = np.zeros(len(adaptive.links))
    for pair in pairs:
        route = route_between(adaptive, *pair)
        rate, paths = rates[frozenset(route.tolist())], shortest_paths(hashed, *pair)
        loads[adaptive][route] += rate
        fastest[route] = np.maximum(fastest[route], rate)
        for path in paths:
            loads[hashed][path] += rate / len(paths)
    assert (loads[hashed] <= hashed.links.bytes_per_s * (1 + 1e-9)).all()
    full = loads[adaptive] >= adaptive.links.bytes_per_s * (1 - 1e-9)
    for pair in pairs:
        route = route_between(adaptive, *pair)
        rate = rates[frozenset(route.tolist())]
        assert (full[route] & (fastest[route] <= rate * (1 + 1e-9))).any()


def route_between(topology: Topology, src: int, dst: int) -> np.ndarray:
    return topology.route(int(topology.gpus[src]), int(topology.gpus[dst]))


def shortest_paths(topology: Topology, src: int, dst: int) -> list[list[int]]:
    """Return the links of each of the shortest paths between two GPUs."""
    numbers = {(int(topology.links.src[n]), int(topology.links.dst[n])): n for n in range(len(topology.links))}
    graph = nx.DiGraph(list(numbers))
    paths = nx.all_shortest_paths(graph, int(topology.gpus[src]), int(topology.gpus[dst]))
    return [[numbers[ends] for ends in pairwise(path)] for path in paths]
