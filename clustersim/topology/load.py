"""Makes a `Topology` from a name, a file, a mapping or a graph."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import TypeAdapter, ValidationError

from clustersim.errors import InputError, in_order
from clustersim.reading import Limits, TreeNode, explain, find_file, from_python, read_map, with_files
from clustersim.registry import Registry
from clustersim.spec import checked_spec, union_of
from clustersim.topology.dragonfly import Dragonfly
from clustersim.topology.explicit import Explicit
from clustersim.topology.fat_tree import FatTree
from clustersim.topology.graph import graph_topology
from clustersim.topology.hosted_spec import TopologySpec
from clustersim.topology.leaf_spine import LeafSpine
from clustersim.topology.star import Star
from clustersim.topology.topology import Topology
from clustersim.topology.torus import Torus

if TYPE_CHECKING:
    import networkx as nx

_LIMITS = Limits(num_bytes=16 << 20, num_events=1_000_000, num_values=500_000)
"""Limits of a topology file: a program may have written one with many nodes and links."""

TOPOLOGIES: Registry[type[TopologySpec]] = Registry(
    "topology kind",
    {
        "dragonfly": Dragonfly,
        "explicit": Explicit,
        "fat-tree": FatTree,
        "leaf-spine": LeafSpine,
        "star": Star,
        "torus": Torus,
    },
    group="clustersim.topologies",
    check=checked_spec(TopologySpec),
)


def load_topology(where: str | Path | Mapping[str, Any] | TopologySpec | Topology | nx.Graph[Any]) -> Topology:
    """Return a cluster: GPUs in rank order, nodes, and directed links.

    Parameters
    ----------
    where
        The name of a shipped cluster, the path of a YAML file, a mapping like `topology` of a scenario, or a networkx
        graph. Nodes of a graph have a `kind` (`gpu`, `host`, `switch` and others), and its directed edges `bytes_per_s`
        and `latency_s`.

    Raises
    ------
    InputError
        If it is none of these, or one that is wrong.
    """
    if isinstance(where, Topology):
        return where
    if isinstance(where, str | Path | Mapping | TopologySpec):
        return topology_spec(where).cluster()
    if hasattr(where, "nodes") and hasattr(where, "edges"):
        return graph_topology(where)
    got = type(where).__name__
    raise InputError(
        f"expected a cluster's name, a file, a mapping or a networkx graph (got a value of type {got})", got=got
    )


def topology_spec(where: str | Path | Mapping[str, Any] | TopologySpec) -> TopologySpec:
    """Return the spec of a cluster: by shipped name, by the path of a YAML file, or from a mapping.

    A file's top level is the value of `topology` in a scenario; its name is the file's unless it has a `name`.
    """
    if isinstance(where, TopologySpec):
        return where
    tree = from_python(where) if isinstance(where, Mapping) else read_topology(topology_file(where))
    tree = with_files(tree)
    try:
        return _reader().validate_json(json.dumps(tree.plain()), strict=True)
    except ValidationError as error:
        raise InputError(
            in_order(each.mistake for each in explain(error, tree, union_of(TOPOLOGIES), what="topology"))
        ) from None


@lru_cache(maxsize=1)
def _reader() -> TypeAdapter[TopologySpec]:
    return TypeAdapter(union_of(TOPOLOGIES))


TOPOLOGIES.on_register(_reader.cache_clear)


def topology_file(where: str | Path) -> Path:
    """Return the file of a cluster that is given by path or by shipped name."""
    return find_file(str(where), "topologies", "cluster")


def read_topology(path: Path) -> TreeNode:
    """Return the tree of a topology file, with its name in it: the file's, unless it has a `name`.

    Raise InputError with all mistakes for text that is not YAML, or not the subset of YAML used here.
    """
    return _topology_tree(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=64)
def _topology_tree(path: Path, changed_ns: int) -> TreeNode:
    tree, mistakes = read_map(path, "topology", _LIMITS)
    if mistakes:
        raise InputError(in_order(mistakes))
    return tree.with_value({"name": TreeNode(path.stem, tree.place), **tree.value})
