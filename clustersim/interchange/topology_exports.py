"""The formats that a cluster is exported in."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.interchange.nccl_topo_write import nccl_topology_xml
from clustersim.interchange.simgrid_export import simgrid_platform
from clustersim.registry import Registry
from clustersim.results.files import to_json
from clustersim.topology import Topology, export


def node_link_json(topology: Topology) -> str:
    """Return the cluster as networkx' node-link data."""
    return to_json(export(topology), indent=2)


EXPORTS: Registry[Callable[[Topology], str]] = Registry(
    "export format",
    {
        "json": node_link_json,
        "nccl-xml": nccl_topology_xml,
        "simgrid": simgrid_platform,
    },
)
