"""Properties of every route of every kind of topology and host."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from clustersim.errors import InputError
from clustersim.topology import HOSTS, load_topology
from clustersim.topology.flow_hash import flow_hash

NETWORKS = {
    "star": {"kind": "star", "num_hosts": 5},
    "fat-tree": {"kind": "fat-tree", "k": 4},
    "leaf-spine": {"kind": "leaf-spine", "num_leaves": 4, "hosts_per_leaf": 2, "oversubscription": 2},
    "rails": {"kind": "leaf-spine", "num_leaves": 8, "hosts_per_leaf": 2, "rails": True},
    "torus": {"kind": "torus", "dims": [3, 4, 2]},
    "dragonfly": {"kind": "dragonfly", "groups": 4, "routers": 2, "hosts": 1},
}
TEMPLATES = {
    "bare": {"template": "bare"},
    "single-socket": {"template": "single-socket", "gpu": "k80", "num_gpus": 3},
    "dual-socket": {"template": "dual-socket", "gpu": "k80", "num_gpus": 5, "nics": 2, "plx_per_socket": 1},
    "dual-socket-rdma": {
        "template": "dual-socket",
        "gpu": "k80",
        "num_gpus": 4,
        "plx_per_socket": 2,
        "gpudirect": True,
    },
    "single-root": {"template": "single-root", "gpu": "k80", "num_gpus": 10},
    "direct": {"template": "single-socket", "gpu": "k20x", "nic_link": "direct"},
} | {name: {"template": name} for name in HOSTS if name.startswith("dgx")}


def build(network, host):
    return load_topology({**NETWORKS[network], "link": "10 Gbit/s", "hop": "1 us", "host": TEMPLATES[host]})


def nodes_of(topology, route):
    links = topology.links
    return [int(links.src[route[0]]), *(int(links.dst[link]) for link in route)]


CASES = [(network, host) for network in NETWORKS for host in TEMPLATES]
BUILT = {}


@settings(max_examples=150, deadline=None)
@given(case=st.sampled_from(CASES), ends=st.tuples(st.floats(0, 1), st.floats(0, 1)), anything=st.booleans())
def test_a_route_leads_from_its_source_to_its_destination_and_takes_no_link_twice(case, ends, anything):
    topology = BUILT.setdefault(case, build(*case))
    kinds = topology.node_kinds
    candidates = [node for node, kind in enumerate(kinds) if kind != "nvswitch" and (anything or kind == "gpu")]
    src, dst = (int(candidates[int(end * (len(candidates) - 1))]) for end in ends)
    route = topology.route(src, dst).tolist()
    if src == dst:
        assert route == []
        return
    links = topology.links
    assert links.src[route[0]] == src
    assert links.dst[route[-1]] == dst
    assert all(links.dst[a] == links.src[b] for a, b in pairwise(route))
    assert len(set(route)) == len(route)
    turned = [links.kind[link] for link in route if links.src[link] == links.dst[link]]
    assert turned in ([], ["peer"])  # transfers from slot to slot through a processor


@settings(max_examples=60, deadline=None)
@given(case=st.sampled_from(CASES), ends=st.tuples(st.floats(0, 1), st.floats(0, 1)))
def test_both_directions_are_equally_long(case, ends):
    topology = BUILT.setdefault(case, build(*case))
    src, dst = (int(topology.gpus[int(end * (topology.num_gpus - 1))]) for end in ends)
    there, back = topology.route(src, dst), topology.route(dst, src)
    assert len(there) == len(back)
    assert topology.links.latency_s[there].sum() == pytest.approx(topology.links.latency_s[back].sum())


@settings(max_examples=60, deadline=None)
@given(
    case=st.sampled_from([case for case in CASES if case[1] != "bare"]),
    ends=st.tuples(st.floats(0, 1), st.floats(0, 1)),
)
def test_no_gpu_forwards_traffic_of_others(case, ends):
    topology = BUILT.setdefault(case, build(*case))
    src, dst = (int(topology.gpus[int(end * (topology.num_gpus - 1))]) for end in ends)
    if src != dst:
        between = nodes_of(topology, topology.route(src, dst))[1:-1]
        assert "gpu" not in {topology.node_kinds[node] for node in between}


@pytest.mark.parametrize("host", ["single-socket", "dual-socket", "single-root", "direct"])
def test_without_gpudirect_messages_to_other_hosts_pass_both_host_memories(host):
    topology = build("star", host)
    src, dst = 0, topology.num_gpus - 1
    through = nodes_of(topology, topology.route(topology.node(src), topology.node(dst)))
    assert [int(topology.memory[src]), int(topology.memory[dst])] == [
        node for node in through if topology.node_kinds[node] == "memory"
    ]


@pytest.mark.parametrize("host", ["dual-socket-rdma", "dgx-1", "dgx-h100"])
def test_with_gpudirect_no_route_passes_host_memory(host):
    topology = build("star", host)
    through = nodes_of(topology, topology.route(topology.node(0), topology.node(topology.num_gpus - 1)))
    assert "memory" not in {topology.node_kinds[node] for node in through}


def test_within_a_host_no_route_passes_host_memory():
    topology = build("star", "dual-socket")
    through = nodes_of(topology, topology.route(topology.node(0), topology.node(4)))
    assert "memory" not in {topology.node_kinds[node] for node in through}


def test_a_bare_star_route_is_two_links():
    topology = load_topology({"kind": "star", "num_hosts": 4, "link": "56 Gbit/s", "hop": "1 us"})
    route = topology.route(topology.node(0), topology.node(3))
    assert [topology.link_name(link) for link in route] == ["gpu0->switch", "switch->gpu3"]
    assert topology.links.latency_s[route].sum() == pytest.approx(2e-6)
    assert topology.links.bytes_per_s[route].tolist() == [7e9, 7e9]
    assert topology.memory.tolist() == topology.gpus.tolist()
    assert topology.adders == {}


def test_only_a_gpu_reaches_an_nvswitch():
    topology = build("star", "dgx-2")
    inside = topology.route(topology.node(0), topology.node("host0/nvswitch0"))
    assert len(inside) == 1
    with pytest.raises(InputError, match="only a GPU connects"):
        topology.route(topology.node(0), topology.node("host1/nvswitch0"))


def test_equal_cost_paths_depend_on_the_two_ends_alone_in_any_process_and_order():
    assert (flow_hash(3, 5), flow_hash(0, 1)) == (9267855328070005039, 18265273332986825056)
    first, second = (load_topology({"kind": "fat-tree", "k": 4, "link": "1 Gbit/s"}) for _ in range(2))
    backwards = [first.route(src, 15).tolist() for src in reversed(range(15))][::-1]
    assert backwards == [second.route(src, 15).tolist() for src in range(15)]


def test_equal_cost_paths_are_all_used():
    topology = load_topology({"kind": "fat-tree", "k": 8, "link": "1 Gbit/s"})
    cores = set()
    for src in range(16):
        for dst in range(64, 128):
            cores |= {
                node
                for node in nodes_of(topology, topology.route(topology.node(src), topology.node(dst)))
                if topology.node_names[node].startswith("core")
            }
    assert len(cores) == 16


def test_torus_routes_go_dimension_by_dimension_in_the_shorter_direction():
    topology = load_topology({"kind": "torus", "dims": [5, 4], "link": "1 Gbit/s"})
    names = [topology.node_names[node] for node in nodes_of(topology, topology.route(0, topology.node(4 * 4 + 2)))]
    assert names == ["gpu0", "router-0-0", "router-4-0", "router-4-1", "router-4-2", "gpu18"]


@settings(max_examples=40, deadline=None)
@given(dims=st.lists(st.integers(1, 5), min_size=1, max_size=4), seed=st.integers(0, 99))
def test_a_torus_route_has_as_many_links_as_the_ring_distances(dims, seed):
    topology = load_topology({"kind": "torus", "dims": dims, "link": "1 Gbit/s"})
    src, dst = np.random.default_rng(seed).integers(topology.num_gpus, size=2).tolist()
    places = np.unravel_index([src, dst], dims)
    ahead = [int(place[1] - place[0]) % size for place, size in zip(places, dims, strict=True)]
    hops = sum(min(step, size - step) for step, size in zip(ahead, dims, strict=True))
    assert len(topology.route(topology.node(src), topology.node(dst))) == (hops + 2 if src != dst else 0)


def test_a_dgx_1_pair_without_a_common_nvlink_goes_over_pcie_and_between_the_sockets():
    topology = load_topology("dgx-1")
    kinds = [topology.links.kind[link] for link in topology.route(topology.node(0), topology.node(5))]
    assert kinds == ["pcie-3-x16", "pcie-3-x16", "qpi", "pcie-3-x16", "pcie-3-x16"]


def test_every_message_leaves_by_the_nearest_nic():
    topology = load_topology({"kind": "star", "num_hosts": 2, "link": "infiniband-edr", "host": "dgx-1"})
    for gpu in range(8):
        through = nodes_of(topology, topology.route(topology.node(gpu), topology.node(8 + gpu)))
        nics = [topology.node_names[node] for node in through if topology.node_kinds[node] == "nic"]
        assert nics == [f"host0/nic{gpu // 2}", f"host1/nic{gpu // 2}"]


def test_rails_keep_messages_between_like_gpus_on_one_leaf():
    topology = load_topology("dgx-h100-ndr")
    for gpu in range(8):
        through = nodes_of(topology, topology.route(topology.node(gpu), topology.node(8 + gpu)))
        leaves = [topology.node_names[node] for node in through if topology.node_kinds[node] == "switch"]
        assert leaves == [f"leaf-{gpu}"]
