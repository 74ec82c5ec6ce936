"""The rings that NCCL would run: every adapter of every host once in each direction, every NVLink at most once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from clustersim.topology import Topology, load_topology
from clustersim.topology.channels import channels, ring_orders

HOSTS: dict[str, dict[str, Any]] = {
    "eight adapters": {"template": "dgx-h100"},
    "four adapters": {"template": "dgx-a100", "nics": 4},
    "sixteen GPUs": {"template": "dgx-2"},
    "cube mesh": {"template": "dgx-1", "gpu": "v100"},
    "PCIe": {"template": "single-socket", "gpu": "k80", "num_gpus": 4, "nics": 2},
}


def star(num_hosts: int, host: Mapping[str, Any]) -> Topology:
    return load_topology({"kind": "star", "num_hosts": num_hosts, "link": "100 Gbit/s", "host": dict(host)})


def crossings(cluster: Topology, gpus: np.ndarray, ring: np.ndarray) -> list[tuple[int, int]]:
    """Return the links that a ring leaves a host by and enters the next by, for every crossing."""
    hosts, links, found = cluster.node_hosts, cluster.links, []
    nodes = cluster.gpus[gpus[ring]]
    for src, dst in zip(nodes.tolist(), np.roll(nodes, -1).tolist(), strict=True):
        if hosts[src] != hosts[dst]:
            outside = [
                link for link in cluster.route(src, dst).tolist() if hosts[links.src[link]] != hosts[links.dst[link]]
            ]
            found.append((outside[0], outside[-1]))
    return found


@pytest.mark.parametrize(
    ("name", "num_rings"),
    [("eight adapters", 8), ("four adapters", 4), ("sixteen GPUs", 8), ("cube mesh", 4), ("PCIe", 2)],
)
@pytest.mark.parametrize("num_hosts", [2, 3])
def test_each_ring_leaves_and_enters_every_host_once_and_each_by_another_adapter(
    name: str, num_rings: int, num_hosts: int
) -> None:
    cluster = star(num_hosts, HOSTS[name])
    gpus = np.arange(cluster.num_gpus)
    rings = ring_orders(cluster, gpus)
    assert len(rings) == num_rings
    assert (np.sort(rings) == gpus).all()
    found = [crossings(cluster, gpus, ring) for ring in rings]
    assert {len(each) for each in found} == {num_hosts}
    uses = Counter(link for each in found for both in each for link in both)
    assert len(uses) == 2 * num_hosts * num_rings
    assert set(uses.values()) == {1}


@pytest.mark.parametrize("name", ["eight adapters", "four adapters", "sixteen GPUs", "cube mesh"])
def test_between_an_even_number_of_hosts_a_ring_stays_on_its_rail(name: str) -> None:
    cluster = star(4, HOSTS[name])
    gpus, names = np.arange(cluster.num_gpus), cluster.node_names
    for ring in ring_orders(cluster, gpus):
        for out, into in crossings(cluster, gpus, ring):
            ends = [names[cluster.links.src[out]], names[cluster.links.dst[into]]]
            assert len({str(end).rpartition("/")[2] for end in ends}) == 1


@pytest.mark.parametrize(("gpu", "num_rings"), [("p100", 4), ("v100", 6)])
def test_the_rings_of_a_dgx_1_use_every_nvlink_once_in_each_direction(gpu: str, num_rings: int) -> None:
    cluster = star(1, {"template": "dgx-1", "gpu": gpu})
    rings = ring_orders(cluster, np.arange(8))
    assert len(rings) == num_rings
    taken = Counter(pair for ring in rings.tolist() for pair in pairwise([*ring, ring[0]]))
    nodes, links = cluster.gpus, cluster.links
    one = min(float(links.bytes_per_s[cluster.route(nodes[a], nodes[b])[0]]) for a, b in taken)
    for (a, b), times in taken.items():
        (link,) = cluster.route(nodes[a], nodes[b]).tolist()
        assert times * one == pytest.approx(float(links.bytes_per_s[link]))
    assert len(taken) == 2 * 16


@pytest.mark.parametrize(
    ("gpus", "rings"),
    [
        ([0, 8, 16], [[0, 1, 2]]),
        ([3, 11], [[0, 1]]),
        ([0, 1, 8, 9], [[0, 1, 3, 2], [1, 0, 2, 3]]),
        ([0, 8, 1, 9], [[0, 2, 3, 1], [2, 0, 1, 3]]),
        ([3, 5, 8], [[0, 1, 2]]),
        ([4], [[0]]),
    ],
)
def test_a_group_has_as_many_rings_as_its_gpus_reach_adapters_on_every_host(
    gpus: list[int], rings: list[list[int]]
) -> None:
    assert ring_orders(star(3, HOSTS["eight adapters"]), np.array(gpus)).tolist() == rings


@pytest.mark.parametrize(
    ("host", "gpus"),
    [
        ({"template": "bare", "num_gpus": 4}, range(12)),
        ({"template": "dgx-a100"}, range(8)),
        ({"template": "dgx-1", "gpu": "v100"}, [0, 1]),
        ({"template": "dgx-1", "gpu": "v100"}, [0, 1, 2, 3, 4]),
    ],
)
def test_one_ring_in_the_order_of_ranks_if_there_is_no_choice(host: dict[str, Any], gpus: Any) -> None:
    assert ring_orders(star(3, host), np.array(gpus)).tolist() == [list(range(len(gpus)))]


@pytest.mark.parametrize(
    ("host", "own"),
    [
        ({"template": "dgx-a100", "nics": 1}, [1, 2, 3, 4, 5, 6, 7, 0]),  # GPUs 0 and 1 are on the card's switch
        ({"template": "dual-socket", "gpu": "v100-pcie", "num_gpus": 4, "nics": 1}, [1, 2, 3, 0]),
        ({"template": "single-socket", "gpu": "v100-pcie", "num_gpus": 4, "nics": 1}, [0, 1, 2, 3]),  # all are
    ],
)
def test_a_ring_enters_and_leaves_a_host_by_the_gpus_beside_its_only_card(host: dict[str, Any], own: list[int]) -> None:
    rings = ring_orders(star(3, host), np.arange(3 * len(own)))
    assert rings.tolist() == [[host * len(own) + gpu for host in range(3) for gpu in own]]


def test_rings_enter_and_leave_by_the_gpus_beside_each_of_two_cards() -> None:
    rings = ring_orders(star(2, {"template": "dgx-a100", "nics": 2}), np.arange(16))
    assert [{*ring[[0, 7]].tolist()} for ring in rings] == [{0, 1}, {4, 5}]


@given(data=st.data(), name=st.sampled_from(list(HOSTS)), num_hosts=st.integers(1, 3))
def test_every_ring_has_every_rank_of_any_group_once_and_enters_each_host_once(
    data: st.DataObject, name: str, num_hosts: int
) -> None:
    cluster = star(num_hosts, HOSTS[name])
    all_ranks = st.permutations(range(cluster.num_gpus))
    gpus = np.array(data.draw(all_ranks)[: data.draw(st.integers(1, cluster.num_gpus))])
    found = channels(cluster, gpus)
    hosts = cluster.gpu_hosts[gpus]
    for ring in found.rings():
        assert sorted(ring.tolist()) == list(range(len(gpus)))
        assert np.count_nonzero(np.diff(hosts[ring])) == len(np.unique(hosts)) - 1
    for paths in found.paths:
        assert sorted(np.concatenate(paths).tolist()) == list(range(len(gpus)))
    assert channels(cluster, gpus) is found


def test_hosts_with_equal_wiring_are_searched_once(monkeypatch: pytest.MonkeyPatch) -> None:
    looked = []
    monkeypatch.setattr("clustersim.topology.mesh._hamiltonian_paths", lambda *_: looked.append(1) or iter([]))
    cluster = star(16, HOSTS["cube mesh"])
    assert len(ring_orders(cluster, np.arange(128))) == 4
    assert len(looked) == 1
