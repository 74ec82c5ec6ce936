"""How many times as fast as their sheets parts of a cluster are: what a forecast with other hardware of one kind needs.

A factor on a resource multiplies its rates and divides its delays. A resource without a factor is as its sheet says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from clustersim.hardware.sheet import Gpu, Transport

GPU_FLOP = "gpu.flop"
GPU_MEMORY = "gpu.memory"
GPU_KERNELS = "gpu.kernels"
HOST = "host"
HOST_MEMORY = "host.memory"
LATENCY = "latency"
LIBRARY = "library"
INPUT = "input"
LINK = "link."

MEMORY_KINDS = {"gpu-memory": GPU_MEMORY, "memory": HOST_MEMORY, "cpu-add": HOST_MEMORY}
"""Kinds of links that are no wires but memories, with their resource."""


@dataclass(frozen=True)
class Speeds:
    """Factors on the speed of resources, in the order of their names.

    >>> Speeds.of({"gpu.flop": 1.1, "latency": 1.0}).factor("gpu.flop")
    1.1
    """

    factors: tuple[tuple[str, float], ...] = ()

    @classmethod
    def of(cls, factors: Mapping[str, float]) -> Speeds:
        """Return the speeds with these factors by resource; factors of 1 are left out."""
        return cls(tuple(sorted((name, factor) for name, factor in factors.items() if factor != 1)))

    def factor(self, resource: str) -> float:
        """Return the factor of a resource; 1 if it has none."""
        return next((factor for name, factor in self.factors if name == resource), 1.0)

    def of_link(self, kind: str) -> float:
        """Return the factor on the rate of links of a kind, memories among them."""
        return self.factor(MEMORY_KINDS.get(kind, f"{LINK}{kind}"))

    @property
    def of_compute(self) -> Speeds:
        """Those that kernels and the host that issues them depend on."""
        kept = (GPU_FLOP, GPU_MEMORY, GPU_KERNELS, HOST)
        return Speeds(tuple((name, factor) for name, factor in self.factors if name in kept))

    @property
    def of_gpu(self) -> tuple[float, float, float]:
        """The factors of a GPU: FLOP rate, memory rate, and all else that kernels take."""
        return self.factor(GPU_FLOP), self.factor(GPU_MEMORY), self.factor(GPU_KERNELS)


AS_SHEETS = Speeds()
"""Every resource as its sheet says."""


def gpu_at(gpu: Gpu, flop: float, memory: float) -> Gpu:
    """Return a GPU with its FLOP rates and its memory rate multiplied; it remembers the one of the sheet."""
    if flop == memory == 1:
        return gpu
    return replace(
        gpu,
        flop_per_s={precision: rate * flop for precision, rate in gpu.flop_per_s.items()},
        memory_bytes_per_s=gpu.memory_bytes_per_s * memory,
        of_sheet=gpu.of_sheet or gpu,
    )


def transport_at(transport: Transport, speeds: Speeds) -> Transport:
    """Return a message library whose own times are divided by its factor, and whose own rates are multiplied.

    The share of a link's rate that is payload stays.
    """
    factor = speeds.factor(LIBRARY)
    if factor == 1:
        return transport
    times = ("overhead_s", "host_overhead_s", "add_s_per_byte")
    rates = ("connection_bytes_per_s", "receiving_bytes_per_s", "sending_bytes_per_s")
    changed = {name: getattr(transport, name) / factor for name in times if getattr(transport, name) is not None}
    changed |= {name: getattr(transport, name) * factor for name in rates if getattr(transport, name) is not None}
    return replace(transport, **changed)
