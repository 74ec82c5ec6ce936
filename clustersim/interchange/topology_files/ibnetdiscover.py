"""Reads the output of `ibnetdiscover`: InfiniBand switches, network cards and the cables between them.

Follows linux-rdma/rdma-core, infiniband-diags/ibnetdiscover.c: a block for each switch, channel adapter or router, with
a line for each port that is connected. Every cable is listed from both ends.
"""

from __future__ import annotations

import re
from collections import Counter
from io import StringIO
from typing import NamedTuple

from clustersim.errors import InputError, Mistake
from clustersim.interchange.topology_files.fabric_shape import (
    FabricCable,
    FabricShape,
    check_size,
    joined,
    natural,
    rate_text,
)

_NODE = re.compile(r'(Switch|Ca|Rt)\s+\d{1,4}\s+"([SHR]-[0-9a-fA-F]{1,16})"\s*#\s*"([^"]*)"')
_PORT = re.compile(
    r'\[(\d{1,4})\](?:\[ext \d+\])?\s*(?:\([0-9a-fA-F]+\))?\s*"([SHR]-[0-9a-fA-F]{1,16})"\[(\d{1,4})\]'
    r"(?:\[ext \d+\])?\s*(?:\([0-9a-fA-F]+\))?\s*(?:#(.*))?"
)
_SPEED = re.compile(r"\b(1|2|4|8|12)x(SDR|DDR|QDR|FDR10|FDR|EDR|HDR|NDR|XDR)\b")
_GBIT_PER_LANE = {
    "SDR": 2.0, "DDR": 4.0, "QDR": 8.0, "FDR10": 10.0, "FDR": 13.64,
    "EDR": 25.0, "HDR": 50.0, "NDR": 100.0, "XDR": 200.0,
}  # fmt: skip
_SHEETS = {"FDR": "infiniband-fdr", "EDR": "infiniband-edr", "HDR": "infiniband-hdr", "NDR": "infiniband-ndr"}
_CARD = re.compile(r"(HCA-?\d+|(?:mlx|hfi|qib|ipath|mthca|bnxt_re|irdma)\w*)", re.IGNORECASE)
_NO_HOST = re.compile(r"Aggregation Node|SHARP", re.IGNORECASE)
_PRODUCT = re.compile(r"^MT\d+\b|Technologies|^ConnectX|^Connect-IB", re.IGNORECASE)


class _Port(NamedTuple):
    guid: str
    number: int


class _Node(NamedTuple):
    """A switch, a channel adapter (network card) or a router, and what it is called."""

    kind: str
    description: str


class _Cable(NamedTuple):
    ends: tuple[_Port, _Port]
    speed: tuple[str, str] | None
    line: int


def looks_like_ibnetdiscover(text: str) -> bool:
    """Return whether a text has a block of ibnetdiscover."""
    return re.search(r'(?m)^(Switch|Ca|Rt)\s+\d{1,4}\s+"[SHR]-', text) is not None


def read_ibnetdiscover(text: str) -> FabricShape:
    """Return hosts, switches and cables of an InfiniBand network.

    A card whose description begins with the name of a host belongs to that host. Cables of 4 lanes have the link's
    sheet; others have their data rate and no delay. Cards of switches (for SHARP) are left out.
    """
    nodes, cables = _blocks(text)
    if not any(node.kind == "Ca" for node in nodes.values()):
        raise InputError("this network has no channel adapter (Ca): no host", got="no Ca", allowed="ibnetdiscover")
    notes: list[str] = []
    hosts = _hosts(nodes, notes)
    switches = _switches(nodes)
    names = {**{guid: host for guid, host in hosts.items()}, **switches}
    used = [cable for cable in cables.values() if all(end.guid in names for end in cable.ends)]
    skipped = Counter(nodes[end.guid].kind for c in cables.values() for end in c.ends if end.guid not in names)
    if skipped:
        what = ", ".join(f"{number} to {_kind(kind)}" for kind, number in skipped.items())
        notes.append(f"cables that are left out: {what}")
    ordered = sorted(used, key=lambda cable: _order(cable, names))
    connected = {end.guid for cable in used for end in cable.ends}
    _note_unused([names[guid] for guid in names if guid not in connected], notes)
    present = dict.fromkeys(names[guid] for guid in names if guid in connected)
    of_hosts = set(hosts.values())
    return FabricShape(
        hosts=tuple(sorted((name for name in present if name in of_hosts), key=natural)),
        switches=tuple(name for name in present if name not in of_hosts),
        cables=tuple(_cable(cable, names, notes) for cable in ordered),
        notes=tuple(dict.fromkeys(notes)),
    )


def _blocks(text: str) -> tuple[dict[str, _Node], dict[frozenset[_Port], _Cable]]:
    """Return the nodes by GUID, and each cable once."""
    nodes: dict[str, _Node] = {}
    cables: dict[frozenset[_Port], _Cable] = {}
    here: str | None = None
    for number, line in enumerate(StringIO(text), 1):
        if match := _NODE.match(line):
            here = match[2].lower()
            nodes[here] = _Node(match[1], match[3].strip())
        elif line.startswith("["):
            match = _PORT.match(line)
            if match is None or here is None:
                raise _malformed(number, line)
            ends = _Port(here, int(match[1])), _Port(match[2].lower(), int(match[3]))
            found = _SPEED.search(re.sub(r'"[^"]*"', "", match[4] or ""))
            _add(cables, _Cable(ends, (found[1], found[2]) if found else None, number), line)
        check_size(len(nodes), len(cables), number)
    for cable in cables.values():
        for end in cable.ends:
            if end.guid not in nodes:
                message = f"the cable leads to {end.guid}, which has no block; is the file cut off?"
                raise InputError(Mistake(message, line=cable.line, got=end.guid, allowed="a complete ibnetdiscover"))
    return nodes, cables


def _add(cables: dict[frozenset[_Port], _Cable], cable: _Cable, line: str) -> None:
    known = cables.setdefault(frozenset(cable.ends), cable)
    if cable.ends[0] == cable.ends[1] or (
        known is not cable and None not in (known.speed, cable.speed) and known.speed != cable.speed
    ):
        raise _malformed(cable.line, line)


def _malformed(number: int, line: str) -> InputError:
    example = '[1] "H-0008f10403961354"[1](8f10403961355) # "node1 mlx5_0" lid 4 4xEDR'
    return InputError(Mistake("this is not a port of ibnetdiscover", line=number, got=line[:60], allowed=example))


def _hosts(nodes: dict[str, _Node], notes: list[str]) -> dict[str, str]:
    """Return the host of each network card by GUID."""
    hosts: dict[str, str] = {}
    alone: list[str] = []
    for guid, node in nodes.items():
        if node.kind != "Ca" or _NO_HOST.search(node.description):
            continue
        words = node.description.split()
        is_named = bool(words) and not _PRODUCT.search(node.description)
        if is_named and (len(words) == 1 or _CARD.match(words[1])):
            hosts[guid] = words[0]
        else:
            hosts[guid] = guid
            alone.append(node.description or guid)
    if alone:
        named = joined(dict.fromkeys(alone))
        notes.append(
            f"{len(alone)} cards do not name their host ({named}); each is a host of its own. Let their nodes set "
            "node_desc, or join them in the file"
        )
    return hosts


def _switches(nodes: dict[str, _Node]) -> dict[str, str]:
    """Return the name of each switch by GUID: its description where no other has it, otherwise with the GUID."""
    described = Counter(node.description for node in nodes.values())
    return {
        guid: node.description if node.description and described[node.description] == 1 else guid
        for guid, node in nodes.items()
        if node.kind == "Switch"
    }


def _kind(kind: str) -> str:
    return {"Ca": "cards of switches or others without a host", "Rt": "routers"}.get(kind, kind)


def _order(cable: _Cable, names: dict[str, str]) -> tuple[object, ...]:
    """Sort cables by host, card and port, then those between switches."""
    ends = sorted(cable.ends, key=lambda end: not end.guid.startswith("h-"))
    of_switches = not ends[0].guid.startswith("h-")
    return of_switches, natural(names[ends[0].guid]), ends[0], ends[1]


def _note_unused(names: list[str], notes: list[str]) -> None:
    if names:
        notes.append(f"{len(names)} nodes without a cable are left out: {joined(dict.fromkeys(names))}")


def _cable(cable: _Cable, names: dict[str, str], notes: list[str]) -> FabricCable:
    a, b = sorted((names[end.guid] for end in cable.ends), key=natural)
    return FabricCable(a, b, _link(cable.speed, notes))


def _link(speed: tuple[str, str] | None, notes: list[str]) -> str | None:
    if speed is None:
        return None
    lanes, generation = speed
    if lanes == "4" and generation in _SHEETS:
        return _SHEETS[generation]
    gbit = int(lanes) * _GBIT_PER_LANE[generation]
    notes.append(f"{lanes}x{generation} is {gbit:g} Gbit/s of data, without a delay: there is no sheet of that link")
    return rate_text(gbit * 1e9 / 8)
