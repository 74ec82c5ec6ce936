"""Programs that train, as data: how many operators their layers have, and how long a host needs to issue them.

One YAML file per kind of program, one `source` per value. `operator_counts.yaml` has the operators of PyTorch's layers,
counted with its own dispatcher. A sheet stands for one or more values of `compute.library`.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from clustersim.hardware import SheetCatalogue
from clustersim.software.operators import Operators, operators_of
from clustersim.software.sheet import Software, SoftwareFile

__all__ = ["SOFTWARE", "Operators", "Software", "load_software", "operators_of", "software_of"]

_HERE = Path(__file__).resolve().parent

SOFTWARE: SheetCatalogue[Software] = SheetCatalogue("program", SoftwareFile, _HERE / "sheets")


def load_software(name: str | Path) -> Software:
    """Return the program of this name or sheet file.

    >>> load_software("pytorch-eager").title
    'PyTorch, operator by operator'
    """
    return SOFTWARE.load(name)


@lru_cache(maxsize=64)
def software_of(library: str) -> Software:
    """Return the program whose sheet names this value of `compute.library`.

    >>> software_of("megatron-2023").name
    'megatron'
    """
    return load_software(next(name for name in SOFTWARE if library in _libraries(SOFTWARE.find(name))))


def _libraries(sheet: Path) -> list[str]:
    """Return the libraries of a sheet from its line, without reading the rest."""
    with sheet.open(encoding="utf-8") as lines:
        line = next(line for line in lines if line.startswith("libraries:"))
    return [name.strip() for name in line.partition("[")[2].partition("]")[0].split(",")]
