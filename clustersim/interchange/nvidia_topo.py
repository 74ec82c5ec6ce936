"""Reads the output of `nvidia-smi topo -m`: NVLinks between GPUs, and distances on PCIe of GPUs and network cards."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

from clustersim.errors import InputError, Mistake
from clustersim.interchange.host_shape import MAX_COUNT, MAX_GPUS, HostDevice, HostJoint, HostShape, joined

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_GPU = re.compile(r"GPU\d{1,4}")
_CODE = re.compile(r"X|NV\d{1,4}|PIX|PXB|PHB|NODE|SYS|SOC|N/A")
_LEGEND = re.compile(r"\s*(NIC\d+)\s*:\s*([\w.+-]{1,60})\s*")
_NEAR = {"PIX": 0, "PXB": 1, "PHB": 2, "NODE": 3, "SYS": 4, "SOC": 4}
_ONE_SWITCH, _SWITCHES, _ONE_SOCKET = 0, 1, 3
_MAX_CHARS = 1 << 21
_MAX_CARDS = 128


@dataclass(frozen=True)
class _Matrix:
    """Devices in their order, the codes between them, and the affinities of GPUs (None where there is no column)."""

    names: list[str]
    codes: dict[tuple[str, str], str]
    affinity: dict[str, str]
    numa: dict[str, str]

    @property
    def gpus(self) -> list[str]:
        return [name for name in self.names if _GPU.fullmatch(name)]

    @property
    def cards(self) -> list[str]:
        return [name for name in self.names if not _GPU.fullmatch(name)]

    def distance(self, a: str, b: str) -> int | None:
        """Return how far two devices are apart, None if only their NVLinks are known. The nearer of two cells counts.

        0 is PIX, 4 is SYS.
        """
        return self._far.get((a, b))

    @cached_property
    def _far(self) -> dict[tuple[str, str], int]:
        found: dict[tuple[str, str], int] = {}
        for (a, b), code in self.codes.items():
            if code in _NEAR:
                found[a, b] = found[b, a] = min(_NEAR[code], found.get((a, b), _NEAR[code]))
        return found

    def nvlinks(self, a: str, b: str) -> int:
        code = self.codes.get((a, b), "")
        return int(code[2:]) if code.startswith("NV") else 0


def read_topo_matrix(text: str) -> HostShape:
    """Return the host that a matrix describes, with old or new columns, pasted with tabs or spaces.

    The matrix does not give the PCIe distance of two GPUs with NVLink. They are taken to be on one socket unless their
    distances from the network cards, or the affinity columns, say otherwise.

    >>> read_topo_matrix("GPU0 GPU1 NIC0\\nGPU0 X NV12 SYS\\nGPU1 NV12 X PXB\\nNIC0 SYS PXB X").of_kind("socket")
    ('socket0', 'socket1')
    """
    if len(text) > _MAX_CHARS:
        raise _not_a_matrix(text)
    lines = [_ANSI.sub("", line) for line in text.splitlines()]
    matrix = _matrix(lines)
    renamed = _names(matrix, lines)
    sockets = _sockets(matrix)
    devices = [HostDevice(renamed[name], "nic" if name in matrix.cards else "gpu") for name in matrix.names]
    devices += [HostDevice(f"socket{number}", "socket") for number in range(len(sockets))]
    joints = [
        HostJoint(renamed[a], renamed[b], "nvlink", count)
        for a, b in combinations(matrix.gpus, 2)
        if (count := matrix.nvlinks(a, b))
    ]
    switches = 0
    for number, members in enumerate(sockets):
        for group in _groups(members, lambda a, b: _within(matrix, a, b, _SWITCHES)):
            more, found = _below(matrix, group, f"socket{number}", switches)
            devices += more
            joints += [HostJoint(renamed.get(a, a), b, "pcie") for a, b in found]
            switches += len(more)
    joints += joined(device.name for device in devices if device.kind == "socket")
    told = any(matrix.distance(a, b) is not None for a in matrix.gpus for b in matrix.names if a != b)
    return HostShape(
        tuple(devices),
        tuple(joints),
        pcie_is_known=told or len(sockets) > 1,
        sockets_are_known=not _has_one_node(matrix),
    )


def _not_a_matrix(text: str) -> InputError:
    return InputError(
        "this is not a matrix of `nvidia-smi topo -m`: there is no line with GPU0 and the other devices",
        got=text.strip()[:60],
        allowed="the output of nvidia-smi topo -m",
    )


def _matrix(lines: list[str]) -> _Matrix:
    at = next((number for number, line in enumerate(lines) if _header(line)), None)
    if at is None:
        raise _not_a_matrix("\n".join(lines))
    names = _header(lines[at])
    num_gpus = sum(_GPU.fullmatch(name) is not None for name in names)
    if len(set(names)) < len(names) or num_gpus > MAX_GPUS or len(names) - num_gpus > _MAX_CARDS:
        allowed = f"each device once, at most {MAX_GPUS} GPUs and {_MAX_CARDS} cards"
        raise InputError(f"the header has {len(names)} devices, one of them twice or too many", allowed=allowed)
    found, read = _Matrix(names, {}, {}, {}), set[str]()
    titles = re.sub(r"\s+", " ", lines[at].strip())
    for number, line in enumerate(lines[at + 1 :], start=at + 2):
        label, *cells = _cells(line)
        if label in names and label not in read and _read_row(found, label, cells, titles, number):
            read.add(label)
    missing = [name for name in found.gpus if name not in read]
    if missing:
        message = f"the matrix has no complete row for {missing[0]}"
        raise InputError(message, got=", ".join(sorted(read)), allowed=", ".join(found.gpus))
    return found


def _header(line: str) -> list[str]:
    """Return the devices of a header line, nothing for another line; `CPU Affinity` and later columns are excluded."""
    words = line.split()
    if not words or not _GPU.fullmatch(words[0]) or (len(words) > 1 and _CODE.fullmatch(words[1])):
        return []
    named = []
    for word in words:
        if word in ("CPU", "NUMA", "GPU"):
            break
        named.append(word)
    return named


def _cells(line: str) -> list[str]:
    """Return the cells of a row: those between tabs, which may be empty at the end, or the words."""
    return [cell.strip() for cell in line.strip().split("\t")] if "\t" in line.strip() else line.split() or [""]


def _read_row(matrix: _Matrix, label: str, cells: list[str], titles: str, line: int) -> bool:
    """Add a row, and say whether it was whole; a code that is not known, or another in the row above, is a mistake."""
    codes, rest = cells[: len(matrix.names)], cells[len(matrix.names) :]
    if len(codes) < len(matrix.names):
        return False
    for name, code in zip(matrix.names, codes, strict=True):
        _check_code(matrix, label, name, code, line)
        matrix.codes[label, name] = code
    columns = [title for title in ("CPU Affinity", "NUMA Affinity") if title in titles]
    for title, value in zip(columns, rest, strict=False):
        if value not in ("", "N/A") and label in matrix.gpus:
            (matrix.affinity if title == "CPU Affinity" else matrix.numa)[label] = value
    return True


def _check_code(matrix: _Matrix, a: str, b: str, code: str, line: int) -> None:
    """Refuse a cell that is no connection, or whose NVLinks are others than in the cell of the other direction."""
    if not _CODE.fullmatch(code):
        allowed = "X, NV and a number, PIX, PXB, PHB, NODE, SYS, SOC, N/A"
        message = f"the cell of {a} and {b} is no connection (got {code[:40]})"
    elif code.startswith("NV") and not 1 <= int(code[2:]) <= MAX_COUNT:
        allowed = f"1 to {MAX_COUNT} NVLinks"
        message = f"the cell of {a} and {b} has {code}: {allowed} are possible"
    elif (other := matrix.codes.get((b, a), code)) != code and "NV" in (code[:2], other[:2]):
        allowed = other
        message = f"the cell of {a} and {b} has {code}, that of {b} and {a} has {other}: both are one connection"
    else:
        return
    raise InputError(Mistake(message, line=line, got=code[:40], allowed=allowed))


def _names(matrix: _Matrix, lines: list[str]) -> dict[str, str]:
    """Return the names of devices in the host: `gpu0`, and for cards that of the legend below the matrix."""
    legend = {match[1]: match[2] for line in lines if (match := _LEGEND.fullmatch(line)) is not None}
    names = {name: f"gpu{number}" for number, name in enumerate(matrix.gpus)}
    for number, name in enumerate(matrix.cards):
        told = legend.get(name, name)
        free = re.fullmatch(r"(?!gpu|socket|plx|nvswitch|memory)[\w.+-]{1,60}", told) and told not in names.values()
        names[name] = told if free else f"nic{number}"
    return names


def _sockets(matrix: _Matrix) -> list[list[str]]:
    """Return the devices of each socket (NUMA node), in their order."""
    found = _groups(matrix.names, lambda a, b: _within(matrix, a, b, _ONE_SOCKET) or _same_node(matrix, a, b))
    return _with_unknown(matrix, found)


def _has_one_node(matrix: _Matrix) -> bool:
    """Say whether devices are SYS apart although all GPUs have one NUMA node, and none are PHB or NODE apart.

    So it is in virtual machines, which do not know the sockets.
    """
    pairs = combinations(matrix.names, 2)
    distances = {far for pair in pairs if (far := matrix.distance(*pair)) is not None}
    nodes = {matrix.numa.get(gpu, "") for gpu in matrix.gpus}
    return len(nodes) == 1 and "" not in nodes and _NEAR["SYS"] in distances and not distances & {2, 3}


def _same_node(matrix: _Matrix, a: str, b: str) -> bool:
    """Say whether two GPUs of unknown distance have the same affinity, where the GPUs of the host have several."""
    if matrix.distance(a, b) is not None:
        return False
    for column in (matrix.numa, matrix.affinity):
        if len(set(column.values())) > 1 and a in column and b in column:
            return column[a] == column[b]
    return False


def _with_unknown(matrix: _Matrix, groups: list[list[str]]) -> list[list[str]]:
    """Join groups of devices of which no two are reported to be a socket apart."""
    found: list[list[str]] = []
    for group in groups:
        for other in found:
            if all(matrix.distance(a, b) is None and not _other_node(matrix, a, b) for a in group for b in other):
                other += group
                break
        else:
            found.append(list(group))
    return [[name for name in matrix.names if name in group] for group in found]


def _other_node(matrix: _Matrix, a: str, b: str) -> bool:
    for column in (matrix.numa, matrix.affinity):
        if a in column and b in column and len(set(column.values())) > 1:
            return column[a] != column[b]
    return False


def _within(matrix: _Matrix, a: str, b: str, most: int) -> bool:
    distance = matrix.distance(a, b)
    return distance is not None and distance <= most


def _groups(names: list[str], together: Callable[[str, str], bool]) -> list[list[str]]:
    """Return the groups of devices that are connected by `together`, each in the order of the devices."""
    left, found = list(names), []
    while left:
        group, waiting = {left[0]}, [left[0]]
        while waiting:
            one = waiting.pop()
            more = [name for name in left if name not in group and together(one, name)]
            group.update(more)
            waiting += more
        found.append([name for name in left if name in group])
        left = [name for name in left if name not in group]
    return found


def _below(
    matrix: _Matrix, group: list[str], socket: str, number: int
) -> tuple[list[HostDevice], list[tuple[str, str]]]:
    """Return the PCIe switches of devices that are PXB or nearer, and what is below what.

    They have one switch; where some are PIX, which is nearer, these have a switch of their own below it.
    """
    if len(group) == 1:
        return [], [(group[0], socket)]
    top = f"plx{number}"
    switches, below = [HostDevice(top, "plx")], [(top, socket)]
    inner = _groups(group, lambda a, b: _within(matrix, a, b, _ONE_SWITCH))
    for members in inner:
        own = top
        if 1 < len(members) < len(group):
            own = f"plx{number + len(switches)}"
            switches.append(HostDevice(own, "plx"))
            below.append((own, top))
        below += [(name, own) for name in members]
    return switches, below
