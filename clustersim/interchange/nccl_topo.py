"""Reads NCCL's and RCCL's topology dump (`NCCL_TOPO_DUMP_FILE`): processors, PCIe, GPUs, NVLink, xGMI, network cards.

Follows NVIDIA/nccl 2.30, src/graph/xml.cc and topo.cc: `system > cpu > pci > ... > gpu > nvlink`, and `nic > net`; RCCL
writes `xgmi` in the place of `nvlink`. All NVSwitches are one node, as in NCCL. A PCIe bridge with one device below it
is part of that device's link.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from xml.etree.ElementTree import Element

from clustersim.errors import InputError
from clustersim.interchange.host_shape import MAX_COUNT, MAX_DEVICES, HostDevice, HostJoint, HostShape, joined
from clustersim.interchange.pci_names import cpu_of_family, gpu_of_amd, gpu_of_capability, gpu_of_pci, pcie_link
from clustersim.interchange.xml_text import read_xml
from clustersim.topology.wire import wire

_MAX_CHARS = 4 << 20
_NVSWITCH, _POWER = "0x068000", "0x068001"
_MBIT = 1e6 / 8
_UNKNOWN_SPEED = 10_000  # Mbit/s: `ncclTopoAddNet` in src/graph/topo.cc
_KNOWN = {
    "cpu": ("pci", "nic"), "pci": ("pci", "gpu", "nic", "pcilink"), "nic": ("net",), "net": (),
    "gpu": ("nvlink", "xgmi", "c2c"), "nvlink": (), "xgmi": (), "c2c": (), "pcilink": (),
}  # fmt: skip


@dataclass
class _Gpu:
    """A GPU: its bus, its number, and its links as (kind, bus of the other end, how many, class of the other end).

    `is_found` is false if the file has the PCI device only, as one that is written by hand.
    """

    bus: str
    dev: int
    is_found: bool
    device: str
    links: list[tuple[str, str, int, str]]
    sheet: str | None


@dataclass
class _Host:
    """What is read of one host: devices and joints by the names that they have until the GPUs are numbered."""

    gpus: list[_Gpu] = field(default_factory=list)
    devices: list[HostDevice] = field(default_factory=list)
    joints: list[HostJoint] = field(default_factory=list)
    by_bus: dict[str, str] = field(default_factory=dict)
    bridges: list[tuple[str, str]] = field(default_factory=list)  # (switch, bus of the other switch): pcilink
    gdr: list[bool] = field(default_factory=list)
    cpu: str | None = None
    notes: list[str] = field(default_factory=list)

    def named(self, kind: str) -> str:
        return f"{kind}{sum(device.kind == kind for device in self.devices)}"

    def socket_of(self, device: str) -> str:
        """Return the socket that a device is below."""
        above = {joint.a: joint.b for joint in self.joints if joint.kind == "pcie"}
        while device in above:
            device = above[device]
        return device

    def add(self, kind: str, above: str | None, link: str | None, name: str = "", rate: float | None = None) -> str:
        """Add a device below another one, and return its name."""
        if len(self.devices) >= MAX_DEVICES:
            raise InputError(f"this NCCL topology has more than {MAX_DEVICES} devices", allowed=f"{MAX_DEVICES}")
        name = name if name and all(name != device.name for device in self.devices) else self.named(kind)
        self.devices.append(HostDevice(name, kind, rate))
        if above is not None:
            self.joints.append(HostJoint(name, above, "pcie", 1, link))
        return name


def read_nccl_topology(text: str) -> HostShape:
    """Return the host of a dump. Of several hosts that NVLink connects it is the first one, with their number."""
    if len(text) > _MAX_CHARS:
        raise InputError("this is not an NCCL topology: it is too large", allowed=f"at most {_MAX_CHARS >> 20} MB")
    system = read_xml(text, "NCCL topology", "system")
    groups: dict[str, list[Element]] = {}
    for cpu in system.findall("cpu"):
        groups.setdefault(cpu.get("host_hash", ""), []).append(cpu)
    hosts = [_read_host(cpus) for cpus in groups.values()]
    with_gpus = [host for host in hosts if host.gpus]
    if not with_gpus:
        raise InputError("this NCCL topology has no GPU", got="no gpu", allowed="a dump of NCCL_TOPO_DUMP_FILE")
    shapes = [_shape(host) for host in with_gpus]
    return shapes[0] if len(shapes) == 1 else _of_several(shapes)


def _of_several(shapes: list[HostShape]) -> HostShape:
    """Return the first of several hosts, with the number of those that are like it."""
    first = shapes[0]
    alike = sum(_without_names(shape) == _without_names(first) for shape in shapes)
    notes = first.notes
    if alike < len(shapes):
        notes += (f"of {len(shapes)} hosts, {len(shapes) - alike} are not like the first, which is taken for all",)
    if not first.of_kind("nvswitch"):
        return replace(first, notes=(*notes, f"the dump has {len(shapes)} hosts; the first is taken"))
    return replace(first, num_hosts=len(shapes), notes=notes)


def _without_names(shape: HostShape) -> tuple[object, ...]:
    return (
        [(device.kind, device.bytes_per_s, device.sheet) for device in shape.devices],
        [(joint.kind, joint.count, joint.link) for joint in shape.joints],
    )


def _read_host(cpus: list[Element]) -> _Host:
    """Return the devices below the processors of a host."""
    host = _Host()
    for cpu in cpus:
        socket = host.add("socket", None, None)
        _note_unknown(cpu, host)
        vendor, family, model = cpu.get("vendor", ""), _number(cpu, "familyid"), _number(cpu, "modelid")
        is_grace = cpu.get("arch") == "arm64" and cpu.find(".//c2c") is not None
        host.cpu = host.cpu or ("grace" if is_grace else cpu_of_family(vendor, family, model))
        for child in cpu:
            _read_child(child, socket, None, host)
    sockets = [device.name for device in host.devices if device.kind == "socket"]
    host.joints += joined(sockets, _between(cpus[0]))
    return host


def _between(cpu: Element) -> str | None:
    """Return the link between sockets where the sheet of the processor is not for it (`ncclTopoGetInterCpuBw`)."""
    vendor, model = cpu.get("vendor", ""), _number(cpu, "modelid")
    return "40 GB/s" if vendor == "GenuineIntel" and _number(cpu, "familyid") == 6 and model >= 0xCF else None


def _read_child(node: Element, above: str, slot: str | None, host: _Host) -> None:
    """Add the devices of a `<pci>` or `<nic>`; `slot` is the link of the bridges above that have only this below."""
    if node.tag == "nic":
        _read_nic(node, above, slot, host)
        return
    if node.tag != "pci":
        return
    _note_unknown(node, host)
    kind, own = node.get("class", ""), _slot(node, slot)
    gpu, nics = node.find("gpu"), node.findall("nic")
    children = [child for child in node if child.tag in ("pci", "nic")]
    if gpu is not None or (kind.startswith(("0x03", "0x12")) and not children):
        _read_gpu(node, gpu, above, own, host)
    elif kind.startswith("0x0680") or (not children and not kind.startswith("0x02")):
        return  # an NVSwitch, or a bridge with nothing below
    elif nics or kind.startswith("0x02"):
        for nic in nics or [node]:
            _read_nic(nic, above, own, host)
    elif len(children) == 1 and node.find("pcilink") is None:
        _read_child(children[0], above, own, host)
    else:
        switch = host.by_bus[node.get("busid", "")] = host.add("plx", above, own)
        host.bridges += [(switch, link.get("target", "")) for link in node.findall("pcilink")]
        for child in children:
            _read_child(child, switch, None, host)


def _read_gpu(node: Element, gpu: Element | None, above: str, slot: str | None, host: _Host) -> None:
    bus = node.get("busid", "")
    links = [] if gpu is None else [_gpu_link(link) for link in gpu if link.tag in ("nvlink", "xgmi", "c2c")]
    sheet = gpu_of_pci(node.get("vendor", ""), node.get("device", ""))
    if gpu is not None:
        _note_unknown(gpu, host)
        is_amd = gpu.get("gcn") is not None or gpu.find("xgmi") is not None  # RCCL's `sm` is no compute capability
        sheet = sheet or (gpu_of_amd(gpu.get("gcn", "")) if is_amd else gpu_of_capability(_number(gpu, "sm")))
        host.gdr += [gpu.get("gdr") == "1"] if gpu.get("gdr") else []
    name = host.add("gpu", above, slot, f"a GPU at {bus}")
    host.by_bus[bus] = name
    dev = len(host.gpus) if gpu is None or gpu.get("dev") is None else _number(gpu, "dev")
    host.gpus.append(_Gpu(bus, dev, gpu is not None, name, links, sheet))


def _gpu_link(link: Element) -> tuple[str, str, int, str]:
    """Return a link of a GPU; the second is the other end's bus, or the rate of a c2c link in MB/s."""
    count = _number(link, "count", 1)
    if not 1 <= count <= MAX_COUNT:
        raise InputError(f"count of <{link.tag}> is not a number of links", got=str(count), allowed=f"1 to {MAX_COUNT}")
    if link.tag == "c2c":
        return "c2c", str(_number(link, "bw")), count, ""
    return link.tag, link.get("target", ""), count, link.get("tclass", "")


def _read_nic(nic: Element, above: str, slot: str | None, host: _Host) -> None:
    """Add the ports of a card; several share its slot. A card without ports, as in a file by hand, has one."""
    _note_unknown(nic, host)
    nets = nic.findall("net") if nic.tag == "nic" else []
    host.gdr += [net.get("gdr") == "1" for net in nets if net.get("gdr") is not None]
    if len(nets) < 2:
        net = nets[0] if nets else None
        host.add("nic", above, slot, _card_name(net), None if net is None else _speed(net))
        return
    card = host.add("plx", above, slot)
    for net in nets:
        host.add("nic", card, slot, _card_name(net), _speed(net))


def _card_name(net: Element | None) -> str:
    name = "" if net is None else net.get("name", "")
    return name if re.fullmatch(r"(?!gpu|socket|plx|nvswitch|memory)[\w.+-]{1,60}", name) else ""


def _slot(node: Element, above: str | None) -> str | None:
    """Return the link of a slot, or the slower one of the bridge above that is part of it."""
    speed = re.match(r"\s*(\d+(?:\.\d+)?)", node.get("link_speed", ""))
    width = _number(node, "link_width")
    own = pcie_link(float(speed[1]), width or 16) if speed and len(speed[1]) < 9 else None
    links = [link for link in (own, above) if link is not None]
    return min(links, key=lambda link: wire(link, "pcie").bytes_per_s, default=None)


def _shape(host: _Host) -> HostShape:
    """Return a host with its GPUs by number, and their links."""
    host.gpus.sort(key=lambda gpu: gpu.dev)
    number = {gpu.device: f"gpu{place}" for place, gpu in enumerate(host.gpus)}
    others = tuple(device for device in host.devices if device.kind != "gpu")
    switched = any(kind == "nvlink" and end.startswith(_NVSWITCH) for gpu in host.gpus for kind, *_, end in gpu.links)
    joints = [replace(joint, a=number.get(joint.a, joint.a)) for joint in host.joints]
    joints += [joint for gpu in host.gpus for joint in _own_joints(gpu, number[gpu.device], host)]
    joints += _pairs(host, number) + _bridges(host)
    return HostShape(
        (
            *(HostDevice(number[gpu.device], "gpu", sheet=gpu.sheet) for gpu in host.gpus),
            *others,
            *([HostDevice("nvswitch0", "nvswitch")] * switched),
        ),
        tuple(joints),
        gpudirect=any(host.gdr) if host.gdr and any(device.kind == "nic" for device in others) else None,
        nvlinks_are_known=any(gpu.is_found for gpu in host.gpus),
        cpu=host.cpu,
        notes=tuple(dict.fromkeys(host.notes)),
    )


def _own_joints(gpu: _Gpu, name: str, host: _Host) -> Iterator[HostJoint]:
    """Yield the links of a GPU to NVSwitches, as one, and to the processor of its package."""
    switched = sum(count for kind, _, count, end in gpu.links if kind == "nvlink" and end.startswith(_NVSWITCH))
    if switched:
        yield HostJoint(name, "nvswitch0", "nvlink", min(switched, MAX_COUNT))
    socket = host.socket_of(gpu.device)
    for kind, other, count, end in gpu.links:
        if kind == "c2c" and float(other) > 0:
            yield HostJoint(name, socket, "c2c", count, f"{float(other) / 1e3:.9g} GB/s")
        elif kind == "nvlink" and end.startswith(_POWER):
            yield HostJoint(name, socket, "nvlink", count)


def _pairs(host: _Host, number: dict[str, str]) -> list[HostJoint]:
    """Return the links from GPU to GPU; each of the two lists them."""
    found: dict[tuple[str, str, str], int] = {}
    for gpu in host.gpus:
        for kind, target, count, _ in gpu.links:
            other = host.by_bus.get(target)
            if kind in ("nvlink", "xgmi") and other in number and other != gpu.device:
                a, b = sorted((number[gpu.device], number[str(other)]), key=lambda name: int(name[3:]))
                key = (kind, a, b)
                found[key] = max(found.get(key, 0), count)
    return [HostJoint(a, b, kind, count) for (kind, a, b), count in sorted(found.items())]


def _bridges(host: _Host) -> list[HostJoint]:
    """Return the links between PCIe switches (`pcilink`); both ends list them."""
    pairs = {frozenset((switch, host.by_bus.get(bus, switch))) for switch, bus in host.bridges}
    ends = [sorted(pair) for pair in pairs if len(pair) == 2]
    return [HostJoint(a, b, "bridge") for a, b in sorted(ends)]


def _note_unknown(node: Element, host: _Host) -> None:
    """Note the elements that are not represented."""
    known = _KNOWN.get(node.tag, ())
    host.notes += [f"<{child.tag[:40]}> in <{node.tag}> is left out" for child in node if child.tag not in known]


def _speed(net: Element) -> float:
    """Return bytes per second; NCCL assumes 10 Gbit/s where the speed is unknown."""
    speed = _number(net, "speed")
    return (speed if speed > 0 else _UNKNOWN_SPEED) * _MBIT


def _number(node: Element, key: str, default: int = 0) -> int:
    text = node.get(key)
    if text is None:
        return default
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not (abs(number) < 1e9 and number == int(number)):
        raise InputError(
            f"{key} of <{node.tag}> is not a whole number", key=key, got=text[:40], allowed="a whole number"
        )
    return int(number)
