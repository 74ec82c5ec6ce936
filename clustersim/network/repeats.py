"""Steps of a collective that repeat each other are multiplied instead of played.

Once a collective is alone on the wire, what comes next follows from what is: where its ranks are, which
messages are on their way, and how far. If all of that is the same at two steps, but for the time and the
steps' numbers, then everything between them happens again and again while the schedule's steps stay the
same and nobody else acts. So the time goes on by whole periods, up to the next event that SimPy has.
"""

from __future__ import annotations

from typing import NamedTuple

from clustersim.network.collective import Collective, Standing
from clustersim.network.engine import Engine
from clustersim.network.flow import INFINITE
from clustersim.network.paths import Paths

_SAME = 1e-12  # times closer than this part of a period are the same
_ROUNDING = 2e-15  # part of the time that has passed by which rounding moves them
_LONGEST_PERIOD = 4  # steps
_FEWEST_PERIODS = 3  # before the next event of SimPy: to find one, to multiply one, and one to spare
_GROWTH = 1.25  # of the steps between two attempts

OnTheWay = list[tuple[int, int, bool, int]]


class _State(NamedTuple):
    """A collective at a step of rank 0: what must repeat, the times that must, and the bytes carried by then."""

    step: int
    now_s: float
    standing: Standing  # steps counted from that of rank 0
    on_the_way: OnTheWay  # step, message, whether it is being added, and the link that holds it back
    times_s: list[float]  # until each of those arrives or ends
    carried_bytes: list[float]  # by each link in use


class Repeats:
    """Looks for periods at growing distances, so that where there is none it costs little."""

    def __init__(self, engine: Engine, paths: Paths):
        self.num_steps = 0  # that were multiplied instead of played
        self._engine = engine
        self._paths = paths
        self._collective: Collective | None = None
        self._base: _State | None = None
        self._next_step = 1
        self._looked_s = 0.0

    def forget(self) -> None:
        """Begin anew, since somebody has acted."""
        self._base = None
        self._next_step = 1

    def look(self, until_s: float) -> None:
        """After an instant in which a rank 0 has reached a step: go on by as many periods as end before then."""
        collective, self._engine.stepped = self._engine.stepped, None
        if not isinstance(collective, Collective):
            return
        if collective is not self._collective:
            self._collective = collective
            self.forget()
        step, since_s = collective.reached_steps[0], self._looked_s
        self._looked_s = now_s = self._engine.now_s
        if self._base is None:
            if step >= self._next_step and until_s - now_s > _FEWEST_PERIODS * (now_s - since_s):
                self._next_step = int(step * _GROWTH) + 1
                self._base = self._state(collective) if collective.may_repeat(step) else None
            return
        base, state = self._base, self._state(collective)
        if state is not None and _are_same(base, state):
            self._base = None
            self._go_on(collective, base, state, until_s)
        elif state is None or step - base.step >= _LONGEST_PERIOD:
            self._base = None

    def _state(self, collective: Collective) -> _State | None:
        """Return how things stand, if nobody else has anything on the wire."""
        engine, step = self._engine, collective.reached_steps[0]
        rows: list[tuple[int, int, bool, int, float]] = []
        for time_s, flow in engine.on_the_way():
            place = collective.place(flow)
            if place is None:
                return None
            held_back = -1 if flow.bottleneck is None else flow.bottleneck.number
            rows.append((place[0] - step, flow.message, place[1], held_back, time_s - engine.now_s))
        if engine.is_pausing:
            return None
        rows.sort()
        reached_steps, unfinished, arrived = collective.standing()
        return _State(
            step,
            engine.now_s,
            ([reached - step for reached in reached_steps], unfinished, arrived),
            [row[:4] for row in rows],
            [row[4] for row in rows],
            [link.carried_bytes for link in self._paths.links.values()],
        )

    def _go_on(self, collective: Collective, base: _State, state: _State, until_s: float) -> None:
        """Multiply the steps between two states, if at least one such period fits in."""
        steps, seconds = state.step - base.step, state.now_s - base.now_s
        num = collective.most_repeats(steps)
        if until_s < INFINITE:
            num = min(num, int((until_s - state.now_s) / seconds) - 1) if seconds > 0 else 0
        num = collective.num_alike(min(base.standing[0]) + base.step, num * steps) // steps if num > 0 else 0
        if num < 1:
            return
        self._engine.shift(num * seconds)
        collective.shift(num * steps)
        for link, before, after in zip(
            self._paths.links.values(), base.carried_bytes, state.carried_bytes, strict=True
        ):
            link.carried_bytes += num * (after - before)
        self.num_steps += num * steps
        self._next_step = collective.reached_steps[0] + 1


def _are_same(one: _State, other: _State) -> bool:
    if one.standing != other.standing or one.on_the_way != other.on_the_way:
        return False
    if len(one.carried_bytes) != len(other.carried_bytes):
        return False
    margin_s = _SAME * (other.now_s - one.now_s) + _ROUNDING * abs(other.now_s)
    return all(abs(a - b) <= margin_s for a, b in zip(one.times_s, other.times_s, strict=True))
