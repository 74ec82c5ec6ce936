"""The training steps of a trace: by the profiler's marks, or from one optimizer step to the next."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from clustersim.interchange.kineto.trace import BACKWARD, OPTIMIZER, STEP, Event


@dataclass(frozen=True)
class Steps:
    """The steps of a trace, in order; none where it is taken as one step. `is_marked` by the profiler."""

    bounds_us: tuple[tuple[float, float], ...]
    is_marked: bool

    @property
    def count(self) -> int:
        """The number of steps, at least 1."""
        return max(len(self.bounds_us), 1)

    @property
    def iteration_s(self) -> float | None:
        """The median time of a step, None without steps; the first is left out where its start is not known."""
        known = self.bounds_us if self.is_marked else self.bounds_us[1:]
        return median(end_us - start_us for start_us, end_us in known) / 1e6 if known else None

    def number(self, time_us: float) -> int | None:
        """Return the step of a time, None between steps; 0 for all where the trace has no steps."""
        if not self.bounds_us:
            return 0
        number = bisect_right(self.bounds_us, time_us, key=lambda bounds: bounds[0]) - 1
        return number if number >= 0 and time_us < self.bounds_us[number][1] else None


def find_steps(events: Sequence[Event]) -> Steps:
    """Return the steps of events in the order of their start."""
    ranges = [event for event in events if event.kind == "range"]
    marked = [(event.start_us, event.end_us) for event in ranges if event.name.startswith(STEP)]
    if marked:
        return Steps(tuple(marked), is_marked=True)
    updates = [event for event in ranges if event.name.startswith(OPTIMIZER)]
    backward_us = [event.start_us for event in events if event.name.startswith(BACKWARD)]
    ends_us: list[float] = []
    last_us = float("-inf")
    for update in updates:
        has_backward = bisect_left(backward_us, update.start_us) > bisect_left(backward_us, last_us)
        if has_backward or not ends_us:
            ends_us.append(update.end_us)
        else:
            ends_us[-1] = max(ends_us[-1], update.end_us)  # another optimizer of the same step
        last_us = update.start_us
    if len(ends_us) < 2:
        return Steps((), is_marked=False)
    starts_us = [events[0].start_us, *ends_us[:-1]]
    return Steps(tuple(zip(starts_us, ends_us, strict=True)), is_marked=False)
