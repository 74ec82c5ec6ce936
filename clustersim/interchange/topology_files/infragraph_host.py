"""The inside of an InfraGraph device as a host: its accelerators, processors, switches and network cards."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import NamedTuple

from clustersim.hardware import load_gpu
from clustersim.interchange.host_shape import HostDevice, HostJoint, HostShape
from clustersim.interchange.topology_files.fabric_shape import joined, natural

_KINDS = {"cpu": "socket", "xpu": "gpu", "nic": "nic", "card": "nic", "switch": "switch", "slot": "slot"}
_ABOVE = ("plx", "socket")


class Edge(NamedTuple):
    """Two components, such as `xpu.0`, the name of their link, and its rate, None if unknown."""

    a: str
    b: str
    name: str
    link: str | None

    def other(self, end: str) -> str:
        return self.b if self.a == end else self.a


class _Inside(NamedTuple):
    """Components by name with their kinds, and how many links of a name join two of them."""

    kinds: dict[str, str]
    links: Counter[Edge]

    def links_of(self, name: str) -> list[Edge]:
        return [link for link in self.links if name in (link.a, link.b)]


def host_shape(components: Mapping[str, str], edges: Iterable[Edge]) -> HostShape:
    """Return the host that components and edges are.

    `components` has the kind of each: cpu, xpu, nic, `card` (a device with ports), switch, slot, or another one, which
    is left out. A slot with two sides is part of the link through it, and with more it is a switch. Switches with
    links of another name to accelerators than to other components, or to accelerators alone, are NVSwitches, others
    are of PCIe.
    """
    kinds = {name: _KINDS[kind] for name, kind in components.items() if kind in _KINDS}
    links = Counter(_sorted(edge) for edge in edges if edge.a in kinds and edge.b in kinds and edge.a != edge.b)
    inside = _without_slots(_Inside(kinds, links))
    kinds = {name: _kind(inside, name) for name in inside.kinds}
    known = {*kinds, *(name for name, kind in components.items() if kind in _KINDS)}
    left = dict.fromkeys(name.partition(".")[0] for name in components if name not in known)
    notes = [f"components of the host that carry no training traffic are left out: {joined(left)}"] if left else []
    joints = list(_joints(kinds, inside.links))
    kinds, joints = _with_socket(kinds, joints, notes)
    devices = tuple(HostDevice(name, kind) for name, kind in sorted(kinds.items(), key=lambda item: natural(item[0])))
    return HostShape(devices, tuple(joints), notes=tuple(notes))


def with_all_nvlinks(shape: HostShape, gpu: str) -> HostShape:
    """Return the host with all NVLinks of a GPU's sheet to its switches, where the file has no rate of them."""
    count = load_gpu(gpu).num_nvlinks
    switches = shape.of_kind("nvswitch")
    unrated = [joint for joint in shape.joints if joint.kind == "nvlink" and joint.b in switches and joint.link is None]
    if not count or not unrated:
        return shape
    kept = [joint for joint in shape.joints if joint not in unrated]
    ends = dict.fromkeys(joint.a for joint in unrated)
    devices = tuple(device for device in shape.devices if device.name not in switches[1:])
    joints = (*kept, *(HostJoint(name, switches[0], "nvlink", count) for name in ends))
    note = f"the file has no rate of NVLink: a GPU has all {count} links of its sheet to the switches"
    return replace(shape, devices=devices, joints=joints, notes=(*shape.notes, note))


def _sorted(edge: Edge) -> Edge:
    a, b = sorted((edge.a, edge.b), key=natural)
    return edge._replace(a=a, b=b)


def _without_slots(inside: _Inside) -> _Inside:
    """Return components in which the two sides of a slot are joined directly; a slot with more sides is a switch."""
    links, kinds = Counter(inside.links), dict(inside.kinds)
    for slot in [name for name, kind in kinds.items() if kind == "slot"]:
        own = [link for link in links if slot in (link.a, link.b)]
        sides = [link.other(slot) for link in own]
        if len(set(sides)) > 2:
            kinds[slot] = "switch"
            continue
        del kinds[slot]
        for link in own:
            del links[link]
        if len(set(sides)) == 2:
            rate = next((link.link for link in own if link.link is not None), None)
            links[_sorted(Edge(sides[0], sides[-1], own[0].name, rate))] += 1
    return _Inside(kinds, links)


def _kind(inside: _Inside, name: str) -> str:
    if inside.kinds[name] != "switch":
        return inside.kinds[name]
    to_gpus = {link.name for link in inside.links_of(name) if inside.kinds[link.other(name)] == "gpu"}
    to_others = {link.name for link in inside.links_of(name) if inside.kinds[link.other(name)] != "gpu"}
    return "nvswitch" if to_gpus and not to_gpus & to_others else "plx"


def _joints(kinds: dict[str, str], links: Counter[Edge]) -> Iterator[HostJoint]:
    for (a, b, _, link), count in sorted(links.items(), key=lambda item: (natural(item[0].a), natural(item[0].b))):
        pair = {kinds[a], kinds[b]}
        if "gpu" in pair and pair <= {"gpu", "nvswitch"}:
            one, other = (b, a) if kinds[a] == "nvswitch" else (a, b)
            yield HostJoint(one, other, "nvlink", count, link)
        elif pair == {"socket"}:
            yield HostJoint(a, b, "sockets", 1, link)
        elif pair == {"plx"}:
            yield HostJoint(a, b, "bridge", 1, link)
        elif pair & set(_ABOVE) and "nvswitch" not in pair:
            below, above = (a, b) if kinds[b] == "socket" or kinds[a] not in _ABOVE else (b, a)
            yield HostJoint(below, above, "pcie", 1, link)


def _with_socket(
    kinds: dict[str, str], joints: list[HostJoint], notes: list[str]
) -> tuple[dict[str, str], list[HostJoint]]:
    """Return a host in which every device but an NVSwitch is below a socket: below the first, where none is known."""
    sockets = [name for name, kind in kinds.items() if kind == "socket"]
    if not sockets:
        sockets = ["socket0"]
        kinds = {**kinds, "socket0": "socket"}
    placed = {joint.a for joint in joints if joint.kind == "pcie"}
    placed |= {end for joint in joints if joint.kind == "bridge" for end in (joint.a, joint.b)}
    alone = [name for name, kind in kinds.items() if kind in ("gpu", "nic", "plx") and name not in placed]
    if alone:
        notes.append(f"{joined(alone)} have no link to a processor: they are below the first socket")
    return kinds, joints + [HostJoint(name, sockets[0], "pcie") for name in alone]
