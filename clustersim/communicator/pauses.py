"""Pauses of ranks in a collective besides its messages: for sums in host memory, and for a single block of threads."""

from __future__ import annotations

import numpy as np

from clustersim.collectives import Schedule
from clustersim.collectives.nccl_1 import (
    LAST_COPY_MOVES,
    NCCL_1_PROCESSES,
    OF_NCCL_1,
    block_moves,
    nccl_1_ring,
)
from clustersim.hardware import load_gpu, load_transport
from clustersim.hardware.speeds import GPU_MEMORY
from clustersim.network.paths import BYTES_MOVED_PER_ADDED
from clustersim.topology import Topology


def pauses_s(
    schedule: Schedule, topology: Topology, gpus: np.ndarray, transport: str, op: str, algorithm: str
) -> np.ndarray | None:
    """Return how long each rank pauses before each step [num_ranks, num_steps], in seconds; None where no rank does.

    `gpus` is [num_ranks], and `algorithm` is the one that the scenario names.
    """
    if op == "all-reduce" and algorithm in OF_NCCL_1 and len(gpus) > 1:
        return _one_block_pauses_s(schedule, topology, gpus, transport, algorithm == NCCL_1_PROCESSES)
    return _sum_pauses_s(schedule, topology, gpus, transport)


def _one_block_pauses_s(
    schedule: Schedule, topology: Topology, gpus: np.ndarray, transport: str, processes: bool
) -> np.ndarray | None:
    """Return how much longer one block of threads takes for each step than the ring's slowest link, in seconds.

    The block moves bytes at the rate at which a multiprocessor reads the second-level cache. Reads and writes follow
    one another: a warp writes what it has read, and all warps of a block go through the same loop. None where the
    GPUs' sheets do not give that rate. The last copy of a block sends nothing over a link.
    """
    speed = topology.speeds.factor(GPU_MEMORY)
    rates = [speed * _block_bytes_per_s(topology.gpu_sheets[gpu]) for gpu in gpus.tolist()]
    if not np.isfinite(rates).any():
        return None
    chunk = float(schedule.step(0).num_bytes.max())
    wire_s = chunk / (_ring_bytes_per_s(topology, gpus) * load_transport(transport).efficiency)
    s_per_byte = 1 / np.array(rates)[:, None]
    delay_s = np.maximum(block_moves(len(gpus), processes) * chunk * s_per_byte - wire_s, 0.0)
    delay_s[:, -1] += LAST_COPY_MOVES * chunk * s_per_byte[:, 0] if processes else 0.0
    return delay_s


def _block_bytes_per_s(sheet: str | None) -> float:
    """Return the rate at which a multiprocessor reads the second-level cache; infinity where that is not known."""
    gpu = None if sheet is None else load_gpu(sheet)
    return np.inf if gpu is None or gpu.l2_bytes_per_s is None else gpu.l2_bytes_per_s / gpu.num_multiprocessors


def _ring_bytes_per_s(topology: Topology, gpus: np.ndarray) -> float:
    """Return the rate at which each rank of NCCL 1's ring sends to the next one while all do, in bytes/s."""
    src = topology.gpus[gpus[nccl_1_ring(gpus)]]
    links, num_hops = np.unique(topology.routes(src, np.roll(src, -1)).links, return_counts=True)
    return float((topology.links.bytes_per_s[links] / num_hops).min(initial=np.inf))


def _sum_pauses_s(schedule: Schedule, topology: Topology, gpus: np.ndarray, transport: str) -> np.ndarray | None:
    """Return the time of sums in host memory before each step, in seconds [num_ranks, num_steps]; None without any.

    This is for schedules whose second half of ranks are host memories. A sum runs at a core's rate, or at the rank's
    share of the memory's rate where other ranks add there as well; the rank goes on afterwards. A transport among GPUs
    does not model it, because on GPUs the sums overlap the messages. With the transport `ideal` sums are free.
    """
    num_gpus = len(gpus)
    if schedule.num_ranks != 2 * num_gpus or num_gpus < 2 or transport == "ideal":
        return None
    s_per_byte = np.array([BYTES_MOVED_PER_ADDED / rate for rate in _adding_rates(topology, topology.memory[gpus])])
    delay_s = np.zeros((schedule.num_ranks, schedule.num_steps))
    for number in range(schedule.num_steps - 1):
        step = schedule.step(number)
        added = step.reduce & (step.dst >= num_gpus)
        dst = step.dst[added]
        added_s = step.num_bytes[added] * s_per_byte[dst - num_gpus]
        delay_s[:, number + 1] += np.bincount(dst, added_s, schedule.num_ranks)
    return delay_s


def _adding_rates(topology: Topology, memories: np.ndarray) -> list[float]:
    """Return the rate of each rank's sums in its memory while all ranks add, in bytes/s moved [num_ranks]."""
    nodes, place, num_there = np.unique(memories, return_inverse=True, return_counts=True)
    rates = []
    for node, num in zip(nodes.tolist(), num_there.tolist(), strict=True):
        adder, core = topology.adders.get(node), topology.core_bytes_per_s(node)
        shared = np.inf if adder is None else float(topology.links.bytes_per_s[adder]) / num
        rates.append(shared if core is None else min(shared, core))
    return [rates[at] for at in place.tolist()]
