"""The outline of a schedule between nodes: all that is known of it before ranks enter."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from clustersim.collectives.schedule import Schedule, Step
from clustersim.network.uncontended.shared_links import risky_links
from clustersim.network.uncontended.step import UncontendedStep, UncontendedSteps

_MOST_MESSAGES = 1 << 20  # in steps that differ; with more, an outline saves no time


class StepRange(NamedTuple):
    """Consecutive equal steps, from the first to before `end`."""

    step: UncontendedStep
    first: int
    end: int


@dataclass(frozen=True, eq=False)
class ScheduleOutline:
    """The ranges of equal steps of a schedule, and the links that it uses.

    In the steps, links have their place among those in use: first `links`, which has the topology's numbers, then
    the ranks' cores and connections. `risky` [num_used] are those on which messages may hold one another back.
    """

    num_ranks: int
    stretches: list[StepRange]
    steps: list[UncontendedStep]
    links: np.ndarray
    risky: np.ndarray

    @property
    def num_messages(self) -> int:
        """The messages of the outline: equal steps count once."""
        return sum(len(step.src) for step in self.steps)

    @cached_property
    def moves(self) -> bool:
        """Whether every message moves: none crosses a link of rate 0."""
        return all(bool(np.isfinite(step.wire_s).all() and np.isfinite(step.adding_s).all()) for step in self.steps)

    def from_step(self, step: int) -> Iterator[StepRange]:
        """Yield the ranges of steps from a step on."""
        for stretch in self.stretches:
            if stretch.end > step:
                yield stretch._replace(first=max(step, stretch.first))

    def carried_bytes(self, step: int) -> np.ndarray:
        """Return what each link carries from a step to the end [num_used]."""
        if step == 0:
            return self._carried_bytes.copy()
        carried = np.zeros(len(self.risky))
        for stretch in self.from_step(step):
            carried += (stretch.end - stretch.first) * self._of_step(stretch.step)
        return carried

    @cached_property
    def _carried_bytes(self) -> np.ndarray:
        carried = np.zeros(len(self.risky))
        for step in self.steps:
            times = sum(stretch.end - stretch.first for stretch in self.stretches if stretch.step is step)
            np.add.at(carried, step.uses.link, times * step.carried_bytes)
        return carried

    def _of_step(self, step: UncontendedStep) -> np.ndarray:
        return np.bincount(step.uses.link, step.carried_bytes, len(self.risky))


def outline(schedule: Schedule, nodes: np.ndarray, maker: UncontendedSteps) -> ScheduleOutline | None:
    """Return the outline of a schedule among nodes [num_ranks], or None if too many of its steps differ."""
    runs = schedule.runs
    if runs is not None and runs.num_changed() > _MOST_MESSAGES:
        return None
    found: dict[Hashable, UncontendedStep] = {}
    by_pattern: dict[Hashable, UncontendedStep] = {}
    stretches: list[StepRange] = []
    num_messages, relayed_s = 0, maker.step_wait_s(schedule, nodes)
    routes = None if runs is None else maker.message_routes(runs.columns, nodes, relayed_s)
    for number in range(schedule.num_steps):
        pattern = schedule.pattern(number)
        step = by_pattern.get(pattern)
        if step is None:
            columns = schedule.step(number)
            key = _content(columns, maker.adds)
            if key not in found:
                num_messages += len(columns.src)
                if num_messages > _MOST_MESSAGES:
                    return None
                if runs is not None and routes is not None:
                    found[key] = maker.step(columns, nodes, routes.take(np.flatnonzero(runs.active(number))))
                else:
                    found[key] = maker.step(columns, nodes, maker.message_routes(columns, nodes, relayed_s))
            step = by_pattern[pattern] = found[key]
        if stretches and stretches[-1].step is step:
            stretches[-1] = stretches[-1]._replace(end=number + 1)
        else:
            stretches.append(StepRange(step, number, number + 1))
    return _with_own_numbers(stretches, list(found.values()), nodes, maker)


def _content(columns: Step, adds: bool) -> Hashable:
    """Return a key that is the same for equal steps."""
    kept = [columns.src, columns.dst, columns.num_bytes, *([columns.reduce] if adds else [])]
    return tuple(column.tobytes() for column in kept)


def _with_own_numbers(
    stretches: list[StepRange], steps: list[UncontendedStep], nodes: np.ndarray, maker: UncontendedSteps
) -> ScheduleOutline:
    """Renumber the links: a cluster may have 200,000, and a collective may use ten."""
    used, place = np.unique(
        np.concatenate([np.empty(0, dtype=np.int64), *(step.uses.link for step in steps)]), return_inverse=True
    )
    own, start = {}, 0
    for step in steps:
        link = place[start : start + len(step.uses.link)]
        own[step] = replace(step, uses=step.uses._replace(link=link))
        start += len(link)
    bytes_per_s = maker.own_bytes_per_s(used, nodes)
    renamed = [stretch._replace(step=own[stretch.step]) for stretch in stretches]
    kept = list(own.values())
    return ScheduleOutline(len(nodes), renamed, kept, used[used < maker.num_links], risky_links(kept, bytes_per_s))
