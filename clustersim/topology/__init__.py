"""Clusters: hosts and what is in them, networks between hosts, routes, and which GPUs a job gets.

No clock and no messages in here: `clustersim.network` says how long a transfer takes on a route.
"""

from clustersim.topology.describe import describe, describe_route, export
from clustersim.topology.host_table import HOSTS
from clustersim.topology.hosted_spec import TopologySpec
from clustersim.topology.load import TOPOLOGIES, load_topology, read_topology, topology_file, topology_spec
from clustersim.topology.placement import PLACEMENTS, Placement, PlacementSpec, place
from clustersim.topology.topology import Links, Node, Topology

__all__ = [
    "HOSTS",
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
