"""Who may go on: a collective in progress, each rank gated by its own sends and receives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from clustersim.collectives.schedule import Schedule, Step


@dataclass
class _Meeting:
    """One step in progress: which of its messages wait for how many of their two ends."""

    columns: Step
    absent: np.ndarray  # [num_messages] ends that have not reached this step
    unfinished: np.ndarray  # [num_ranks] own messages that have not ended
    first: np.ndarray  # [num_ranks + 1] where a rank's messages begin in `messages`
    messages: np.ndarray
    to_come: int  # ranks that have not reached this step
    left: int  # messages that have not ended


@dataclass(frozen=True)
class Messages:
    """Messages that may start now: their number within the step, and the columns they have there."""

    step: int
    index: np.ndarray
    columns: Step


class Gating:
    """Advances ranks through the steps of a schedule; knows no clock and no links.

    A message starts when both its ends have reached its step (rendezvous). A rank goes on when its own
    messages of the step have ended. A step is made when the first rank reaches it and dropped when the
    last has passed, so memory grows with the ranks.
    """

    def __init__(self, schedule: Schedule):
        self.schedule = schedule
        self._meetings: dict[int, _Meeting] = {}
        self._index: tuple[Step, np.ndarray, np.ndarray] | None = None

    def _meeting(self, number: int) -> _Meeting:
        meeting = self._meetings.get(number)
        if meeting is None:
            columns = self.schedule.step(number)
            first, messages = self._by_rank(columns)
            absent = np.where(columns.src == columns.dst, 1, 2)
            meeting = _Meeting(
                columns, absent, np.diff(first), first, messages, self.schedule.num_ranks, len(columns.src)
            )
            self._meetings[number] = meeting
        return meeting

    def _by_rank(self, columns: Step) -> tuple[np.ndarray, np.ndarray]:
        """Return each rank's messages, as offsets and numbers; kept while senders and receivers stay the same."""
        if self._index and self._index[0].src is columns.src and self._index[0].dst is columns.dst:
            return self._index[1], self._index[2]
        number = np.arange(len(columns.src))
        others = columns.src != columns.dst
        rank = np.concatenate([columns.src, columns.dst[others]])
        order = np.argsort(rank, kind="stable")
        first = np.searchsorted(rank[order], np.arange(self.schedule.num_ranks + 1))
        self._index = columns, first, np.concatenate([number, number[others]])[order]
        return self._index[1], self._index[2]

    def arrive(self, ranks: np.ndarray, number: int) -> tuple[Messages, np.ndarray]:
        """Let ranks reach a step; return the messages that may start and the ranks that have none in it."""
        meeting = self._meeting(number)
        idle = meeting.unfinished[ranks] == 0
        touched = meeting.messages[_ranges(meeting.first[ranks], meeting.first[ranks + 1])]
        np.subtract.at(meeting.absent, touched, 1)
        ready = np.unique(touched[meeting.absent[touched] == 0])
        meeting.to_come -= len(ranks)
        self._drop_if_over(number, meeting)
        return Messages(number, ready, meeting.columns), ranks[idle]

    def end(self, number: int, index: np.ndarray) -> np.ndarray:
        """Let messages of a step end; return the ranks that have no more of them."""
        meeting = self._meetings[number]
        src, dst = meeting.columns.src[index], meeting.columns.dst[index]
        ends = np.concatenate([src, dst[dst != src]])
        np.subtract.at(meeting.unfinished, ends, 1)
        meeting.left -= len(index)
        self._drop_if_over(number, meeting)
        ranks = np.unique(ends)
        return np.asarray(ranks[meeting.unfinished[ranks] == 0])

    def columns(self, number: int) -> Step:
        """Return the messages of a step that is in progress."""
        return self._meetings[number].columns

    def _drop_if_over(self, number: int, meeting: _Meeting) -> None:
        if meeting.to_come == 0 and meeting.left == 0:
            del self._meetings[number]


def _ranges(first: np.ndarray, last: np.ndarray) -> np.ndarray:
    """Return first[0] .. last[0] - 1, first[1] .. last[1] - 1, ... in one array.

    >>> _ranges(np.array([2, 7]), np.array([4, 8])).tolist()
    [2, 3, 7]
    """
    lengths = last - first
    starts = np.cumsum(lengths) - lengths
    return np.asarray(np.arange(lengths.sum()) + np.repeat(first - starts, lengths))
