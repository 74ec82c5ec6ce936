"""Times of all-reduces by size, measured as in nccl-tests."""

from __future__ import annotations

import time
from collections.abc import Iterator
from statistics import median
from typing import Any

import torch
import torch.distributed as dist

from real_run.ranks import Ranks

SMALLEST = 4096
_STEP = 4
_SAMPLES = 5
_SAMPLE_S = 0.05
_MAX_CALLS = 200


def all_reduce_sweep(ranks: Ranks, max_bytes: int) -> dict[str, Any]:
    """Return the seconds of an all-reduce of each size: a sample is the mean of back-to-back calls.

    The median of five samples, each the mean over ranks; every rank makes the same number of calls.
    """
    rows = []
    for num_bytes in sizes(max_bytes):
        samples = _samples(ranks, num_bytes)
        rows.append({"num_bytes": num_bytes, "time_s": median(samples), "samples_s": samples})
    return {"rows": rows}


def sizes(max_bytes: int) -> Iterator[int]:
    """Yield the measured sizes in bytes, each four times the previous one.

    >>> list(sizes(65536))
    [4096, 16384, 65536]
    """
    num_bytes = SMALLEST
    while num_bytes <= max_bytes:
        yield num_bytes
        num_bytes *= _STEP


def _samples(ranks: Ranks, num_bytes: int) -> list[float]:
    buffer = torch.zeros(num_bytes // 4, device=ranks.device.torch)
    _seconds(ranks, buffer, 2)
    one_s = _mean(ranks, _seconds(ranks, buffer, 2) / 2)
    calls = min(_MAX_CALLS, max(1, round(_SAMPLE_S / max(one_s, 1e-9))))
    return [_mean(ranks, _seconds(ranks, buffer, calls) / calls) for _ in range(_SAMPLES)]


def _seconds(ranks: Ranks, buffer: torch.Tensor, num_calls: int) -> float:
    ranks.barrier()
    begin_s = time.perf_counter()
    for _ in range(num_calls):
        dist.all_reduce(buffer)
    if ranks.device.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - begin_s


def _mean(ranks: Ranks, seconds: float) -> float:
    """Return the mean over ranks, on every rank."""
    box = torch.tensor([seconds], dtype=torch.float64)
    dist.all_reduce(box, group=ranks.control)
    return float(box[0]) / ranks.size
