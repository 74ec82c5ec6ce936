"""When networks go over to compiled kernels, in a process that plays many of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_MOST_PLAIN_MESSAGES = 3_000  # that take the plain side as long as it takes to hand them over and to lay their paths


class _Limit:
    """How many messages networks leave to the plain side at most, whatever it costs to load a compiler."""

    most_plain: float = float("inf")


def most_plain_messages() -> float:
    """Return how many messages are played without compiled kernels, as far as those are at hand; infinity else."""
    return _Limit.most_plain


@contextmanager
def numba_loaded() -> Iterator[None]:
    """Let networks meanwhile go over to compiled kernels as soon as that takes less time.

    Loading them takes as long as very many messages on the plain side. Who plays one network does not get that back;
    who plays a thousand does with the first few. Both sides tell the same times. What a link carries is summed in
    another order, and so may differ in the last digit; so whoever compares that asks for it in all processes.
    """
    before, _Limit.most_plain = _Limit.most_plain, _MOST_PLAIN_MESSAGES
    try:
        yield
    finally:
        _Limit.most_plain = before
