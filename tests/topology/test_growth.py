"""Work and memory grow with the cluster and no faster: counted, not timed."""

from __future__ import annotations

import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from clustersim.topology import Topology, load_topology, place
from clustersim.topology.placement import PLACEMENTS
from clustersim.topology.routes import Routes

LINK = {"link": "100 Gbit/s", "hop": "1 us"}


def written(kind: str, num_gpus: int) -> dict[str, Any]:
    """Return a cluster of 1,024 or 4,096 GPUs, or of 16,384."""
    kinds: dict[str, dict[str, Any]] = {
        "star": {"kind": "star", "num_hosts": num_gpus},
        "fat-tree": {
            "kind": "fat-tree",
            "k": {1024: 14, 4096: 22, 16384: 32}[num_gpus],
            "host": "dgx-1",
            "num_hosts": num_gpus // 8,
        },
        "leaf-spine": {"kind": "leaf-spine", "num_leaves": num_gpus // 64, "hosts_per_leaf": 8, "host": "dgx-h100"},
        "torus": {"kind": "torus", "dims": {1024: [16, 8, 8], 4096: [16, 16, 16], 16384: [32, 32, 16]}[num_gpus]},
        "dragonfly": {"kind": "dragonfly", "groups": num_gpus // 256, "routers": 16, "hosts": 16},
    }
    return {**LINK, **kinds[kind]}


KINDS = ["star", "fat-tree", "leaf-spine", "torus", "dragonfly"]


def peak_bytes(work: Callable[[], object]) -> int:
    """Return the most memory that some work holds at once; what it returns counts too."""
    tracemalloc.start()
    try:
        held = work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
        del held


def num_calls(work: Callable[[], object]) -> int:
    """Return how many functions some work calls, those of C included."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_a_cluster_grows_as_its_gpus(kind: str) -> None:
    small, large = written(kind, 1024), written(kind, 16384)
    load_topology(small)  # sheets are read once
    assert peak_bytes(lambda: load_topology(large)) < 1.25 * 16 * peak_bytes(lambda: load_topology(small))


@pytest.mark.parametrize("kind", KINDS)
def test_a_cluster_of_16384_gpus_fits_in_thirty_megabytes(kind: str) -> None:
    assert load_topology(written(kind, 16384)).num_gpus == 16384
    assert peak_bytes(lambda: load_topology(written(kind, 16384))) < 30e6


@pytest.mark.parametrize("kind", ["star", "fat-tree", "leaf-spine"])
def test_no_function_is_called_for_each_host(kind: str) -> None:
    small, large = written(kind, 1024), written(kind, 4096)
    load_topology(small)
    assert num_calls(lambda: load_topology(large)) < num_calls(lambda: load_topology(small)) + 500


def ring_routes(topology: Topology) -> Callable[[], Routes]:
    gpus = np.random.default_rng(0).permutation(topology.gpus)
    return lambda: topology.routes(gpus, np.roll(gpus, -1))


@pytest.mark.parametrize("kind", KINDS)
def test_no_function_is_called_for_each_route(kind: str) -> None:
    routes = [ring_routes(load_topology(written(kind, num_gpus))) for num_gpus in (1024, 4096)]
    for work in routes:
        work()  # paths inside a host are found once
    small, large = map(num_calls, routes)
    assert large < 1.2 * small


@pytest.mark.parametrize("kind", KINDS)
def test_memory_of_routes_grows_as_their_links(kind: str) -> None:
    topologies = [load_topology(written(kind, num_gpus)) for num_gpus in (1024, 16384)]
    per_link = []
    for topology in topologies:
        work = ring_routes(topology)
        per_link.append(peak_bytes(work) / len(work().links))
    assert per_link[1] < 1.5 * per_link[0]


@pytest.mark.parametrize("name", ["block", "spread", "random", "fragmented"])
def test_placement_makes_no_call_for_each_rank(name: str) -> None:
    spec = PLACEMENTS[name]()
    small, large = (load_topology(written("torus", num_gpus)) for num_gpus in (1024, 4096))
    for topology in (small, large):
        place(spec, topology, 64, seed=0)
    few, many = (num_calls(lambda t=topology: place(spec, t, 64, seed=0)) for topology in (small, large))
    assert many < few + 300
