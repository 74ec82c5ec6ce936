"""What a collective of NCCL costs with the algorithm and the protocol that it chose.

The formulas follow NCCL 2.30.7 (commit 5067397c). A ring with the protocol Simple passes each part on in two slices
(`src/device/prims_simple.h`, SLICESTEPS in `src/include/collectives.h`), so that half of a part hides the latency of a
hop. A reduction in the switch goes in loops of 16 to 128 KiB for each channel and head (`src/enqueue.cc`). LL sends 8
bytes of flags with 8 of data, LL128 8 with 120.

Inside one host with NVLink, latencies and copying rates are fitted on measurements of A100, H100 and B200 (`_FITTED`).
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
_MOST_CHUNK = 128 * KIB  # NVLS_CHUNKSIZE
_NVLS_CHUNKS = ((64, 64 * KIB), (8, 32 * KIB), (2, 16 * KIB))


class Fitted(NamedTuple):
    """Constants of GPUs behind NVLink in one host: base latencies and hops in us, rates in GB/s.

    `ll`, `ll128` and `simple` are the base and a hop of rings. LL128 reaches `ll128_share` of the rate of NCCL's own
    estimate. The GPU copies the part of the buffer that stays with it at `copy`. A direct message has the latency
    `p2p_ll` and `p2p_ll_peer` for each receiver, or `p2p_simple`, and the part that stays is copied at `p2p_copy`.
    A loop of a reduction in the switch takes `nvls_loop_us` beside its bytes, and starting and ending it as long as
    `nvls_loops`.
    """

    ll: tuple[float, float]
    ll128: tuple[float, float]
    simple: tuple[float, float]
    ll128_share: float
    copy: float
    p2p_ll: tuple[float, float]
    p2p_simple: float
    p2p_copy: float
    nvls: tuple[float, float] = (0.0, 0.0)


_FITTED: dict[int, Fitted] = {
    80: Fitted((9.8, 0.84), (24.4, 0.35), (28.0, 7.3), 0.70, 353, (11.4, 0.33), 18.0, 225),
    90: Fitted((5.1, 0.80), (12.6, 1.9), (19.0, 2.8), 1.0, 632, (7.1, 0.21), 13.1, 607, (4.8, 2.5)),
    100: Fitted((8.35, 1.27), (14.0, 1.9), (13.0, 10.0), 1.0, 891, (9.1, 0.52), 16.7, 489, (11.2, 1.93)),
}
"""By the least compute capability, times 10. Fitted by tools/collectives_residuals.py on every second size (even
powers of two, 2-byte elements) of one version in the tables of aiconfigurator-core 0.12.0 (NVIDIA, Apache-2.0): NCCL
2.27.3 on A100 SXM, 2.29.2 on H100 SXM and on B200 SXM. docs/physics/collectives.md has the errors on the rest."""

_NVLS_SHARE = 0.95
"""Share of a link's rate in a loop of a reduction in the switch: assumed, about what loops of 64 KiB on H100 and B200
have in the same tables."""


class NcclCost(NamedTuple):
    """What a collective costs beside the bytes of its buffer on the links.

    `wait_s` once, `inside_us` and `between_us` for a hop of a chunk within and between hosts, and `wire_factor` bytes
    on the links for each byte.
    """

    wait_s: float
    inside_us: float = 0.0
    between_us: float = 0.0
    wire_factor: float = 1.0


def fitted_constants(ranks: NcclRanks, rates: NcclRates) -> Fitted | None:
    """Return the measured constants of one host, or None where there are none."""
    if ranks.num_hosts > 1 or not rates.has_nvlink:
        return None
    return next((_FITTED[least] for least in sorted(_FITTED, reverse=True) if rates.capability >= least), None)


def nccl_cost(op: str, tuning: Tuning, num_bytes: float, ranks: NcclRanks, rates: NcclRates) -> NcclCost:
    """Return the cost of a collective with NCCL's choice of an algorithm and a protocol."""
    if tuning.algorithm == "nvls":
        return _nvls_cost(num_bytes, ranks.num_ranks, rates)
    if tuning.algorithm == "tree":
        return _tree_cost(tuning.protocol, num_bytes, ranks, rates)
    return _ring_cost(op, tuning.protocol, num_bytes, ranks, rates)


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
        base_us, inside_us = {"LL": fitted.ll, "LL128": fitted.ll128, "Simple": fitted.simple}[protocol]
        rate *= fitted.ll128_share if protocol == "LL128" else 1.0
        copy_s = part / (fitted.copy * 1e9) if protocol == "Simple" else 0.0
    if protocol == "Simple" and ranks.num_hosts == 1 and not is_chain:
        inside_us = max(0.0, inside_us - part / rates.bytes_per_s / 2 * 1e6)
    if protocol == "Simple" and ranks.num_hosts > 1 and not is_chain:
        inside_us, between_us = inside_us * rates.plateau, between_us * rates.plateau
    slower_s = _slower_s(steps * part, rate, rates.bytes_per_s, protocol)
    return NcclCost(base_us * 1e-6 + copy_s + slower_s, inside_us, between_us, _WIRE_FACTOR[protocol])


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

    (b / l + k) (t + (1 + 1 / n) l / (0.95 B)) in all, with l bytes in a loop, t and k of `Fitted.nvls`.
    """
    assert rates.switch_bytes_per_s is not None
    fitted = _FITTED[100 if rates.capability >= 100 else 90]
    loop_us, more_loops = fitted.nvls
    loop = nvls_loop_bytes(num_bytes, num_ranks, rates.capability)
    loop_s = loop_us * 1e-6 + loop * (1 + 1 / num_ranks) / (_NVLS_SHARE * rates.switch_bytes_per_s)
    wire_s = nvls_all_reduce_cost(num_ranks, num_bytes).num_bytes / rates.switch_bytes_per_s
    return NcclCost(max(0.0, (num_bytes / loop + more_loops) * loop_s - wire_s))


def nvls_loop_bytes(num_bytes: float, num_ranks: int, capability: int) -> float:
    """Return the bytes of a loop of a reduction in the switch: one chunk of each channel and head.

    >>> [nvls_loop_bytes(size * 2**20, 8, 90) / 2**20 for size in (4, 32, 256)]
    [2.0, 4.0, 8.0]
    """
    at_once = NVLS_CHANNELS[100 if capability >= 100 else 90] * nvls_heads(num_ranks)
    chunk = _MOST_CHUNK
    for loops, smaller in _NVLS_CHUNKS:
        if num_bytes < loops * at_once * chunk and chunk > smaller:
            chunk = smaller
    return float(at_once * chunk)
