"""The contract of every topology: routes are connected, and shortcuts change no result."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from clustersim.topology import TOPOLOGIES, load_topology
from tests.contracts.exactness import check_exact

HOST = {"template": "dual-socket", "gpu": "v100", "num_gpus": 2}
CABLES = {"link": "25 Gbit/s", "hop": "1 us"}
OPTIONS: dict[str, dict[str, Any]] = {
    "dragonfly": {"groups": 3, "routers": 2, "hosts": 2, "host": HOST, **CABLES},
    "explicit": {
        "nodes": [*({"name": f"h{number}", "kind": "host", "host": HOST} for number in range(4)), "s0", "s1"],
        "links": [{"a": f"h{number}", "b": f"s{number // 2}"} for number in range(4)] + [{"a": "s0", "b": "s1"}],
        **CABLES,
    },
    "fat-tree": {"k": 4, "host": HOST, **CABLES},
    "leaf-spine": {"num_leaves": 3, "hosts_per_leaf": 2, "oversubscription": 2, "host": HOST, **CABLES},
    "star": {"num_hosts": 6, "host": HOST, **CABLES},
    "torus": {"dims": [2, 3], "host": HOST, **CABLES},
}

ADAPTIVE = ("adaptive fat-tree", "adaptive leaf-spine")


def a_topology(kind: str) -> dict[str, Any]:
    """Return a small cluster of a kind; for a kind of another package, try the keys of a star."""
    if kind in ADAPTIVE:
        return {**a_topology(kind.removeprefix("adaptive ")), "routing": "adaptive"}
    return {"kind": kind, **OPTIONS.get(kind, {"num_hosts": 6, "host": HOST, **CABLES})}


@pytest.mark.parametrize("kind", [*TOPOLOGIES, *ADAPTIVE])
def test_routes_lead_from_one_gpu_to_the_other(kind: str) -> None:
    cluster = load_topology(a_topology(kind))
    gpus = [int(node) for node in cluster.gpus]
    for src in gpus[:6]:
        for dst in gpus[:6]:
            links = list(cluster.route(src, dst))
            ends = [(int(cluster.links.src[link]), int(cluster.links.dst[link])) for link in links]
            assert all(one[1] == other[0] for one, other in pairwise(ends))
            assert not ends if src == dst else (ends[0][0], ends[-1][1]) == (src, dst)


@pytest.mark.parametrize("kind", [*TOPOLOGIES, *ADAPTIVE])
@pytest.mark.parametrize(
    "other",
    [
        {},
        {"stragglers": [{"kind": "lognormal", "cv": 0.2}]},
        {"jobs": 2, "num_gpus": 4},
        {"strategy": {"kind": "server"}, "num_gpus": 6},
        {"strategy": {"kind": "async"}, "num_gpus": 6, "num_iterations": 20},
        {"parallelism": {"tensor": 2}, "placement": "spread"},
    ],
)
def test_default_equals_exact(kind: str, other: dict[str, Any]) -> None:
    asked = {
        "model": "alexnet",
        "num_gpus": 8,
        "batch": {"per_gpu": 16},
        "topology": a_topology(kind),
        "software": "plain",
        "transport": "nccl",
        "strategy": {"kind": "all-reduce"},
        "num_iterations": 3,
    }
    check_exact(asked | other)
