"""Programs that train, as data.

A software sheet in `sheets/` says how a program is written: its kernels, its host, how it buckets, gathers and reduces
gradients, its message library. A host sheet in `hosts/` says how many operators a kind of program issues, and how long
that takes. One YAML file per program, one `source` per value. `operator_counts.yaml` has the operators of PyTorch's
layers, counted with its own dispatcher.
"""

from __future__ import annotations

from pathlib import Path

from clustersim.hardware import SheetCatalogue
from clustersim.software.host import HostFile, HostProgram
from clustersim.software.operators import Operators, operators_of
from clustersim.software.sheet import Layout, Software, SoftwareFile

__all__ = [
    "HOSTS",
    "SOFTWARE",
    "HostProgram",
    "Layout",
    "Operators",
    "Software",
    "load_host",
    "load_software",
    "operators_of",
]

_HERE = Path(__file__).resolve().parent

HOSTS: SheetCatalogue[HostProgram] = SheetCatalogue("host sheet", HostFile, _HERE / "hosts")
SOFTWARE: SheetCatalogue[Software] = SheetCatalogue("software", SoftwareFile, _HERE / "sheets")


def load_host(name: str | Path) -> HostProgram:
    """Return the host sheet of this name or file.

    >>> load_host("pytorch-eager").title
    'PyTorch, operator by operator'
    """
    return HOSTS.load(name)


def load_software(name: str | Path) -> Software:
    """Return the program of this name or sheet file.

    >>> load_software("torchtitan").values["library"]
    'eager'
    """
    return SOFTWARE.load(name)
