"""What the nodes are: devices, versions, how they hang together. Hosts are numbered; their names are not told."""

from __future__ import annotations

import os
import platform
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist

from clustersim.profiling.device import software
from real_run.ranks import Ranks

_DUMP = "NCCL_TOPO_DUMP_FILE"
_ADD_BYTES = 64 * 2**20
_VIRTUAL = ("lo", "docker", "veth", "br-", "virbr", "cni", "flannel")


def ask_for_topology() -> None:
    """Let NCCL write down what it finds on rank 0's host, unless somebody has said where already."""
    if int(os.environ.get("RANK", "0")) == 0 and _DUMP not in os.environ:
        os.environ[_DUMP] = str(Path(tempfile.mkdtemp(prefix="real-run-")) / "topology.xml")


def gather_facts(ranks: Ranks) -> dict[str, Any]:
    """Return what all ranks say of themselves, and each host of itself, on rank 0."""
    if ranks.backend == "nccl":
        dist.all_reduce(torch.zeros(1, device=ranks.device.torch))  # NCCL looks around when it is first used
    own = {
        "host": socket.gethostname(),
        "local_rank": ranks.local_rank,
        "device": ranks.device.record,
        "memory_bytes_per_s": _adding_rate(ranks.device.torch),
        "clock_offset_s": ranks.offset_s,
        "clock_error_s": ranks.offset_error_s,
        "of_host": _host_facts() if ranks.local_rank == 0 else None,
    }
    told = ranks.gather(own)
    if not told:
        return {}
    hosts = list(dict.fromkeys(each["host"] for each in told))
    of_hosts = {each["host"]: each.pop("of_host") for each in told if each["of_host"] is not None}
    rows = [{**each, "host": hosts.index(each["host"])} for each in told]
    for row in rows:
        row.pop("of_host", None)
    return {
        "backend": ranks.backend,
        "num_ranks": ranks.size,
        "software": {**software(), "nccl": _nccl_version()},
        "ranks": rows,
        "hosts": [of_hosts.get(host) for host in hosts],
        "nccl_topology": _nccl_topology() if ranks.backend == "nccl" else None,
    }


def _host_facts() -> dict[str, Any]:
    return {
        "cpu": _text("/proc/cpuinfo").partition("model name")[2].partition("\n")[0].lstrip("\t :")
        or platform.machine(),
        "num_cores": os.cpu_count(),
        "nvidia_smi_topo": _output("nvidia-smi", "topo", "-m"),
        "interfaces": _interfaces(),
        "infiniband": _infiniband(),
    }


def _interfaces() -> list[dict[str, Any]]:
    """Return the network interfaces that are up and have a speed, in Mbit/s."""
    found = []
    for folder in sorted(Path("/sys/class/net").glob("*")):
        speed = _text(f"{folder}/speed").strip()
        if _text(f"{folder}/operstate").strip() == "up" and speed.isdecimal() and not folder.name.startswith(_VIRTUAL):
            found.append({"name": folder.name, "mbit_per_s": int(speed)})
    return found


def _infiniband() -> list[dict[str, Any]]:
    """Return the ports of InfiniBand and RoCE adapters that are active, with their rate as the kernel writes it."""
    return [
        {
            "name": port.parent.parent.name,
            "rate": _text(f"{port}/rate").strip(),
            "layer": _text(f"{port}/link_layer").strip(),
        }
        for port in sorted(Path("/sys/class/infiniband").glob("*/ports/*"))
        if "ACTIVE" in _text(f"{port}/state")
    ]


def _adding_rate(device: torch.device) -> float:
    """Return the bytes that memory moves in a second while one buffer is added to another: three times its size."""
    one, other = (torch.zeros(_ADD_BYTES // 4, device=device) for _ in range(2))
    seconds = []
    for _ in range(5):
        if device.type == "cuda":
            torch.cuda.synchronize()
        begin_s = time.perf_counter()
        one.add_(other)
        if device.type == "cuda":
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - begin_s)
    return 3 * _ADD_BYTES / min(seconds)


def _nccl_version() -> str | None:
    if not torch.cuda.is_available():
        return None
    version = torch.cuda.nccl.version()
    return ".".join(map(str, version)) if isinstance(version, tuple) else str(version)


def _nccl_topology() -> str | None:
    """Return what NCCL has written down, None where it has not."""
    return _text(os.environ.get(_DUMP, "")) or None


def _output(*command: str) -> str | None:
    """Return what a program prints; None where it is not there or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace") if path else ""
    except OSError:
        return ""
