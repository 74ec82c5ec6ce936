"""Host templates of NVIDIA's DGX machines: NVLink between the GPUs, a NIC near each."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from clustersim.errors import InputError
from clustersim.hardware import load_gpu
from clustersim.hardware.sheet import Gpu
from clustersim.topology.host import SocketHost
from clustersim.topology.host_plan import HostPlan
from clustersim.topology.wire import Cable, CpuName, GpuName, LinkName, wire
from clustersim.units import Size

_CUBE_MESH = ((0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (0, 4), (1, 5), (2, 6), (3, 7),
              (4, 5), (4, 6), (4, 7), (5, 6), (5, 7), (6, 7))  # fmt: skip
_DOUBLED = {(0, 3), (0, 4), (1, 2), (1, 5), (2, 3), (4, 7), (5, 6), (6, 7)}
"""Pairs with two links if a GPU has six (V100)."""


class NvlinkHost(SocketHost):
    """Two sockets, PCIe switches with GPUs and NICs, and NVLink between the GPUs."""

    plx_per_socket: int = Field(default=2, ge=1, le=8, description="PCIe switches under each socket")
    gpudirect: bool = Field(
        default=True, description="whether NICs read GPU memory; if not, messages pass through host memory"
    )
    nics_on: Literal["socket", "plx"] = Field(default="plx", description="what NICs are plugged into")
    nvlink: LinkName | None = Field(default=None, description="one NVLink; by default that of the GPU's sheet")

    def num_sockets(self) -> int:
        return 2

    def num_plx(self) -> int:
        return 2 * self.plx_per_socket

    def _nvlink(self, gpu: Gpu) -> Cable:
        name = self.nvlink or gpu.nvlink
        if name is None or gpu.num_nvlinks == 0:
            raise InputError(
                f"the GPU '{gpu.name}' has no NVLink, which the host template '{self.template}' needs",
                got=gpu.name,
                allowed="a GPU with NVLink, such as v100",
            )
        return wire(name, "nvlink")


class Dgx1(NvlinkHost):
    """DGX-1: eight P100 or V100 in a hybrid cube mesh, four NICs (NVIDIA DGX-1 white paper, WP-08437, 2017).

    With V100 eight of the sixteen pairs have two links. GPUs without a direct NVLink exchange data over PCIe.
    """

    template: Literal["dgx-1"] = "dgx-1"
    gpu: GpuName | None = Field(default="p100", description="p100 or v100")
    num_gpus: int = Field(default=8, ge=1, le=8, description="GPUs in one host, the first of the mesh")
    nics: int = Field(default=4, ge=1, le=64, description="network cards in one host")
    cpu: CpuName = Field(default="xeon-e5-2698-v4", description="the processor's sheet")
    memory: Size | None = Field(
        default="512 GiB", validate_default=True, description="host memory of all sockets, as on the data sheet"
    )

    def _nvlinks(self, plan: HostPlan, gpu: Gpu) -> None:
        one = self._nvlink(gpu)
        for pair in _CUBE_MESH:
            if max(pair) < self.num_gpus:
                count = 2 if gpu.num_nvlinks >= 6 and pair in _DOUBLED else 1
                plan.cable(plan.gpus[pair[0]], plan.gpus[pair[1]], one._replace(bytes_per_s=count * one.bytes_per_s))


class NvswitchHost(NvlinkHost):
    """All NVLinks of every GPU go to the NVSwitches, one node here: any pair exchanges data at a GPU's full rate."""

    nvlink_domain: int = Field(
        default=1,
        ge=1,
        le=64,
        description="hosts whose GPUs one layer of NVSwitches joins, such as 18 in a GB200 NVL72; the hosts of a "
        "cluster form such domains in the order of their numbers, the last one of the hosts that are left",
    )

    def _nvlinks(self, plan: HostPlan, gpu: Gpu) -> None:
        one = self._nvlink(gpu)
        plan.domain = self.nvlink_domain
        switch = plan.node("nvswitch", 0)
        for node in plan.gpus:
            plan.cable(node, switch, one._replace(bytes_per_s=gpu.num_nvlinks * one.bytes_per_s))


class Dgx2(NvswitchHost):
    """DGX-2: sixteen V100 on NVSwitch, eight NICs (NVIDIA DGX-2 data sheet, 2018)."""

    template: Literal["dgx-2"] = "dgx-2"
    gpu: GpuName | None = Field(default="v100", description="the GPU's sheet")
    num_gpus: int = Field(default=16, ge=1, le=16, description="GPUs in one host")
    nics: int = Field(default=8, ge=1, le=64, description="network cards in one host")
    plx_per_socket: int = Field(default=4, ge=1, le=8, description="PCIe switches under each socket")
    cpu: CpuName = Field(default="xeon-platinum-8168", description="the processor's sheet")
    memory: Size | None = Field(
        default="1536 GiB", validate_default=True, description="host memory of all sockets, as on the data sheet"
    )


class DgxA100(NvswitchHost):
    """DGX A100: eight A100 on NVSwitch, a NIC for each (NVIDIA DGX A100 data sheet, 2020)."""

    template: Literal["dgx-a100"] = "dgx-a100"
    gpu: GpuName | None = Field(default="a100", description="the GPU's sheet")
    num_gpus: int = Field(default=8, ge=1, le=8, description="GPUs in one host")
    nics: int = Field(default=8, ge=1, le=64, description="network cards in one host")
    cpu: CpuName = Field(default="epyc-7742", description="the processor's sheet")
    memory: Size | None = Field(
        default="2048 GiB",
        validate_default=True,
        description="host memory of all sockets, as on the data sheet of the system of 640 GB; that of 320 GB has half",
    )


class DgxH100(NvswitchHost):
    """DGX H100 (and, with `gpu: h200`, DGX H200): eight GPUs on NVSwitch, a NIC for each (data sheet, 2022)."""

    template: Literal["dgx-h100"] = "dgx-h100"
    gpu: GpuName | None = Field(default="h100", description="the GPU's sheet")
    num_gpus: int = Field(default=8, ge=1, le=8, description="GPUs in one host")
    nics: int = Field(default=8, ge=1, le=64, description="network cards in one host")
    cpu: CpuName = Field(default="xeon-platinum-8480c", description="the processor's sheet")
    memory: Size | None = Field(
        default="2048 GiB", validate_default=True, description="host memory of all sockets, as on the data sheet"
    )


class DgxB200(NvswitchHost):
    """DGX B200: eight B200 on NVSwitch, a NIC for each (NVIDIA DGX B200 data sheet, 2024).

    With up to 72 GPUs it is an NVLink domain that has the processors and PCIe of one host. `superchip` with
    `nvlink_domain` has the hosts of such a domain.
    """

    template: Literal["dgx-b200"] = "dgx-b200"
    gpu: GpuName | None = Field(default="b200", description="the GPU's sheet")
    num_gpus: int = Field(default=8, ge=1, le=72, description="GPUs in one host, or in one NVLink domain")
    nics: int = Field(default=8, ge=1, le=64, description="network cards in one host")
    cpu: CpuName = Field(default="xeon-platinum-8480c", description="the processor's sheet")


class Superchip(NvswitchHost):
    """Grace processors with GPUs on NVLink-C2C, and NVSwitches between all GPUs of the NVLink domain.

    By default a compute tray of a GB200 NVL72, of which 18 form a domain (NVIDIA, GB200 NVL72 data sheet, 2024). Every
    network card is on PCIe at a processor, so that a GPU reads and writes it through NVLink-C2C.
    """

    template: Literal["superchip"] = "superchip"
    gpu: GpuName | None = Field(default="gb200", description="gb200, gb300 or gh200")
    num_gpus: int = Field(default=4, ge=1, le=8, description="GPUs in one host")
    nics: int = Field(default=4, ge=1, le=64, description="network cards in one host")
    cpu: CpuName = Field(default="grace", description="the processor's sheet")
    plx_per_socket: int = Field(default=0, ge=0, le=8, description="PCIe switches under each processor")
    nics_on: Literal["socket", "plx"] = Field(default="socket", description="what NICs are plugged into")
    pcie: LinkName | None = Field(default="nvlink-c2c", description="link between a GPU and its processor")
    nic_link: LinkName | Literal["direct"] | None = Field(
        default="pcie-5-x16", description="link between a NIC and its processor; `direct`: the network starts there"
    )

    def num_sockets(self) -> int:
        """Return the number of processors: one for each Hopper GPU, or for two of Blackwell."""
        each = 1 if self.gpu is not None and load_gpu(self.gpu).architecture == "hopper" else 2
        return -(-self.num_gpus // each)

    def num_plx(self) -> int:
        return self.num_sockets() * self.plx_per_socket
