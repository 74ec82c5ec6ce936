"""Which links of a collective its own messages may share, and whether they contend there.

A link with room for all that can be on it at one time holds no message back. What one rank sends in one step
has ended before its next step begins, and so has what one rank receives. So on a link all messages from one
rank count once, or all messages to one rank. Where that does not settle it, messages must follow one another
in time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from clustersim.network.uncontended.step import MessageSpans, UncontendedStep

_SAME = 1e-12  # of a capacity
_SAME_INSTANT = 1e-13  # of the time that has passed: what is closer together is one instant for the engine
_NO_RANK, _SEVERAL = -1, -2


def risky_links(steps: Sequence[UncontendedStep], bytes_per_s: np.ndarray) -> np.ndarray:
    """Return whether messages of these steps may hold one another back, of each link [num_links]."""
    shared = _several_ranks(steps, len(bytes_per_s))
    if shared.any():
        loads = [_most_load(steps, shared, by_sender) for by_sender in (True, False)]
        shared &= np.minimum(*loads) > bytes_per_s * (1 + _SAME)
    return shared


def _several_ranks(steps: Sequence[UncontendedStep], num_links: int) -> np.ndarray:
    """Return whether a link has two messages in a step, or messages with neither end in common [num_links]."""
    crowded = np.zeros(num_links, dtype=bool)
    owners = [np.full(num_links, _NO_RANK), np.full(num_links, _NO_RANK)]
    place = np.zeros(num_links, dtype=np.int64)
    for step in steps:
        links = step.uses.link
        order = np.arange(len(links))
        place[links] = order
        crowded[links[place[links] != order]] = True
        for owner, by_sender in zip(owners, (True, False), strict=True):
            rank = _rank_of_uses(step, by_sender)
            is_first = owner[links] == _NO_RANK
            owner[links[is_first]] = rank[is_first]
            owner[links[(owner[links] != rank) | (rank < 0)]] = _SEVERAL
    several: np.ndarray = crowded | ((owners[0] == _SEVERAL) & (owners[1] == _SEVERAL))
    return several


def _most_load(steps: Sequence[UncontendedStep], shared: np.ndarray, by_sender: bool) -> np.ndarray:
    """Return the load on shared links if every rank were at its busiest step [num_links].

    It is infinite where a rank's messages need not follow one another.
    """
    num_links, num_ranks = len(shared), steps[0].num_ranks
    keys: list[np.ndarray] = [np.empty(0, dtype=np.int64)]
    loads: list[np.ndarray] = [np.empty(0)]
    unbounded = np.zeros(num_links, dtype=bool)
    for step in steps:
        ranks = _rank_of_uses(step, by_sender)
        unbounded[step.uses.link[ranks < 0]] = True
        at = np.flatnonzero(shared[step.uses.link] & (ranks >= 0))
        link, rank = step.uses.link[at], ranks[at]
        rates = np.where(at < step.uses.num_sent, *(r[step.uses.message[at]] for r in _rates(step)))
        key, which = np.unique(link * num_ranks + rank, return_inverse=True)
        keys.append(key)
        loads.append(np.bincount(which, rates, len(key)))
    key, which = np.unique(np.concatenate(keys), return_inverse=True)
    most = np.zeros(len(key))
    np.maximum.at(most, which, np.concatenate(loads))
    return np.where(unbounded, np.inf, np.bincount(key // num_ranks, most, num_links))


def _rates(step: UncontendedStep) -> tuple[np.ndarray, np.ndarray]:
    return step.wire_bytes_per_s, step.adding_bytes_per_s


def _rank_of_uses(step: UncontendedStep, by_sender: bool) -> np.ndarray:
    """Return the rank at one end of each use of a link, or -1 where the next use by that rank need not wait for it.

    The sender of an eager message does not wait until it is added, and its receiver may receive others meanwhile.
    """
    uses = step.uses
    rank: np.ndarray = (step.src if by_sender else step.dst)[uses.message]
    if step.eager is not None:
        is_sent = np.arange(len(rank)) < uses.num_sent
        rank = np.where(step.eager[uses.message] & (is_sent != by_sender), -1, rank)
    return rank


class _Watched(NamedTuple):
    """The uses of risky links in a step, in order of links; `repeats`, if a link comes twice."""

    link: np.ndarray
    message: np.ndarray
    is_sent: np.ndarray
    repeats: bool


class LinkOccupancy:
    """Until when risky links are in use, as steps go by. Times are seconds after `zero_s`."""

    def __init__(self, risky: np.ndarray, zero_s: float):
        self._risky = risky
        self._zero_s = zero_s
        self._until_s = np.full(len(risky), -np.inf)
        self._watched: dict[UncontendedStep, _Watched] = {}

    def watches(self, step: UncontendedStep) -> bool:
        return len(self._uses(step).link) > 0

    def admit(self, step: UncontendedStep, spans: MessageSpans) -> bool:
        """Return whether the messages of a step follow each other and all before on risky links."""
        link, message, is_sent, repeats = self._uses(step)
        from_s = np.where(is_sent, spans.on_s[message], spans.add_s[message])
        to_s = np.where(is_sent, spans.off_s[message], spans.over_s[message])
        if not (from_s > -np.inf).all():  # what has ended occupies nothing
            kept = to_s > -np.inf
            link, from_s, to_s = link[kept], from_s[kept], to_s[kept]
        if repeats and len(link):
            order = np.lexsort((from_s, link))
            link, from_s, to_s = link[order], from_s[order], to_s[order]
            first = np.concatenate([[True], link[1:] != link[:-1]])
            before_s = np.where(first, self._until_s[link], np.concatenate([[0.0], to_s[:-1]]))
        else:
            before_s = self._until_s[link]
        self._until_s[link] = to_s  # of several on a link the last counts
        return bool((from_s >= before_s - _SAME_INSTANT * np.abs(before_s + self._zero_s)).all())

    def shift(self, step: UncontendedStep, seconds: float) -> None:
        """Shift a step's messages to a later time."""
        self._until_s[np.unique(self._uses(step).link)] += seconds

    def _uses(self, step: UncontendedStep) -> _Watched:
        watched = self._watched.get(step)
        if watched is None:
            at = np.flatnonzero(self._risky[step.uses.link])
            at = at[np.argsort(step.uses.link[at], kind="stable")]
            link = step.uses.link[at]
            is_sent = at < step.uses.num_sent
            watched = _Watched(link, step.uses.message[at], is_sent, bool((link[1:] == link[:-1]).any()))
            self._watched[step] = watched
        return watched
