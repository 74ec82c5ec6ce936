"""Reads the output of `rocm-smi --showtopo`: xGMI between AMD GPUs, and their NUMA nodes.

Its matrices have the weight (15 for each xGMI link on the way, 20 or more for PCIe), the hops and the type of the link
between two GPUs. Two GPUs are joined directly if their type is XGMI and their weight is that of one link. The number of
links between them is not reported, nor are network cards.
"""

from __future__ import annotations

import re
from itertools import combinations

from clustersim.errors import InputError
from clustersim.interchange.host_shape import MAX_GPUS, HostDevice, HostJoint, HostShape, joined

_TITLE = re.compile(r"=+\s*([A-Za-z][\w ]*?)\s*=+")
_NODE = re.compile(r"GPU\s?\[?(\d{1,4})\]?\s*:\s*\(Topology\) Numa Affinity:\s*(-?\d{1,6})\s*")
_ONE_LINK = 15
_MAX_CHARS = 1 << 20


def looks_like_rocm(text: str) -> bool:
    """Return whether a text has one of the matrices of `rocm-smi --showtopo`."""
    return "Link Type between two GPUs" in text


def read_rocm_topology(text: str) -> HostShape:
    """Return the host that the matrices describe."""
    if len(text) > _MAX_CHARS:
        raise InputError("this is not the output of `rocm-smi --showtopo`: it is too large", allowed="1 MB")
    types, weights = _matrix(text, "Link Type between two GPUs"), _matrix(text, "Weight between two GPUs")
    if not types:
        message = "this is not the output of `rocm-smi --showtopo`: there is no matrix of the types of links"
        raise InputError(message, got=text.strip()[:60], allowed="Link Type between two GPUs, with a row a GPU")
    _check(types)
    gpus = [f"gpu{number}" for number in range(len(types))]
    nodes = _numa_nodes(text, len(gpus))
    sockets = {node: f"socket{number}" for number, node in enumerate(dict.fromkeys(nodes))}
    joints = [HostJoint(gpu, sockets[node], "pcie") for gpu, node in zip(gpus, nodes, strict=True)]
    joints += joined(sockets.values())
    pairs = [(a, b) for a, b in combinations(range(len(gpus)), 2) if types[a][b] == "XGMI"]
    direct = [(a, b) for a, b in pairs if _is_direct(weights, a, b)]
    joints += [HostJoint(gpus[a], gpus[b], "xgmi") for a, b in direct]
    notes = ["rocm-smi does not report how many xGMI links join two GPUs: one in each pair"] if direct else []
    return HostShape(
        (*(HostDevice(gpu, "gpu") for gpu in gpus), *(HostDevice(name, "socket") for name in sockets.values())),
        tuple(joints),
        notes=tuple(notes),
    )


def _is_direct(weights: list[list[str]], a: int, b: int) -> bool:
    """Say whether GPUs with xGMI are joined directly; where no weights are given, they are taken to be."""
    return not weights or a >= len(weights) or b >= len(weights[a]) or weights[a][b] == str(_ONE_LINK)


def _matrix(text: str, title: str) -> list[list[str]]:
    """Return the cells of the matrix below a title, row by row; nothing if there is none."""
    rows: list[list[str]] = []
    inside = False
    for line in text.splitlines():
        heading = _TITLE.fullmatch(line.strip())
        if heading is not None:
            inside = heading[1] == title and not rows
        elif inside:
            label, *cells = line.split() or [""]
            if label == f"GPU{len(rows)}" and not (cells and cells[0] == "GPU1"):
                rows.append(cells)
    return rows


def _check(types: list[list[str]]) -> None:
    if len(types) > MAX_GPUS:
        raise InputError(f"the matrix has {len(types)} GPUs", got=str(len(types)), allowed=f"at most {MAX_GPUS}")
    for number, row in enumerate(types):
        wrong = next((cell for cell in row if cell not in ("0", "XGMI", "PCIE", "N/A")), None)
        if len(row) != len(types) or wrong is not None:
            message = f"the row of GPU{number} has {len(row)} cells for {len(types)} GPUs, or one that is no type"
            raise InputError(message, got=wrong or str(len(row)), allowed="XGMI or PCIE for each GPU, 0 for itself")


def _numa_nodes(text: str, num_gpus: int) -> list[int]:
    """Return the NUMA node of each GPU; 0 where it is not reported."""
    found = {int(match[1]): max(0, int(match[2])) for line in text.splitlines() if (match := _NODE.match(line.strip()))}
    return [found.get(number, 0) for number in range(num_gpus)]
