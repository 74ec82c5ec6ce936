"""Run-length encoded steps: a message of many consecutive steps is stored once, with its first step and its end."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from clustersim.collectives.schedule import Relays, Schedule, Step


class RunLengthSteps(NamedTuple):
    """Messages in columns [num_runs], each of which is sent in every step from `first` to before `end`.

    `columns.chunk` is the chunk that it would carry in step 0; in each step it carries the chunk after that of the step
    before.
    """

    columns: Step
    first: np.ndarray
    end: np.ndarray

    def with_more(self, columns: Step, first: np.ndarray, end: np.ndarray) -> RunLengthSteps:
        """Return these messages and others after them."""
        both = (np.concatenate(pair) for pair in zip(self.columns, columns, strict=True))
        return RunLengthSteps(Step(*both), np.concatenate([self.first, first]), np.concatenate([self.end, end]))

    def active(self, number: int) -> np.ndarray:
        """Return which of the messages are sent in a step [num_runs]."""
        sent: np.ndarray = (self.first <= number) & (number < self.end)
        return sent

    def step(self, number: int) -> Step:
        """Return the messages of a step, in order."""
        sent = self.active(number)
        columns = Step(*(column[sent] for column in self.columns))
        return columns._replace(chunk=columns.chunk + number)

    def num_transfers(self) -> int:
        """Return the number of messages of all steps."""
        return int((self.end - self.first).sum())

    def num_changed(self) -> int:
        """Return the number of messages in all steps that differ from the step before."""
        changes = np.unique(np.concatenate([self.first, self.end]))
        begun, ended = (np.searchsorted(np.sort(steps), changes, side="right") for steps in (self.first, self.end))
        return int((begun - ended).sum())

    def coalesced(self) -> RunLengthSteps:
        """Return the runs with all messages from one rank to another as one message, as `Step.coalesced` does.

        A new run begins whenever it carries more, or less.
        """
        columns, num_ranks = self.columns, 1 + int(max(self.columns.src.max(), self.columns.dst.max()))
        key = (columns.src * num_ranks + columns.dst) * 2 + columns.reduce
        order = np.argsort(key, kind="stable")
        cuts, in_order = np.flatnonzero(np.diff(key[order])) + 1, order.tolist()
        pairs = [in_order[begin:end] for begin, end in pairwise([0, *cuts.tolist(), len(in_order)])]
        alone = np.array([pair[0] for pair in pairs if len(pair) == 1], dtype=np.int64)
        several = list(self._runs_of_pairs([pair for pair in pairs if len(pair) > 1]))
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
        return RunLengthSteps(
            kept._replace(num_bytes=num_bytes[rows], num_chunks=num_chunks[rows]), first[rows], end[rows]
        )

    def _runs_of_pairs(self, pairs: list[list[int]]) -> Iterator[tuple[int, int, int, float, int]]:
        """Yield the coalesced runs of pairs of ranks: first message, first step, end, bytes and chunks of each.

        A pair is the list of the messages from one rank to another.
        """
        first, end = self.first.tolist(), self.end.tolist()
        num_bytes, num_chunks = self.columns.num_bytes.tolist(), self.columns.num_chunks.tolist()
        for pair in pairs:
            for begins, ends in pairwise(sorted({*(first[each] for each in pair), *(end[each] for each in pair)})):
                sent = [each for each in pair if first[each] <= begins and ends <= end[each]]
                if sent:
                    have = (sum([num_bytes[each] for each in sent]), sum([num_chunks[each] for each in sent]))
                    yield sent[0], begins, ends, *have

    def schedule(
        self, num_ranks: int, num_steps: int, granularity: int, relays: Relays | None = None, passes_on: bool = False
    ) -> Schedule:
        """Return the schedule of these messages; what one rank sends another in a step is one message."""
        sent = self.coalesced()
        changes = np.unique(np.concatenate([sent.first, sent.end]))

        def pattern(number: int) -> int:
            return int(np.searchsorted(changes, number, side="right"))

        return Schedule(
            num_ranks, num_steps, sent.step, granularity, pattern, self.step, relays, sent, passes_on=passes_on
        )
