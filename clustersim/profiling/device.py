"""The device that is profiled: lookup, description and clocks."""

from __future__ import annotations

import ctypes
import os
import platform
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from clustersim.profiling.errors import ProfilingError

_CLOCKS = ("clocks.sm", "clocks.mem", "temperature.gpu", "power.draw")
_FACTS = ("driver_version", "clocks.max.sm", "clocks.max.mem")
_CACHE_UNKNOWN = 64 * 2**20
_MMAP_MAX, _TRIM_THRESHOLD = -4, -1  # of glibc's malloc.h


@dataclass(frozen=True)
class Device:
    """A device, its identification, and the size of its last-level cache."""

    torch: torch.device
    record: dict[str, Any]
    cache_bytes: int

    @property
    def is_cuda(self) -> bool:
        return bool(self.torch.type == "cuda")

    def clocks(self) -> dict[str, float] | None:
        """Return current clocks, temperature and power, in MHz, degrees Celsius and watts; None where not available."""
        if not self.is_cuda:
            return _cpu_clocks()
        values = _nvidia_smi(self.torch, _CLOCKS)
        if values is None:
            return None
        names = ("sm_mhz", "memory_mhz", "celsius", "watts")
        numbers = {name: _number(value) for name, value in zip(names, values, strict=True)}
        return {name: number for name, number in numbers.items() if number is not None}


def open_device(name: str) -> Device:
    """Return the device of a name such as `cpu`, `cuda` or `cuda:1`; a missing device is refused."""
    match = re.fullmatch(r"cpu|cuda(?::(\d+))?", name)
    if match is None:
        raise ProfilingError(f"no device is called '{name}' (known: cpu, cuda, cuda:1 and so on)")
    if name == "cpu":
        return Device(torch.device("cpu"), _cpu_record(), _last_level_cache_bytes())
    if not torch.cuda.is_available():
        built = torch.version.cuda
        why = "this torch is built without CUDA" if built is None else f"torch {torch.__version__} sees no GPU"
        raise ProfilingError(f"there is no CUDA device here: {why}; use --device cpu, or run on a node with a GPU")
    number = int(match[1] or 0)
    if number >= torch.cuda.device_count():
        raise ProfilingError(f"there is no {name}: this node has {torch.cuda.device_count()} CUDA device(s)")
    torch.cuda.set_device(number)
    return _cuda_device(torch.device("cuda", number))


def keep_memory() -> bool:
    """Let this process keep memory that tensors no longer need, like CUDA's allocator; False where that is not
    possible.

    By default the C library returns the memory of a large tensor to the system and gets new memory page by page, each
    zeroed first. Where page faults are slow, as on virtual machines, that takes longer than the layers, and the time
    depends on what else was allocated. The settings are those of glibc's `mallopt` (M_MMAP_MAX, M_TRIM_THRESHOLD).
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if os.name == "posix" else None
    return mallopt is not None and all(mallopt(*setting) == 1 for setting in ((_MMAP_MAX, 0), (_TRIM_THRESHOLD, -1)))


def software() -> dict[str, Any]:
    """Return the versions of all software that affects kernels."""
    return {
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cudnn": torch.backends.cudnn.version() if torch.cuda.is_available() else None,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.release()}",
    }


def _cuda_device(device: torch.device) -> Device:
    properties = torch.cuda.get_device_properties(device)
    cache_bytes = int(getattr(properties, "L2_cache_size", 0)) or _CACHE_UNKNOWN
    driver, max_sm_mhz, max_memory_mhz = _nvidia_smi(device, _FACTS) or (None, None, None)
    record = {
        "name": properties.name,
        "kind": "cuda",
        "num_multiprocessors": properties.multi_processor_count,
        "memory_bytes": properties.total_memory,
        "cache_bytes": cache_bytes,
        "compute_capability": f"{properties.major}.{properties.minor}",
        "driver": driver,
        "max_sm_mhz": _number(max_sm_mhz),
        "max_memory_mhz": _number(max_memory_mhz),
    }
    return Device(device, record, cache_bytes)


def _cpu_record() -> dict[str, Any]:
    return {
        "name": _cpu_name(),
        "kind": "cpu",
        "num_threads": torch.get_num_threads(),
        "num_cores": os.cpu_count(),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") if hasattr(os, "sysconf") else None,
        "cache_bytes": _last_level_cache_bytes(),
        "capability": torch.backends.cpu.get_cpu_capability(),
    }


def _cpu_name() -> str:
    match = re.search(r"^model name\s*:\s*(.+)$", _text("/proc/cpuinfo"), re.MULTILINE)
    return " ".join((match[1] if match else platform.processor() or platform.machine()).split())


def _cpu_clocks() -> dict[str, float] | None:
    clocks = [float(clock) for clock in re.findall(r"^cpu MHz\s*:\s*([\d.]+)$", _text("/proc/cpuinfo"), re.MULTILINE)]
    found = {"mhz": sum(clocks) / len(clocks)} if clocks else {}
    if hasattr(os, "getloadavg"):
        found["load"] = os.getloadavg()[0]
    return found or None


def _last_level_cache_bytes() -> int:
    sizes = [_text(str(file)).strip() for file in Path("/sys/devices/system/cpu/cpu0/cache").glob("index*/size")]
    units = {"K": 2**10, "M": 2**20, "G": 2**30}
    found = [int(size[:-1]) * units[size[-1]] for size in sizes if re.fullmatch(r"\d+[KMG]", size)]
    return max(found, default=_CACHE_UNKNOWN)


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8")
    except OSError:
        return ""


def _nvidia_smi(device: torch.device, fields: tuple[str, ...]) -> tuple[str, ...] | None:
    """Return nvidia-smi's values for a device; None where it is not installed or has no values."""
    which = getattr(torch.cuda.get_device_properties(device), "uuid", None)
    selected = f"GPU-{which}" if which is not None else str(device.index)
    command = ["nvidia-smi", f"--query-gpu={','.join(fields)}", "--format=csv,noheader,nounits", "-i", selected]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    values = tuple(value.strip() for value in done.stdout.strip().split(","))
    return values if len(values) == len(fields) else None


def _number(value: str | None) -> float | None:
    return float(value) if value is not None and re.fullmatch(r"\d+(\.\d+)?", value) else None
