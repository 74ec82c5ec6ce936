"""Reads NCCL's topology dump (`NCCL_TOPO_DUMP_FILE`): processors, PCIe, GPUs, NVLink, network cards.

Follows NVIDIA/nccl 2.30, src/graph/xml.cc and topo.cc: `system > cpu > pci > ... > gpu > nvlink`, and `nic > net`.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple
from xml.etree import ElementTree

from clustersim.errors import InputError
from clustersim.interchange.host_shape import HostShape

MAX_BYTES = 4 << 20
_NVSWITCH = "0x068000"
_MBIT = 1e6 / 8


class _Gpu(NamedTuple):
    """A GPU: its bus, its processor, and the PCIe switches above it from the processor down."""

    bus: str
    cpu: int
    switches: tuple[str, ...]
    nvlinks: tuple[tuple[str, int, str], ...]  # (bus of the other end, how many, its class)
    gdr: bool


def read_nccl_topology(text: str) -> HostShape:
    """Return the first host of a dump; it has several hosts where NVLink connects them."""
    system = _parsed(text)
    cpus = [each for each in system.iter("cpu")]
    first = cpus[0].get("host_hash") if cpus else None
    cpus = [each for each in cpus if each.get("host_hash") == first]
    gpus = sorted((gpu for number, cpu in enumerate(cpus) for gpu in _gpus(cpu, number, ())), key=lambda gpu: gpu[0])
    if not gpus:
        raise InputError("this NCCL topology has no GPU", got="no gpu", allowed="a dump of NCCL_TOPO_DUMP_FILE")
    found = [gpu for _, gpu in gpus]
    nets = [net for cpu in cpus for net in cpu.iter("net")]
    return HostShape(
        num_gpus=len(found),
        nvlinks=[[_links(one, other) for other in found] for one in found],
        pcie=[[_distance(one, other) for other in found] for one in found],
        num_nics=len(nets),
        nic_bytes_per_s=tuple(_speed(net) for net in nets),
        gpudirect=any(net.get("gdr") == "1" for net in nets) if nets else None,
        switched=any(_is_switch(kind) for gpu in found for _, _, kind in gpu.nvlinks),
        sockets=tuple(gpu.cpu for gpu in found),
    )


def _parsed(text: str) -> ElementTree.Element:
    """Return the root of an XML text without a document type (entities could expand without limit)."""
    if len(text) > MAX_BYTES or "<!" in text.replace("<!--", ""):
        raise InputError("this is not an NCCL topology: it is too large, or declares a document type", got=text[:40])
    try:
        root = ElementTree.fromstring(text)
    except ElementTree.ParseError as error:
        raise InputError(f"this is not an NCCL topology: {error}", got=text.strip()[:40], allowed="XML") from None
    if root.tag != "system":
        raise InputError("this is not an NCCL topology", got=f"<{root.tag}>", allowed="<system>")
    return root


def _gpus(node: ElementTree.Element, cpu: int, above: tuple[str, ...]) -> Iterator[tuple[int, _Gpu]]:
    """Yield the GPUs below a node with their numbers; a PCI device with PCI children is a switch."""
    for child in node.findall("pci"):
        gpu, bus = child.find("gpu"), child.get("busid", "")
        if gpu is None:
            yield from _gpus(child, cpu, (*above, bus))
            continue
        links = tuple(
            (link.get("target", ""), _number(link, "count"), link.get("tclass", "")) for link in gpu.findall("nvlink")
        )
        yield _number(gpu, "dev"), _Gpu(bus, cpu, above, links, gpu.get("gdr") == "1")


def _links(one: _Gpu, other: _Gpu) -> int:
    """Return the NVLinks between two GPUs: direct ones, or all links to switches where both have such."""
    direct = sum(count for target, count, _ in one.nvlinks if target == other.bus)
    switched = [sum(count for _, count, kind in gpu.nvlinks if _is_switch(kind)) for gpu in (one, other)]
    return 0 if one is other else direct or min(switched)


def _distance(one: _Gpu, other: _Gpu) -> str:
    if one is other:
        return "X"
    if one.cpu != other.cpu:
        return "SYS"
    common = sum(a == b for a, b in zip(one.switches, other.switches, strict=False))
    return "PHB" if not common else "PIX" if common == len(one.switches) == len(other.switches) else "PXB"


def _is_switch(kind: str) -> bool:
    return kind.startswith(_NVSWITCH)


def _speed(net: ElementTree.Element) -> float:
    """Return bytes per second; NCCL assumes 10 Gbit/s where the speed is unknown."""
    speed = _number(net, "speed")
    return (speed if speed > 0 else 10_000) * _MBIT


def _number(node: ElementTree.Element, key: str) -> int:
    text = node.get(key, "0")
    try:
        return int(text)
    except ValueError:
        raise InputError(f"{key} of <{node.tag}> is not a whole number", key=key, got=text[:40]) from None
