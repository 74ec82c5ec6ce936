"""What a collective of NCCL costs with the algorithm and the protocol that it chose.

The formulas follow NCCL 2.30.7 (commit 5067397c). A ring with the protocol Simple passes each part on in two slices
(`src/device/prims_simple.h`, SLICESTEPS in `src/include/collectives.h`), so that half of a part hides the latency of a
hop. A reduction in the switch goes in loops of 16 to 128 KiB for each channel and head (`src/enqueue.cc`). LL sends 8
bytes of flags with 8 of data, LL128 8 with 120.

Inside one host with NVLink, latencies and copying rates are fitted on measurements of A100, H100 and B200 (`FITTED`).
Elsewhere they are the constants of NCCL's own estimate (`clustersim.collectives.nccl`).
"""

from __future__ import annotations

from typing import NamedTuple

from clustersim.collectives.nccl import (
    NVLS_CHANNELS,
    NcclRanks,
    NcclRates,
    Tuning,
    hop_latencies,
    links_of_trees,
    nccl_tuning,
    num_ring_steps,
    nvls_heads,
    ring_bus,
    tree_bus,
)
from clustersim.collectives.nvls import nvls_all_reduce_cost

INSIDE_US, BETWEEN_US = 4.0, 14.0
"""The hops of which `host_overhead_s` and `overhead_s` of a transport are the latency. Others have a share of it."""

_WIRE_FACTOR = {"LL": 2.0, "LL128": 128 / 120, "Simple": 1.0}
_P2P_LL_BYTES = 16384
"""Messages of at most so many bytes are sent with LL: `P2P_LL_THRESHOLD` in src/enqueue.cc."""

KIB = 1024
_CHUNK = 2048 * KIB  # of a channel: half of the slots of its buffer of 4 MiB
_MOST_CHANNELS = 32
_MOST_NVLS_CHUNK = 64 * KIB
"""NCCL has chunks of 128 KiB above some GiB. The tables end below; assumed: these are no quicker."""
_NVLS_CHUNKS = ((8, 32 * KIB), (2, 16 * KIB))
_NVLS_SHARE = 0.95
"""Share of a link's rate in a loop of a reduction in the switch: assumed, about what loops of 64 KiB have on H100."""
_FITTED_HEADS = 8


class Fitted(NamedTuple):
    """Constants of GPUs behind NVLink in one host: base latencies and hops in us, rates in GB/s.

    `ll` and `simple` are the base and a hop of rings, `ll128` the base and the share of the rate in NCCL's own estimate
    (its hop too is that of the estimate). With Simple, the GPU copies the part of the buffer that stays with it at the
    first rate of `copy`, and the first chunks of that part fill the pipeline at the second. Direct messages with LL
    have the base and the time for each receiver of `p2p_ll`; with Simple they have `p2p_simple`, and what stays is
    copied at `p2p_copy`. `nvls` are the time of a loop of a reduction in the switch with 8 heads beside its bytes, in
    us, and how many loops the start and the end take.
    """

    ll: tuple[float, float]
    ll128: tuple[float, float]
    simple: tuple[float, float]
    copy: tuple[float, float]
    p2p_ll: tuple[float, float]
    p2p_simple: float
    p2p_copy: float
    nvls: tuple[float, float] = (0.0, 0.0)


FITTED: dict[int, Fitted] = {
    80: Fitted((9.88, 0.84), (15.2, 0.765), (19.3, 10.5), (650, 428), (11.4, 0.328), 18.8, 313),
    90: Fitted((5.14, 0.804), (11.9, 0.976), (17.8, 3.19), (934, 1360), (7.08, 0.214), 13.2, 712, (5.07, 2.36)),
    100: Fitted((8.35, 1.27), (14.0, 1.0), (12.0, 9.98), (1250, 2240), (9.07, 0.515), 16.8, 528, (10.5, 2.1)),
}
"""By the least compute capability, times 10. Fitted by tools/collectives_residuals.py on every second size (even
powers of two, 2-byte elements) of one version in the tables of aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0): NCCL
2.27.3 on A100 SXM, 2.29.2 on H100 SXM and on B200 SXM. LL128 of B200, with two such rows, has the constants of NCCL's
estimate. docs/physics/collectives.md has the errors on the rest."""


class NcclCost(NamedTuple):
    """What a collective costs beside the bytes of its buffer on the links.

    `wait_s` once, `inside_us` and `between_us` for a hop of a chunk within and between hosts, `plateau` times (that of
    `ring_plateau`), and `wire_factor` bytes on the links for each byte.
    """

    wait_s: float
    inside_us: float = 0.0
    between_us: float = 0.0
    wire_factor: float = 1.0
    plateau: float = 1.0


def fitted_constants(ranks: NcclRanks, rates: NcclRates) -> Fitted | None:
    """Return the measured constants of one host, or None where there are none."""
    if ranks.num_hosts > 1 or not rates.has_nvlink:
        return None
    return next((FITTED[least] for least in sorted(FITTED, reverse=True) if rates.capability >= least), None)


def nccl_cost(op: str, tuning: Tuning, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> NcclCost:
    """Return the cost of a collective with NCCL's choice of an algorithm and a protocol."""
    if tuning.algorithm == "nvls":
        return _nvls_cost(num_bytes, ranks.num_ranks, rates)
    if tuning.algorithm == "tree":
        return _tree_cost(tuning.protocol, num_bytes, ranks, rates)
    return _ring_cost(op, tuning.protocol, num_bytes, ranks, rates)


def one_host_seconds(op: str, num_bytes: float, num_ranks: int, rates: NcclRates) -> float:
    """Return the seconds of a collective of one host without a tree, behind a switch that nothing else uses.

    wait + hops x latency of a hop + bytes on the wire over the rate of a GPU's link: what a simulation gives too.
    """
    ranks = NcclRanks(num_ranks, 1)
    if op == "all-to-all":
        part = num_bytes / num_ranks
        cost, hops, wire = p2p_cost(num_ranks - 1, part, part, ranks, rates), 1, (num_ranks - 1) * part
    else:
        tuning = nccl_tuning(op, num_bytes, ranks, rates)
        cost, steps = nccl_cost(op, tuning, num_bytes, ranks, rates), num_ring_steps(op, num_ranks)
        hops, wire = steps, steps * num_bytes / num_ranks
        if tuning.algorithm == "nvls":
            hops, wire = 0, nvls_all_reduce_cost(num_ranks, num_bytes).num_bytes
    return cost.wait_s + hops * cost.inside_us * 1e-6 + wire * cost.wire_factor / rates.bytes_per_s


def p2p_protocol(message_bytes: float) -> str:
    """Return the protocol of a message from GPU to GPU."""
    return "LL" if message_bytes <= _P2P_LL_BYTES else "Simple"


def p2p_cost(num_peers: int, message_bytes: float, own_bytes: float, ranks: NcclRanks, rates: NcclRates) -> NcclCost:
    """Return the cost of messages of one size to `num_peers` others at once, with `own_bytes` that stay.

    Where nothing was measured, the latency is that of one hop of a ring: assumed, NCCL has no estimate of these.
    """
    protocol = p2p_protocol(message_bytes)
    base_us, inside_us, between_us = hop_latencies("ring", protocol, ranks, rates.has_nvlink)
    fitted, copy_s = fitted_constants(ranks, rates), 0.0
    if fitted is not None and protocol == "LL":
        base_us = fitted.p2p_ll[0] + num_peers * fitted.p2p_ll[1] - inside_us
    elif fitted is not None:
        base_us, copy_s = fitted.p2p_simple - inside_us, own_bytes / (fitted.p2p_copy * 1e9)
    return NcclCost(base_us * 1e-6 + copy_s, inside_us, between_us, _WIRE_FACTOR[protocol])


def _ring_cost(op: str, protocol: str, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> NcclCost:
    base_us, inside_us, between_us = hop_latencies("ring", protocol, ranks, rates.has_nvlink)
    part, steps = num_bytes / ranks.num_ranks, num_ring_steps(op, ranks.num_ranks)
    rate, copy_s = ring_bus(protocol, ranks, rates), 0.0
    is_chain = op in ("broadcast", "reduce")
    fitted = None if is_chain else fitted_constants(ranks, rates)
    if fitted is not None:
        ll128_us = fitted.ll128[0], inside_us
        base_us, inside_us = {"LL": fitted.ll, "LL128": ll128_us, "Simple": fitted.simple}[protocol]
        rate *= fitted.ll128[1] if protocol == "LL128" else 1.0
        copy_s = _copy_s(part, fitted.copy, rates) if protocol == "Simple" else 0.0
    if protocol == "Simple" and ranks.num_hosts == 1 and not is_chain:
        inside_us = max(0.0, inside_us - part / rates.bytes_per_s / 2 * 1e6)
    plateau = rates.plateau if protocol == "Simple" and ranks.num_hosts > 1 and not is_chain else 1.0
    wait_s = base_us * plateau * 1e-6 + copy_s + _slower_s(steps * part, rate, rates.bytes_per_s, protocol)
    return NcclCost(wait_s, inside_us, between_us, _WIRE_FACTOR[protocol], plateau)


def _copy_s(part: float, copy: tuple[float, float], rates: NcclRates) -> float:
    """Return the time in which a GPU copies its own part, and first fills the pipeline of its channels."""
    first = min(part, _CHUNK * min(_MOST_CHANNELS, 2 * rates.num_channels))
    return part / (copy[0] * 1e9) + first / (copy[1] * 1e9)


def _tree_cost(protocol: str, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> NcclCost:
    base_us, inside_us, between_us = hop_latencies("tree", protocol, ranks, rates.has_nvlink)
    links = links_of_trees(ranks.num_hosts, rates)
    slower_s = _slower_s(2 * num_bytes, tree_bus(protocol, ranks, rates), links, protocol)
    return NcclCost(base_us * 1e-6 + slower_s, inside_us, between_us, _WIRE_FACTOR[protocol])


def _slower_s(num_bytes: float, rate: float, links_bytes_per_s: float, protocol: str) -> float:
    """Return how much longer bytes take at a protocol's rate than they, with its flags, are on links of a rate."""
    return max(0.0, num_bytes / rate - num_bytes * _WIRE_FACTOR[protocol] / links_bytes_per_s)


def _nvls_cost(num_bytes: float, num_ranks: int, rates: NcclRates) -> NcclCost:
    """Return the cost of a reduction in the switch, as the time that its loops take more than the bytes on the links.

    (b / l + k) (t h / 8 + (1 + 1 / n) l / (0.95 B)) in all, with l bytes in a loop, h heads, and t and k of
    `Fitted.nvls`. Assumed: the time of a loop is in proportion to the heads, since a block serves one after the other.
    Only eight heads were fitted; 72 GPUs of a GB200 NVL72, with 32 heads, were seen before this was assumed.
    """
    assert rates.switch_bytes_per_s is not None
    fitted = FITTED[100 if rates.capability >= 100 else 90]
    loop_us, more_loops = fitted.nvls
    loop = min(num_bytes, nvls_loop_bytes(num_bytes, num_ranks, rates.capability)) or 1.0
    loop_s = loop_us * 1e-6 * nvls_heads(num_ranks) / _FITTED_HEADS
    loop_s += loop * (1 + 1 / num_ranks) / (_NVLS_SHARE * rates.switch_bytes_per_s)
    wire_s = nvls_all_reduce_cost(num_ranks, num_bytes).num_bytes / rates.switch_bytes_per_s
    return NcclCost(max(0.0, (num_bytes / loop + more_loops) * loop_s - wire_s))


def nvls_loop_bytes(num_bytes: float, num_ranks: int, capability: int) -> float:
    """Return the bytes of a loop of a reduction in the switch: one chunk of each channel and head.

    >>> [nvls_loop_bytes(size * 2**20, 8, 90) / 2**20 for size in (4, 32, 256)]
    [2.0, 4.0, 8.0]
    """
    at_once = NVLS_CHANNELS[100 if capability >= 100 else 90] * nvls_heads(num_ranks)
    chunk = _MOST_NVLS_CHUNK
    for loops, smaller in _NVLS_CHUNKS:
        if num_bytes < loops * at_once * chunk and chunk > smaller:
            chunk = smaller
    return float(at_once * chunk)
