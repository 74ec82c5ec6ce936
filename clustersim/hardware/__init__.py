"""Device sheets: data of GPUs, links, host processors and message libraries, each value with its source.

One YAML file per device, one `source` per value. No clock, no topology and no layers in this package: a sheet is
independent of its cluster. A name is a sheet that ships with clustersim; a string that ends in `.yaml` or
contains a slash is the path of a user's own sheet, in the same form.
"""

from __future__ import annotations

from pathlib import Path

from clustersim.hardware.gpu_name import split_name
from clustersim.hardware.power_limit import with_power_limit
from clustersim.hardware.schema import CpuFile, GpuFile, LinkFile, TransportFile
from clustersim.hardware.sheet import Cpu, Gpu, LinkSheet, Sheet, Transport
from clustersim.hardware.sheet_catalogue import SheetCatalogue

__all__ = [
    "CPUS",
    "GPUS",
    "LINKS",
    "TRANSPORTS",
    "Cpu",
    "Gpu",
    "LinkSheet",
    "Sheet",
    "SheetCatalogue",
    "Transport",
    "load_cpu",
    "load_gpu",
    "load_link",
    "load_transport",
]


def load_gpu(name: str | Path) -> Gpu:
    """Return the GPU of this name or sheet file; `NAME at 500 W` is one with that limit of power.

    >>> load_gpu("k20x").num_multiprocessors
    14
    >>> load_gpu("h100 at 500 W").power_w
    500.0
    """
    if isinstance(name, Path):
        return GPUS.load(name)
    board, power_w = split_name(name)
    return GPUS.load(board) if power_w is None else _limited(GPUS.load(board), name, power_w)


def _limited(board: Gpu, name: str, power_w: float) -> Gpu:
    """Return a board with a limit of power, made once for each sheet and limit."""
    known = _LIMITED.get(name)
    if known is None or known[0] is not board:
        known = _LIMITED[name] = board, with_power_limit(board, power_w)
    return known[1]


def load_link(name: str | Path) -> LinkSheet:
    """Return the link of this name or sheet file, one direction of it.

    >>> load_link("gemini-y").bytes_per_s < load_link("gemini-x").bytes_per_s
    True
    """
    return LINKS.load(name)


def load_cpu(name: str | Path) -> Cpu:
    """Return the host processor (one socket) of this name or sheet file.

    >>> load_cpu("opteron-6274").title
    'AMD Opteron 6274 (Interlagos, 16 cores, 2.2 GHz)'
    """
    return CPUS.load(name)


def load_transport(name: str | Path) -> Transport:
    """Return the message library of this name or sheet file.

    >>> load_transport("ideal").overhead_s
    0.0
    """
    return TRANSPORTS.load(name)


_HERE = Path(__file__).resolve().parent

LINKS: SheetCatalogue[LinkSheet] = SheetCatalogue("link", LinkFile, _HERE / "links")
GPUS: SheetCatalogue[Gpu] = SheetCatalogue("GPU", GpuFile, _HERE / "gpus", refers={"pcie": LINKS, "nvlink": LINKS})
CPUS: SheetCatalogue[Cpu] = SheetCatalogue("CPU", CpuFile, _HERE / "cpus", refers={"interconnect": LINKS})
TRANSPORTS: SheetCatalogue[Transport] = SheetCatalogue("transport", TransportFile, _HERE / "transports")

_LIMITED: dict[str, tuple[Gpu, Gpu]] = {}
