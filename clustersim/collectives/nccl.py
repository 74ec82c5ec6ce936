"""NCCL's own estimate of an all-reduce, from which it chooses between ring and tree.

Constants and formulas: NCCL 2.30, `src/graph/tuning.cc`. Kept: latencies by protocol and hop, the share of
bandwidth that each protocol gets, and the correction for trees of middling size. Simplified: one channel of the
whole rate; NVLink inside a host; Ampere's limit for LL; LL128 allowed everywhere; no NVLS, CollNet or PAT.
"""

from __future__ import annotations

import math
from typing import NamedTuple

PROTOCOLS = ("LL", "LL128", "Simple")

_BASE_US = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}
_NVLINK_US = {"ring": (0.6, 1.9, 3.4), "tree": (0.6, 1.25, 4.0)}
_NETWORK_US = {"ring": (2.7, 4.0, 14.0), "tree": (5.0, 8.5, 14.0)}
_POST_US = (1.0, 1.0, 3.0)
_LL_MAX_BYTES_PER_S = (87.7e9, 22.5e9, 19e9)  # on 1, 2 and more hosts
_RING_SIMPLE_LATENCY = 1.4

_TREE_CORRECTION = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    "Simple": (
        *(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5),
        *(0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
    ),
}  # from 64 B on, by powers of two; above them no correction


class Ranks(NamedTuple):
    """How many ranks there are, and on how many hosts."""

    num_ranks: int
    num_hosts: int


def nccl_all_reduce_seconds(algorithm: str, num_bytes: float, ranks: Ranks, bytes_per_s: float) -> float:
    """Return NCCL's estimate for `ring` or `tree` with the protocol it would take, at a bus rate of `bytes_per_s`."""
    return min(_seconds(algorithm, protocol, num_bytes, ranks, bytes_per_s) for protocol in PROTOCOLS)


def nccl_latency_us(algorithm: str, protocol: str, ranks: Ranks) -> float:
    """Return NCCL's latency of an all-reduce in microseconds.

    ring: base + (2 (n - 1) - k) max(NVLink, post) + k network, where k = 2 (hosts - 1) messages leave a host;
    tree: base + 2 ((n / hosts - 1) NVLink + floor(log2 hosts) network).

    >>> nccl_latency_us("ring", "LL", Ranks(num_ranks=16, num_hosts=2))
    40.0
    """
    column = PROTOCOLS.index(protocol)
    per_host = ranks.num_ranks / ranks.num_hosts
    base, inside = _BASE_US[algorithm][column], _NVLINK_US[algorithm][column]
    outside = _NETWORK_US["tree" if per_host == 1 else algorithm][column]
    if algorithm == "tree":
        return base + 2 * ((per_host - 1) * inside + math.floor(math.log2(ranks.num_hosts)) * outside)
    leaving = 2 * (ranks.num_hosts - 1)
    post = _POST_US[column] if ranks.num_hosts > 1 else 0.0
    return base + (2 * (ranks.num_ranks - 1) - leaving) * max(inside, post) + leaving * outside


def _seconds(algorithm: str, protocol: str, num_bytes: float, ranks: Ranks, bytes_per_s: float) -> float:
    latency_us = nccl_latency_us(algorithm, protocol, ranks)
    if algorithm == "ring" and protocol == "Simple" and ranks.num_hosts > 1 and num_bytes >= 64 * ranks.num_ranks:
        latency_us *= _RING_SIMPLE_LATENCY
    rate = _ring_rate(protocol, ranks, bytes_per_s) if algorithm == "ring" else _tree_rate(protocol, ranks, bytes_per_s)
    if algorithm == "tree":
        rate *= _tree_correction(protocol, num_bytes)
    return latency_us * 1e-6 + num_bytes / rate


def _ring_rate(protocol: str, ranks: Ranks, bytes_per_s: float) -> float:
    """Return buffer bytes per second: the bus rate that the protocol leaves, over 2 (n - 1) / n."""
    bus = {"LL": min(_ll_limit(ranks), bytes_per_s / 2), "LL128": 0.92 * bytes_per_s, "Simple": bytes_per_s}[protocol]
    return bus * ranks.num_ranks / (2 * (ranks.num_ranks - 1))


def _tree_rate(protocol: str, ranks: Ranks, bytes_per_s: float) -> float:
    """Return buffer bytes per second: half of the bus rate that the protocol leaves."""
    tree = 0.92 * bytes_per_s
    ll128 = tree * (7 / 9 if ranks.num_hosts == 1 else 120 / 128)
    bus = {"LL": min(_ll_limit(ranks), tree / 3.8), "LL128": ll128, "Simple": tree}[protocol]
    return bus / 2


def _ll_limit(ranks: Ranks) -> float:
    return _LL_MAX_BYTES_PER_S[min(ranks.num_hosts, 3) - 1]


def _tree_correction(protocol: str, num_bytes: float) -> float:
    table = _TREE_CORRECTION[protocol]
    power = math.floor(math.log2(num_bytes / 64)) if num_bytes >= 64 else -1
    return table[power] if 0 <= power < len(table) else 1.0
