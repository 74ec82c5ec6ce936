"""Lower bound of an iteration from its program: each operation starts as soon as those before it in the program allow.

One rank of each stage runs the program that is simulated. Its collectives and messages take their minimum times, and
compute is slowed while collectives occupy multiprocessors. Other ranks, contention and hosts can only delay it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf

from clustersim.communicator.sm_share import SM_COLLECTIVES
from clustersim.parallelism import REPLICATE_GROUP, SHARD_GROUP, ModelLayout
from clustersim.parallelism.plan import REPLICAS, StagePlan
from clustersim.planner.layout_costs import LayoutCosts, point_of
from clustersim.planner.links import Group
from clustersim.planner.space import Choice
from clustersim.program.ops import Call, Compute, Copy, HostUpdate, Key, Op, Ready, Receive, Send, Wait
from clustersim.simulate import Workloads
from clustersim.simulate.setup import Setup

_OF_ALGORITHM = (REPLICAS, "data", SHARD_GROUP, REPLICATE_GROUP)
"""Axes whose collectives use the algorithm of the strategy."""


def played_s(costs: LayoutCosts, choice: Choice, workloads: Workloads) -> tuple[float, float]:
    """Return a bound of the iteration time of a choice in seconds, and what is expected.

    It is when the first stage has ended its iteration. For what is expected, groups that share links use them at once.
    Both are 0 if each rank has the whole model and no program, or if no minimum times are known.
    """
    if not costs.links.has_bounds:
        return 0.0, 0.0
    laid_out = Setup(point_of(costs.point, choice), workloads).laid_out
    if laid_out is None or laid_out.grid.tiled:
        return 0.0, 0.0
    ops = [tuple(plan.program.ops()) for plan in laid_out.plans]
    return _end_s(costs, choice, laid_out, ops, False), _end_s(costs, choice, laid_out, ops, True)


def _end_s(
    costs: LayoutCosts, choice: Choice, laid_out: ModelLayout, ops: Sequence[Sequence[Op]], shares: bool
) -> float:
    stages = [_Stage(costs, choice, stage, laid_out, own, shares) for stage, own in enumerate(ops)]
    arrivals: dict[tuple[int, Key], float] = {}
    ready = list(stages)
    while ready:
        ready += [stages[receiver] for receiver in ready.pop().run(arrivals)]
    assert all(stage.is_done for stage in stages)
    return stages[0].updated_s()


class _Stage:
    """Runs the program of one rank of a stage.

    The first stage starts at 0 s. Another one may have done what it does before its first message at any time before.
    With `shares`, collectives of a stage's groups last as long as their common links need for all of them.
    """

    def __init__(
        self,
        costs: LayoutCosts,
        choice: Choice,
        stage: int,
        laid_out: ModelLayout,
        ops: Iterable[Op],
        shares: bool,
    ):
        self._costs, self._choice, self._stage, self._grid = costs, choice, stage, laid_out.grid
        self._shares = shares
        self._plan: StagePlan = laid_out.plans[stage]
        self._algorithm = str(getattr(costs.strategy(choice), "algorithm", "auto"))
        self._ops = iter(ops)
        self._next: Op | None = next(self._ops, None)
        self._now_s = 0.0 if not stage else -inf
        self._done_s: dict[Key, float] = {}
        self._ends_s: dict[object, float] = {}  # of the last collective along an axis, or copy in a direction
        self._occupied: list[tuple[float, float, float]] = []  # start, end, share of multiprocessors
        self._calls: dict[tuple[str, str, float], tuple[float, float]] = {}  # of axis, operation, bytes

    @property
    def is_done(self) -> bool:
        return self._next is None

    def run(self, arrivals: dict[tuple[int, Key], float]) -> Iterable[int]:
        """Run until a message is missing; return the stages to which messages were sent."""
        receivers: dict[int, None] = {}
        while (op := self._next) is not None:
            if isinstance(op, Compute):
                self._compute(op.seconds)
            elif isinstance(op, Call):
                self._call(op)
            elif isinstance(op, Wait):
                self._now_s = max(self._now_s, self._done_s[op.key])
            elif isinstance(op, Receive):
                if (self._stage, op.key) not in arrivals:
                    break
                self._now_s = max(self._now_s, arrivals[self._stage, op.key])
            elif isinstance(op, Send):
                arrivals[op.stage, op.key] = self._now_s + self._message_s(op)
                receivers[op.stage] = None
            elif isinstance(op, Copy):
                seconds = self._costs.links.copy_s(op.to_host, op.num_bytes)
                self._begin(op.key, op.to_host, op.after, seconds)
            elif isinstance(op, HostUpdate):
                self._begin(op.key, op.key, op.after, self._costs.in_host_memory_s(op.moved_bytes))
            elif isinstance(op, Ready):
                self._exchange(op.bucket)
            self._next = next(self._ops, None)
        return receivers

    def updated_s(self) -> float:
        """Return when all buckets are exchanged and the update is done."""
        end_s = max(self._now_s, self._ends_s.get("buckets", 0.0), self._busy_until_s())
        self._now_s = end_s
        self._compute(self._plan.iteration.update_s)
        return self._now_s

    def _compute(self, seconds: float) -> None:
        """Compute for some seconds at full speed, slower while multiprocessors are occupied."""
        now_s = self._now_s
        if not self._occupied or now_s == -inf:
            self._now_s = now_s + seconds
            return
        self._occupied = [each for each in self._occupied if each[1] > now_s]
        while True:
            speed = max(0.0, 1.0 - sum(share for start_s, end_s, share in self._occupied if start_s <= now_s < end_s))
            times_s = (time_s for start_s, end_s, _ in self._occupied for time_s in (start_s, end_s) if time_s > now_s)
            change_s = min(times_s, default=inf)
            if speed and now_s + seconds / speed <= change_s:
                self._now_s = now_s + seconds / speed
                return
            seconds -= speed * (change_s - now_s)
            now_s = change_s

    def _call(self, op: Call) -> None:
        """Begin a collective after the previous one along its axis."""
        seconds = share = 0.0
        if not op.has_root and op.token_route is None:
            key = op.axis, op.op, op.num_bytes
            if key not in self._calls:
                self._calls[key] = self._call_s(op)
            seconds, share = self._calls[key]
        start_s, end_s = self._begin(op.key, op.axis, op.after, seconds)
        if share:
            self._occupied.append((start_s, end_s, share))

    def _call_s(self, op: Call) -> tuple[float, float]:
        """Return the time of a collective, and the share of multiprocessors that it takes from compute."""
        groups, links, share = self._groups(op.axis), self._costs.links, 0.0
        algorithm = self._algorithm if op.axis in _OF_ALGORITHM and op.op != "all-to-all" else "auto"
        seconds = links.collective_s(op.op, algorithm, groups, op.num_bytes)
        if self._shares:
            seconds = max(seconds, links.concurrent_s(op.op, algorithm, groups, op.num_bytes))
        if op.axis != "tensor" and op.op in SM_COLLECTIVES:
            share = links.sm_share(op.op, algorithm, groups, op.num_bytes)
        return seconds, share

    def _begin(self, key: Key, queue: object, after: Key | None, seconds: float) -> tuple[float, float]:
        """Begin what takes some seconds after the end of the last in a queue; return its start and its end."""
        start_s = max(self._now_s, self._ends_s.get(queue, -inf), -inf if after is None else self._done_s[after])
        self._done_s[key] = self._ends_s[queue] = start_s + seconds
        return start_s, start_s + seconds

    def _exchange(self, bucket: int) -> None:
        """Exchange a bucket that is ready now, after those before it."""
        num_bytes = self._plan.iteration.buckets[bucket].num_bytes
        groups, links = self._groups(REPLICAS), self._costs.links
        start_s = max(self._now_s, self._ends_s.get("buckets", -inf))
        end_s = start_s + links.collective_s("all-reduce", self._algorithm, groups, num_bytes)
        self._ends_s["buckets"] = end_s
        if self._costs.point.strategy.overlaps_backward:
            share = links.sm_share("all-reduce", self._algorithm, groups, num_bytes)
            self._occupied.append((start_s, end_s, share))
        busy_s = max(self._now_s, self._busy_until_s())
        self._ends_s["links"] = busy_s + links.concurrent_s("all-reduce", self._algorithm, groups, num_bytes)

    def _busy_until_s(self) -> float:
        """Return when the links have carried the buckets of all groups so far."""
        return self._ends_s.get("links", -inf)

    def _groups(self, axis: str) -> tuple[Group, ...]:
        return self._costs.program_groups(self._grid, axis, self._stage)

    def _message_s(self, op: Send) -> float:
        return self._costs.links.message_s(self._costs.ways(self._grid, self._stage, op.stage), op.num_bytes)
