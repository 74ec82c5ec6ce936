"""The network engine on compiled kernels: it connects their tables to events and collectives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any

import numpy as np
import simpy

from clustersim.network.collective import Collective
from clustersim.network.copy_queue import CopyQueue
from clustersim.network.flow import INFINITE, moved_bytes, uncontended_s
from clustersim.network.numba_engine.kernel_state import KernelState
from clustersim.network.numba_engine.tables import ADDING, EACH, IN_LATENCY, NONE
from clustersim.network.paths import BYTES_MOVED_PER_ADDED, Costs
from clustersim.network.progress import (
    NOT_ENTERED,
    Counts,
    EngineRanks,
    FlowRate,
    LinkName,
    MessageInFlight,
    Stuck,
    is_held_back,
    latest,
    waits_for_rank,
)
from clustersim.network.transfer import Sent, SentTogether
from clustersim.topology import Topology

_GROUP = itemgetter(0)  # of a notification
_IN_FLIGHT = ("step", "message", "path", "num_bytes", "bytes_per_s", "stage")
"""The columns of a message in flight that are read."""


class NumbaEngine:
    """Simulates messages and collectives in compiled kernels."""

    def __init__(self, topology: Topology, costs: Costs, adds: bool, skips: bool):
        """With `skips`, repeated steps of collectives are extrapolated (see `lockstep`)."""
        self.kernels = KernelState(topology, costs, adds, skips)
        self.notifications: list[tuple[simpy.Event, Any]] = []
        self.now_s = 0.0
        self.collectives: dict[Collective, EngineRanks] = {}
        self.ranks: dict[Collective, NumbaRanks] = {}  # of those in progress
        self.listeners: dict[int, Callable[[list[int]], None]] = {}  # of each group in progress
        self.eager_bytes = costs.eager_bytes or -1.0  # the largest message that is eager
        self._copy_queues: dict[CopyQueue, int] = {}  # the group of each queue that has sent anything
        self._num_links = len(topology.links)
        self._looks: list[Callable[[float], None]] = []
        self._has_acted = False  # links have been shared for a process that acted, and no callback has seen it
        self._counts_before = Counts(0, 0, 0, 0)

    def begin_with(self, counts: Counts, looks: list[Callable[[float], None]]) -> None:
        """Go on from counts, and call back `looks` after every share."""
        self._counts_before = counts
        self._looks = looks

    @property
    def counts(self) -> Counts:
        clock = self.kernels.clock
        here = (int(clock[name]) for name in ("num_instants", "num_flows", "num_solves", "num_levels"))
        return Counts(*(a + b for a, b in zip(here, self._counts_before, strict=True)))

    @property
    def has_skipped(self) -> bool:
        return bool(self.kernels.clock["num_skips"])

    @property
    def num_flows(self) -> int:
        """Messages in flight, including those that have yet to start."""
        return self.kernels.num_flows

    @property
    def is_stale(self) -> bool:
        """Whether links have to be shared: never here, since they are shared whenever a process acts."""
        return False

    def next_s(self) -> float:
        """Return when the next thing happens, or infinity; never before now."""
        time_s = self.kernels.next_s
        return time_s if time_s > self.now_s else self.now_s

    def play(self, now_s: float, until_s: float) -> None:
        """Simulate what is due now, and on to the next notification, but not to `until_s`."""
        kernels = self.kernels
        if self._has_acted and self._looks:
            until_s = now_s  # the callbacks see the effect of an act before the next thing happens
        reached = kernels.play(now_s, until_s, one_share=bool(self._looks))
        self.now_s = kernels.now_s
        for group, rows in groupby(reached, _GROUP):
            self.listeners[group]([rank for _, rank in rows])
        if kernels.has_shared or self._has_acted:
            self._has_acted = False
            for look in self._looks:
                look(self.now_s)

    def send(self, sent: Sent, src: int, dst: int, cap_bytes_per_s: float | None) -> None:
        """Send a message between nodes, over a private link where it has a cap."""
        path = self.kernels.path_tables.path(src, dst)
        if cap_bytes_per_s is not None:
            path = self.kernels.path_tables.with_cap(path, cap_bytes_per_s)
        self._post(sent, path, 1.0)

    def add(self, sent: Sent, node: int) -> None:
        """Add a gradient in a node's memory."""
        path = self.kernels.path_tables.adding(node, 0)
        self._post(sent, self.kernels.path_tables.empty_path if path == NONE else path, BYTES_MOVED_PER_ADDED)

    def send_together(self, sent: SentTogether, src: np.ndarray, dst: np.ndarray) -> None:
        """Send many messages between nodes [num_messages], each at its time."""
        if not len(src):
            return
        group = self.kernels.begin_messages(len(src))
        paths = self.kernels.path_tables.paths_between(src, dst)
        self.listen_bulk(group, sent)
        numbers = np.arange(len(src))
        self.kernels.send(group, numbers, paths, sent.num_bytes, sent.weight, self.now_s, sent.start_s)

    def send_queued(
        self, queue: CopyQueue, pairs: Sequence[int], num_bytes: Sequence[float], start_s: Sequence[float]
    ) -> None:
        """Send messages [num_messages] over pairs of a queue, each at its time or now where that is past."""
        group, numbers = self.group_of(queue), np.array(pairs)
        paths = self.kernels.path_tables.paths_between(queue.src, queue.dst)[numbers]
        sizes, starts = np.array(num_bytes, dtype=float), np.array(start_s, dtype=float)
        self.kernels.send(group, numbers, paths, sizes, np.ones(len(numbers)), self.now_s, starts)

    def group_of(self, queue: CopyQueue) -> int:
        """Return the group of a queue's messages, with a notification for each."""
        if queue not in self._copy_queues:
            group = self._copy_queues[queue] = self.kernels.begin_messages(len(queue.src), EACH)
            self.listeners[group] = queue.arrived
        return self._copy_queues[queue]

    def cancel(self, sent: Sent) -> float:
        """Take a message out; return the share of its bytes that it has moved."""
        group, flow = sent.carrier
        share = self.kernels.cancel(flow, self.now_s)
        self._has_acted = True
        del self.listeners[group]
        self.kernels.release(group)
        return share

    def set_rate(self, link: int, bytes_per_s: float) -> None:
        """Change the payload rate of a link from now on; what ends at this time had the rate before."""
        if self.kernels.next_s <= latest(self.now_s):
            looks, self._looks = self._looks, []  # no callback sees rates that hold for no time
            self.play(self.now_s, self.now_s)
            self._looks = looks
        self.kernels.set_rate(link, bytes_per_s, self.now_s)
        self._has_acted = True

    def begin(self, collective: Collective) -> NumbaRanks:
        """Prepare the ranks of a collective."""
        group = self.kernels.begin(collective.schedule, collective.nodes, collective.delay_s)
        ranks = self.collectives[collective] = self.ranks[collective] = NumbaRanks(self, collective, group)
        self.listeners[group] = ranks.notify
        return ranks

    def settle(self, collective: Collective, end_s: np.ndarray, links: np.ndarray, carried_bytes: np.ndarray) -> None:
        """Take an uncontended collective to its end, its ranks at their times [num_ranks]."""
        ranks = self.ranks[collective]
        self.kernels.clear()
        self.kernels.links["carried_bytes"][links] += carried_bytes
        ranks.finish(end_s)

    def skip(
        self, collective: Collective, step: int, reached_s: np.ndarray, links: np.ndarray, carried_bytes: np.ndarray
    ) -> None:
        """Take an uncontended collective to a step, which each rank reaches at its time [num_ranks]."""
        self.kernels.clear()
        self.kernels.links["carried_bytes"][links] += carried_bytes
        self.ranks[collective].skip(step, reached_s)

    def carried_bytes(self) -> np.ndarray:
        """Return the bytes that the links of the topology have carried [num_links], in messages that have left them."""
        return self.kernels.links["carried_bytes"][: self._num_links].copy()

    def moving_bytes(self, now_s: float) -> np.ndarray:
        """Return the bytes that the links of the topology have carried by a time [num_links], in messages on them."""
        moving = np.zeros(len(self.kernels.links))
        for row in self.kernels.flows_on_links():
            num_bytes, left_bytes, rate = (float(row[name]) for name in ("num_bytes", "left_bytes", "bytes_per_s"))
            links = self.kernels.path_tables.links_of(int(row["path"]))
            moving[links] += moved_bytes(num_bytes, left_bytes, rate, now_s - float(row["since_s"]))
        return moving[: self._num_links]

    def flows(self) -> list[FlowRate]:
        """Return the flows that are on the links."""
        rows = self.kernels.flows_on_links()
        return [FlowRate(self._numbers(row), float(row["weight"]), float(row["bytes_per_s"])) for row in rows]

    def watch(self, look: Callable[[float], None]) -> None:
        """Call `look(time_s)` after every share of the links from now on."""
        self._looks.append(look)

    def stuck(self, link_name: LinkName) -> list[Stuck]:
        """Return what waits, if nothing can happen any more."""
        if self.notifications or self.next_s() < INFINITE:
            return []
        found = []
        for row in self.kernels.flows_on_links():
            if row["group"] not in {self.ranks[collective].group for collective in self.collectives}:
                what = f"a transfer of {row['num_bytes']:g} bytes {self._where(row, link_name)}"
                found.append(Stuck(None, None, what))
        for collective in self.collectives:
            outside = (Stuck(rank, None, NOT_ENTERED) for rank in collective.awaited_outside())
            found += sorted([*self.ranks[collective].stuck(lambda row: self._where(row, link_name)), *outside])
        return found

    def listen_bulk(self, group: int, sent: SentTogether) -> None:
        """Let the event of many messages fire when all have arrived."""

        def notify(ranks: list[int]) -> None:
            sent.end_s = np.where(np.isnan(sent.end_s), self.kernels.end_s(group), sent.end_s)
            del self.listeners[group]
            self.kernels.release(group)
            sent.over()

        self.listeners[group] = notify

    def listen_one(self, group: int, sent: Sent) -> None:
        """Let the event of a message fire when it has arrived."""

        def notify(ranks: list[int]) -> None:
            del self.listeners[group]
            self.kernels.release(group)
            sent.ended()

        self.listeners[group] = notify

    def _post(self, sent: Sent, path: int, moved_per_byte: float) -> None:
        sent.carrier = self.kernels.send_one(path, sent.num_bytes * moved_per_byte, sent.weight, self.now_s)
        self.listen_one(sent.carrier[0], sent)

    def _numbers(self, flow: np.void) -> tuple[int, ...]:
        """Return the links of a flow, with negative numbers for private ones."""
        links = self.kernels.path_tables.links_of(int(flow["path"])).tolist()
        return tuple(link if link < self._num_links else self._num_links - 1 - link for link in links)

    def _where(self, flow: np.void, link_name: LinkName) -> str:
        links = self.kernels.path_tables.links_of(int(flow["path"]))
        rates = self.kernels.links["bytes_per_s"][links]
        narrowest = int(links[rates.argmin()])
        return f"stands still on the link {link_name(narrowest)}, which has {rates.min():g} bytes/s"


class NumbaRanks:
    """The ranks of a collective, which are rows of the kernels."""

    def __init__(self, engine: NumbaEngine, collective: Collective, group: int):
        self.group = group
        self._engine = engine
        self._kernels = engine.kernels
        self._collective = collective
        self._num_steps = collective.schedule.num_steps
        self._is_over = False
        self._eager_bytes = engine.eager_bytes

    def enter(self, ranks: Sequence[int], times_s: Sequence[float]) -> None:
        """Let ranks enter, each at its time, or now where that is past."""
        self._kernels.enter(self.group, ranks, self._engine.now_s, times_s)

    def step_of(self, rank: int) -> int:
        """Return the step that a rank has reached: -1 before it enters, the number of steps when it is done."""
        return self._num_steps if self._is_over else self._kernels.step_of(self.group, rank)

    def expect(self, rank: int, step: int) -> None:
        """Notify the collective when a rank has reached a step."""
        self._kernels.wait(self.group, rank, step)

    def steps_of(self, ranks: Sequence[int]) -> list[int]:
        """Return the steps that ranks have reached [len(ranks)]."""
        return [self._num_steps] * len(ranks) if self._is_over else self._kernels.steps_of(self.group, ranks)

    def expect_each(self, ranks: Sequence[int], step: int) -> None:
        """Notify the collective when each of some ranks has reached a step."""
        self._kernels.wait_for_all(self.group, ranks, step)

    def columns(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return of each rank the step it has reached, when, and the one in which it sends and receives, or -1."""
        rows = self._kernels.rows_of(self.group)
        return rows["step"].copy(), rows["reached_s"].copy(), rows["at"].copy()

    def in_flight(self) -> list[MessageInFlight]:
        """Return the messages that have started and have not ended."""
        kernels, program, found = self._kernels, self._kernels.program_of(self.group), []
        slots = kernels.slots_of(self.group)
        rows = zip(slots.tolist(), *(kernels.flows[name][slots].tolist() for name in _IN_FLIGHT), strict=True)
        for slot, step, message, path, num_bytes, bytes_per_s, stage in rows:
            end_s, narrowest, is_waiting = kernels.due_s(slot), kernels.narrowest(path), stage == IN_LATENCY
            if is_waiting:
                end_s += uncontended_s(num_bytes, narrowest)
            is_slow = not is_waiting and is_held_back(bytes_per_s, narrowest)
            found.append(MessageInFlight(step, program.number(step, message), end_s, bool(stage == ADDING), is_slow))
        return found

    def notify(self, ranks: list[int]) -> None:
        """Notify the collective that ranks have reached their steps, and if the last entry is -1, that all are done."""
        is_over = ranks[-1] == NONE
        if is_over:
            ranks.pop()
        if len(ranks) == 1:
            self._collective.notify(ranks[0], self.step_of(ranks[0]))
        elif ranks:
            self._collective.notify_each(ranks, self.steps_of(ranks))
        if is_over:
            self.finish(self._kernels.end_s(self.group))

    def finish(self, end_s: np.ndarray) -> None:
        """Tell the collective that all are done, and drop the rows and the collective, to leave no reference cycle."""
        self._is_over = True
        del self._engine.listeners[self.group], self._engine.ranks[self._collective]
        self._kernels.release(self.group)
        self._collective.over(end_s)
        del self._collective

    def skip(self, step: int, reached_s: np.ndarray) -> None:
        """Take all ranks to a step, which they reach at their times [num_ranks], and pause before it."""
        rows, delay_s = self._kernels.rows_of(self.group), self._collective.delay_s
        rows["step"], rows["reached_s"], rows["at"], rows["unfinished"] = step, reached_s, NONE, 0
        until_s = reached_s if delay_s is None else reached_s + delay_s[:, step]
        self._kernels.pause(np.full(len(rows), self.group), np.arange(len(rows)), until_s)

    def message_row(self, step: int, number: int) -> int:
        """Return the row of a message of a step."""
        return self._kernels.program_of(self.group).row(self._collective.schedule, step, number)

    def stuck(self, where: Callable[[np.void], str]) -> list[Stuck]:
        """Return which ranks wait for others to reach their step, or for messages that stand still."""
        steps, _, at_steps = self.columns()
        stalled = {self._place(flow): flow for flow, _ in self._kernels.flows_of(self.group)}
        found = []
        for rank in np.flatnonzero(at_steps >= 0).tolist():
            number = int(at_steps[rank])
            columns = self._collective.schedule.step(number)
            for message in np.flatnonzero((columns.src == rank) | (columns.dst == rank)).tolist():
                src, dst = int(columns.src[message]), int(columns.dst[message])
                other = dst if src == rank else src
                flow = stalled.get((number, message))
                if flow is not None:
                    found.append(Stuck(rank, number, f"waits for {_what(flow, rank, src, dst)}, which {where(flow)}"))
                elif steps[other] < number and not (src == rank and columns.num_bytes[message] <= self._eager_bytes):
                    found.append(Stuck(rank, number, waits_for_rank(other, int(steps[other]))))
        return list(dict.fromkeys(found))

    def _place(self, flow: np.void) -> tuple[int, int]:
        """Return the step of a message, and its number there."""
        step = int(flow["step"])
        return step, self._kernels.program_of(self.group).number(step, int(flow["message"]))


def _what(flow: np.void, rank: int, src: int, dst: int) -> str:
    if flow["stage"] == ADDING:
        return f"the adding of the message from rank {src} to rank {dst}"
    return f"its message to rank {dst}" if rank == src else f"the message from rank {src}"
