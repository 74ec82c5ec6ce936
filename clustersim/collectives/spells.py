"""A schedule whose messages are each sent in many steps running: written once, with its first step and its last."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from clustersim.collectives.schedule import Relays, Schedule, Step


class Spells(NamedTuple):
    """Messages in columns [num_spells], each of which is sent in every step from `first` up to before `end`.

    `columns.chunk` is what it would carry in step 0; in each step it carries the chunk after that of the step before.
    """

    columns: Step
    first: np.ndarray
    end: np.ndarray

    def under_way(self, number: int) -> np.ndarray:
        """Return which of the messages are sent in a step [num_spells]."""
        sent: np.ndarray = (self.first <= number) & (number < self.end)
        return sent

    def step(self, number: int) -> Step:
        """Return the messages of a step, in order."""
        sent = self.under_way(number)
        columns = Step(*(column[sent] for column in self.columns))
        return columns._replace(chunk=columns.chunk + number)

    def num_transfers(self) -> int:
        """Return how many messages there are in all steps."""
        return int((self.end - self.first).sum())

    def num_different(self) -> int:
        """Return how many messages there are in all steps that are not like the one before."""
        changes = np.unique(np.concatenate([self.first, self.end]))
        begun, ended = (np.searchsorted(np.sort(steps), changes, side="right") for steps in (self.first, self.end))
        return int((begun - ended).sum())

    def together(self) -> Spells:
        """Return the spells of one message for all that one rank sends another in a step, as `Step.together` does.

        There is another spell from when on it carries more, or less.
        """
        columns, num_ranks = self.columns, 1 + int(max(self.columns.src.max(), self.columns.dst.max()))
        key = (columns.src * num_ranks + columns.dst) * 2 + columns.reduce
        order = np.argsort(key, kind="stable")
        cuts, in_order = np.flatnonzero(np.diff(key[order])) + 1, order.tolist()
        lots = [in_order[begin:end] for begin, end in pairwise([0, *cuts.tolist(), len(in_order)])]
        alone = np.array([lot[0] for lot in lots if len(lot) == 1], dtype=np.int64)
        several = list(self._of_lots([lot for lot in lots if len(lot) > 1]))
        which, first, end, num_bytes, num_chunks = (
            np.concatenate([own, np.array(cut, dtype=own.dtype)])
            for own, cut in zip(
                (alone, self.first[alone], self.end[alone], columns.num_bytes[alone], columns.num_chunks[alone]),
                zip(*several, strict=True) if several else [()] * 5,
                strict=True,
            )
        )
        rows = np.lexsort((first, which))
        kept = Step(*(column[which[rows]] for column in columns))
        return Spells(kept._replace(num_bytes=num_bytes[rows], num_chunks=num_chunks[rows]), first[rows], end[rows])

    def _of_lots(self, lots: list[list[int]]) -> Iterator[tuple[int, int, int, float, int]]:
        """Go through the spells of what ranks send others: the first message of each, its steps, what it has.

        A lot are the messages that one rank sends another.
        """
        first, end = self.first.tolist(), self.end.tolist()
        num_bytes, num_chunks = self.columns.num_bytes.tolist(), self.columns.num_chunks.tolist()
        for lot in lots:
            for begins, ends in pairwise(sorted({*(first[each] for each in lot), *(end[each] for each in lot)})):
                sent = [each for each in lot if first[each] <= begins and ends <= end[each]]
                if sent:
                    have = (sum([num_bytes[each] for each in sent]), sum([num_chunks[each] for each in sent]))
                    yield sent[0], begins, ends, *have

    def schedule(self, num_ranks: int, num_steps: int, granularity: int, relays: Relays | None = None) -> Schedule:
        """Return the schedule of these messages, in which what one rank sends another in a step is one message."""
        sent = self.together()
        changes = np.unique(np.concatenate([sent.first, sent.end]))

        def alike(number: int) -> int:
            return int(np.searchsorted(changes, number, side="right"))

        return Schedule(num_ranks, num_steps, sent.step, granularity, alike, self.step, relays, sent)
