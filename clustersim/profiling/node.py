"""Rates of a node's links and memories: copies between host and device and between devices, and additions."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from clustersim.profiling.device import Device
from clustersim.profiling.timer import Call, Timer

SIZES = tuple(4 * 2**power for power in range(8, 27, 3))  # 1 KiB to 256 MiB
_ADD_BYTES = 3  # an addition in place reads two numbers and writes one


def measure_node(device: Device, timer: Timer) -> dict[str, Any]:
    """Return facts of the node, each as `rows` of size and seconds, `latency_s` of the smallest and `bytes_per_s`.

    `add` is the cost of a reduction: one buffer added into another, with the bytes that memory moves, three
    times the buffer's. `bytes_per_s` is the additional bytes of the largest over the second largest
    size by the additional seconds, so that the latency does not count.
    """
    where = device.torch
    facts: dict[str, Any] = {"add": _curve(timer, lambda size: _add(size, where), _ADD_BYTES)}
    if not device.is_cuda:
        return facts | {"copy": _curve(timer, lambda size: _copy(_host(size), _host(size)))}
    for kind, pinned in (("pinned", True), ("pageable", False)):
        facts[f"host_to_device_{kind}"] = _curve(timer, partial(_to_device, where, pinned), can_graph=pinned)
        facts[f"device_to_host_{kind}"] = _curve(timer, partial(_to_host, where, pinned), can_graph=pinned)
    facts["device_to_device"] = _curve(timer, lambda size: _copy(_on(size, where), where))
    others = [number for number in range(torch.cuda.device_count()) if number != where.index]
    facts["peer_to_peer"] = [_peer(timer, where, other) for other in others]
    return facts


def measure_input_copy(batch: Tensor, device: Device, timer: Timer) -> dict[str, Any] | None:
    """Return the seconds to copy a batch from the host's memory; None on the host itself."""
    if not device.is_cuda:
        return None
    host = batch.cpu()
    seconds = {
        f"{kind}_s": timer.time([_copy(source, device.torch)], can_graph=kind == "pinned").median_s
        for kind, source in (("pinned", host.pin_memory()), ("pageable", host))
    }
    return {"num_bytes": batch.numel() * batch.element_size(), **seconds}


def _peer(timer: Timer, device: torch.device, other: int) -> dict[str, Any]:
    there = torch.device("cuda", other)
    curve = _curve(timer, lambda size: _copy(_on(size, device), there), can_graph=False)
    return {"peer": other, "direct": torch.cuda.can_device_access_peer(device.index, other), **curve}


def _curve(timer: Timer, call_of: Callable[[int], Call], moved: int = 1, can_graph: bool = True) -> dict[str, Any]:
    """Return the seconds by size; a copy to another device or from pageable memory cannot be captured in a graph."""
    rows = []
    for size in SIZES:
        timing = timer.time([call_of(size)], can_graph)
        rows.append({"num_bytes": size, "time_s": timing.median_s, "spread_s": timing.spread_s})
    more_bytes = rows[-1]["num_bytes"] - rows[-2]["num_bytes"]
    more_s = rows[-1]["time_s"] - rows[-2]["time_s"]
    bytes_per_s = moved * more_bytes / more_s if more_s > 0 else None
    return {"latency_s": rows[0]["time_s"], "bytes_per_s": bytes_per_s, "rows": rows}


def _copy(source: Tensor, target: Tensor | torch.device) -> Call:
    """Return a copy into allocated memory; one between pinned memory and a device does not wait."""
    if isinstance(target, torch.device):
        target = torch.empty_like(source, device=target, pin_memory=False)
    return partial(target.copy_, source, non_blocking=True)


def _to_device(device: torch.device, pinned: bool, size: int) -> Call:
    return _copy(_host(size, pinned), device)


def _to_host(device: torch.device, pinned: bool, size: int) -> Call:
    return _copy(_on(size, device), _host(size, pinned))


def _add(size: int, device: torch.device) -> Call:
    return partial(_on(size, device).add_, _on(size, device))


def _on(size: int, device: torch.device) -> Tensor:
    return torch.zeros(size // 4, device=device)


def _host(size: int, pinned: bool = False) -> Tensor:
    host = torch.zeros(size // 4)
    return host.pin_memory() if pinned else host
