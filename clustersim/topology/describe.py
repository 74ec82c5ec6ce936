"""A cluster in numbers: counts, bisection, diameter, and one route."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from clustersim.topology.bisection import bisection_bytes_per_s
from clustersim.topology.diameter import diameter_hops
from clustersim.topology.topology import Topology


def describe(topology: Topology, route: tuple[Hashable, Hashable] | None = None) -> dict[str, Any]:
    """Return a `clustersim.topology/1` document; `route` is a pair of nodes or GPU numbers.

    `num_links` counts directed links between nodes, so a cable counts twice and memories are not counted. Bisection is
    the rate at which the first half of the GPUs can send to the second, in bytes per second; the diameter is the number
    of links on the longest route between two GPUs. Both are null if there is only one GPU. NVLink domains are counted
    where they have several hosts.
    """
    several = topology.num_gpus > 1
    return {
        "schema": "clustersim.topology/1",
        "name": topology.name,
        "num_hosts": topology.num_hosts,
        "num_nvlink_domains": None if topology.domains is None else len(np.unique(topology.gpu_domains)),
        "num_gpus": topology.num_gpus,
        "num_links": int(np.count_nonzero(topology.links.src != topology.links.dst)),
        "bisection_bytes_per_s": bisection_bytes_per_s(topology) if several else None,
        "diameter_hops": diameter_hops(topology) if several else None,
        "route": None if route is None else describe_route(topology, *route),
    }


def describe_route(topology: Topology, src: Hashable, dst: Hashable) -> dict[str, Any]:
    """Return the links of a route by name and class, its delay, and the rate of its narrowest link.

    A text of digits, as a command line gives it, is a GPU's number unless it is the name of a node.
    """
    links = topology.route(_node(topology, src), _node(topology, dst))
    rates = topology.links.bytes_per_s[links]
    return {
        "links": [topology.link_name(int(link)) for link in links],
        "kinds": [topology.links.kind[link] for link in links],
        "latency_s": float(topology.links.latency_s[links].sum()),
        "bottleneck_bytes_per_s": float(rates.min()) if len(links) else None,
        "bottleneck": topology.link_name(int(links[rates.argmin()])) if len(links) else None,
    }


def export(topology: Topology) -> dict[str, Any]:
    """Return the cluster as networkx' node-link data, which `networkx.node_link_graph(data, edges="edges")` reads.

    A link from a node to itself is that node's memory, which reduction uses; `host` is -1 for nodes outside hosts.
    """
    nodes: list[dict[str, Any]] = [
        {"id": name, "kind": kind, "host": host}
        for name, kind, host in zip(topology.node_names, topology.node_kinds, topology.node_hosts.tolist(), strict=True)
    ]
    for gpu, sheet in zip(topology.gpus.tolist(), topology.gpu_sheets, strict=True):
        if sheet is not None:
            nodes[gpu]["gpu"] = sheet
    links = topology.links
    ends = zip(links.src.tolist(), links.dst.tolist(), strict=True)
    values = zip(links.bytes_per_s.tolist(), links.latency_s.tolist(), links.kind, strict=True)
    edges = [
        {
            "source": nodes[src]["id"],
            "target": nodes[dst]["id"],
            "key": number,
            "bytes_per_s": bytes_per_s,
            "latency_s": latency_s,
            "kind": kind,
        }
        for number, ((src, dst), (bytes_per_s, latency_s, kind)) in enumerate(zip(ends, values, strict=True))
    ]
    graph = {"name": topology.name}
    return {"directed": True, "multigraph": True, "graph": graph, "nodes": nodes, "edges": edges}


def _node(topology: Topology, where: Hashable) -> int:
    if isinstance(where, str) and where.isascii() and where.isdigit() and where not in topology.node_names:
        return topology.node(int(where))
    return topology.node(where)
