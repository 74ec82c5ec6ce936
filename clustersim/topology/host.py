"""Host templates of sockets, PCIe switches and GPUs; `host_table.HOSTS` lists them."""

from __future__ import annotations

from itertools import pairwise
from typing import Literal

from pydantic import Field, field_serializer

from clustersim.errors import InputError
from clustersim.hardware import load_cpu, load_gpu
from clustersim.hardware.sheet import Gpu
from clustersim.spec import Spec
from clustersim.topology.host_plan import HostPlan
from clustersim.topology.wire import Cable, CpuName, GpuName, LinkName, wire
from clustersim.units import Size


class Host(Spec):
    """A kind of host; `plan` returns its nodes and links."""

    template: str
    gpu: GpuName | None = Field(
        default=None, description="the GPU's sheet, such as `k80` (one die), or `{gpu: h100, power_limit: 500 W}`"
    )

    def plan(self) -> HostPlan:
        """Return the nodes and links of one such host."""
        raise InputError(f"the host template '{self.template}' cannot be built")


class Bare(Host):
    """No devices but GPUs: every GPU is on a separate network link."""

    template: Literal["bare"] = "bare"
    num_gpus: int = Field(default=1, ge=1, le=256, description="GPUs in one host")

    def plan(self) -> HostPlan:
        """Return the GPUs alone, each a port of the network, with the memory of its sheet (bytes/s), if it has one."""
        plan = HostPlan(bare=True)
        sheet = load_gpu(self.gpu) if self.gpu else None
        for number in range(self.num_gpus):
            node = plan.node("gpu", number)
            plan.gpus.append(node)
            plan.gpu_sheets.append(self.gpu)
            plan.memory.append(node)
            plan.ports.append(node)
            if sheet:
                plan.adder(node, Cable(sheet.memory_bytes_per_s, 0.0, "gpu-memory"))
        return plan


class HostOfDevices(Host):
    """A host with processors, host memory and PCIe, and the keys for these."""

    gpudirect: bool = Field(
        default=False,
        description="whether NICs read GPU memory; if not, messages to other hosts pass through host memory",
    )
    cpu: CpuName = Field(
        default="xeon-e5-2680-v3", description="the processor's sheet: host memory, and reduction in it"
    )
    memory: Size | None = Field(
        default=None,
        description="host memory of all sockets, such as `512 GiB`: what `parallelism.offload` stores there has to "
        "fit; not checked if not given",
    )
    pcie: LinkName | None = Field(
        default=None, description="link of every PCIe slot; by default that of the GPU's sheet"
    )
    interconnect: LinkName | None = Field(
        default=None, description="link between the sockets; by default that of the processor's sheet"
    )

    @field_serializer("memory")
    def _with_a_unit(self, memory: float | None) -> str | None:
        """Return the size with its unit, so that it can be read again."""
        return None if memory is None else f"{memory!r} B"

    def _between_sockets(self) -> Cable:
        """Return the link between two sockets: as given, or that of the processor's sheet."""
        between = self.interconnect or load_cpu(self.cpu).interconnect
        if between is None:
            raise InputError(
                f"the processor '{self.cpu}' names no link between sockets: give `interconnect`, such as qpi",
                got=self.cpu,
                allowed="a link's name or a rate",
            )
        return wire(between, "interconnect")

    def _memory_of(self, plan: HostPlan, socket: int, number: int) -> int:
        """Add the memory of a socket, with its link to the socket and one for reduction in it."""
        cpu, memory = load_cpu(self.cpu), plan.node("memory", number)
        plan.cable(socket, memory, Cable(cpu.memory_bytes_per_s, 0.0, "memory"))
        plan.adder(memory, Cable(cpu.memory_bytes_per_s, 0.0, "cpu-add"))
        return memory


def add_gpu(plan: HostPlan, node: int, name: str, point: int | None, memory: int) -> None:
    """Add what a GPU at a node has by its sheet: its memory, and a staging link if it has no peer access.

    `point` is the node of its slot, `memory` where its messages are staged.
    """
    gpu = load_gpu(name)
    plan.adder(node, Cable(gpu.memory_bytes_per_s, 0.0, "gpu-memory"))
    if gpu.staged_bytes_per_s is not None:
        plan.add_staging_link(node, Cable(gpu.staged_bytes_per_s, 0.0, "staging"))
    if gpu.staged_together_bytes_per_s is not None and point is not None:
        plan.add_shared_staging_link(node, point, Cable(gpu.staged_together_bytes_per_s, 0.0, "staging"))
    plan.memory.append(memory)
    plan.gpus.append(node)
    plan.gpu_sheets.append(name)


class SocketHost(HostOfDevices):
    """GPUs on PCIe under one or two sockets, with or without PCIe switches (`plx`) between."""

    num_gpus: int = Field(default=1, ge=1, le=256, description="GPUs in one host")
    nics: int = Field(default=1, ge=1, le=64, description="network cards in one host; each is a port of the network")
    nic_link: LinkName | Literal["direct"] | None = Field(
        default=None,
        description="link between a NIC and the host, by default as `pcie`; `direct`: the network starts at the socket",
    )
    nics_on: Literal["socket", "plx"] = Field(default="socket", description="what NICs are plugged into")

    def num_sockets(self) -> int:
        return 1

    def num_plx(self) -> int:
        """Return the number of PCIe switches in the whole host."""
        return 0

    def plan(self) -> HostPlan:
        """Return the sockets with a memory each, the PCIe switches if any, and the GPUs and NICs on them.

        A GPU's memory is a link to itself at the rate of its sheet (bytes/s), a socket's at that of its processor's. A
        GPU that others reach only through host memory has a staging link, also to itself. Transfers between GPUs
        through a socket have the fraction of a slot's rate on the processor's sheet.
        """
        if self.gpu is None:
            raise InputError(
                f"the host template '{self.template}' needs a gpu, such as {{template: {self.template}, gpu: k80}}",
                allowed="the name of a GPU's sheet",
            )
        gpu = load_gpu(self.gpu)
        slot = wire(self.pcie or gpu.pcie, "pcie")
        plan = HostPlan(gpudirect=self.gpudirect, cpu=self.cpu)
        gpus = [plan.node("gpu", number) for number in range(self.num_gpus)]
        sockets, memories = self._sockets(plan)
        points = self._plx(plan, sockets, slot)
        for number, node in enumerate(gpus):
            point = number * len(points) // self.num_gpus
            plan.cable(node, points[point], slot)
            add_gpu(plan, node, self.gpu, points[point], memories[point * len(sockets) // len(points)])
        self._nics(plan, points if self.nics_on == "plx" else sockets, slot)
        self._nvlinks(plan, gpu)
        if (share := load_cpu(self.cpu).peer_share) is not None:
            plan.limit_peers(share)
        return plan

    def _sockets(self, plan: HostPlan) -> tuple[list[int], list[int]]:
        sockets = [plan.node("socket", number) for number in range(self.num_sockets())]
        memories = [self._memory_of(plan, socket, number) for number, socket in enumerate(sockets)]
        for first, second in pairwise(sockets):
            plan.cable(first, second, self._between_sockets())
        return sockets, memories

    def _plx(self, plan: HostPlan, sockets: list[int], slot: Cable) -> list[int]:
        """Return the nodes that GPUs plug into: the PCIe switches, or the sockets if there are none."""
        switches = [plan.node("plx", number) for number in range(self.num_plx())]
        for number, switch in enumerate(switches):
            plan.cable(switch, sockets[number * len(sockets) // len(switches)], slot)
        return switches or sockets

    def _nics(self, plan: HostPlan, points: list[int], slot: Cable) -> None:
        for number in range(self.nics):
            point = points[number * len(points) // self.nics]
            if self.nic_link == "direct":
                plan.ports.append(point)
                continue
            nic = plan.node("nic", number)
            plan.cable(nic, point, slot if self.nic_link is None else wire(self.nic_link, "nic"))
            plan.ports.append(nic)

    def _nvlinks(self, plan: HostPlan, gpu: Gpu) -> None:
        """Connect the GPUs by NVLink, if the template has it."""


class SingleSocket(SocketHost):
    """All GPUs on one root complex, each with its own slot."""

    template: Literal["single-socket"] = "single-socket"


class DualSocket(SocketHost):
    """GPUs split over two sockets, with QPI or UPI between them."""

    template: Literal["dual-socket"] = "dual-socket"
    plx_per_socket: int = Field(default=0, ge=0, le=8, description="PCIe switches under each socket")

    def num_sockets(self) -> int:
        return 2

    def num_plx(self) -> int:
        return 2 * self.plx_per_socket


class SingleRoot(SocketHost):
    """All GPUs behind PCIe switches under one socket."""

    template: Literal["single-root"] = "single-root"
    num_switches: int = Field(default=2, ge=1, le=16, description="PCIe switches under the socket")
    uplink: LinkName | None = Field(
        default=None, description="link between a PCIe switch and the socket, by default as `pcie`"
    )

    def num_plx(self) -> int:
        return self.num_switches

    def _plx(self, plan: HostPlan, sockets: list[int], slot: Cable) -> list[int]:
        return super()._plx(plan, sockets, slot if self.uplink is None else wire(self.uplink, "pcie"))
