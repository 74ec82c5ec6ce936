"""The processes of the run: their group, their devices, and how far each one's clock is off rank 0's."""

from __future__ import annotations

import os
import time
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

from clustersim.profiling.device import Device, open_device
from clustersim.profiling.errors import ProfilingError

_PINGS = 30


@dataclass(frozen=True)
class Ranks:
    """This process among all: `control` is a group over gloo, in which objects and parameters travel by CPU."""

    rank: int
    size: int
    local_rank: int
    backend: str
    device: Device
    control: Any
    offset_s: float
    offset_error_s: float
    origin_s: float

    @property
    def is_first(self) -> bool:
        return self.rank == 0

    def gather(self, value: Any) -> list[Any]:
        """Return what every rank gave, on rank 0; an empty list on the others."""
        found: list[Any] | None = [None] * self.size if self.is_first else None
        dist.gather_object(value, found, dst=0, group=self.control)
        return found or []

    def share(self, value: Any) -> Any:
        """Return on every rank what rank 0 gave."""
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def meet(self) -> None:
        """Wait until every rank is here and its device idle."""
        if self.device.is_cuda:
            torch.cuda.synchronize()
        dist.barrier(group=self.control)

    def common_s(self, host_s: float) -> float:
        """Return the time of this host's clock on rank 0's, from the start of the run on."""
        return host_s - self.offset_s - self.origin_s


def join(backend: str, device: str, timeout_s: float) -> Ranks:
    """Join the group that torchrun announces (a group of one without it), on a GPU of this process's own."""
    rank, size, local = (int(os.environ.get(key, value)) for key, value in _ALONE)
    is_cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    backend = ("nccl" if is_cuda else "gloo") if backend == "auto" else backend
    if backend == "nccl" and not is_cuda:
        raise ProfilingError("nccl is for GPUs; take --backend gloo with --device cpu")
    if is_cuda and local >= torch.cuda.device_count():
        raise ProfilingError(
            f"process {local} of this host has no GPU of its own ({torch.cuda.device_count()} here), and nccl refuses "
            "two processes on one; start as many as there are GPUs (--nproc-per-node)"
        )
    opened = open_device(f"cuda:{local}" if is_cuda else "cpu")
    limit = timedelta(seconds=timeout_s)
    if "RANK" in os.environ:
        dist.init_process_group(backend, timeout=limit)
    else:
        dist.init_process_group(backend, store=dist.HashStore(), rank=0, world_size=1, timeout=limit)
    control = dist.group.WORLD if backend == "gloo" else dist.new_group(backend="gloo", timeout=limit)
    offset_s, error_s = _clock_offset(rank, size, control)
    box = [time.perf_counter()]
    dist.broadcast_object_list(box, src=0, group=control)
    return Ranks(rank, size, local, backend, opened, control, offset_s, error_s, box[0])


_ALONE = (("RANK", "0"), ("WORLD_SIZE", "1"), ("LOCAL_RANK", "0"))


def _clock_offset(rank: int, size: int, control: Any) -> tuple[float, float]:
    """Return how far this clock is ahead of rank 0's, and by how much that may be wrong, in seconds.

    Rank 0 pings each other rank; the answer is taken to have been written half way through the quickest round trip,
    so that it is off by half of that at most. Clocks that this cannot tell apart are one clock: that of one host.
    """
    box = torch.zeros(1, dtype=torch.float64)
    found = [(0.0, 0.0)] * size
    for other in range(1, size):
        if rank == 0:
            trips = [_ping(box, other, control) for _ in range(_PINGS)]
            round_trip_s, ahead_s = min(trips)
            error_s = round_trip_s / 2
            found[other] = (0.0 if abs(ahead_s) <= error_s else ahead_s, error_s)
        elif rank == other:
            for _ in range(_PINGS):
                dist.recv(box, src=0, group=control)
                box[0] = time.perf_counter()
                dist.send(box, dst=0, group=control)
    shared: list[Any] = [found]
    dist.broadcast_object_list(shared, src=0, group=control)
    ahead_s, error_s = shared[0][rank]
    return float(ahead_s), float(error_s)


def _ping(box: torch.Tensor, other: int, control: Any) -> tuple[float, float]:
    """Return the seconds of a round trip, and how far the other clock is ahead by it."""
    sent_s = time.perf_counter()
    dist.send(box, dst=other, group=control)
    dist.recv(box, src=other, group=control)
    back_s = time.perf_counter()
    return back_s - sent_s, float(box[0]) - (sent_s + back_s) / 2
