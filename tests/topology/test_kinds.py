"""Every kind of network against its closed forms: counts, bisection, diameter."""

import json
from math import prod

import networkx as nx
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.topology import describe, export, load_topology

RATE = 1.25e9
LINK = {"link": "10 Gbit/s", "hop": "1 us"}


@pytest.mark.parametrize("num_hosts", [2, 5, 16])
def test_a_star(num_hosts):
    found = describe(load_topology({"kind": "star", "num_hosts": num_hosts, **LINK}))
    assert (found["num_hosts"], found["num_gpus"], found["num_links"]) == (num_hosts, num_hosts, 2 * num_hosts)
    assert found["bisection_bytes_per_s"] == pytest.approx(num_hosts // 2 * RATE)
    assert found["diameter_hops"] == 2


@pytest.mark.parametrize("k", [2, 4, 6, 8])
def test_a_fat_tree_has_full_bisection(k):
    found = describe(load_topology({"kind": "fat-tree", "k": k, **LINK}))
    assert found["num_hosts"] == k**3 // 4
    assert found["num_links"] == 2 * 3 * k**3 // 4
    assert found["bisection_bytes_per_s"] == pytest.approx(k**3 // 8 * RATE)
    assert found["diameter_hops"] == 6


@pytest.mark.parametrize(("oversubscription", "spines"), [(1, None), (2, None), (4, 3), (1, 2)])
def test_a_leaf_spine_has_full_bisection_over_its_oversubscription(oversubscription, spines):
    written = {"kind": "leaf-spine", "num_leaves": 6, "hosts_per_leaf": 8, "oversubscription": oversubscription}
    topology = load_topology({**written, "spines": spines, **LINK})
    found = describe(topology)
    assert found["num_hosts"] == 48
    assert found["bisection_bytes_per_s"] == pytest.approx(24 * RATE / oversubscription)
    assert found["diameter_hops"] == 4
    num_spines = sum(name.startswith("spine") for name in topology.node_names)
    assert num_spines == (spines or 8 // oversubscription)


@pytest.mark.parametrize("dims", [[4], [2, 2], [4, 4], [4, 3, 3], [8, 4, 4], [6, 1, 2]])
def test_a_torus_cut_across_its_first_dimension(dims):
    found = describe(load_topology({"kind": "torus", "dims": dims, **LINK}))
    size, rest = dims[0], prod(dims[1:])
    assert found["num_hosts"] == size * rest
    ring_links = sum(0 if side == 1 else (1 if side == 2 else 2) for side in dims)
    assert found["num_links"] == size * rest * (2 + ring_links)
    rings = rest * (2 if size > 2 else 1)
    assert found["bisection_bytes_per_s"] == pytest.approx(min(rings, size * rest // 2) * RATE)
    assert found["diameter_hops"] == 2 + sum(side // 2 for side in dims)


@pytest.mark.parametrize(("groups", "routers"), [(9, 4), (5, 4), (3, 2), (1, 4), (9, 2)])
def test_a_dragonfly_has_one_link_for_every_two_groups_and_at_most_three_hops(groups, routers):
    topology = load_topology({"kind": "dragonfly", "groups": groups, "routers": routers, "hosts": 2, **LINK})
    kinds = list(topology.links.kind)
    assert kinds.count("global") == groups * (groups - 1)
    assert kinds.count("local") == groups * routers * (routers - 1)
    found = describe(topology)
    longest = max(
        len(topology.route(topology.node(src), topology.node(dst)))
        for src in range(0, topology.num_gpus, 2)
        for dst in range(1, topology.num_gpus, 2)
    )
    assert found["diameter_hops"] == longest <= 5
    owners = topology.links.src[[kind == "global" for kind in kinds]]
    assert len(owners) == 0 or np.bincount(owners).max() == -(-(groups - 1) // routers)


@pytest.mark.parametrize(
    "written",
    [
        {"kind": "torus", "dims": [3, 4], "hosts_per_router": 2, "num_hosts": 11},
        {"kind": "fat-tree", "k": 4, "num_hosts": 9},
        {"kind": "leaf-spine", "num_leaves": 4, "hosts_per_leaf": 2, "host": "dgx-1"},
        {"kind": "dragonfly", "groups": 3, "routers": 2,
         "hosts": [{"count": 3, "host": "dgx-1"}, {"count": 2, "host": "bare"}]},
        {"kind": "star", "hosts": [{"count": 1, "host": {"gpu": "k80", "num_gpus": 3}}, {"count": 2, "host": "bare"}]},
        {"kind": "torus", "dims": [3], "hosts": [{"count": 1, "host": {"gpu": "k80"}}, {"count": 2, "host": "bare"}]},
        {"kind": "star", "num_hosts": 1, "host": "bare", "num_gpus": 3},
    ],
)  # fmt: skip
def test_the_diameter_is_the_longest_of_all_routes(written):
    topology = load_topology({**LINK, **written})
    gpus = topology.gpus.tolist()
    assert describe(topology)["diameter_hops"] == max(len(topology.route(a, b)) for a in gpus for b in gpus if a != b)


@settings(max_examples=25, deadline=None)
@given(dims=st.lists(st.integers(1, 4), min_size=1, max_size=3), hosts=st.integers(1, 2))
def test_bisection_is_the_largest_flow_of_an_independent_solver(dims, hosts):
    topology = load_topology({"kind": "torus", "dims": dims, "hosts_per_router": hosts, **LINK})
    if topology.num_gpus < 2:
        assert describe(topology)["bisection_bytes_per_s"] is None
        return
    flat = nx.DiGraph()
    for src, dst, rate in zip(
        topology.links.src.tolist(), topology.links.dst.tolist(), topology.links.bytes_per_s, strict=True
    ):
        flat.add_edge(src, dst, capacity=flat.get_edge_data(src, dst, {"capacity": 0})["capacity"] + float(rate))
    half = topology.num_gpus // 2
    for number, gpu in enumerate(topology.gpus.tolist()):
        flat.add_edge(*(("source", gpu) if number < half else (gpu, "sink")))
    assert describe(topology)["bisection_bytes_per_s"] == pytest.approx(nx.maximum_flow_value(flat, "source", "sink"))


def test_the_bisection_of_a_dgx_1_is_four_nvlinks_and_the_link_between_its_sockets():
    topology = load_topology("dgx-1")
    rates = dict(zip(topology.links.kind, topology.links.bytes_per_s, strict=True))
    assert describe(topology)["bisection_bytes_per_s"] == pytest.approx(4 * rates["nvlink-1"] + rates["qpi"])


def test_a_torus_may_have_another_link_along_each_dimension():
    topology = load_topology("titan")
    assert topology.torus_dims == (25, 16, 24)
    assert [topology.links.kind.count(f"gemini-{axis}") for axis in "xyz"] == [2 * 9600] * 3
    assert topology.links.kind.count("gemini-nic") == 2 * 19200


def test_the_route_of_a_description_has_names_delay_and_bottleneck():
    route = describe(load_topology({"kind": "star", "num_hosts": 3, **LINK}), ("0", "gpu2"))["route"]
    assert route["links"] == ["gpu0->switch", "switch->gpu2"]
    assert route["latency_s"] == pytest.approx(2e-6)
    assert route["bottleneck_bytes_per_s"] == RATE
    same = describe(load_topology({"kind": "star", "num_hosts": 3, **LINK}), (1, 1))["route"]
    assert (same["links"], same["latency_s"], same["bottleneck_bytes_per_s"]) == ([], 0.0, None)


def test_an_export_is_node_link_json_that_networkx_reads_and_that_loads_again():
    topology = load_topology({"kind": "star", "num_hosts": 2, "host": {"gpu": "k80", "gpudirect": True}, **LINK})
    graph = nx.node_link_graph(json.loads(json.dumps(export(topology))), edges="edges")
    again = load_topology(graph)
    assert (again.num_gpus, again.num_hosts, len(again.links)) == (2, 2, len(topology.links))
    assert again.gpu_sheets == ["k80", "k80"]
    assert again.memory.tolist() == topology.memory.tolist()
    for node, link in topology.adders.items():
        assert again.links.bytes_per_s[again.adders[node]] == topology.links.bytes_per_s[link]
    names = [[each.link_name(link) for link in each.route(each.node(0), each.node(1))] for each in (topology, again)]
    assert names[0] == names[1]


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ({"kind": "star"}, "the number of hosts is missing"),
        ({"kind": "star", "num_hosts": 2_000_000}, "at most 1000000"),
        ({"kind": "star", "num_hosts": 3, "hosts": [{"count": 2, "host": "dgx-1"}]}, "the list of hosts has 2"),
        ({"kind": "star", "host": "dgx-1", "hosts": [{"count": 2, "host": "dgx-1"}]}, "not both"),
        ({"kind": "fat-tree", "k": 4, "num_hosts": 17}, "places for 16 hosts"),
        ({"kind": "fat-tree", "k": 2, "host": "dgx-a100"}, "places for 0 hosts with 8 ports"),
        ({"kind": "fat-tree", "k": 5}, "multiple of 2"),
        ({"kind": "torus", "dims": [3, 0]}, "at least one router"),
        ({"kind": "torus", "dims": [1000, 1000, 1000]}, "at most 1000000"),
        ({"kind": "torus", "dims": [2, 2], "link": ["1 Gbit/s"]}, "2 dimensions and 1 links"),
        ({"kind": "leaf-spine", "num_leaves": 9999, "hosts_per_leaf": 1, "spines": 9999}, "links; at most 10000000"),
        (
            {"kind": "leaf-spine", "num_leaves": 8, "hosts_per_leaf": 4, "rails": True,
             "hosts": [{"count": 1, "host": "dgx-1"}, {"count": 1, "host": "bare"}]},
            "the same number of network cards",
        ),
        ({"kind": "star", "num_hosts": 2, "link": "infiniband-fdrr"}, "did you mean 'infiniband-fdr'"),
        ({"kind": "star", "num_hosts": 2, "link": "56 Gb/s"}, "write Gbit/s or GB/s"),
        ({"kind": "star", "num_hosts": 2, "link": "0 Gbit/s"}, "above zero"),
        ({"kind": "star", "num_hosts": 2, "nics": 2}, "'bare' has no `nics`"),
        ({"kind": "star", "num_hosts": 2, "host": "dual-socket"}, "needs a gpu"),
        ({"kind": "star", "num_hosts": 2, "host": "dgx1"}, "did you mean 'dgx-1'"),
        ({"kind": "star", "num_hosts": 2, "host": {"template": "dgx-1", "gpu": "k80"}}, "has no NVLink"),
        ({"kind": "star", "num_hosts": 2, "host": {"gpu": "k81"}}, "no GPU is called 'k81'"),
        ({"kind": "star", "num_hosts": 2, "host": {"gpu": "k80", "cpu": "xeon"}}, "no CPU is called 'xeon'"),
        (
            {"kind": "star", "num_hosts": 2, "host": {"template": "dual-socket", "gpu": "k80", "cpu": "opteron-6274"}},
            "interconnect",
        ),
        ({"kind": "ring"}, "no topology is called 'ring'"),
        ({"kind": ["star"]}, "no topology is called 'a list'"),
        ({"kind": "star", "num_hosts": 2, "host": {"template": ["dgx-1"]}}, "no host template is called"),
        ({"kind": "star", "num_hosts": 2, "link": "./nowhere.yaml"}, "nowhere.yaml"),
        ({}, "this key is missing: the kind of topology"),
    ],
)  # fmt: skip
def test_a_wrong_network_is_refused_with_what_to_do(written, message):
    with pytest.raises(InputError, match=message):
        load_topology({"link": "1 Gbit/s", **written})
