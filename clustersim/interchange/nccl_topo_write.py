"""Writes a host of a cluster as NCCL's topology XML, which `NCCL_TOPO_FILE` and `read_nccl_topology` read."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from xml.etree import ElementTree
from xml.etree.ElementTree import Element, SubElement

import numpy as np

from clustersim.errors import InputError
from clustersim.hardware import LINKS, load_gpu, load_link
from clustersim.interchange.pci_names import architecture_of, capability_of, family_of, pci_of_gpu
from clustersim.topology import Topology

_PCIE_GT = {"1": "2.5", "2": "5.0", "3": "8.0", "4": "16.0", "5": "32.0", "6": "64.0"}
_CALLED_GBIT_PER_S = (1, 10, 25, 40, 50, 56, 100, 200, 400, 800)
_NVSWITCH_BUS = "0000:ff:00.0"


@dataclass
class _Writer:
    """The links of one host, each pair of nodes once, and the bus of each PCI device that was written."""

    topology: Topology
    host: int
    links: dict[int, list[tuple[int, int]]]  # of a node: (other node, link)
    buses: dict[int, str] = field(default_factory=dict)
    elements: dict[int, Element] = field(default_factory=dict)
    notes: dict[str, None] = field(default_factory=dict)

    def kind(self, node: int) -> str:
        return self.topology.node_kinds[node]

    def bus_of(self, node: int) -> str:
        number = len(self.buses)
        return self.buses.setdefault(node, f"{number // 240:04x}:{number % 240:02x}:00.0")

    @cached_property
    def opposites(self) -> dict[int, int]:
        """The link in the other direction of each link: those of a cable are numbered one after the other."""
        found: dict[int, int] = {}
        ends = {link: (node, other) for node, pairs in self.links.items() for other, link in pairs}
        for link in sorted(ends):
            if link not in found and ends.get(link + 1) == ends[link][::-1]:
                found |= {link: link + 1, link + 1: link}
        return found

    def linked(self, node: int, *kinds: str) -> list[tuple[int, int]]:
        """Return the nodes of these kinds that have a link to a node, and the link."""
        return [(other, link) for other, link in self.links.get(node, []) if self.kind(other) in kinds]


def nccl_topology_xml(topology: Topology, host: int = 0) -> str:
    """Return the XML of a host; notes on what it does not represent are comments at its start.

    NCCL's format has neither host memory nor the rate between sockets. Raise InputError for a host without processors.
    """
    writer = _Writer(topology, host, _links_inside(topology, host))
    own = np.flatnonzero(topology.node_hosts == host).tolist()
    sockets = [node for node in own if writer.kind(node) == "socket"]
    if not sockets:
        message = f"the hosts of '{topology.name}' have no processors, below which NCCL's format has all devices"
        raise InputError(
            message, got="no socket", allowed="a host template such as dual-socket or explicit", key="host"
        )
    system = Element("system", version="1")
    for number, socket in enumerate(sockets):
        cpu = SubElement(system, "cpu", _about_cpu(writer, number))
        _write_below(writer, socket, cpu)
    for node, element in list(writer.elements.items()):
        _write_links(writer, node, element)
    if any(kind == "nvswitch" and at < 0 for kind, at in zip(topology.node_kinds, topology.node_hosts, strict=True)):
        writer.notes["its NVSwitches also join GPUs of other hosts (`nvlink_domain`), which are not written"] = None
    if topology.num_hosts > 1:
        writer.notes[f"host {host} of {topology.num_hosts} is written"] = None
    ElementTree.indent(system)
    notes = "".join(f"<!-- note: {note.replace('--', '-')} -->\n" for note in writer.notes)
    return notes + ElementTree.tostring(system, encoding="unicode") + "\n"


def _links_inside(topology: Topology, host: int) -> dict[int, list[tuple[int, int]]]:
    """Return the links from each node of a host to others of it, and to the NVSwitch of an NVLink domain."""
    links, hosts = topology.links, topology.node_hosts
    own = (hosts == host) | (np.asarray(topology.node_kinds) == "nvswitch")
    has_own = (hosts[links.src] == host) | (hosts[links.dst] == host)
    inside = np.flatnonzero(own[links.src] & own[links.dst] & has_own & (links.src != links.dst))
    found: dict[int, list[tuple[int, int]]] = {}
    for link in inside.tolist():
        found.setdefault(int(links.src[link]), []).append((int(links.dst[link]), link))
    return found


def _about_cpu(writer: _Writer, number: int) -> dict[str, str]:
    sheets = writer.topology.host_sheets
    sheet = sheets[writer.host] if writer.host < len(sheets) else None
    generation, arch = family_of(sheet or ""), architecture_of(sheet or "")
    about = {"numaid": str(number), "host_hash": hex(writer.host + 1), "affinity": "ffffffff", "arch": arch}
    if generation is None and arch != "x86_64":
        return about
    if generation is None:
        writer.notes[f"the generation of the processor {sheet or ''} is not known, and not written"] = None
        return about
    return about | dict(zip(("vendor", "familyid", "modelid"), map(str, generation), strict=True))


def _write_below(writer: _Writer, node: int, element: Element) -> None:
    """Write the devices that hang on a socket or a switch, and what is below them."""
    for other, link in writer.linked(node, "plx", "gpu", "nic"):
        if other in writer.elements or (writer.kind(other) == "gpu" and link != _slot_of_gpu(writer, other)):
            continue
        about = {"busid": writer.bus_of(other), **_slot(writer, link)}
        if writer.kind(other) == "plx":
            writer.elements[other] = SubElement(element, "pci", about | {"class": "0x060400"})
            _write_below(writer, other, writer.elements[other])
        elif writer.kind(other) == "nic":
            writer.elements[other] = SubElement(element, "pci", about | {"class": "0x020700"})
            _write_nic(writer, other, link, writer.elements[other])
        else:
            writer.elements[other] = _write_gpu(writer, other, SubElement(element, "pci", about))


def _slot_of_gpu(writer: _Writer, gpu: int) -> int | None:
    """Return the link from above in which a GPU's slot is: PCIe if it has any, and rather from a switch."""
    kinds = writer.topology.links.kind
    found = [
        (not kinds[out].startswith("pcie"), not kinds[out].startswith("pcie-"), writer.kind(other) != "plx", link)
        for other, out in writer.linked(gpu, "plx", "socket")
        for end, link in writer.linked(other, "gpu")
        if end == gpu
    ]
    return min(found)[3] if found else None


def _slot(writer: _Writer, link: int) -> dict[str, str]:
    """Return speed and width of a PCIe slot; nothing for a rate of another kind, which is noted.

    The link of a GPU to the processor of its package is written as one of its links.
    """
    kind = writer.topology.links.kind[link]
    parts = kind.split("-")
    if len(parts) == 3 and parts[0] == "pcie" and parts[1] in _PCIE_GT and parts[2][1:].isdecimal():
        return {"link_speed": f"{_PCIE_GT[parts[1]]} GT/s PCIe", "link_width": parts[2][1:]}
    if kind == "pcie":
        writer.notes["PCIe links that are given by a rate are written without it"] = None
    elif kind != "nic" and writer.kind(int(writer.topology.links.src[link])) == "plx":
        writer.notes[f"links of class {kind} below a PCIe switch are written as PCIe, without their rate"] = None
    return {}


def _write_gpu(writer: _Writer, node: int, pci: Element) -> Element:
    """Write a GPU; return its element, in which its links are."""
    topology = writer.topology
    number = topology.gpus.tolist().index(node)
    first = int(np.flatnonzero(topology.gpu_hosts == writer.host)[0])
    sheet = topology.gpu_sheets[number]
    ids = None if sheet is None else pci_of_gpu(load_gpu(sheet).board)
    pci.set("class", "0x120000" if ids is not None and ids[0] == "1002" else "0x030200")
    if ids is not None:
        pci.set("vendor", f"0x{ids[0]}")
        pci.set("device", f"0x{ids[1]}")
    about = {"dev": str(number - first), "rank": str(number - first), "gdr": "1" if _reads_gpus(writer, node) else "0"}
    capability = None if sheet is None else capability_of(load_gpu(sheet).board)
    return SubElement(pci, "gpu", about if capability is None else {**about, "sm": str(capability)})


def _reads_gpus(writer: _Writer, node: int) -> bool:
    """Say whether messages to other hosts leave without passing through host memory."""
    topology = writer.topology
    others = np.flatnonzero(topology.gpu_hosts != writer.host)
    if not len(others):
        return True
    links = topology.route(node, int(topology.gpus[others[0]]))
    return all(topology.node_kinds[end] != "memory" for end in topology.links.dst[links].tolist())


def _write_nic(writer: _Writer, node: int, slot: int, pci: Element) -> None:
    """Write a card with one port, at the rate of its network link, or its own rate if that is lower."""
    links, hosts = writer.topology.links, writer.topology.node_hosts
    out = np.flatnonzero((links.src == node) & (hosts[links.dst] != writer.host)).tolist()
    rates = [_nominal(writer, link) for link in out]
    if links.kind[slot] == "nic":
        rates.append(float(links.bytes_per_s[slot]))
    name = str(writer.topology.node_names[node]).rpartition("/")[2]
    nic = SubElement(pci, "nic")
    number = sum(writer.kind(other) == "nic" for other in writer.elements) - 1
    about = {"name": name, "dev": str(number), "port": "1"}
    if rates:
        about["speed"] = str(round(min(rates) * 8e-6))
    gpu = int(writer.topology.gpus[np.flatnonzero(writer.topology.gpu_hosts == writer.host)[0]])
    SubElement(nic, "net", about | {"gdr": "1" if _reads_gpus(writer, gpu) else "0"})


def _nominal(writer: _Writer, link: int) -> float:
    """Return the rate by which cards of a link's sheet are called, and the rate of a link without one (bytes/s)."""
    kind = writer.topology.links.kind[link]
    if kind not in LINKS:
        return float(writer.topology.links.bytes_per_s[link])
    raw = load_link(kind).raw_bytes_per_s
    called = min(_CALLED_GBIT_PER_S, key=lambda rate: abs(rate / 8e-9 - raw))
    return called / 8e-9 if abs(called / 8e-9 - raw) < 0.1 * raw else raw


def _write_links(writer: _Writer, node: int, element: Element) -> None:
    """Write the NVLinks and the like of a GPU, and the links of a switch to other switches."""
    if writer.kind(node) == "plx":
        for other, _ in writer.linked(node, "plx"):
            if other not in _tree_neighbours(writer, node):
                SubElement(element, "pcilink", target=writer.buses[other])
    if writer.kind(node) != "gpu":
        return
    slot = _slot_of_gpu(writer, node)
    for other, link in writer.linked(node, "gpu", "nvswitch", "socket"):
        kind = writer.topology.links.kind[link]
        if slot is not None and writer.opposites.get(link) == slot and kind.startswith("pcie"):
            continue
        if writer.kind(other) == "socket" and (kind == "nvlink-c2c" or not kind.startswith("nvlink")):
            rate = f"{writer.topology.links.bytes_per_s[link] * 1e-6:.0f}"
            SubElement(element, "c2c", bw=rate, count="1")
            continue
        tag, ends = "xgmi" if kind.startswith("xgmi") else "nvlink", {"gpu": "0x030200", "nvswitch": "0x068000"}
        target = writer.buses.get(other, _NVSWITCH_BUS)
        count = str(_count(writer, node, link))
        SubElement(element, tag, target=target, count=count, tclass=ends.get(writer.kind(other), "0x068001"))


def _tree_neighbours(writer: _Writer, node: int) -> set[int]:
    """Return the switches above and below a switch in the document."""
    own, found = writer.elements[node], set()
    for other, element in writer.elements.items():
        if writer.kind(other) == "plx" and (element in list(own) or own in list(element)):
            found.add(other)
    return found


def _count(writer: _Writer, node: int, link: int) -> int:
    """Return how many links a bonded one has: of its sheet, or of the NVLink of the GPU."""
    kind, rate = writer.topology.links.kind[link], float(writer.topology.links.bytes_per_s[link])
    sheet = writer.topology.gpu_sheets[writer.topology.gpus.tolist().index(node)]
    own = None if sheet is None else load_gpu(sheet).nvlink
    of = kind if kind in LINKS else own
    count = 1 if of is None else max(1, round(rate / load_link(of).bytes_per_s))
    if of is None or abs(count * load_link(of).bytes_per_s - rate) > 0.01 * rate:
        writer.notes["NVLinks that are given by a rate are written as the nearest number of links"] = None
    return count
