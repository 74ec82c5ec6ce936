"""Reads SLURM's topology.conf: a tree of switches (topology/tree), or blocks of nodes (topology/block).

Follows the manual page topology.conf(5) of SLURM 25.05. The file has neither rates nor the number of cables.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from io import StringIO

from clustersim.errors import InputError, Mistake
from clustersim.interchange.topology_files.fabric_shape import MAX_NODES, FabricCable, FabricShape, check_size, joined
from clustersim.interchange.topology_files.node_lists import expand_names

_PAIR = re.compile(r"([A-Za-z]+)\s*=\s*(\S+)")
_KEYS = {
    "switchname": {"switchname", "nodes", "switches", "linkspeed"},
    "blockname": {"blockname", "nodes"},
    "blocksizes": {"blocksizes"},
}
_ABOVE_BLOCKS = "network-between-blocks"


@dataclass(frozen=True)
class _Switch:
    """A switch, or a block, with what is below it."""

    name: str
    line: int
    nodes: tuple[str, ...] = ()
    switches: tuple[str, ...] = ()


def looks_like_slurm(text: str) -> bool:
    """Return whether a text has a switch or a block of topology.conf."""
    return re.search(r"(?im)^[ \t]{0,40}(SwitchName|BlockName)[ \t]*=", text) is not None


def read_slurm_topology(text: str) -> FabricShape:
    """Return the nodes and switches of a topology.conf.

    Each node has one cable. The links up from a switch together have the rate of all hosts below it.
    """
    rows = []
    for row in _rows(text):
        rows.append(row)
        check_size(len(rows), 0, row[0])
    switches, notes = _switches(rows)
    blocks = [keys for _, keys in rows if "blockname" in keys]
    if blocks and len(blocks) < len(switches):
        raise InputError("the file has both switches and blocks", got="both", allowed="SwitchName or BlockName")
    if blocks:
        switches = _with_one_above(switches)
        notes.append(
            f"{len(blocks)} blocks are leaves of one network without oversubscription; BlockSizes only tells the "
            "scheduler which blocks to join. If a block is one NVLink domain, give its hosts by a host file"
        )
    hosts = list(dict.fromkeys(node for switch in switches.values() for node in switch.nodes))
    if not hosts:
        raise InputError("no switch has nodes", got="no Nodes=", allowed="Nodes=node[001-064]")
    _note_twice(switches, notes)
    return FabricShape(
        hosts=tuple(hosts),
        switches=tuple(switches),
        cables=tuple(_cables(switches, notes)),
        notes=tuple(notes),
        cards_are_known=False,
    )


def _rows(text: str) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield the number and the keys of each line; a backslash continues a line."""
    waiting: list[str] = []
    for number, line in enumerate(StringIO(text), 1):
        part = line.partition("#")[0].rstrip()
        waiting.append(part.removesuffix("\\"))
        if part.endswith("\\"):
            continue
        if whole := " ".join(waiting).strip():
            yield number, _keys(whole, number)
        waiting.clear()


def _keys(line: str, number: int) -> dict[str, str]:
    found = {match[1].lower(): match[2] for match in _PAIR.finditer(line)}
    first = next(iter(found), line.split(maxsplit=1)[0].lower()[:30])
    allowed = _KEYS.get(first)
    left = _PAIR.sub("", line).strip()
    if allowed is None or left or not set(found) <= allowed:
        wrong = left.split()[0] if left else next((key for key in found if key not in (allowed or ())), first)
        message = f"'{wrong[:30]}' is not read in a line of topology.conf"
        known = "SwitchName=, Nodes=, Switches=, LinkSpeed=, BlockName=, BlockSizes="
        raise InputError(Mistake(message, line=number, got=line[:60], allowed=known))
    return found


def _switches(rows: list[tuple[int, dict[str, str]]]) -> tuple[dict[str, _Switch], list[str]]:
    switches: dict[str, _Switch] = {}
    names = 0
    notes = []
    for line, keys in rows:
        if "blocksizes" in keys:
            continue
        name = keys.get("switchname") or keys["blockname"]
        if name in switches:
            message = f"the switch '{name[:40]}' is given twice"
            raise InputError(Mistake(message, line=line, got=name[:40], allowed="each name once"))
        below = [_names(keys.get(key), line, MAX_NODES - names) for key in ("nodes", "switches")]
        names += len(below[0]) + len(below[1])
        check_size(len(switches), names, line)
        switches[name] = _Switch(name, line, *below)
        if "linkspeed" in keys:
            notes.append("LinkSpeed has no unit, and SLURM does not use it: it is left out")
    return switches, list(dict.fromkeys(notes))


def _names(text: str | None, line: int, most: int) -> tuple[str, ...]:
    if text is None:
        return ()
    try:
        return tuple(expand_names(text, most))
    except InputError as error:
        raise InputError([replace(mistake, line=line) for mistake in error.mistakes]) from None


def _with_one_above(blocks: dict[str, _Switch]) -> dict[str, _Switch]:
    """Return blocks with one switch above them, if there are several."""
    if len(blocks) < 2:
        return blocks
    name = _ABOVE_BLOCKS
    while name in blocks:
        name += "-"
    return {**blocks, name: _Switch(name, 0, switches=tuple(blocks))}


def _note_twice(switches: dict[str, _Switch], notes: list[str]) -> None:
    seen: set[str] = set()
    twice = []
    for switch in switches.values():
        twice += [node for node in switch.nodes if node in seen]
        seen |= set(switch.nodes)
        if clash := next((node for node in switch.nodes if node in switches), None):
            message = f"'{clash[:40]}' is a node and a switch"
            raise InputError(Mistake(message, line=switch.line, got=clash[:40], allowed="different names"))
    if twice:
        named = joined(dict.fromkeys(twice))
        notes.append(f"{len(set(twice))} nodes are on several switches ({named}): they have a cable to each")


def _cables(switches: dict[str, _Switch], notes: list[str]) -> Iterator[FabricCable]:
    """Yield a cable for each node, and links up with the rate of all hosts below, divided over the switches above."""
    above: dict[str, list[str]] = {name: [] for name in switches}
    for switch in switches.values():
        for below in switch.switches:
            if below not in switches:
                message = f"the switch '{switch.name[:40]}' is above '{below[:40]}', which has no line"
                raise InputError(Mistake(message, line=switch.line, got=below[:40], allowed="a SwitchName of the file"))
            above[below].append(switch.name)
        for node in switch.nodes:
            yield FabricCable(node, switch.name)
    hosts_below = _hosts_below(switches, above)
    if any(above.values()):
        notes.append(
            "the file does not say how many cables join two switches: those up from a switch have together the rate of "
            "all hosts below it (no oversubscription). For less, change `oversubscription` or the links in it"
        )
    for name, parents in above.items():
        for parent in parents:
            if hosts_below[name]:
                yield FabricCable(name, parent, times=hosts_below[name] / len(parents))


def _hosts_below(switches: dict[str, _Switch], above: dict[str, list[str]]) -> dict[str, float]:
    """Return how many hosts each switch has below it; a host below several switches counts in parts."""
    waiting = {name: len(switch.switches) for name, switch in switches.items()}
    found = {name: float(len(switch.nodes)) for name, switch in switches.items()}
    ready = [name for name, number in waiting.items() if not number]
    done = 0
    while ready:
        name = ready.pop()
        done += 1
        for parent in above[name]:
            found[parent] += found[name] / len(above[name])
            waiting[parent] -= 1
            if not waiting[parent]:
                ready.append(parent)
    if done < len(switches):
        name = next(name for name, number in waiting.items() if number)
        message = f"the switch '{name[:40]}' is above itself"
        raise InputError(Mistake(message, line=switches[name].line, got=name[:40], allowed="a tree"))
    return found
