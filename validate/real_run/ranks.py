"""The processes of the run: their group, their devices, and the offsets of their clocks from that of rank 0."""

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
    """This process in the group: `control` is a gloo group for objects and parameters in host memory."""

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
        """Return the values of all ranks on rank 0; an empty list on the others."""
        found: list[Any] | None = [None] * self.size if self.is_first else None
        dist.gather_object(value, found, dst=0, group=self.control)
        return found or []

    def share(self, value: Any) -> Any:
        """Return the value of rank 0 on every rank."""
        box = [value]
        dist.broadcast_object_list(box, src=0, group=self.control)
        return box[0]

    def barrier(self) -> None:
        """Wait until all ranks are here and their devices are idle."""
        if self.device.is_cuda:
            torch.cuda.synchronize()
        dist.barrier(group=self.control)

    def common_s(self, host_s: float) -> float:
        """Convert a time of this host's clock to seconds of rank 0's clock since the start of the run."""
        return host_s - self.offset_s - self.origin_s


def join(backend: str, device: str, timeout_s: float) -> Ranks:
    """Join the process group of torchrun (a group of one without it), with one GPU per process."""
    rank, size, local = (int(os.environ.get(key, value)) for key, value in _ALONE)
    is_cuda = device == "cuda" or (device == "auto" and torch.cuda.is_available())
    backend = ("nccl" if is_cuda else "gloo") if backend == "auto" else backend
    if backend == "nccl" and not is_cuda:
        raise ProfilingError("nccl needs GPUs (got --device cpu, or no GPU is found); give --backend gloo")
    if is_cuda and local >= torch.cuda.device_count():
        raise ProfilingError(
            f"process {local} of this host has no GPU of its own (the host has {torch.cuda.device_count()}); start one "
            "process per GPU (--nproc-per-node)"
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
    """Return how far this clock is ahead of rank 0's, and the error of that, in seconds.

    Rank 0 pings each other rank; the answer is assumed to be from the middle of the shortest round trip, so the error
    is at most half of that. Clocks whose difference is below the error are taken as equal, as on one host.
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
    """Return the seconds of a round trip, and how far the other clock is ahead."""
    sent_s = time.perf_counter()
    dist.send(box, dst=other, group=control)
    dist.recv(box, src=other, group=control)
    back_s = time.perf_counter()
    return back_s - sent_s, float(box[0]) - (sent_s + back_s) / 2
