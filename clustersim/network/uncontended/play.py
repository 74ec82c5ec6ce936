"""An uncontended collective: from the positions of its ranks to their ends, step by step for all ranks at once."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from clustersim.network.uncontended.outline import ScheduleOutline, StepRange
from clustersim.network.uncontended.ring import RingSteps
from clustersim.network.uncontended.shared_links import LinkOccupancy
from clustersim.network.uncontended.step import MessageSpans, UncontendedStep

_SAME = 2e-13  # part of the end by which extrapolated steps may be off
_GROWTH = 1.1  # of the steps of a range between two attempts to extrapolate
_STEPS_AT_ONCE = 64  # of delays that are transposed


class MessagesInFlight(NamedTuple):
    """Messages that had started by the time of a forecast, in columns [num_begun].

    `end_s` is when one leaves its links, or minus infinity if it has and waits there for its receiver. Where
    `is_last` it is when the message ends for the receiver, which adds it; minus infinity if it has ended. Of a
    step, all messages that have started are here unless their receiver has left it.
    """

    step: np.ndarray
    message: np.ndarray
    end_s: np.ndarray
    is_last: np.ndarray

    @classmethod
    def of(cls, rows: Iterable[tuple[int, int, float, bool]]) -> MessagesInFlight:
        """Return columns of rows (step, message, end_s, is_last)."""
        columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
        kinds = (np.int64, np.int64, np.float64, np.bool_)
        return cls(*(np.array(column, dtype=kind) for column, kind in zip(columns, kinds, strict=True)))


NO_MESSAGES_IN_FLIGHT = MessagesInFlight.of([])


class RankPositions(NamedTuple):
    """The position of each rank [num_ranks]: its step, when it reached that step, and messages in flight.

    A rank reaches a step before its pause there. Only the entry into step 0 may be in the future.
    """

    reached_steps: np.ndarray
    reached_s: np.ndarray
    begun: MessagesInFlight = NO_MESSAGES_IN_FLIGHT

    @classmethod
    def entering(cls, enter_s: np.ndarray) -> RankPositions:
        """Return the positions of a collective that each rank enters at its time [num_ranks]."""
        return cls(np.zeros(len(enter_s), dtype=np.int64), np.asarray(enter_s, dtype=float))


class UncontendedTimes(NamedTuple):
    """How an uncontended collective goes on.

    `end_s` [num_ranks], `reached_s` [num_awaited] when the awaited ranks reach their steps, `links` [num_used]
    and the `carried_bytes` of each in messages that had not left it. `num_steps` were extrapolated.
    """

    end_s: np.ndarray
    reached_s: np.ndarray
    links: np.ndarray
    carried_bytes: np.ndarray
    num_steps: int


class UncontendedPlay:
    """One forecast in progress. Times count from the earliest position, to lose no digits."""

    def __init__(
        self,
        known: ScheduleOutline,
        num_steps: int,
        positions: RankPositions,
        delay_s: np.ndarray | None,
        awaited: np.ndarray,
    ):
        self._known = known
        self._positions = positions
        self._num_steps = num_steps
        self._zero_s = float(positions.reached_s.min()) if len(positions.reached_s) else 0.0
        self._reached_s = positions.reached_s - self._zero_s  # of each rank at the present step, or at its own
        self._delays = None if delay_s is None else _Delays(delay_s)
        self._occupied = LinkOccupancy(known.risky, self._zero_s) if known.risky.any() else None
        self._awaited = _Awaited(awaited, positions, self._reached_s)
        self._num_extrapolated = 0

    def result(self) -> UncontendedTimes | None:
        """Compute everything, or return None as soon as a message would hold back another."""
        positions, known = self._positions, self._known
        together = int(positions.reached_steps.max(initial=0))
        if (positions.begun.step == together).any():
            together += 1
        carried = known.carried_bytes(together)
        for stretch in known.from_step(int(positions.reached_steps.min(initial=together))):
            for number in range(stretch.first, min(stretch.end, together)):
                if not self._play_in_part(stretch.step, number, carried):
                    return None
            if stretch.end > together and not self._play(stretch._replace(first=max(stretch.first, together))):
                return None
        return UncontendedTimes(
            self._reached_s + self._zero_s,
            self._awaited.reached_s + self._zero_s,
            known.links,
            carried[: len(known.links)],
            self._num_extrapolated,
        )

    def _play(self, stretch: StepRange) -> bool:
        """Compute equal steps before which all ranks are; return whether no message held back another."""
        step, number = stretch.step, stretch.first
        if self._delays is None and not self._known.risky.any() and step.ring is not None:
            self._play_ring(step.ring, stretch)
            return True
        watched = self._occupied is not None and self._occupied.watches(step)
        look_at, num_steady = number + 1, 0
        while number < stretch.end:
            before_s, admitted_s = self._reached_s, self._admitted_s(number)
            spans = step.spans(admitted_s)
            if watched and self._occupied is not None and not self._occupied.admit(step, spans):
                return False
            self._reached_s = step.done_s(admitted_s, spans)
            number += 1
            self._awaited.note(number, self._reached_s)
            if self._delays is None and look_at <= number < stretch.end:
                gone_s = self._reached_s - before_s
                if not self._is_steady(step, gone_s, stretch.end - number):
                    look_at, num_steady = stretch.first + int(_GROWTH * (number - stretch.first)) + 1, 0
                elif num_steady < watched:  # the next step must not contend with this one either
                    look_at, num_steady = number + 1, num_steady + 1
                else:
                    self._extrapolate(step, number, stretch.end, gone_s)
                    return True
        return True

    def _play_ring(self, ring: RingSteps, stretch: StepRange) -> None:
        """Compute a range of a ring's steps, from one awaited step to the next."""
        number = stretch.first
        while number < stretch.end:
            num = int(min(self._awaited.next_step, stretch.end)) - number
            self._reached_s = ring.after(num, self._reached_s)
            number += num
            self._num_extrapolated += num - 1
            self._awaited.note(number, self._reached_s)

    def _play_in_part(self, step: UncontendedStep, number: int, carried: np.ndarray) -> bool:
        """Compute the rest of a step that some ranks have left or messages have begun in; count what is carried."""
        here = self._positions.reached_steps <= number
        admitted_s = np.where(here, self._admitted_s(number), -np.inf)
        spans = self._left(step, number, here, admitted_s)
        if self._occupied is not None and not self._occupied.admit(step, spans):
            return False
        self._reached_s = np.where(here, step.done_s(admitted_s, spans), self._reached_s)
        self._awaited.note(number + 1, self._reached_s)
        link, message, num_sent = step.uses
        is_ahead = np.where(np.arange(len(link)) < num_sent, spans.off_s[message], spans.over_s[message]) > -np.inf
        np.add.at(carried, link[is_ahead], step.carried_bytes[is_ahead])
        return True

    def _left(self, step: UncontendedStep, number: int, here: np.ndarray, admitted_s: np.ndarray) -> MessageSpans:
        """Return the times of messages in a step that ranks have left; minus infinity for those that have ended."""
        on_s, off_s, add_s, over_s = (times.copy() for times in step.spans(admitted_s))
        is_over = ~(here[step.src] & here[step.dst])
        begun = self._positions.begun
        rows = begun.step == number
        message, end_s, is_last = begun.message[rows], begun.end_s[rows] - self._zero_s, begun.is_last[rows]
        is_over[message] = False
        for times in (on_s, off_s, add_s, over_s):
            times[is_over] = -np.inf
        on_wire, last = message[~is_last], message[is_last]
        off_s[on_wire] = end_s[~is_last]
        on_s[on_wire] = off_s[on_wire] - step.wire_s[on_wire]
        add_s[on_wire] = off_s[on_wire]
        if step.eager is not None:
            add_s[on_wire] = np.where(step.eager, np.maximum(off_s, admitted_s[step.dst]), off_s)[on_wire]
        over_s[on_wire] = add_s[on_wire] + step.adding_s[on_wire]
        on_s[last] = off_s[last] = -np.inf
        over_s[last] = end_s[is_last]
        add_s[last] = over_s[last] - step.adding_s[last]
        return MessageSpans(on_s, off_s, add_s, over_s)

    def _admitted_s(self, number: int) -> np.ndarray:
        """Return when each rank begins to send and receive in a step, after its pause."""
        return self._reached_s if self._delays is None else self._reached_s + self._delays.before(number)

    def _is_steady(self, step: UncontendedStep, gone_s: np.ndarray, num_ahead: int) -> bool:
        """Return whether all ranks with messages have advanced by the same time, to the accuracy that many steps need.

        If so, they do it again: every time of the next step follows from times that are all later by the same amount.
        """
        part_s = gone_s[step.takes_part]
        if not len(part_s):
            return True
        most_s = float(part_s.max())
        drift_s = num_ahead * (most_s - float(part_s.min()))
        return drift_s <= _SAME * (float(self._reached_s.max()) + num_ahead * most_s)

    def _extrapolate(self, step: UncontendedStep, number: int, end: int, gone_s: np.ndarray) -> None:
        """Extrapolate from one step to another at the pace of the last."""
        num = end - number
        self._awaited.note_all(number, end, self._reached_s, gone_s)
        self._reached_s = self._reached_s + num * gone_s
        if self._occupied is not None:
            self._occupied.shift(step, num * float(gone_s.max()))
        self._num_extrapolated += num


class _Delays:
    """Pauses of ranks [num_ranks, num_steps], transposed some steps at a time."""

    def __init__(self, delay_s: np.ndarray):
        self._delay_s = delay_s
        self._first = -1
        self._rows = np.empty((0, 0))

    def before(self, step: int) -> np.ndarray:
        """Return the pause of each rank before a step [num_ranks]."""
        first = step - step % _STEPS_AT_ONCE
        if first != self._first:
            self._first, self._rows = first, self._delay_s[:, first : first + _STEPS_AT_ONCE].T.copy()
        row: np.ndarray = self._rows[step - first]
        return row


class _Awaited:
    """Ranks and the steps at which they are awaited [num_awaited, 2], in order of steps."""

    def __init__(self, pairs: np.ndarray, positions: RankPositions, reached_s: np.ndarray):
        self._order = np.argsort(pairs[:, 1], kind="stable")
        self._ranks, self._steps = pairs[self._order].T
        self.reached_s = reached_s[pairs[:, 0]]  # [num_awaited]; final for ranks that are there already
        ahead = self._steps > positions.reached_steps[self._ranks]
        self._order, self._ranks, self._steps = self._order[ahead], self._ranks[ahead], self._steps[ahead]
        self._next = 0

    @property
    def next_step(self) -> float:
        """The next step at which a rank is awaited, or infinity."""
        return float(self._steps[self._next]) if self._next < len(self._steps) else np.inf

    def note(self, step: int, reached_s: np.ndarray) -> None:
        """Note when ranks awaited at a step reach it [num_ranks]."""
        if self._next < len(self._steps) and self._steps[self._next] == step:
            self.note_all(step - 1, step, reached_s, None)

    def note_all(self, step: int, last: int, reached_s: np.ndarray, gone_s: np.ndarray | None) -> None:
        """Note when ranks awaited after `step` and up to `last` reach their steps.

        A rank reaches `step` at `reached_s` and takes `gone_s` for each one more [num_ranks]. Without `gone_s`,
        `reached_s` is when it reaches the last.
        """
        end = int(np.searchsorted(self._steps, last, side="right"))
        some = slice(self._next, end)
        ranks = self._ranks[some]
        more_s = 0.0 if gone_s is None else (self._steps[some] - step) * gone_s[ranks]
        self.reached_s[self._order[some]] = reached_s[ranks] + more_s
        self._next = end
