"""Topologies from networkx graphs."""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np

from clustersim.errors import InputError, Mistake
from clustersim.hardware import load_gpu
from clustersim.topology.shortest_path import ShortestPathRouter
from clustersim.topology.topology import Links, Topology

if TYPE_CHECKING:
    import networkx as nx


def graph_topology(graph: nx.Graph[Any]) -> Topology:
    """Return the topology of a networkx graph.

    Nodes have `kind` (`gpu`, `host`, `switch`, ...), and may have `host` (a number; -1 for none) and `gpu` (a sheet's
    name); edges have `bytes_per_s` and `latency_s`, and may have `kind`. An undirected edge is a link in each
    direction. GPUs are numbered in the order of their nodes; if no node is a `gpu`, every `host` counts as one. An edge
    from a node to itself is that node's memory, which reduction uses.
    """
    mistakes: list[Mistake] = []
    names: list[Hashable] = list(graph.nodes)
    kinds = [_node_kind(name, attributes, mistakes) for name, attributes in graph.nodes(data=True)]
    columns = _link_columns(graph, {name: number for number, name in enumerate(names)}, mistakes)
    if mistakes:
        raise InputError(mistakes)
    gpus = [number for number, kind in enumerate(kinds) if kind == "gpu"]
    gpus = gpus or [number for number, kind in enumerate(kinds) if kind == "host"]
    if not gpus:
        raise InputError(
            "the graph has no GPU: give its nodes `kind`, with 'gpu' or 'host' among them",
            got=", ".join(sorted(set(kinds))[:5]),
            allowed="gpu, host",
        )
    hosts = _hosts(graph, kinds, gpus)
    sheets = [graph.nodes[names[gpu]].get("gpu") for gpu in gpus]
    return graph_of_columns(str(graph.name or "graph"), names, kinds, hosts, columns, np.array(gpus), sheets)


def graph_of_columns(
    name: str,
    names: list[Hashable],
    kinds: list[str],
    hosts: np.ndarray,
    links: Links,
    gpus: np.ndarray,
    sheets: list[str | None],
) -> Topology:
    """Return the topology of nodes and links in columns, routed by shortest paths.

    A GPU's memory is the first node of kind `memory` in its host, or the GPU itself if there is none.
    A GPU with a sheet gets its own memory as a link to itself, unless the columns have one already.
    """
    adders = {int(links.src[link]): int(link) for link in np.flatnonzero(links.src == links.dst)}
    wanted = [
        (int(gpu), sheet)
        for gpu, sheet in zip(gpus, sheets, strict=True)
        if sheet is not None and int(gpu) not in adders
    ]
    adders |= {gpu: len(links) + number for number, (gpu, _) in enumerate(wanted)}
    nodes = np.array([gpu for gpu, _ in wanted], dtype=np.int64)
    links = Links(
        src=np.concatenate([links.src, nodes]),
        dst=np.concatenate([links.dst, nodes]),
        bytes_per_s=np.concatenate([links.bytes_per_s, [load_gpu(sheet).memory_bytes_per_s for _, sheet in wanted]]),
        latency_s=np.concatenate([links.latency_s, np.zeros(len(wanted))]),
        kind=[*links.kind, *["gpu-memory"] * len(wanted)],
    )
    memory = {
        int(hosts[node]): node for node in reversed(range(len(kinds))) if kinds[node] == "memory" and hosts[node] >= 0
    }
    return Topology(
        name=name,
        node_names=names,
        node_kinds=kinds,
        node_hosts=hosts,
        links=links,
        gpus=gpus,
        gpu_sheets=sheets,
        memory=np.array([memory.get(int(hosts[gpu]), int(gpu)) for gpu in gpus], dtype=np.int64),
        adders=adders,
        router=ShortestPathRouter(names, links),
        host_sheets=[None] * (int(hosts.max(initial=-1)) + 1),
    )


def _node_kind(name: Hashable, attributes: dict[str, Any], mistakes: list[Mistake]) -> str:
    kind = attributes.get("kind")
    if not isinstance(kind, str):
        message = f"the node {name!r} has no `kind` (got {kind!r}): set 'gpu', 'host', 'switch' or another kind"
        mistakes.append(Mistake(message, got=repr(kind), allowed="gpu, host, switch, ..."))
        return ""
    if attributes.get("gpu") is not None:
        load_gpu(str(attributes["gpu"]))
    return kind


def _link_columns(graph: nx.Graph[Any], numbers: dict[Hashable, int], mistakes: list[Mistake]) -> Links:
    rows: list[tuple[int, int, float, float, str]] = []
    import networkx as nx

    one_way = isinstance(graph, nx.DiGraph)
    for a, b, attributes in graph.edges(data=True):
        rate = _number(a, b, attributes, "bytes_per_s", mistakes, above_zero=True)
        latency = _number(a, b, attributes, "latency_s", mistakes, above_zero=False)
        kind = str(attributes.get("kind", "link"))
        rows.append((numbers[a], numbers[b], rate, latency, kind))
        if not one_way and a != b:
            rows.append((numbers[b], numbers[a], rate, latency, kind))
    return Links(
        src=np.array([row[0] for row in rows], dtype=np.int64),
        dst=np.array([row[1] for row in rows], dtype=np.int64),
        bytes_per_s=np.array([row[2] for row in rows], dtype=float),
        latency_s=np.array([row[3] for row in rows], dtype=float),
        kind=[row[4] for row in rows],
    )


def _number(
    a: Hashable, b: Hashable, attributes: dict[str, Any], key: str, mistakes: list[Mistake], *, above_zero: bool
) -> float:
    value = attributes.get(key)
    if isinstance(value, int | float | np.number) and not isinstance(value, bool) and math.isfinite(float(value)):
        number = float(value)
        if number > 0 or (number == 0 and not above_zero):
            return number
    allowed = f"a finite number {'above zero' if above_zero else 'of at least zero'}"
    got = "nothing" if value is None else repr(value)
    mistakes.append(Mistake(f"the edge {a!r} -> {b!r} needs `{key}`, {allowed} (got {got})", got=got, allowed=allowed))
    return 1.0


def _hosts(graph: nx.Graph[Any], kinds: list[str], gpus: list[int]) -> np.ndarray:
    """Return the host of every node [num_nodes]: as the graph has it, or a separate host for each GPU."""
    given = [attributes.get("host") for _, attributes in graph.nodes(data=True)]
    if all(host is None for host in given):
        hosts = np.full(len(kinds), -1, dtype=np.int64)
        hosts[gpus] = np.arange(len(gpus))
        return hosts
    wrong = [
        host
        for host in given
        if host is not None and (isinstance(host, bool) or not isinstance(host, int | np.integer))
    ]
    if wrong:
        raise InputError(
            f"a node's `host` is the number of its host (got {wrong[0]!r})",
            got=repr(wrong[0]),
            allowed="a whole number",
        )
    return np.array([-1 if host is None else max(-1, int(host)) for host in given], dtype=np.int64)
