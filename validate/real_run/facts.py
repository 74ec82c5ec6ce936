"""Facts about the nodes: devices, versions, connections. Hosts are numbered, and their names are not written."""

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


def request_topology() -> None:
    """Let NCCL write the topology of rank 0's host to a file, unless the user has already set one."""
    if int(os.environ.get("RANK", "0")) == 0 and _DUMP not in os.environ:
        os.environ[_DUMP] = str(Path(tempfile.mkdtemp(prefix="real-run-")) / "topology.xml")


def gather_facts(ranks: Ranks) -> dict[str, Any]:
    """Return the facts of all ranks and hosts on rank 0; an empty dict on the others."""
    if ranks.backend == "nccl":
        dist.all_reduce(torch.zeros(1, device=ranks.device.torch))  # NCCL detects the topology when it is first used
    own = {
        "host": socket.gethostname(),
        "local_rank": ranks.local_rank,
        "device": ranks.device.record,
        "memory_bytes_per_s": _adding_rate(ranks.device.torch),
        "clock_offset_s": ranks.offset_s,
        "clock_error_s": ranks.offset_error_s,
        "of_host": _host_facts() if ranks.local_rank == 0 else None,
    }
    facts = ranks.gather(own)
    if not facts:
        return {}
    hosts = list(dict.fromkeys(each["host"] for each in facts))
    of_hosts = {each["host"]: each.pop("of_host") for each in facts if each["of_host"] is not None}
    rows = [{**each, "host": hosts.index(each["host"])} for each in facts]
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
    """Return the active ports of InfiniBand and RoCE adapters, with their rates as text of the kernel."""
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
    """Return the memory rate in bytes per second of adding one buffer to another, which moves three times its size."""
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
    """Return the topology that NCCL has written, None if it has not."""
    return _text(os.environ.get(_DUMP, "")) or None


def _output(*command: str) -> str | None:
    """Return the output of a program; None if it does not exist or fails."""
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=30, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace") if path else ""
    except OSError:
        return ""
