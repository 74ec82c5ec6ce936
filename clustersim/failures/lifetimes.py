"""When what fails: a renewal process of each GPU and host, and all of them together."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

import numpy as np

from clustersim.failures.spec import Lifetime

Kinds = Sequence[tuple[str, Lifetime, int]]
"""What can fail: its name (`gpu`, `host`), its lifetime, and how many of it there are."""


class Failure(NamedTuple):
    """What failed, and when, in seconds of wall clock from the beginning of the training."""

    time_s: float
    what: str
    number: int


def failure_times(kinds: Kinds, luck: Callable[[str, int], np.random.Generator]) -> Iterator[Failure]:
    """Yield the failures of a job in the order of time, without end.

    Everything is new when the training begins, and is replaced by a new one when it fails. `luck(what,
    number)` is the random stream of each; with one by name, more GPUs shift nobody's failures.
    """
    lives = {(name, number): (lifetime, luck(name, number)) for name, lifetime, num in kinds for number in range(num)}
    waiting = [(lifetime.draw_s(rng), *key) for key, (lifetime, rng) in lives.items()]
    heapq.heapify(waiting)
    while waiting:
        time_s, name, number = waiting[0]
        yield Failure(time_s, name, number)
        lifetime, rng = lives[name, number]
        heapq.heapreplace(waiting, (time_s + lifetime.draw_s(rng), name, number))


def least_failures(kinds: Kinds, length_s: float) -> float:
    """Return how many failures at least come on average in so many seconds, whatever the shape of the lifetimes.

    The sum of t / mtbf - 1 over all that can fail, which bounds every renewal process from below; and t / mtbf for
    exponential lifetimes, of which it is the mean itself.

    >>> least_failures([("gpu", Lifetime(mtbf="8 s"), 4), ("host", Lifetime(mtbf="4 s", shape=2), 2)], 16.0)
    14.0
    """
    num = [(number, length_s / lifetime.mtbf, lifetime.shape == 1) for _, lifetime, number in kinds]
    return sum(number * (times if is_memoryless else max(0.0, times - 1)) for number, times, is_memoryless in num)


def job_mtbf_s(kinds: Kinds) -> float:
    """Return the mean time between failures of anything in the job, in the long run: 1 / (sum of number / mtbf).

    >>> job_mtbf_s([("gpu", Lifetime(mtbf="8 s"), 4), ("host", Lifetime(mtbf="4 s"), 2)])
    1.0
    """
    return 1 / sum(number / lifetime.mtbf for _, lifetime, number in kinds)
