"""Failure times: a renewal process for each GPU and host, merged in order of time."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clustersim.failures.spec import Lifetime

Kinds = Sequence[tuple[str, Lifetime, int]]
"""Kinds of components that can fail: name (`gpu`, `host`), lifetime, and number of them."""


class Failure(NamedTuple):
    """A failure: its time in seconds of wall clock from the start of the training, and the component."""

    time_s: float
    what: str
    number: int


def failure_times(kinds: Kinds, rng_of: Callable[[str, int], np.random.Generator]) -> Iterator[Failure]:
    """Yield the failures of a job in order of time, without end.

    All components are new when the training starts, and a failed one is replaced by a new one. `rng_of(what,
    number)` is the random stream of a component; with streams keyed by name, more GPUs change no other failures.
    """
    lives = {(name, number): (lifetime, rng_of(name, number)) for name, lifetime, num in kinds for number in range(num)}
    waiting = [(lifetime.draw_s(rng), *key) for key, (lifetime, rng) in lives.items()]
    heapq.heapify(waiting)
    while waiting:
        time_s, name, number = waiting[0]
        yield Failure(time_s, name, number)
        lifetime, rng = lives[name, number]
        heapq.heapreplace(waiting, (time_s + lifetime.draw_s(rng), name, number))


def least_failures(kinds: Kinds, length_s: float) -> float:
    """Return a lower bound of the mean number of failures in `length_s` seconds, for any shape of the lifetimes.

    The sum over all components of t / mtbf - 1, a lower bound for every renewal process, or of t / mtbf for
    exponential lifetimes, which is their mean.

    >>> least_failures([("gpu", Lifetime(mtbf="8 s"), 4), ("host", Lifetime(mtbf="4 s", shape=2), 2)], 16.0)
    14.0
    """
    num = [(number, length_s / lifetime.mtbf, lifetime.shape == 1) for _, lifetime, number in kinds]
    return sum(number * (times if is_memoryless else max(0.0, times - 1)) for number, times, is_memoryless in num)


def job_mtbf_s(kinds: Kinds) -> float:
    """Return the mean time between failures in the job in the long run: 1 / (sum of number / mtbf).

    >>> job_mtbf_s([("gpu", Lifetime(mtbf="8 s"), 4), ("host", Lifetime(mtbf="4 s"), 2)])
    1.0
    """
    return 1 / sum(number / lifetime.mtbf for _, lifetime, number in kinds)
