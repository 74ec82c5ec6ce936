"""NCCL's own estimates, by which it chooses the algorithm and the protocol of a collective.

Constants and formulas: NCCL 2.30.7, `src/graph/tuning.cc` (commit 5067397c). Included: latencies by protocol and hop
over NVLink, PCIe and the network, the fraction of bandwidth that each protocol reaches, the correction for trees at
medium sizes, trees between two hosts at twice the rate of the links that leave a host (each byte crosses once in each
direction, but twice in a ring), the maximum rate of a channel, and NVLS on one host. Simplified: the rate is that of
all channels together; between hosts LL has the limit of AMD's processors; trees are NCCL's balanced ones if a host
has two or more GPUs of the group; NVLSTree has the latency of trees, and chains in its hosts; no CollNet or PAT. What
the choice costs is in `clustersim.collectives.nccl_time`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from clustersim.collectives.nccl_channels import compute_capability, quickest_speed

PROTOCOLS = ("LL", "LL128", "Simple")

_BASE_US = {"ring": (6.6, 14.0, 8.4), "tree": (6.8, 14.0, 8.4)}
_NVLINK_US = {"ring": (0.6, 1.9, 3.4), "tree": (0.6, 1.25, 4.0)}
_PCI_US = {"ring": (1.0, 2.5, 5.7), "tree": (1.0, 1.9, 4.0)}
_NETWORK_US = {"ring": (2.7, 4.0, 14.0), "tree": (5.0, 8.5, 14.0)}
_POST_US = (1.0, 1.0, 3.0)
_LL_INSIDE_GB_PER_S = {0: 39.0, 80: 87.7, 90: 141.0, 100: 282.0}
_LL_BETWEEN_GB_PER_S = (22.5, 19.0)  # on 2 and more hosts
_LEAST_FOR_LL128 = 70

_CHANNEL_GB_PER_S = {
    "tree Simple": {0: (26.5, 18.5, 10.0), 80: (24.0, 23.6, 17.8), 90: (38.7, 41.4, 36.0), 100: (70.0, 42.8, 24.0)},
    "tree LL128": {0: (20.0, 20.0, 20.0), 90: (36.7, 36.7, 29.0), 100: (55.6, 31.67, 20.0)},
    "NVLS tree": {0: (0.0, 0.0, 0.0), 90: (0.0, 57.7, 45.5), 100: (0.0, 96.0, 80.0)},
    "ring LL128": {0: (20.0, 20.0, 20.0), 90: (36.7, 36.7, 36.7), 100: (40.0, 40.0, 40.0)},
}
"""Maximum rate of a channel on 1, 2 and more hosts, by the least compute capability (times 10) it applies to.

`perChMaxTreeBws`, `perChMaxTreeLL128Bws`, `perChMaxNVLSTreeBws` and `perChMaxRingLL128Bws`; trees of all protocols have
the first."""

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
FEWEST_FOR_NVLS = 3  # `ncclNvlsInit` in src/transport/nvls.cc has none for two GPUs
_MOST_HEADS = 32  # NCCL_MAX_NVLS_ARITY


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


NVLS_CHANNELS = {90: 16, 100: 24}
"""Channels of NVLS on one host by compute capability, times 10 (`ncclNvlsTuning` in src/transport/nvls.cc)."""

NVLS_EFFICIENCY = {"hopper": 0.85, "blackwell": 0.74}
"""Fraction of the NVLinks' rate that NCCL assumes with a switch that reduces, by the architecture of the GPUs.

NVSwitches reduce from their third generation on (NVIDIA, H100 architecture whitepaper, 2022)."""


class NcclRates(NamedTuple):
    """Bytes per second that NCCL assumes: of all its rings together, and of these within one host.

    `switch_bytes_per_s` is that of a GPU's link to a switch that reduces, None without such a switch; `plateau` is that
    of `ring_plateau` for the GPUs, `num_channels` the number that NCCL's search finds (`nccl_channels.found_channels`;
    infinity sets no limit) and `capability` the least compute capability, times 10, of the GPUs. `has_nvlink` says
    whether the GPUs of a host reach one another over NVLink, `channel_bytes_per_s` is the rate of a channel that the
    search finds, and `has_nvls_trees` says whether switches reduce in each of several hosts (NVLSTree).
    """

    bytes_per_s: float
    inside_bytes_per_s: float = math.inf
    switch_bytes_per_s: float | None = None
    plateau: float = 1.4
    num_channels: float = math.inf
    capability: int = 80
    has_nvlink: bool = True
    channel_bytes_per_s: float = math.inf
    has_nvls_trees: bool = False

    def of_channels(self) -> NcclRates:
        """Return these rates as NCCL estimates them: no more than its channels have at the speed that it found."""
        return self._replace(bytes_per_s=min(self.bytes_per_s, self.num_channels * self.channel_bytes_per_s))


class NcclRanks(NamedTuple):
    """Number of ranks, and of their hosts."""

    num_ranks: int
    num_hosts: int


class Tuning(NamedTuple):
    """What NCCL chooses for a collective: `algorithm` (ring, tree or nvls) and `protocol`."""

    algorithm: str
    protocol: str


def nccl_choice(num_bytes: float, num_ranks: int, num_hosts: int, rates: NcclRates) -> str:
    """Return the name of the all-reduce that NCCL chooses: the one with the shortest estimate.

    >>> nccl_choice(1e9, 16, 2, NcclRates(50e9, 240e9)), nccl_choice(1e9, 24, 3, NcclRates(50e9, 240e9))
    ('double-tree', 'ring')
    """
    if num_ranks == 1:
        return "ring"
    chosen = nccl_tuning("all-reduce", num_bytes, NcclRanks(num_ranks, num_hosts), rates).algorithm
    return "double-tree" if chosen == "tree" else chosen


def nccl_tuning(op: str, num_bytes: float, ranks: NcclRanks, rates: NcclRates, algorithm: str | None = None) -> Tuning:
    """Return the algorithm and the protocol with the shortest estimate, or the protocol of a given algorithm.

    >>> eight = NcclRanks(8, 1), NcclRates(240e9)
    >>> [nccl_tuning("all-gather", size, *eight).protocol for size in (1e6, 8e6, 64e6)]
    ['LL', 'LL128', 'Simple']
    """
    rates = rates.of_channels()
    seconds = {
        Tuning("ring", protocol): _ring_seconds(op, protocol, num_bytes, ranks, rates)
        for protocol in protocols(ranks, rates)
    }
    if op == "all-reduce":
        for protocol in protocols(ranks, rates):
            seconds[Tuning("tree", protocol)] = _tree_seconds(protocol, num_bytes, ranks, rates)
        if rates.switch_bytes_per_s is not None and ranks.num_hosts == 1 and ranks.num_ranks >= FEWEST_FOR_NVLS:
            seconds[Tuning("nvls", "Simple")] = nccl_nvls_seconds(num_bytes, ranks.num_ranks, rates)
    possible = [each for each in seconds if algorithm in (None, each.algorithm)]
    return min(possible, key=seconds.__getitem__) if possible else Tuning(str(algorithm), "Simple")


def protocols(ranks: NcclRanks, rates: NcclRates) -> tuple[str, ...]:
    """Return the protocols that NCCL allows: LL128 needs NVLink between the GPUs of a host, from Volta on."""
    apart = ranks.num_ranks == ranks.num_hosts
    allows = rates.capability >= _LEAST_FOR_LL128 and (rates.has_nvlink or apart)
    return PROTOCOLS if allows else ("LL", "Simple")


def nvls_heads(num_ranks: int) -> int:
    """Return the GPUs whose part of the buffer is reduced in the switch at once."""
    return min(num_ranks, _MOST_HEADS)


def nccl_nvls_seconds(num_bytes: float, num_ranks: int, rates: NcclRates) -> float:
    """Return NCCL's estimate for a reduction in the switch of one host.

    25 us + b 2 (n - 1) / n / (h min(2 e s (h - 1) / h, m)) with h heads. s is the highest of the speeds that the search
    tries with which h + 1 channels fit on a GPU's link, m the highest of all, and e `NVLS_EFFICIENCY`.
    """
    assert rates.switch_bytes_per_s is not None
    heads, efficiency = nvls_heads(num_ranks), NVLS_EFFICIENCY["blackwell" if rates.capability >= 100 else "hopper"]
    speed, quickest = quickest_speed(rates.capability, rates.switch_bytes_per_s / 1e9 / (heads + 1))
    bus = heads * min(2 * efficiency * speed * (heads - 1) / heads, quickest) * 1e9
    return _NVLS_LATENCY_S + num_bytes * 2 * (num_ranks - 1) / num_ranks / bus


def links_of_trees(num_hosts: int, rates: NcclRates) -> float:
    """Return the bus rate of trees: between two hosts each byte leaves a host once, but twice in a ring."""
    return min(rates.inside_bytes_per_s, 2 * rates.bytes_per_s) if num_hosts == 2 else rates.bytes_per_s


def nccl_all_reduce_seconds(algorithm: str, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> float:
    """Return NCCL's estimate for `ring` or `tree` with its best protocol."""
    allowed = protocols(ranks, rates)
    if algorithm == "ring":
        return min(_ring_seconds("all-reduce", protocol, num_bytes, ranks, rates) for protocol in allowed)
    return min(_tree_seconds(protocol, num_bytes, ranks, rates) for protocol in allowed)


class HopLatencies(NamedTuple):
    """Latencies of a protocol in microseconds: once, for a hop in a host, and for one between hosts."""

    base_us: float
    inside_us: float
    between_us: float


def hop_latencies(algorithm: str, protocol: str, ranks: NcclRanks, has_nvlink: bool = True) -> HopLatencies:
    """Return NCCL's constants for `ring` or `tree`. If each host has one GPU, hops between hosts are those of trees.

    >>> hop_latencies("ring", "LL", NcclRanks(16, 2))
    HopLatencies(base_us=6.6, inside_us=1.0, between_us=2.7)
    """
    column = PROTOCOLS.index(protocol)
    inside = (_NVLINK_US if has_nvlink else _PCI_US)[algorithm][column]
    if algorithm == "ring" and ranks.num_hosts > 1:
        inside = max(inside, _POST_US[column])
    apart = ranks.num_ranks == ranks.num_hosts
    return HopLatencies(_BASE_US[algorithm][column], inside, _NETWORK_US["tree" if apart else algorithm][column])


def nccl_latency_us(
    algorithm: str, protocol: str, ranks: NcclRanks, op: str = "all-reduce", has_nvlink: bool = True
) -> float:
    """Return NCCL's latency of a collective in microseconds.

    ring: base + (s - k) max(inside, post) + k network. All-reduces have s = 2 (n - 1) steps, of which k = 2 (hosts - 1)
    leave a host, all-gathers and reduce-scatters half of both; tree: base + 2 ((n / hosts - 1) inside + floor(log2
    hosts) network). A broadcast or a reduction in one host waits for one hop, and between hosts for n of the network.

    >>> nccl_latency_us("ring", "LL", NcclRanks(num_ranks=16, num_hosts=2))
    40.0
    """
    base, inside, between = hop_latencies(algorithm, protocol, ranks, has_nvlink)
    if algorithm == "tree":
        per_host = ranks.num_ranks / ranks.num_hosts
        return base + 2 * ((per_host - 1) * inside + math.floor(math.log2(ranks.num_hosts)) * between)
    if op not in ROUND_RINGS:
        return base + (inside if ranks.num_hosts == 1 else ranks.num_ranks * between)
    times = 2 if op == "all-reduce" else 1
    leaving = times * (ranks.num_hosts - 1)
    return base + (times * (ranks.num_ranks - 1) - leaving) * inside + leaving * between


def num_ring_steps(op: str, num_ranks: int) -> int:
    """Return the steps of a ring, each of which moves an n-th of the buffer; n for a broadcast or a reduction."""
    return {"all-reduce": 2 * (num_ranks - 1), "broadcast": num_ranks, "reduce": num_ranks}.get(op, num_ranks - 1)


def _ring_seconds(op: str, protocol: str, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> float:
    latency_us = nccl_latency_us("ring", protocol, ranks, op, rates.has_nvlink)
    if op == "all-reduce" and protocol == "Simple" and ranks.num_hosts > 1 and num_bytes >= 64 * ranks.num_ranks:
        latency_us *= rates.plateau
    share = num_ring_steps(op, ranks.num_ranks) / ranks.num_ranks
    return latency_us * 1e-6 + num_bytes * share / ring_bus(protocol, ranks, rates)


def _tree_seconds(protocol: str, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> float:
    rate = _tree_rate(protocol, ranks, rates)
    if not _reduces_in_switches(protocol, ranks, rates) or rates.capability >= 100:
        rate *= _tree_correction(protocol, num_bytes)
    return nccl_latency_us("tree", protocol, ranks, has_nvlink=rates.has_nvlink) * 1e-6 + num_bytes / rate


def ring_bus(protocol: str, ranks: NcclRanks, rates: NcclRates) -> float:
    """Return the bus rate of rings with a protocol, in bytes per second."""
    whole = rates.bytes_per_s
    ll128 = min(0.92 * whole, _channels_limit("ring LL128", ranks, rates))
    return {"LL": min(_ll_limit(ranks, rates), whole / 2), "LL128": ll128, "Simple": whole}[protocol]


def _tree_rate(protocol: str, ranks: NcclRanks, rates: NcclRates) -> float:
    """Return buffer bytes per second: half of the bus rate of the protocol."""
    return (
        tree_bus(protocol, ranks, rates, 0.92) / 2 * (_UNBALANCED_TREE if ranks.num_ranks == ranks.num_hosts else 1.0)
    )


def tree_bus(protocol: str, ranks: NcclRanks, rates: NcclRates, share: float = 1.0) -> float:
    """Return the bus rate of trees with a protocol, in bytes per second, that reach a share of the links' rate."""
    if _reduces_in_switches(protocol, ranks, rates):
        return min(links_of_trees(ranks.num_hosts, rates), _channels_limit("NVLS tree", ranks, rates))
    tree = min(share * links_of_trees(ranks.num_hosts, rates), _channels_limit("tree Simple", ranks, rates))
    ll128 = tree * (7 / 9 if ranks.num_hosts == 1 else 120 / 128)
    ll128 = min(ll128, _channels_limit("tree LL128", ranks, rates))
    return {"LL": min(_ll_limit(ranks, rates), tree / 3.8), "LL128": ll128, "Simple": tree}[protocol]


def _reduces_in_switches(protocol: str, ranks: NcclRanks, rates: NcclRates) -> bool:
    """Say whether trees between hosts are NVLSTree: here trees of Simple with other limits of their channels."""
    return rates.has_nvls_trees and protocol == "Simple" and ranks.num_hosts > 1


def _channels_limit(what: str, ranks: NcclRanks, rates: NcclRates) -> float:
    """Return the maximum bytes per second of all channels together."""
    since = _CHANNEL_GB_PER_S[what]
    of_gpus = since[max(least for least in since if least <= rates.capability)]
    return rates.num_channels * of_gpus[min(ranks.num_hosts, 3) - 1] * 1e9


def _ll_limit(ranks: NcclRanks, rates: NcclRates) -> float:
    if ranks.num_hosts > 1:
        return _LL_BETWEEN_GB_PER_S[min(ranks.num_hosts, 3) - 2] * 1e9
    least = max(least for least in _LL_INSIDE_GB_PER_S if least <= rates.capability)
    return _LL_INSIDE_GB_PER_S[least] * 1e9


def _tree_correction(protocol: str, num_bytes: float) -> float:
    table = _TREE_CORRECTION[protocol]
    power = math.floor(math.log2(num_bytes / 64)) if num_bytes >= 64 else -1
    return table[power] if 0 <= power < len(table) else 1.0
