"""The devices of one real host as tools describe them, and the links between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations

from clustersim.errors import InputError

MAX_GPUS, MAX_SOCKETS, MAX_DEVICES, MAX_COUNT = 256, 64, 1500, 200
"""Limits of a host, so that a wrong file does not exhaust the memory; `MAX_COUNT` is of links between two devices."""

SAME_SWITCH, BELOW_SWITCH, SAME_SOCKET, OTHER_SOCKET = range(4)
"""How far two devices are apart on PCIe: PIX, PXB, PHB or NODE, and SYS of nvidia-smi."""


@dataclass(frozen=True)
class HostDevice:
    """A `gpu`, `socket`, `plx` (PCIe switch), `nvswitch` or `nic`.

    `bytes_per_s` is the rate of a card and `sheet` that of a GPU, None if unknown.
    """

    name: str
    kind: str
    bytes_per_s: float | None = None
    sheet: str | None = None


@dataclass(frozen=True)
class HostJoint:
    """Links between two devices: `count` of a kind, each of which is `link` (a sheet or a rate), None if unknown.

    Kinds: `pcie`, from a device `a` to the switch or socket `b` above it, `bridge` (two PCIe switches), `nvlink`,
    `xgmi`, `c2c` (a GPU and the processor of its package), and `sockets`.
    """

    a: str
    b: str
    kind: str
    count: int = 1
    link: str | None = None


@dataclass(frozen=True)
class HostShape:
    """A host as a tool reports it. GPUs are in the order of their numbers.

    `gpudirect` is whether cards read GPU memory, None if unknown. `pcie_is_known` is false if the tool does not say
    where the GPUs are on PCIe; they are then below the first socket. `sockets_are_known` is false if devices may share
    sockets that the tool keeps apart, and `nvlinks_are_known` if it says nothing of links between GPUs. `cpu` is the
    sheet that the tool's name fits, `memory_bytes` the memory of the host, and `num_hosts` the number of hosts like
    this one whose NVSwitches are connected. `notes` say what is not represented.
    """

    devices: tuple[HostDevice, ...]
    joints: tuple[HostJoint, ...]
    gpudirect: bool | None = None
    pcie_is_known: bool = True
    sockets_are_known: bool = True
    nvlinks_are_known: bool = True
    cpu: str | None = None
    memory_bytes: float | None = None
    num_hosts: int = 1
    notes: tuple[str, ...] = field(default=())

    def __post_init__(self) -> None:
        num_sockets = len(self.of_kind("socket"))
        is_small = self.num_gpus <= MAX_GPUS and num_sockets <= MAX_SOCKETS and len(self.devices) <= MAX_DEVICES
        if not self.num_gpus or not is_small:
            got = f"{self.num_gpus} GPUs, {num_sockets} sockets and {len(self.devices)} devices"
            allowed = f"1 to {MAX_GPUS} GPUs, at most {MAX_SOCKETS} sockets and {MAX_DEVICES} devices"
            raise InputError(f"the host has {got}; {allowed} are read", got=got, allowed=allowed)
        ends = {end for joint in self.joints for end in (joint.a, joint.b)}
        unknown = ends - {device.name for device in self.devices}
        if unknown or len({device.name for device in self.devices}) < len(self.devices):
            got = min(unknown, default="two devices of one name")
            raise InputError(f"the devices of the host contradict its links ({got})", got=got)

    @cached_property
    def gpus(self) -> tuple[str, ...]:
        """The names of the GPUs."""
        return self.of_kind("gpu")

    @cached_property
    def sheets(self) -> frozenset[str | None]:
        """The sheets that fit the GPUs; None is among them if one is unknown."""
        return frozenset(device.sheet for device in self.devices if device.kind == "gpu")

    @property
    def gpu(self) -> str | None:
        """The sheet of all GPUs, None if they are of several kinds or unknown."""
        return next(iter(self.sheets)) if len(self.sheets) == 1 else None

    @property
    def num_gpus(self) -> int:
        return len(self.gpus)

    @cached_property
    def nics(self) -> tuple[HostDevice, ...]:
        """The network cards."""
        return tuple(device for device in self.devices if device.kind == "nic")

    def of_kind(self, kind: str) -> tuple[str, ...]:
        """Return the names of all devices of a kind."""
        return tuple(device.name for device in self.devices if device.kind == kind)

    def between(self, a: str, b: str) -> int:
        """Return the number of links that join two devices directly."""
        return self._counts.get(frozenset((a, b)), 0)

    def above(self, device: str) -> list[str]:
        """Return the PCIe switches above a device, and last the socket, if it is below one."""
        way: list[str] = []
        while device in self._parents and self._parents[device] not in way:
            device = self._parents[device]
            way.append(device)
        return way

    def distance(self, a: str, b: str) -> int | None:
        """Return how far two devices are apart on PCIe, from `SAME_SWITCH` to `OTHER_SOCKET`; None if unknown."""
        one, other = self.above(a), self.above(b)
        common = next((device for device in one if device in other), None)
        if common is None:
            return OTHER_SOCKET if one and other else None
        if common in self._sockets:
            return SAME_SOCKET
        return SAME_SWITCH if one[0] == other[0] else BELOW_SWITCH

    @cached_property
    def _counts(self) -> dict[frozenset[str], int]:
        found: dict[frozenset[str], int] = {}
        for joint in self.joints:
            ends = frozenset((joint.a, joint.b))
            found[ends] = found.get(ends, 0) + joint.count
        return found

    @cached_property
    def _sockets(self) -> frozenset[str]:
        return frozenset(self.of_kind("socket"))

    @cached_property
    def _parents(self) -> dict[str, str]:
        return {joint.a: joint.b for joint in reversed(self.joints) if joint.kind == "pcie"}


def joined(sockets: Iterable[str], link: str | None = None) -> list[HostJoint]:
    """Return a link between every two sockets, as NCCL assumes (`ncclTopoConnectCpus` in src/graph/topo.cc)."""
    return [HostJoint(a, b, "sockets", 1, link) for a, b in combinations(sockets, 2)]
