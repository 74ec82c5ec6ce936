"""Reads the output of `nvidia-smi topo -m`: NVLinks between GPUs, and their distance on PCIe."""

from __future__ import annotations

import re

from clustersim.errors import InputError
from clustersim.interchange.host_shape import HostShape

_ANSI = re.compile(r"\x1b\[[0-9;]*m")
_LABEL = re.compile(r"GPU\d+|NIC\d+|(?:mlx|bnxt|irdma|efa|hns|qedr)[\w-]*")
_CODE = re.compile(r"X|NV\d+|PIX|PXB|PHB|NODE|SYS|SOC|N/A")
_OLD_NAMES = {"SOC": "SYS"}


def read_topo_matrix(text: str) -> HostShape:
    """Return the host that a matrix describes. Affinities, legend and colours are ignored.

    The matrix does not give the PCIe distance of a pair connected by NVLink. Such a pair is assumed to be on one
    socket, unless the network cards show which GPUs share a socket.

    >>> read_topo_matrix("GPU0 GPU1 NIC0\\nGPU0 X NV12 SYS\\nGPU1 NV12 X PXB\\nNIC0 SYS PXB X").num_nics
    1
    """
    lines = [_ANSI.sub("", line) for line in text.splitlines()]
    at = next((number for number, line in enumerate(lines) if _header(line)), None)
    if at is None:
        raise InputError(
            "this is not a matrix of `nvidia-smi topo -m`: there is no line with GPU0 and the other devices",
            got=text.strip()[:60],
            allowed="the output of nvidia-smi topo -m",
        )
    columns = _header(lines[at])
    rows: dict[str, list[str]] = {}
    for line in lines[at + 1 :]:
        label, *cells = line.split() or [""]
        if label in columns:
            codes = [cell for cell in cells if _CODE.fullmatch(cell)][: len(columns)]
            if len(codes) == len(columns):
                rows[label] = codes
    gpus = [name for name in columns if name.startswith("GPU")]
    missing = [name for name in gpus if name not in rows]
    if missing:
        message = f"the matrix has no complete row for {missing[0]}"
        raise InputError(message, got=", ".join(rows), allowed=", ".join(gpus))
    between = [[rows[a][columns.index(b)] for b in gpus] for a in gpus]
    return HostShape(
        num_gpus=len(gpus),
        nvlinks=[[int(code[2:]) if code.startswith("NV") else 0 for code in row] for row in between],
        pcie=[[_path(code) for code in row] for row in between],
        num_nics=len(columns) - len(gpus),
        sockets=_sockets(columns, rows, gpus),
    )


def _header(line: str) -> list[str]:
    """Return the devices of a header line, nothing for another line; `CPU Affinity` and later columns are excluded."""
    words = line.split()
    if "GPU0" not in words or (len(words) > 1 and _CODE.fullmatch(words[1])):
        return []
    named = []
    for word in words:
        if not _LABEL.fullmatch(word):
            break
        named.append(word)
    return named


def _path(code: str) -> str:
    return "NODE" if code.startswith("NV") or code == "N/A" else _OLD_NAMES.get(code, code)


def _sockets(columns: list[str], rows: dict[str, list[str]], gpus: list[str]) -> tuple[int, ...] | None:
    """Return the socket of each GPU from the network cards on its socket, None where they do not determine it."""
    nics = [name for name in columns if not name.startswith("GPU")]
    sides = [tuple(nic for nic in nics if _path(rows[gpu][columns.index(nic)]) != "SYS") for gpu in gpus]
    known = list(dict.fromkeys(sides))
    apart = all(not set(one) & set(other) for one in known for other in known if one is not other)
    return tuple(known.index(side) for side in sides) if nics and apart and all(sides) else None
