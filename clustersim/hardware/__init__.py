"""Device sheets: data of GPUs, links, host processors and message libraries, each value with its source.

One YAML file per device, one `source` per value. No clock, no topology and no layers in this package: a sheet is
independent of its cluster. A name is a sheet that ships with clustersim; a string that ends in `.yaml` or
contains a slash is the path of a user's own sheet, in the same form.
"""

from __future__ import annotations

from pathlib import Path

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
    """Return the GPU of this name or sheet file.

    >>> load_gpu("k20x").num_multiprocessors
    14
    """
    return GPUS.load(name)


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
