"""NCCL's own estimate of an all-reduce, by which it chooses between rings, trees and reduction in the switch.

Constants and formulas: NCCL 2.30, `src/graph/tuning.cc`. Included: latencies by protocol and hop, the fraction of
bandwidth that each protocol reaches, the correction for trees at medium sizes, trees between two hosts at twice the
rate of the links that leave a host (each byte crosses once in each direction, but twice in a ring), the maximum rate of
a channel, and NVLS on one host. Simplified: the rate is that of all channels together; NVLink within a host; Ampere's
limit for LL; LL128 always allowed; trees are NCCL's balanced ones if a host has two or more GPUs of the group; no NVLS
over several hosts, CollNet or PAT.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from clustersim.collectives.nccl_channels import compute_capability

PROTOCOLS = ("LL", "LL128", "Simple")

_BASE_US = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}
_NVLINK_US = {"ring": (0.6, 1.9, 3.4), "tree": (0.6, 1.25, 4.0)}
_NETWORK_US = {"ring": (2.7, 4.0, 14.0), "tree": (5.0, 8.5, 14.0)}
_POST_US = (1.0, 1.0, 3.0)
_LL_MAX_BYTES_PER_S = (87.7e9, 22.5e9, 19e9)  # on 1, 2 and more hosts

_CHANNEL_GB_PER_S = {
    "tree Simple": {0: (26.5, 18.5, 10.0), 80: (24.0, 23.6, 17.8), 90: (38.7, 41.4, 36.0), 100: (70.0, 42.8, 24.0)},
    "tree LL128": {0: (20.0, 20.0, 20.0), 90: (36.7, 36.7, 29.0), 100: (55.6, 31.67, 20.0)},
    "ring LL128": {0: (20.0, 20.0, 20.0), 90: (36.7, 36.7, 36.7), 100: (40.0, 40.0, 40.0)},
}
"""Maximum rate of a channel on 1, 2 and more hosts, by the least compute capability (times 10) it applies to.

`perChMaxTreeBws`, `perChMaxTreeLL128Bws` and `perChMaxRingLL128Bws`; trees of all protocols have the first."""

_UNBALANCED_TREE = 0.85
"""Fraction of a tree's rate if one GPU of a host has all of its messages (`NCCL_TOPO_PATTERN_TREE`)."""

_TREE_CORRECTION = {
    "LL": (1, 1, 1, 1, 0.9, 0.8, 0.7, 0.7, 0.7, 0.7, 0.6, 0.5, 0.4, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1, 1, 1, 1),
    "LL128": (1, 1, 1, 1, 1, 0.9, 0.8, 0.8, 0.8, 0.7, 0.6, 0.6, 0.6, 0.6, 0.6, 0.6, 0.8, 0.9, 0.9, 0.9, 0.9, 1, 1),
    "Simple": (
        *(0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.9, 0.8, 0.7, 0.6, 0.6, 0.5),
        *(0.5, 0.5, 0.5, 0.6, 0.7, 0.8, 0.7, 0.7, 0.8, 0.9, 0.9),
    ),
}  # from 64 B on, by powers of two; above them no correction

_NVLS_LATENCY_S = 25e-6
_FEWEST_FOR_NVLS = 3  # recalled: `src/transport/nvls.cc` has none for two GPUs


ROUND_RINGS = ("all-gather", "all-reduce", "reduce-scatter")
"""Collectives with the plateau of rings. NCCL applies it to all-reduces, its only choice; the others are the parts of
an all-reduce in a ring."""


def ring_plateau(*architectures: str) -> float:
    """Return the factor on the sum of its hops' latencies for a collective in a ring over several hosts.

    `tuning.cc` calls it the plateau effect of rings with the protocol Simple: 1.9 if the oldest GPU is from before
    compute capability 8.0 or of another maker, otherwise 1.4.

    >>> ring_plateau("volta", "hopper"), ring_plateau("ampere")
    (1.9, 1.4)
    """
    return 1.9 if compute_capability(*architectures) < 80 else 1.4


NVLS_CHANNELS = 16
"""Recalled: what NCCL prints on a DGX H100."""

NVLS_EFFICIENCY = {"hopper": 0.85, "blackwell": 0.74}
"""Fraction of the NVLinks' rate that NCCL assumes with a switch that reduces, by the architecture of the GPUs.

NVSwitches reduce from their third generation on (NVIDIA, H100 architecture whitepaper, 2022)."""


class NcclRates(NamedTuple):
    """Bytes per second that NCCL assumes: of all its rings together, and of these within one host.

    `switch_bytes_per_s` is that of a GPU's link to a switch that reduces, times `NVLS_EFFICIENCY`, None without such a
    switch; `plateau` is that of `ring_plateau` for the GPUs, `num_channels` the number that NCCL's search finds
    (`nccl_channels.found_channels`; infinity sets no limit) and `capability` the least compute capability, times 10, of
    the GPUs.
    """

    bytes_per_s: float
    inside_bytes_per_s: float = math.inf
    switch_bytes_per_s: float | None = None
    plateau: float = 1.4
    num_channels: float = math.inf
    capability: int = 80


class NcclRanks(NamedTuple):
    """Number of ranks, and of their hosts."""

    num_ranks: int
    num_hosts: int


def nccl_choice(num_bytes: float, num_ranks: int, num_hosts: int, rates: NcclRates) -> str:
    """Return the name of the all-reduce that NCCL chooses: the one with the shortest estimate.

    >>> nccl_choice(1e9, 16, 2, NcclRates(50e9, 240e9)), nccl_choice(1e9, 24, 3, NcclRates(50e9, 240e9))
    ('double-tree', 'ring')
    """
    if num_ranks == 1:
        return "ring"
    ranks = NcclRanks(num_ranks, num_hosts)
    seconds = {
        "ring": nccl_all_reduce_seconds("ring", num_bytes, ranks, rates),
        "double-tree": nccl_all_reduce_seconds("tree", num_bytes, ranks, rates),
    }
    if rates.switch_bytes_per_s is not None and num_hosts == 1 and num_ranks >= _FEWEST_FOR_NVLS:
        seconds["nvls"] = nccl_nvls_seconds(num_bytes, num_ranks, rates.switch_bytes_per_s)
    return min(seconds, key=seconds.__getitem__)


def nccl_nvls_seconds(num_bytes: float, num_ranks: int, switch_bytes_per_s: float) -> float:
    """Return NCCL's estimate for a reduction in the switch of one host.

    25 us + b 2 (n - 1) / n / (2 B 15 / 16) for links to the switch with an assumed rate of B bytes a second.
    """
    bus = 2 * switch_bytes_per_s * (NVLS_CHANNELS - 1) / NVLS_CHANNELS
    return _NVLS_LATENCY_S + num_bytes * 2 * (num_ranks - 1) / num_ranks / bus


def _tree_bus(num_hosts: int, rates: NcclRates) -> float:
    """Return the bus rate of trees: between two hosts each byte leaves a host once, but twice in a ring."""
    return min(rates.inside_bytes_per_s, 2 * rates.bytes_per_s) if num_hosts == 2 else rates.bytes_per_s


def nccl_all_reduce_seconds(algorithm: str, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> float:
    """Return NCCL's estimate for `ring` or `tree` with its best protocol."""
    return min(_seconds(algorithm, protocol, num_bytes, ranks, rates) for protocol in PROTOCOLS)


def nccl_latency_us(algorithm: str, protocol: str, ranks: NcclRanks) -> float:
    """Return NCCL's latency of an all-reduce in microseconds.

    ring: base + (2 (n - 1) - k) max(NVLink, post) + k network, where k = 2 (hosts - 1) messages leave a host;
    tree: base + 2 ((n / hosts - 1) NVLink + floor(log2 hosts) network).

    >>> nccl_latency_us("ring", "LL", NcclRanks(num_ranks=16, num_hosts=2))
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


def _seconds(algorithm: str, protocol: str, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> float:
    latency_us = nccl_latency_us(algorithm, protocol, ranks)
    if algorithm == "ring" and protocol == "Simple" and ranks.num_hosts > 1 and num_bytes >= 64 * ranks.num_ranks:
        latency_us *= rates.plateau
    rate = _ring_rate(protocol, ranks, rates) if algorithm == "ring" else _tree_rate(protocol, ranks, rates)
    if algorithm == "tree":
        rate *= _tree_correction(protocol, num_bytes)
    return latency_us * 1e-6 + num_bytes / rate


def _ring_rate(protocol: str, ranks: NcclRanks, rates: NcclRates) -> float:
    """Return buffer bytes per second: the bus rate of the protocol, over 2 (n - 1) / n."""
    whole = rates.bytes_per_s
    ll128 = min(0.92 * whole, _channels_limit("ring LL128", ranks, rates))
    bus = {"LL": min(_ll_limit(ranks), whole / 2), "LL128": ll128, "Simple": whole}[protocol]
    return bus * ranks.num_ranks / (2 * (ranks.num_ranks - 1))


def _tree_rate(protocol: str, ranks: NcclRanks, rates: NcclRates) -> float:
    """Return buffer bytes per second: half of the bus rate of the protocol."""
    tree = min(0.92 * _tree_bus(ranks.num_hosts, rates), _channels_limit("tree Simple", ranks, rates))
    ll128 = tree * (7 / 9 if ranks.num_hosts == 1 else 120 / 128)
    ll128 = min(ll128, _channels_limit("tree LL128", ranks, rates))
    bus = {"LL": min(_ll_limit(ranks), tree / 3.8), "LL128": ll128, "Simple": tree}[protocol]
    return bus / 2 * (_UNBALANCED_TREE if ranks.num_ranks == ranks.num_hosts else 1.0)


def _channels_limit(what: str, ranks: NcclRanks, rates: NcclRates) -> float:
    """Return the maximum bytes per second of all channels together."""
    since = _CHANNEL_GB_PER_S[what]
    of_gpus = since[max(least for least in since if least <= rates.capability)]
    return rates.num_channels * of_gpus[min(ranks.num_hosts, 3) - 1] * 1e9


def _ll_limit(ranks: NcclRanks) -> float:
    return _LL_MAX_BYTES_PER_S[min(ranks.num_hosts, 3) - 1]


def _tree_correction(protocol: str, num_bytes: float) -> float:
    table = _TREE_CORRECTION[protocol]
    power = math.floor(math.log2(num_bytes / 64)) if num_bytes >= 64 else -1
    return table[power] if 0 <= power < len(table) else 1.0
