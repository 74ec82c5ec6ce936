"""Routes of many pairs at once equal those of single pairs, in every kind of cluster."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.topology import HOSTS, PLACEMENTS, Topology, load_topology, place
from clustersim.topology.flow_hash import flow_hash, flow_hashes
from clustersim.topology.routes import RouteCache, Routes

NETWORKS = {
    "star": {"kind": "star", "num_hosts": 5},
    "fat-tree": {"kind": "fat-tree", "k": 4},
    "leaf-spine": {"kind": "leaf-spine", "num_leaves": 4, "hosts_per_leaf": 2, "oversubscription": 2},
    "adaptive fat-tree": {"kind": "fat-tree", "k": 4, "routing": "adaptive"},
    "adaptive leaf-spine": {"kind": "leaf-spine", "num_leaves": 4, "hosts_per_leaf": 2, "routing": "adaptive"},
    "rails": {"kind": "leaf-spine", "num_leaves": 8, "hosts_per_leaf": 2, "rails": True},
    "torus": {"kind": "torus", "dims": [3, 4, 2, 1]},
    "dragonfly": {"kind": "dragonfly", "groups": 4, "routers": 2, "hosts": 1},
}
TEMPLATES = (
    {
        "bare": {"template": "bare"},
        "bare with two": {"template": "bare", "num_gpus": 2},
        "single-socket": {"template": "single-socket", "gpu": "k80", "num_gpus": 3},
        "dual-socket": {"template": "dual-socket", "gpu": "k80", "num_gpus": 5, "nics": 2, "plx_per_socket": 1},
        "rdma": {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "plx_per_socket": 2, "gpudirect": True},
        "single-root": {"template": "single-root", "gpu": "k80", "num_gpus": 10, "nics": 4},
        "direct": {"template": "single-socket", "gpu": "k20x", "nic_link": "direct"},
    }
    | {name: {"template": name} for name in HOSTS if name.startswith("dgx")}
    | {"domains": {"template": "superchip", "nvlink_domain": 2}}
)
LINK = {"link": "10 Gbit/s", "hop": "1 us"}
MIXED = {
    "kind": "fat-tree",
    "k": 6,
    **LINK,
    "hosts": [
        {"count": 3, "host": {"gpu": "k80", "num_gpus": 3}},
        {"count": 4, "host": "bare"},
        {"count": 2, "host": {"template": "dgx-1", "nics": 2}},
    ],
}
EXPLICIT = {
    "kind": "explicit",
    "host": {"template": "dual-socket", "gpu": "k80", "num_gpus": 4, "nics": 2},
    "nodes": ["host0", "host1", "gpu0", "switch0", "switch1"],
    "links": [
        {"a": "host0", "b": "switch0", "link": "1 GB/s", "hop": "1 us"},
        {"a": "host1", "b": "switch1", "link": "1 GB/s", "hop": "1 us"},
        {"a": "switch0", "b": "switch1", "link": "1 GB/s", "hop": "1 us"},
        {"a": "gpu0", "b": "switch1", "link": "1 GB/s", "hop": "1 us"},
    ],
}


def assert_the_same(topology: Topology, src: np.ndarray, dst: np.ndarray) -> None:
    found = topology.routes(src, dst)
    assert found.first.dtype == found.links.dtype == np.int64
    assert len(found.first) == len(src) + 1
    expected = [topology.route(*ends).tolist() for ends in zip(src.tolist(), dst.tolist(), strict=True)]
    starts = zip(found.first[:-1].tolist(), found.first[1:].tolist(), strict=True)
    assert [found.links[first:end].tolist() for first, end in starts] == expected


def all_pairs(nodes: np.ndarray, most: int = 3000) -> tuple[np.ndarray, np.ndarray]:
    src, dst = (ends.ravel() for ends in np.meshgrid(nodes, nodes))
    some = np.random.default_rng(0).permutation(len(src))[:most]
    return src[some], dst[some]


@pytest.mark.parametrize("network", NETWORKS)
@pytest.mark.parametrize("host", TEMPLATES)
def test_between_any_nodes_of_any_hosts_on_any_network(network: str, host: str) -> None:
    topology = load_topology({**NETWORKS[network], **LINK, "host": TEMPLATES[host]})
    nodes = np.flatnonzero([kind != "nvswitch" for kind in topology.node_kinds])
    assert_the_same(topology, *all_pairs(nodes, 400))
    assert_the_same(topology, *all_pairs(topology.gpus, 400))


@pytest.mark.parametrize("written", [MIXED, EXPLICIT])
def test_between_hosts_of_several_kinds(written: dict[str, object]) -> None:
    topology = load_topology(written)
    nodes = np.flatnonzero([kind != "nvswitch" for kind in topology.node_kinds])
    assert_the_same(topology, *all_pairs(nodes))


def test_in_a_graph_of_networkx() -> None:
    graph = nx.random_regular_graph(3, 12, seed=1)
    nx.set_node_attributes(graph, "gpu", "kind")
    nx.set_edge_attributes(graph, 1e9, "bytes_per_s")
    nx.set_edge_attributes(graph, 1e-6, "latency_s")
    topology = load_topology(graph)
    assert_the_same(topology, *all_pairs(topology.gpus))


@pytest.mark.parametrize("placement", ["block", "spread", "random", "compact"])
def test_of_a_ring_in_every_placement(placement: str) -> None:
    topology = load_topology({"kind": "torus", "dims": [4, 3, 5], "host": {"gpu": "k80", "num_gpus": 2}, **LINK})
    gpus = place(PLACEMENTS[placement](), topology, 48, seed=3)
    nodes = topology.gpus[gpus]
    assert_the_same(topology, nodes, np.roll(nodes, -1))
    assert_the_same(topology, topology.memory[gpus], np.roll(topology.memory[gpus], -1))


@settings(max_examples=60, deadline=None)
@given(dims=st.lists(st.integers(1, 7), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_on_a_torus_of_any_shape(dims: list[int], seed: int) -> None:
    topology = load_topology({"kind": "torus", "dims": dims, **LINK})
    src, dst = np.random.default_rng(seed).integers(len(topology.node_names), size=(2, 50))
    assert_the_same(topology, src, dst)


@settings(max_examples=40, deadline=None)
@given(groups=st.integers(1, 9), routers=st.integers(1, 5), seed=st.integers(0, 99))
def test_on_a_dragonfly_of_any_size(groups: int, routers: int, seed: int) -> None:
    topology = load_topology({"kind": "dragonfly", "groups": groups, "routers": routers, "hosts": 1, **LINK})
    src, dst = np.random.default_rng(seed).integers(len(topology.node_names), size=(2, 50))
    assert_the_same(topology, src, dst)


@settings(max_examples=40, deadline=None)
@given(k=st.sampled_from([2, 4, 6]), routing=st.sampled_from(["hashed", "adaptive"]), seed=st.integers(0, 99))
def test_on_a_fat_tree_its_switches_included(k: int, routing: str, seed: int) -> None:
    topology = load_topology({"kind": "fat-tree", "k": k, "routing": routing, **LINK})
    src, dst = np.random.default_rng(seed).integers(len(topology.node_names), size=(2, 50))
    assert_the_same(topology, src, dst)


def test_of_no_pairs_and_from_nodes_to_themselves_there_are_no_links() -> None:
    topology = load_topology({**NETWORKS["fat-tree"], **LINK})
    assert topology.routes(np.arange(0), np.arange(0)).first.tolist() == [0]
    assert topology.routes(topology.gpus, topology.gpus).first.tolist() == [0] * 17
    assert len(topology.routes(topology.gpus, topology.gpus).links) == 0


def test_a_pair_without_a_route_is_refused_among_many_too() -> None:
    topology = load_topology({**NETWORKS["star"], **LINK, "host": "dgx-2"})
    ends = (
        np.array([topology.node(0), topology.node(0)]),
        np.array([topology.node(1), topology.node("host1/nvswitch0")]),
    )
    with pytest.raises(InputError, match="only a GPU connects nic0 with nvswitch0"):
        topology.routes(*ends)


@given(st.lists(st.tuples(st.integers(0, 2**40), st.integers(0, 2**40)), min_size=1))
def test_hashes_of_many_pairs_are_those_of_each(pairs: list[tuple[int, int]]) -> None:
    src, dst = np.array(pairs, dtype=np.int64).T
    assert flow_hashes(src, dst).tolist() == [flow_hash(*pair) for pair in pairs]


LISTS = st.lists(st.lists(st.integers(0, 9), max_size=4), min_size=3, max_size=3)


@given(one=LISTS, two=LISTS, which=st.lists(st.integers(0, 2), max_size=6))
def test_join_take_and_spread_agree_with_lists(one: list[list[int]], two: list[list[int]], which: list[int]) -> None:
    def lists(routes: Routes) -> list[list[int]]:
        return [routes.links[a:b].tolist() for a, b in zip(routes.first[:-1], routes.first[1:], strict=True)]

    first, second = Routes.one_by_one(one), Routes.one_by_one(two)
    assert lists(Routes.join(3, [first, second, first])) == [a + b + a for a, b in zip(one, two, strict=True)]
    assert lists(first.take(np.array(which, dtype=np.int64))) == [one[number] for number in which]
    assert lists(first.spread(np.array([1, 2, 4]), 6)) == [[], one[0], one[1], [], one[2], []]
    assert lists(first.shifted(np.array([10, 20, 30]))) == [
        [link + by for link in route] for route, by in zip(one, (10, 20, 30), strict=True)
    ]


def test_routes_are_cached_until_they_are_too_many(monkeypatch):
    monkeypatch.setattr("clustersim.topology.routes._MAX_CACHED_LINKS", 10)
    known, asked = (
        RouteCache(lambda src, dst: asked.append(src[0]) or Routes.one_by_one(zip(src, dst, strict=True))),
        [],
    )
    pairs = [(np.array([first]), np.array([9])) for first in (1, 2, 3, 4)]
    for which in (0, 0, 1, 0, 2, 1, 3, 3, 0):
        routes = known.get(*pairs[which])
        assert routes.links.tolist() == [which + 1, 9]
        with pytest.raises(ValueError, match="read-only"):
            routes.links[0] = 0
    assert asked == [1, 2, 3, 4, 1]
