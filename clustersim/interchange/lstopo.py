"""Reads hwloc's XML (`lstopo --whole-io topology.xml`, versions 2 and 3): NUMA nodes, PCIe, GPUs, NVLink, cards.

Follows open-mpi/hwloc, hwloc/hwloc2.dtd and topology-xml.c (commit 3b37b024). hwloc does not report the rate of a
card. GPUs, cards and the bridges above them are read; cores, caches, disks and other devices are not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from math import isfinite
from xml.etree.ElementTree import Element

from clustersim.errors import InputError
from clustersim.hardware import load_gpu, load_link
from clustersim.interchange.host_shape import MAX_COUNT, MAX_DEVICES, HostDevice, HostJoint, HostShape, joined
from clustersim.interchange.lstopo_links import bandwidths
from clustersim.interchange.pci_names import cpu_named, gpu_named, gpu_of_pci, pcie_link
from clustersim.interchange.xml_text import read_xml
from clustersim.topology.wire import wire

_MAX_CHARS = 16 << 20
_PCI_TYPE = re.compile(r"\s*([0-9a-fA-F]{4})\s*\[([0-9a-fA-F]{4}):([0-9a-fA-F]{4})\]")
_LANE_GB_PER_S = {5.0: 0.5, 8.0: 8 * 16 / 130, 16.0: 16 * 16 / 130, 32.0: 32 * 16 / 130, 64.0: 64 * 16 / 130}
_IDLE_GB_PER_S = 4.01  # 16 lanes at 2.5 GT/s
_LANES = (16, 8, 4, 2, 1)
_NVIDIA, _AMD = "10de", "1002"
_RAW_NVLINK = 25e9  # of NVLink 2 to 4, if the sheet of the GPU has none
_V2 = {"openfabrics": "3", "network": "2"}
_V3 = {"openfabrics": 1 << 5, "network": 1 << 4}


@dataclass(frozen=True)
class _Pci:
    """A GPU or a card: its bus, its sheet or its name, and whether it has RDMA."""

    kind: str
    bus: str
    name: str | None
    has_rdma: bool = False


@dataclass
class _Reader:
    """The PCI devices by their objects, and what was made of them so far."""

    found: dict[int, _Pci]
    with_devices: set[int]  # objects with a GPU or a card below them
    nodes: dict[int, str]  # socket of each NUMA node
    devices: list[HostDevice] = field(default_factory=list)
    joints: list[HostJoint] = field(default_factory=list)
    named: dict[int, str] = field(default_factory=dict)  # device of an object
    notes: dict[str, None] = field(default_factory=dict)

    def add(self, kind: str, above: str, link: str | None, name: str | None = None, sheet: str | None = None) -> str:
        """Add a device below another one, and return its name."""
        if len(self.devices) >= MAX_DEVICES:
            raise InputError(f"this hwloc topology has more than {MAX_DEVICES} devices", allowed=f"{MAX_DEVICES}")
        taken = {device.name for device in self.devices}
        number = sum(device.kind == kind for device in self.devices)
        name = name if name is not None and name not in taken else f"{kind}{number}"
        self.devices.append(HostDevice(name, kind, sheet=sheet))
        self.joints.append(HostJoint(name, above, "pcie", 1, link))
        return name


def looks_like_lstopo(text: str) -> bool:
    """Return whether a text begins as hwloc's XML does."""
    return re.search(r"<topology[\s>]", text[:2000]) is not None


def read_lstopo(text: str) -> HostShape:
    """Return the host of an XML file of lstopo. Its GPUs are in the order of their buses, as in nvidia-smi."""
    root, machine, is_v2 = _machine(text)
    found = _pci_devices(machine, is_v2)
    gpus = sorted((pci.bus, key) for key, pci in found.items() if pci.kind == "gpu")
    if not gpus:
        message = "this hwloc topology has no GPU: write it with `lstopo --whole-io`, on a host with GPUs"
        raise InputError(message, got="no GPU", allowed="PCI devices of NVIDIA or AMD")
    memory_bytes, nodes = _numa_nodes(machine)
    reader = _Reader(found, _holders(machine, found), nodes)
    reader.named |= {key: f"gpu{number}" for number, (_, key) in enumerate(gpus)}
    reader.devices += [HostDevice(name, "socket") for name in nodes.values()]
    _walk(machine, next(iter(nodes.values())), None, reader)
    reader.joints += joined(nodes.values())
    sheets = {found[key].name for _, key in gpus}
    sheet = next(iter(sheets)) if len(sheets) == 1 else None
    links = list(_nvlinks(root, machine, reader, _raw_rate(sheet)))
    reader.joints += links
    order = {"gpu": 0, "socket": 1}
    devices = sorted(reader.devices, key=lambda device: order.get(device.kind, 2))
    devices.sort(key=lambda device: int(device.name[3:]) if device.kind == "gpu" else len(gpus))
    return HostShape(
        (*devices, *([HostDevice("nvswitch0", "nvswitch")] * any(each.b == "nvswitch0" for each in reader.joints))),
        tuple(reader.joints),
        nvlinks_are_known=bool(links),
        cpu=_processor(machine),
        memory_bytes=memory_bytes,
        notes=tuple(reader.notes),
    )


def _machine(text: str) -> tuple[Element, Element, bool]:
    """Return the root, the machine, and whether the file is of version 2."""
    if len(text) > _MAX_CHARS:
        raise InputError("this is not a file of lstopo: it is too large", allowed=f"at most {_MAX_CHARS >> 20} MB")
    root = read_xml(text, "hwloc topology", "topology")
    version = root.get("version", "")
    if version.partition(".")[0] not in ("2", "3"):
        message = "this hwloc topology has another version; write it again with lstopo of hwloc 2 or 3"
        raise InputError(message, got=version[:20] or "none", allowed="2.0 to 3.x", key="version")
    machine = root.find("object")
    if machine is None:
        raise InputError("this hwloc topology has no machine", got="nothing", allowed="<object type='Machine'>")
    return root, machine, version.startswith("2")


def _pci_devices(machine: Element, is_v2: bool) -> dict[int, _Pci]:
    """Return the GPUs and cards by the identity of their objects; only cards with RDMA where there are any."""
    found = {
        id(node): pci
        for node in machine.iter("object")
        if node.get("type") == "PCIDev" and (pci := _pci(node, is_v2)) is not None
    }
    if not any(pci.has_rdma for pci in found.values()):
        return found
    return {key: pci for key, pci in found.items() if pci.kind == "gpu" or pci.has_rdma}


def _pci(node: Element, is_v2: bool) -> _Pci | None:
    """Return what a PCI device is, None if it is neither a GPU nor a card."""
    match = _PCI_TYPE.match(node.get("pci_type", ""))
    if match is None:
        return None
    kind, vendor, device = (part.lower() for part in match.groups())
    below = [child for child in node.iter("object") if child.get("type") == "OSDev"]
    names = [child.get("name", "") for child in below]
    bus = node.get("pci_busid", "")
    computes = kind.startswith(("12", "0302", "0380")) or any(name.startswith(("rsmi", "opencl")) for name in names)
    if kind.startswith(("03", "12")) and (vendor == _NVIDIA or (vendor == _AMD and computes)):
        models = [
            info.get("value", "") for child in below for info in child.iter("info") if info.get("name") == "GPUModel"
        ]
        return _Pci("gpu", bus, gpu_of_pci(vendor, device) or next(filter(None, map(gpu_named, models)), None))
    if not kind.startswith("02"):
        return None
    rdma = [name for child, name in zip(below, names, strict=True) if _is(child, "openfabrics", is_v2)]
    ports = rdma or [name for child, name in zip(below, names, strict=True) if _is(child, "network", is_v2)]
    name = next(
        (each for each in ports if re.fullmatch(r"(?!gpu|socket|plx|nvswitch|memory)[\w.+-]{1,60}", each)), None
    )
    return _Pci("nic", bus, name, bool(rdma)) if ports else None


def _is(osdev: Element, what: str, is_v2: bool) -> bool:
    """Say whether an operating system's device is of a type: a number in version 2, a bit in version 3."""
    given = osdev.get("osdev_type", "")
    if is_v2:
        return given == _V2[what]
    return given.isascii() and given.isdecimal() and len(given) < 10 and bool(int(given) & _V3[what])


def _holders(machine: Element, found: dict[int, _Pci]) -> set[int]:
    """Return the objects that are or hold a GPU or a card."""
    holders: set[int] = set()

    def visit(node: Element) -> bool:
        below = [visit(child) for child in node.findall("object")]
        if id(node) in found or any(below):
            holders.add(id(node))
        return id(node) in holders

    visit(machine)
    return holders


def _numa_nodes(machine: Element) -> tuple[float | None, dict[int, str]]:
    """Return the memory of the NUMA nodes with processors, and the socket for each of them; one if there is none."""
    nodes = [node for node in machine.iter("object") if node.get("type") == "NUMANode"]
    with_cores = [node for node in nodes if _bits(node.get("cpuset", "")) and node.get("subtype") != "GPUMemory"]
    nodes = with_cores or nodes[:1]
    sizes = [_decimal(node.get("local_memory", "")) for node in nodes]
    indices = [int(_decimal(node.get("os_index", "0"))) for node in nodes]
    numbers = {index: f"socket{number}" for number, index in enumerate(dict.fromkeys(indices))}
    return sum(sizes) or None, numbers or {0: "socket0"}


def _walk(node: Element, above: str, slot: str | None, reader: _Reader) -> None:
    """Add the GPUs and cards below an object; `slot` is the link of the bridges that have only this object below."""
    children = [child for child in node.findall("object") if id(child) in reader.with_devices]
    kind = node.get("type", "")
    if kind == "PCIDev":
        if id(node) in reader.found:
            _add_pci(node, above, _slower(_link(node, reader), slot), reader)
        for child in children:
            _walk(child, above, None, reader)
    elif kind == "Bridge" and node.get("bridge_type") == "1-1" and len(children) > 1:
        switch = reader.add("plx", above, _slower(_link(node, reader), slot))
        for child in children:
            _walk(child, switch, None, reader)
    elif kind == "Bridge" and node.get("bridge_type") == "1-1":
        for child in children:
            _walk(child, above, _slower(_link(node, reader), slot), reader)
    else:
        socket = above if kind == "Bridge" else _socket(node, above, children, reader)
        for child in children:
            _walk(child, socket, None, reader)


def _socket(node: Element, above: str, children: list[Element], reader: _Reader) -> str:
    """Return the socket of the NUMA nodes of an object; of several the first, with a note if it has devices."""
    own = [socket for index, socket in reader.nodes.items() if _bits(node.get("nodeset", "")) >> index & 1]
    if len(own) > 1 and any(child.get("type") in ("Bridge", "PCIDev") for child in children):
        reader.notes[
            f"devices of a {node.get('type', '')[:20]} with {len(own)} NUMA nodes are at the first of these"
        ] = None
    return own[0] if own else above


def _add_pci(node: Element, above: str, link: str | None, reader: _Reader) -> None:
    pci = reader.found[id(node)]
    if pci.kind == "gpu":
        reader.named[id(node)] = reader.add("gpu", above, link, reader.named[id(node)], pci.name)
    else:
        reader.named[id(node)] = reader.add("nic", above, link, pci.name)


def _link(node: Element, reader: _Reader) -> str | None:
    """Return the link of a PCIe slot by its GB/s, None if unknown: links of devices that do nothing are at 2.5 GT/s."""
    rate = _decimal(node.get("pci_link_speed", ""))
    for lanes in _LANES:
        for gigatransfers, lane in _LANE_GB_PER_S.items():
            if abs(rate - lane * lanes) < 0.005 * rate and rate > _IDLE_GB_PER_S:
                return pcie_link(gigatransfers, lanes)
    if rate > 0:
        reader.notes["PCIe links of 2.5 GT/s, as of idle GPUs, or of unknown speed have that of the GPU's sheet"] = None
    return None


def _slower(one: str | None, other: str | None) -> str | None:
    links = [link for link in (one, other) if link is not None]
    return min(links, key=lambda link: wire(link, "pcie").bytes_per_s, default=None)


def _processor(machine: Element) -> str | None:
    infos = (info for info in machine.iter("info") if info.get("name") == "CPUModel")
    return next((sheet for info in infos if (sheet := cpu_named(info.get("value", "")[:200])) is not None), None)


def _raw_rate(sheet: str | None) -> float:
    """Return the signalled rate of one NVLink or xGMI link of a GPU, by which hwloc's sums count them."""
    link = None if sheet is None else load_gpu(sheet).nvlink
    return _RAW_NVLINK if link is None else load_link(link).raw_bytes_per_s


def _nvlinks(root: Element, machine: Element, reader: _Reader, raw_bytes_per_s: float) -> Iterator[HostJoint]:
    """Yield the links of the matrices NVLinkBandwidth and XGMIBandwidth."""
    ends = _ends_of_links(machine, reader)
    switched: dict[str, int] = {}
    for kind, a, b, bytes_per_s in bandwidths(root):
        one, other = ends.get(a), ends.get(b)
        count = min(MAX_COUNT, max(1, round(bytes_per_s / raw_bytes_per_s)))
        if one is None or other is None:
            reader.notes[f"links of {kind} to a device that is not read are left out"] = None
        elif other == "nvswitch0" and one.startswith("gpu"):
            switched[one] = min(MAX_COUNT, switched.get(one, 0) + count)
        elif one.startswith("gpu") and one != other and (not other.startswith("gpu") or int(one[3:]) < int(other[3:])):
            yield HostJoint(one, other, kind, count)
    yield from (HostJoint(gpu, "nvswitch0", "nvlink", count) for gpu, count in switched.items())


def _ends_of_links(machine: Element, reader: _Reader) -> dict[str, str]:
    """Return the device of each object that may be the end of an NVLink, by hwloc's `TYPE:gp_index`."""
    ends: dict[str, str] = {}
    for node in machine.iter("object"):
        kind, index = node.get("type", ""), node.get("gp_index", "")
        if kind == "PCIDev" and id(node) in reader.named:
            ends |= dict.fromkeys(
                (f"OSDev:{child.get('gp_index', '')}" for child in node.iter("object")), reader.named[id(node)]
            )
            ends[f"PCIDev:{index}"] = reader.named[id(node)]
        elif kind == "PCIDev" and (node.get("subtype") == "NVSwitch" or node.get("pci_type", "").startswith("0680")):
            ends[f"PCIDev:{index}"] = "nvswitch0"
        elif kind == "Package":
            ends[f"Package:{index}"] = _socket(node, next(iter(reader.nodes.values())), [], reader)
    return ends


def _bits(mask: str) -> int:
    """Return a bitmap of hwloc, such as `0x00000001,0x00000000`; 0 if it is none."""
    parts = mask[:4000].split(",")
    digits = "".join(part.strip().removeprefix("0x").rjust(8, "0") for part in parts)
    return int(digits, 16) if re.fullmatch(r"[0-9a-fA-F]+", digits) else 0


def _decimal(text: str) -> float:
    """Return a number that is not negative; 0 if it is none."""
    try:
        number = float(text)
    except ValueError:
        return 0.0
    return number if isfinite(number) and 0 <= number < 1e18 else 0.0
