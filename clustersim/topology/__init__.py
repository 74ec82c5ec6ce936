"""Clusters: hosts and their devices, networks between hosts, routes, and the GPUs of a job.

There is no clock and no message in this package: `clustersim.network` computes how long a transfer takes on a route.
"""

from clustersim.topology.describe import describe, describe_route, export
from clustersim.topology.host_sheets import HOST_SHEETS
from clustersim.topology.host_table import HOSTS
from clustersim.topology.hosted_spec import TopologySpec
from clustersim.topology.load import TOPOLOGIES, load_topology, read_topology, topology_file, topology_spec
from clustersim.topology.placement import PLACEMENTS, Placement, PlacementSpec, place
from clustersim.topology.topology import Links, Node, Topology

__all__ = [
    "HOSTS",
    "HOST_SHEETS",
    "PLACEMENTS",
    "TOPOLOGIES",
    "Links",
    "Node",
    "Placement",
    "PlacementSpec",
    "Topology",
    "TopologySpec",
    "describe",
    "describe_route",
    "export",
    "load_topology",
    "place",
    "read_topology",
    "topology_file",
    "topology_spec",
]
