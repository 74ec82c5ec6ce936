"""MLCommons Chakra execution traces (`.et`), which ASTRA-sim reads: export of programs, and import for simulation.

A trace is one file for each rank, `<name>.<rank>.et`: length-delimited protocol buffers messages, first the
metadata and then the nodes (mlcommons/chakra, schema/protobuf/et_def.proto). This package only encodes and decodes:
nothing is simulated.
"""

from clustersim.interchange.chakra.read import read_chakra
from clustersim.interchange.chakra.write import TraceFolder, write_chakra

__all__ = ["TraceFolder", "read_chakra", "write_chakra"]
