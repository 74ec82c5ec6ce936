"""Links in use, the path of a message, and the message itself as a flow."""

from __future__ import annotations

from typing import Protocol

INFINITE = float("inf")


class Link:
    """Directed links that the same paths cross, so that a flow on one is on all. The narrowest stands for them.

    `rates` are their bytes per second by number, `bytes_per_s` is the lowest of them; each has carried `carried_bytes`.
    `flows` are on them in the order in which they came.
    """

    __slots__ = ("bytes_per_s", "carried_bytes", "flows", "paths", "queued", "rates")

    def __init__(self, rates: dict[int, float]):
        self.rates = rates
        self.bytes_per_s = min(rates.values())
        self.carried_bytes = 0.0
        self.flows: dict[Flow, None] = {}
        self.paths: list[Path] = []  # those that cross it
        self.queued = 0  # which entry of the solver's queue is valid

    @property
    def number(self) -> int:
        """The number of the narrowest."""
        return min(self.rates, key=self.rates.__getitem__)

    def set_rate(self, number: int, bytes_per_s: float) -> None:
        """Change the rate of one of them."""
        self.rates[number] = bytes_per_s
        self.bytes_per_s = min(self.rates.values())

    def split(self, numbers: list[int]) -> Link:
        """Split off some of them, but not the narrowest, which may hold flows back; return the new link."""
        other = Link({number: self.rates.pop(number) for number in numbers})
        other.carried_bytes, other.flows, other.paths = self.carried_bytes, self.flows.copy(), self.paths.copy()
        return other


def _rate_of(link: Link) -> float:
    return link.bytes_per_s


class Path:
    """Links from one node to another, and the time before a first byte moves on them."""

    __slots__ = ("__weakref__", "latency_s", "links")

    def __init__(self, links: tuple[Link, ...], latency_s: float):
        self.links = links
        self.latency_s = latency_s

    @property
    def narrowest(self) -> Link | None:
        """The link with the lowest rate at this time, if there is any."""
        return min(self.links, key=_rate_of, default=None)


class Sender(Protocol):
    """Is called when its flow has ended."""

    def ended(self, flow: Flow) -> None: ...


class Flow:
    """A message in flight. It moves at `bytes_per_s` since `since_s`; `left_bytes` is what was left then.

    `level` is the rate per weight, set by the full link `bottleneck`; `mark` is the solver's. It is due to end
    at `end_s`, which is infinite where it does not move.
    """

    __slots__ = (
        "bottleneck",
        "bytes_per_s",
        "end_s",
        "left_bytes",
        "level",
        "mark",
        "message",
        "num_bytes",
        "path",
        "sender",
        "since_s",
        "weight",
    )

    def __init__(self, path: Path, num_bytes: float, weight: float, sender: Sender, message: int = 0):
        self.path = path
        self.num_bytes = self.left_bytes = num_bytes
        self.weight = weight
        self.sender = sender
        self.message = message
        self.bytes_per_s = self.level = self.since_s = 0.0
        self.end_s = INFINITE
        self.bottleneck: Link | None = None
        self.mark = 0

    def moved_bytes(self, now_s: float) -> float:
        """Return how many bytes have moved by a time, at its present rate."""
        return moved_bytes(self.num_bytes, self.left_bytes, self.bytes_per_s, now_s - self.since_s)

    @property
    def uncontended_s(self) -> float:
        """The time on its links without contention."""
        narrowest = self.path.narrowest
        return uncontended_s(self.num_bytes, INFINITE if narrowest is None else narrowest.bytes_per_s)


def moved_bytes(num_bytes: float, left_bytes: float, bytes_per_s: float, for_s: float) -> float:
    """Return the bytes moved, from the bytes left and the rate since then; rounding does not exceed all bytes.

    >>> moved_bytes(6.0, 4.0, 2.0, 1.5), moved_bytes(6.0, 4.0, 2.0, 2.1)
    (5.0, 6.0)
    """
    return min(num_bytes, num_bytes - left_bytes + bytes_per_s * for_s)


def uncontended_s(num_bytes: float, bytes_per_s: float) -> float:
    """Return how long bytes take at a rate; infinite at none.

    >>> uncontended_s(6.0, 2.0), uncontended_s(6.0, 0.0), uncontended_s(0.0, 0.0), uncontended_s(6.0, INFINITE)
    (3.0, inf, 0.0, 0.0)
    """
    if not num_bytes:
        return 0.0
    return num_bytes / bytes_per_s if bytes_per_s else INFINITE
