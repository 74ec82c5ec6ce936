"""The algorithm that a transport's own library would choose: the meaning of `auto`."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

from clustersim.collectives.checks import check_at_least_one, check_collective
from clustersim.collectives.nccl import NcclRates, nccl_choice
from clustersim.errors import InputError
from clustersim.registry import Registry

ASSUMED_BYTES_PER_S = 12e9
"""Default bus rate for NCCL's choice: assumed, what it gets from a 100 Gbit/s card."""

KIB = 1024
FLOAT_BYTES = 4


class CollectiveRequest(NamedTuple):
    """What a library's choice depends on; `num_bytes` is counted as for the collective itself."""

    num_ranks: int
    num_bytes: float
    ranks_per_host: int
    rates: NcclRates

    @property
    def power_of_two(self) -> bool:
        return self.num_ranks & (self.num_ranks - 1) == 0


Rule = Callable[[CollectiveRequest], str]


def choose(
    op: str,
    transport: str,
    num_ranks: int,
    num_bytes: float,
    ranks_per_host: int = 1,
    bytes_per_s: float = ASSUMED_BYTES_PER_S,
    inside_bytes_per_s: float = math.inf,
    switch_bytes_per_s: float | None = None,
    plateau: float = 1.4,
    num_channels: float = math.inf,
    capability: int = 80,
    has_nvlink: bool = True,
    channel_bytes_per_s: float = math.inf,
    has_nvls_trees: bool = False,
) -> str:
    """Return the name of the algorithm that `transport` would choose for a collective.

    - `nccl`: for an all-reduce the fastest of ring, double tree and, on one host with a switch that reduces, `nvls` by
      NCCL's own estimate (see `clustersim.collectives.nccl`), otherwise rings, and direct sends. All its rings together
      run at a bus rate of `bytes_per_s`, and within one host they would run at `inside_bytes_per_s`; a GPU's link to a
      switch that reduces runs at `switch_bytes_per_s`, None without such a switch; `plateau` is that of
      `nccl.ring_plateau`, by default that of Ampere and later GPUs; the others are those of
      `nccl.NcclRates`.
    - `mpi`: MPICH's rules by size and number of ranks, without those that consider hosts.
    - `gloo`: what its sources do.
    - `tcp` and `ideal`: rings.

    Only `nccl` uses `ranks_per_host` and rates.

    >>> [choose("all-reduce", "nccl", 64, num_bytes, ranks_per_host=8) for num_bytes in (1e3, 1e10)]
    ['double-tree', 'ring']
    """
    check_collective(num_ranks, num_bytes)
    check_at_least_one("ranks_per_host", ranks_per_host)
    rates = NcclRates(
        bytes_per_s,
        inside_bytes_per_s,
        switch_bytes_per_s,
        plateau,
        num_channels,
        capability,
        has_nvlink,
        channel_bytes_per_s,
        has_nvls_trees,
    )
    for name, rate in rates._asdict().items():
        if name not in ("capability", "has_nvlink", "has_nvls_trees") and rate is not None and not rate > 0:
            raise InputError(f"a rate must be above 0 (got {name} = {rate})", got=str(rate))
    return RULES[transport][op](CollectiveRequest(num_ranks, num_bytes, ranks_per_host, rates))


def _always(name: str) -> Rule:
    return lambda call: name


def _nccl_all_reduce(call: CollectiveRequest) -> str:
    num_hosts = -(-call.num_ranks // call.ranks_per_host)
    return nccl_choice(call.num_bytes, call.num_ranks, num_hosts, call.rates)


def _mpi_all_reduce(call: CollectiveRequest) -> str:
    """Recursive doubling up to 2 KiB, or for fewer elements than the largest power of two of ranks."""
    power = 1 << (call.num_ranks.bit_length() - 1)
    short = call.num_bytes <= 2 * KIB or call.num_bytes / FLOAT_BYTES < power
    return "doubling" if short else "halving-doubling"


def _mpi_broadcast(call: CollectiveRequest) -> str:
    """Binomial tree below 12 KiB or for fewer than 8 ranks; scatter and all-gather for the rest."""
    return "tree" if call.num_bytes < 12 * KIB or call.num_ranks < 8 else "scatter-all-gather"


def _mpi_reduce(call: CollectiveRequest) -> str:
    """Binomial tree up to 2 KiB, Rabenseifner's reduce-scatter and gather above."""
    return "tree" if call.num_bytes <= 2 * KIB else "scatter-gather"


def _mpi_all_gather(call: CollectiveRequest) -> str:
    """Recursive doubling below 512 KiB for powers of two, Bruck below 80 KiB for others, a ring above."""
    if call.power_of_two and call.num_bytes < 512 * KIB:
        return "doubling"
    return "bruck" if call.num_bytes < 80 * KIB and not call.power_of_two else "ring"


def _mpi_reduce_scatter(call: CollectiveRequest) -> str:
    """Recursive halving below 512 KiB, pairwise exchange above."""
    return "halving" if call.num_bytes < 512 * KIB else "pairwise"


def _mpi_all_to_all(call: CollectiveRequest) -> str:
    """All at once up to 32 KiB per pair of ranks, pairwise above; Bruck's, for up to 256 B, is left out."""
    return "linear" if call.num_bytes / call.num_ranks <= 32 * KIB else "pairwise"


_RINGS: dict[str, Rule] = {
    "all-gather": _always("ring"),
    "all-reduce": _always("ring"),
    "all-to-all": _always("pairwise"),
    "barrier": _always("dissemination"),
    "broadcast": _always("ring"),
    "gather": _always("linear"),
    "reduce": _always("ring"),
    "reduce-scatter": _always("ring"),
    "scatter": _always("linear"),
    "send-recv": _always("ring"),
}

_NCCL = _RINGS | {"all-reduce": _nccl_all_reduce, "all-to-all": _always("linear")}

_GLOO = _RINGS | {
    "all-reduce": _always("gloo-ring"),
    "all-to-all": _always("linear"),
    "broadcast": _always("gloo-tree"),
    "reduce": _always("gloo-ring"),
    "reduce-scatter": _always("gloo-ring"),
}

_MPI: dict[str, Rule] = {
    "all-gather": _mpi_all_gather,
    "all-reduce": _mpi_all_reduce,
    "all-to-all": _mpi_all_to_all,
    "barrier": _always("dissemination"),
    "broadcast": _mpi_broadcast,
    "gather": _always("tree"),
    "reduce": _mpi_reduce,
    "reduce-scatter": _mpi_reduce_scatter,
    "scatter": _always("tree"),
    "send-recv": _always("ring"),
}

RULES: Registry[Registry[Rule]] = Registry(
    "transport",
    {
        name: Registry("collective", rules)
        for name, rules in {
            "cuda-copies": _RINGS,
            "gloo": _GLOO,
            "ideal": _RINGS,
            "mpi": _MPI,
            "mpi-adapter": _MPI,
            "mpi-cuda": _MPI,
            "nccl": _NCCL,
            "nccl-sockets": _NCCL,
            "nccl-omni-path": _NCCL,
            "tcp": _RINGS,
        }.items()
    },
)
