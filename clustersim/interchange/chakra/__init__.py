"""MLCommons Chakra execution traces (`.et`), which ASTRA-sim reads: written of programs, and read to be played.

A trace is one file for each rank, `<name>.<rank>.et`: messages of protocol buffers, each behind its length, first the
metadata and then the nodes (mlcommons/chakra, schema/protobuf/et_def.proto). Bytes alone in here: nothing is played.
"""

from clustersim.interchange.chakra.read import read_chakra
from clustersim.interchange.chakra.write import Written, write_chakra

__all__ = ["Written", "read_chakra", "write_chakra"]
