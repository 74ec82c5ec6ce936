"""Bus bandwidth from algorithm bandwidth, as nccl-tests defines them."""

from __future__ import annotations

from collections.abc import Callable

from clustersim.collectives.checks import check_at_least_one
from clustersim.registry import Registry

_FACTORS: Registry[Callable[[int], float]] = Registry(
    "collective",
    {
        "all-gather": lambda num_ranks: (num_ranks - 1) / num_ranks,
        "all-reduce": lambda num_ranks: 2 * (num_ranks - 1) / num_ranks,
        "all-to-all": lambda num_ranks: (num_ranks - 1) / num_ranks,
        "barrier": lambda num_ranks: 0.0,
        "broadcast": lambda num_ranks: 1.0,
        "gather": lambda num_ranks: (num_ranks - 1) / num_ranks,
        "reduce": lambda num_ranks: 1.0,
        "reduce-scatter": lambda num_ranks: (num_ranks - 1) / num_ranks,
        "scatter": lambda num_ranks: (num_ranks - 1) / num_ranks,
        "send-recv": lambda num_ranks: 1.0,
    },
)


def busbw_factor(op: str, num_ranks: int) -> float:
    """Return bus bandwidth over algorithm bandwidth; the latter is the buffer's size over the time.

    2 (n - 1) / n for an all-reduce, (n - 1) / n if each rank keeps an n-th, 1 for broadcast, reduce and send-recv
    (nccl-tests, doc/PERFORMANCE.md); 0 for a barrier, which moves no data.

    >>> busbw_factor("all-reduce", 4)
    1.5
    """
    check_at_least_one("num_ranks", num_ranks)
    return _FACTORS[op](num_ranks)
