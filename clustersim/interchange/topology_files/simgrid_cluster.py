"""Hosts, switches and cables of a `<cluster>` of a SimGrid platform: flat, fat tree or torus.

Follows simgrid 3.36, src/kernel/routing/{StarZone,FatTreeZone,TorusZone}.cpp and its simgrid.dtd.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from math import prod
from xml.etree import ElementTree

from clustersim.errors import InputError
from clustersim.interchange.topology_files.fabric_shape import (
    MAX_NODES,
    FabricCable,
    FabricShape,
    check_size,
    rate_text,
)
from clustersim.interchange.topology_files.node_lists import expand_names
from clustersim.interchange.topology_files.simgrid_units import delay_s, rate_bytes_per_s

_READ = {
    "id", "prefix", "suffix", "radical", "speed", "core", "bw", "lat", "sharing_policy", "topology", "topo_parameters",
    "bb_bw", "bb_lat", "bb_sharing_policy", "router_id", "loopback_bw", "loopback_lat",
}  # fmt: skip
_MAX_LEVELS = 12


def cluster_shape(cluster: ElementTree.Element) -> FabricShape:
    """Return the hosts, switches and cables of a cluster; refuse its kind by name where it has no such cables."""
    unknown = sorted(set(cluster.attrib) - _READ)
    if unknown:
        raise InputError(
            f"`{unknown[0][:40]}` of a <cluster> is not read", got=unknown[0][:40], allowed=", ".join(sorted(_READ))
        )
    if cluster.get("sharing_policy", "SPLITDUPLEX") != "SPLITDUPLEX":
        raise _refused("sharing_policy", cluster.get("sharing_policy", ""), "SPLITDUPLEX (a link each way)")
    kind = cluster.get("topology", "FLAT")
    shapes = {"FLAT": _flat, "FAT_TREE": _fat_tree, "TORUS": _torus}
    if kind not in shapes:
        raise _refused("topology", kind, ", ".join(shapes))
    if kind != "FLAT" and (cluster.get("bb_bw") or cluster.get("bb_lat")):
        raise _refused("bb_bw", kind, "a backbone in a FLAT cluster only")
    return shapes[kind](cluster, _hosts(cluster))


def _hosts(cluster: ElementTree.Element) -> list[str]:
    radical = cluster.get("radical", "")
    numbers = expand_names(f"[{radical}]", MAX_NODES)
    names = [f"{cluster.get('prefix', '')}{int(number)}{cluster.get('suffix', '')}" for number in numbers]
    if len(set(names)) != len(names):
        raise _refused("radical", radical[:40], "each number once")
    return names


def _link(cluster: ElementTree.Element) -> tuple[str, float]:
    rate = rate_text(rate_bytes_per_s(cluster.get("bw", ""), "bw"))
    return rate, delay_s(cluster.get("lat", ""), "lat")


def _flat(cluster: ElementTree.Element, hosts: list[str]) -> FabricShape:
    """Return hosts on one switch.

    A backbone that cannot hold messages back only adds its delay, in halves to the links of a route's two hosts.
    """
    link, hop_s = _link(cluster)
    rate = rate_bytes_per_s(cluster.get("bw", ""), "bw")
    notes = []
    if cluster.get("bb_bw"):
        each_alone = cluster.get("bb_sharing_policy", "SHARED") == "FATPIPE"
        needed = rate if each_alone else rate * len(hosts)
        if rate_bytes_per_s(cluster.get("bb_bw", ""), "bb_bw") < needed:
            message = f"a backbone of at least {rate_text(needed)}, which holds no message back"
            raise _refused("bb_bw", cluster.get("bb_bw", ""), message)
        backbone_s = delay_s(cluster.get("bb_lat", "0s"), "bb_lat")
        hop_s += backbone_s / 2
        notes.append("the backbone holds no message back: its delay is added in halves to the two links of a route")
    switch = cluster.get("router_id") or f"{cluster.get('id', 'cluster')}-switch"
    cables = tuple(FabricCable(host, switch, link, hop_s) for host in hosts)
    return FabricShape(tuple(hosts), (switch,), cables, tuple(notes), gpus_per_host=1)


def _fat_tree(cluster: ElementTree.Element, hosts: list[str]) -> FabricShape:
    """Return the switches of `levels;children;parents;ports`."""
    text = cluster.get("topo_parameters", "")
    parts = [part.strip() for part in text.split(";")]
    columns = [_numbers(part, text) for part in parts[1:]]
    if len(parts) != 4 or any(len(column) != _numbers(parts[0], text)[0] for column in columns):
        raise _refused("topo_parameters", text[:60], "levels;children;parents;ports, such as 2;4,4;1,2;1,2")
    children, parents, ports = columns
    if prod(children) != len(hosts):
        raise _refused("radical", f"{len(hosts)} hosts", f"{prod(children)} hosts for topo_parameters {text[:40]}")
    levels = len(children)
    sizes = [prod(parents[:level]) * prod(children[level:]) for level in range(levels + 1)]
    check_size(sum(sizes), sum(sizes[level] * parents[level] * ports[level] for level in range(levels)))
    names = [dict(zip(_labels(0, children, parents), hosts, strict=True))]
    for level in range(1, levels + 1):
        names.append({label: f"switch-{level}-{n}" for n, label in enumerate(_labels(level, children, parents))})
    link, hop_s = _link(cluster)
    cables = [
        FabricCable(name, names[level + 1][(*label[:place], up, *label[place + 1 :])], link, hop_s)
        for level in range(levels)
        for label, name in names[level].items()
        for place in [levels - 1 - level]
        for up in range(parents[level])
        for _ in range(ports[level])
    ]
    notes = ("SimGrid routes a fat tree by the destination's number (D mod k), clustersim by a hash of the two ends",)
    switches = tuple(name for level in names[1:] for name in level.values())
    return FabricShape(tuple(hosts), switches, tuple(cables), notes, gpus_per_host=1)


def _labels(level: int, children: list[int], parents: list[int]) -> Iterator[tuple[int, ...]]:
    """Yield the digits of the nodes of a level: of its subtree from the top, then of its place among parents."""
    above = [range(size) for size in reversed(children[level:])]
    below = [range(size) for size in reversed(parents[:level])]
    yield from product(*above, *below)


def _torus(cluster: ElementTree.Element, hosts: list[str]) -> FabricShape:
    """Return hosts in a torus, the first dimension fastest, which pass messages on."""
    text = cluster.get("topo_parameters", "")
    dims = _numbers(text, text)
    if prod(dims) != len(hosts):
        raise _refused("radical", f"{len(hosts)} hosts", f"{prod(dims)} hosts for topo_parameters {text[:40]}")
    check_size(len(hosts), len(hosts) * len(dims))
    link, hop_s = _link(cluster)
    cables, stride = [], 1
    for size in dims:
        for number, host in enumerate(hosts):
            place = number // stride % size
            if size > 2 or (size == 2 and place == 0):
                cables.append(FabricCable(host, hosts[number + ((place + 1) % size - place) * stride], link, hop_s))
        stride *= size
    notes = ("SimGrid routes a torus dimension by dimension, clustersim by a hash among the shortest paths",)
    return FabricShape(tuple(hosts), (), tuple(cables), notes, gpus_per_host=1)


def _numbers(text: str, whole: str) -> list[int]:
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdecimal() and int(part[:9]) >= 1 and len(part) < 8 for part in parts):
        raise _refused("topo_parameters", whole[:60], "whole numbers, such as 2;4,4;1,2;1,2")
    if len(parts) > _MAX_LEVELS:
        raise _refused("topo_parameters", whole[:60], f"at most {_MAX_LEVELS} levels or dimensions")
    return [int(part) for part in parts]


def _refused(key: str, got: str, allowed: str) -> InputError:
    return InputError(
        f"{got[:60]!r} of a SimGrid <cluster> is not read; expected {allowed}", key=key, got=got[:60], allowed=allowed
    )
