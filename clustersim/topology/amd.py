"""Host templates of AMD's machines: Infinity Fabric (xGMI) from GPU to GPU, without a switch."""

from __future__ import annotations

from itertools import combinations
from typing import Literal

from pydantic import Field

from clustersim.hardware.sheet import Gpu
from clustersim.topology.dgx import NvlinkHost
from clustersim.topology.host_plan import HostPlan
from clustersim.topology.wire import Cable, CpuName, GpuName, LinkName

_MI250X_MESH = {(0, 1): 4, (2, 3): 4, (4, 5): 4, (6, 7): 4, (0, 6): 2, (2, 4): 2,
                (0, 2): 1, (1, 3): 1, (1, 5): 1, (3, 7): 1, (4, 6): 1, (5, 7): 1}  # fmt: skip
"""Infinity Fabric links between the eight dies of four MI250X.

`rome_model_85` in RCCL's src/graph/rome_models.cc (commit 0cbce2a7); OLCF, Frontier User Guide: 200 GB/s within an
MI250X and 50 to 100 GB/s between two.
"""


class Mi300x(NvlinkHost):
    """AMD Instinct MI300X platform (and, with `gpu`, MI325X or MI355X): eight GPUs, each pair joined by xGMI.

    A NIC for each GPU is on the same PCIe switch (AMD, MI300X platform data sheet, 2023; `topo_8p_940.xml` of RCCL).
    """

    template: Literal["mi300x"] = "mi300x"
    gpu: GpuName | None = Field(default="mi300x", description="mi300x, mi325x or mi355x")
    num_gpus: int = Field(default=8, ge=1, le=8, description="GPUs in one host, the first of the mesh")
    nics: int = Field(default=8, ge=1, le=64, description="network cards in one host")
    plx_per_socket: int = Field(default=4, ge=1, le=8, description="PCIe switches under each socket")
    cpu: CpuName = Field(default="epyc-9534", description="the processor's sheet")
    nvlink: LinkName | None = Field(default=None, description="one xGMI link; by default that of the GPU's sheet")

    def _nvlinks(self, plan: HostPlan, gpu: Gpu) -> None:
        one = self._nvlink(gpu)
        for pair in combinations(plan.gpus, 2):
            plan.cable(*pair, one)


class Mi250x(NvlinkHost):
    """Four AMD Instinct MI250X, each two dies (GCD) that are GPUs, on one processor, with a NIC on each MI250X.

    So are the nodes of Frontier and LUMI (OLCF, Frontier User Guide). Each die has its own link to the processor.
    """

    template: Literal["mi250x"] = "mi250x"
    gpu: GpuName | None = Field(default="mi250x", description="the sheet of one die")
    num_gpus: int = Field(default=8, ge=1, le=8, description="dies in one host, the first of the mesh")
    nics: int = Field(default=4, ge=1, le=64, description="network cards in one host")
    plx_per_socket: int = Field(default=4, ge=1, le=8, description="MI250X on the processor")
    cpu: CpuName = Field(default="epyc-7a53", description="the processor's sheet")
    nvlink: LinkName | None = Field(default=None, description="one xGMI link; by default that of the GPU's sheet")
    nic_link: LinkName | Literal["direct"] | None = Field(
        default="pcie-4-x16", description="link between a NIC and its MI250X; `direct`: the network starts there"
    )

    def num_sockets(self) -> int:
        return 1

    def num_plx(self) -> int:
        return self.plx_per_socket

    def _plx(self, plan: HostPlan, sockets: list[int], slot: Cable) -> list[int]:
        """Return the MI250X, each with the links of its two dies to the processor."""
        return super()._plx(plan, sockets, slot._replace(bytes_per_s=2 * slot.bytes_per_s))

    def _nvlinks(self, plan: HostPlan, gpu: Gpu) -> None:
        one = self._nvlink(gpu)
        for (a, b), count in _MI250X_MESH.items():
            if b < self.num_gpus:
                plan.cable(plan.gpus[a], plan.gpus[b], one._replace(bytes_per_s=count * one.bytes_per_s))
