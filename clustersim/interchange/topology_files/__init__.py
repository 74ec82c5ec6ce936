"""Topology files from the descriptions of hosts and networks that other tools write.

Each format is one file with two functions: whether a text looks like it, and its hosts or network. A format does not
know what the topology file is like; `assemble` joins a network and a kind of host, and `write` has the text.
"""

from clustersim.interchange.topology_files.assemble import ImportedTopology
from clustersim.interchange.topology_files.formats import FORMATS, TopologyFormat, import_topology
from clustersim.interchange.topology_files.write import topology_text

__all__ = ["FORMATS", "ImportedTopology", "TopologyFormat", "import_topology", "topology_text"]
