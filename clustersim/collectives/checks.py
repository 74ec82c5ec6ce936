"""Checks of the arguments of algorithms, and the cost of a collective of one size."""

from __future__ import annotations

from typing import NamedTuple

from clustersim.arguments import check_number


class Cost(NamedTuple):
    """The critical path of a collective over idle links.

    `num_messages` are the messages that wait for one another, each with a latency, and `num_bytes` the bytes that pass
    one link after another: seconds = num_messages x latency + num_bytes / rate.
    """

    num_messages: int
    num_bytes: float

    def seconds(self, latency_s: float, bytes_per_s: float) -> float:
        """Return the time over links of this end-to-end latency and rate.

        >>> Cost(num_messages=2, num_bytes=1e9).seconds(latency_s=1.0, bytes_per_s=1e9)
        3.0
        """
        return self.num_messages * latency_s + self.num_bytes / bytes_per_s

    def plus(self, other: Cost) -> Cost:
        """Return the cost of this collective followed by the other."""
        return Cost(self.num_messages + other.num_messages, self.num_bytes + other.num_bytes)


def check_collective(num_ranks: int, num_bytes: float) -> None:
    """Raise InputError for less than one rank, or a size that is negative or not finite."""
    check_number("num_ranks", num_ranks, least=1, is_whole=True)
    check_number("num_bytes", num_bytes, least=0)


def check_at_least_one(name: str, value: int) -> None:
    """Raise InputError for a count below 1, with the name of its option."""
    check_number(name, value, least=1, is_whole=True)


def log2_ceil(count: int) -> int:
    """Return ceil(log2(count)).

    >>> [log2_ceil(count) for count in (1, 2, 3, 4, 5)]
    [0, 1, 2, 2, 3]
    """
    return (count - 1).bit_length()
