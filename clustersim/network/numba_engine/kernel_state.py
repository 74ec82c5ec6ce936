"""The state of the compiled kernels, with methods that call them: begin, enter, send and play."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from clustersim.collectives.schedule import Schedule
from clustersim.network.numba_engine import instants
from clustersim.network.numba_engine.lockstep import MOST_NOTED
from clustersim.network.numba_engine.memory import Blocks, Memory
from clustersim.network.numba_engine.schedules import CompiledSchedule, CompiledSchedules, PathTables
from clustersim.network.numba_engine.tables import ALL, GROUP, IN_LATENCY, NONE, RANK, Growth, Pool
from clustersim.network.paths import Costs
from clustersim.topology import Topology

_MOST_INSTANTS = 200_000  # in one call, which Ctrl-C cannot interrupt


class KernelState:
    """Simulates groups: collectives, and messages that belong to none. A group is identified by its row."""

    def __init__(self, topology: Topology, costs: Costs, adds: bool, skips: bool):
        self._skips = skips  # whether repeated steps are extrapolated
        growth = self._growth = Growth()
        self.path_tables = PathTables(topology, costs, growth)
        self.programs = CompiledSchedules(self.path_tables, adds, costs.eager_bytes, growth)
        self._delays = Pool(np.dtype(np.float64), growth)
        self._early = Blocks(np.dtype(np.int64), growth) if costs.eager_bytes > 0 else None
        self._ranks = Blocks(RANK, growth)
        self._columns_of: np.ndarray | None = None
        self._columns: dict[str, np.ndarray] = {}
        self._groups = Blocks(GROUP, growth)
        self._most_flows: dict[int, int] = {}  # of each collective in progress
        self._programs: dict[int, CompiledSchedule] = {}  # of each collective in progress
        self._first_rank: dict[int, int] = {}  # row of each group's; not of messages that are groups by themselves
        self._rank_of: dict[int, int] = {}  # row of each message that is a group by itself
        self._narrowest: dict[int, float] = {}  # rates of paths, as far as they were asked for
        self._idle: list[tuple[int, int]] = []  # groups and ranks of such messages that have ended
        self._num_flows = 0  # at most
        self.has_shared = False  # whether links were shared in the last call of `play`
        self._memory = Memory()
        self._state = self._memory.state
        self.now_s = 0.0  # up to which it has simulated
        self.next_s = np.inf
        self._refresh()

    @property
    def clock(self) -> np.ndarray:
        """The row of the clock, with its counts."""
        return self._state[0]

    @property
    def links(self) -> np.ndarray:
        return self.path_tables.links.array[: self.path_tables.links.num_rows]

    @property
    def ranks(self) -> np.ndarray:
        return self._ranks.array

    @property
    def groups(self) -> np.ndarray:
        return self._groups.array

    def _column(self, name: str) -> np.ndarray:
        """Return a column of the ranks. It is cached, since finding it is slow; growth makes new columns."""
        array = self._ranks.array
        if array is not self._columns_of:
            self._columns_of = array
            self._columns = {each: array[each] for each in RANK.names or ()}
        return self._columns[name]

    def begin(self, schedule: Schedule, nodes: np.ndarray, delay_s: np.ndarray | None = None) -> int:
        """Prepare a collective between nodes [num_ranks], with pauses [num_ranks, num_steps]; return its group."""
        program = self.programs.program(schedule, nodes)
        if delay_s is None:
            delays = NONE
        else:
            if not self._most_flows:
                self._delays.num_rows = 0  # no pauses are in use
            delays = self._delays.add(np.ascontiguousarray(delay_s, dtype=float).ravel())
        early, num_early = 0, 0
        if self._early is not None:
            num_early = program.num_messages
            early = self._early.take(num_early)
            self._early.array[early : early + num_early] = 0
        own = program.first_step, delays, program.first_message, num_early, early
        group = self._add_group(schedule.num_ranks, schedule.num_steps, program.most_flows, own)
        self._programs[group] = program
        return group

    def begin_messages(self, num_messages: int, ends: int = ALL) -> int:
        """Prepare messages of no collective, with one notification for `ALL` or one for `EACH`; return their group."""
        return self._add_group(num_messages, ends, num_messages, (0, NONE, 0, 0, 0))

    def enter(self, group: int, ranks: Sequence[int], now_s: float, times_s: Sequence[float]) -> None:
        """Let ranks enter, each at its time, or now where that is past."""
        self._refresh()
        first = self._first_rank[group]
        rows = np.array([first + rank for rank in ranks], dtype=np.int64)
        instants.enter(self._state, now_s, rows, np.array(times_s, dtype=float))
        self.next_s = now_s

    def wait(self, group: int, rank: int, step: int) -> None:
        """Notify when a rank has reached a step; nearer steps come first."""
        row, awaited = self._first_rank[group] + rank, self._column("awaited")
        if step < awaited.item(row):
            awaited[row] = step

    def wait_for_all(self, group: int, ranks: Sequence[int], step: int) -> None:
        """Notify when each of some ranks has reached a step; nearer steps come first."""
        if len(ranks) == 1:
            self.wait(group, ranks[0], step)
            return
        rows, awaited = np.array(ranks) + self._first_rank[group], self._column("awaited")
        awaited[rows] = np.minimum(awaited[rows], step)

    def step_of(self, group: int, rank: int) -> int:
        """Return the step that a rank has reached."""
        found: int = self._column("step").item(self._first_rank[group] + rank)
        return found

    def steps_of(self, group: int, ranks: Sequence[int]) -> list[int]:
        """Return the steps that ranks have reached [len(ranks)]."""
        found: list[int] = self._column("step")[np.array(ranks, dtype=np.int64) + self._first_rank[group]].tolist()
        return found

    def send(
        self,
        group: int,
        numbers: np.ndarray,
        paths: np.ndarray,
        num_bytes: np.ndarray,
        weight: np.ndarray,
        now_s: float,
        start_s: np.ndarray,
    ) -> None:
        """Send messages of a group, each at its time."""
        self._refresh()
        arrives_s = instants.send(self._state, now_s, group, numbers, paths, num_bytes, weight, start_s)
        if arrives_s < self.next_s:
            self.next_s = arrives_s

    def send_one(self, path: int, num_bytes: float, weight: float, now_s: float) -> tuple[int, int]:
        """Send a message; return its group and its flow."""
        group, rank = self._idle.pop() if self._idle else (self._groups.take(1), self._ranks.take(1))
        self._rank_of[group] = rank
        self._expect_flows(1)
        self._refresh()
        flow, arrives_s = instants.send_one(self._state, now_s, group, rank, path, num_bytes, weight)
        if arrives_s < self.next_s:
            self.next_s = arrives_s
        return group, flow

    def cancel(self, flow: int, now_s: float) -> float:
        """Cancel a message in flight; return the share of it that has been moved."""
        self._refresh()
        share_moved = instants.cancel(self._state, now_s, flow)
        self.next_s = now_s
        return float(share_moved)

    def set_rate(self, link: int, bytes_per_s: float, now_s: float) -> None:
        """Change the rate of a link from now on."""
        self._refresh()
        instants.set_rate(self._state, now_s, link, bytes_per_s)
        self._narrowest.clear()
        self.next_s = now_s

    def play(self, now_s: float, until_s: float, one_share: bool = False) -> list[tuple[int, int]]:
        """Simulate what is due now, and on to the next notification, but not to `until_s`, or one instant only.

        Return the notifications: groups, and the rank of each that has reached an awaited step, or -1 where all of a
        group is done.
        """
        self._refresh()
        most = 1 if one_share else _MOST_INSTANTS
        self.now_s, self.next_s, num_notifications, self.has_shared = instants.play(
            self._state, now_s, until_s, most, self._skips
        )
        return self._memory["notifications"][:num_notifications].tolist() if num_notifications else []

    def pause(self, groups: np.ndarray, ranks: np.ndarray, times_s: np.ndarray) -> None:
        """Let ranks of groups go on at their times, until which they pause."""
        self._refresh()
        instants.pause(self._state, self.groups["first_rank"][groups] + ranks, times_s)
        self.next_s = min(self.next_s, float(times_s.min()))

    @property
    def flows(self) -> np.ndarray:
        return self._memory["flows"]

    def take_flows(self, num_flows: int) -> np.ndarray:
        """Return the rows of new flows."""
        self._refresh()
        self._state["num_free"] -= num_flows
        num_free = int(self._state["num_free"][0])
        return self._memory["free"][num_free : num_free + num_flows].copy()

    def adopt(
        self, flows: np.ndarray, due_s: np.ndarray, since_s: np.ndarray, links: np.ndarray, rates: np.ndarray
    ) -> None:
        """Go on with flows that the other engine has begun, and counted (see `instants.adopt`)."""
        num_flows = self._state["num_flows"].copy()
        self._refresh()
        instants.adopt(self._state, flows, due_s, since_s, links, rates)
        self._state["num_flows"] = num_flows
        self.next_s = min(self.next_s, float(due_s.min(initial=np.inf)))

    def end_s(self, group: int) -> np.ndarray:
        """Return when each rank of a group was done, or each message had ended [num_ranks]."""
        return self.rows_of(group)["reached_s"].copy()

    def rows_of(self, group: int) -> np.ndarray:
        """Return the ranks of a group [num_ranks]."""
        first = self._first_rank[group]
        return self.ranks[first : first + self.groups["num_ranks"].item(group)]

    @property
    def num_flows(self) -> int:
        """Messages that have been sent and have not ended."""
        return len(self._memory["flows"]) - int(self._state["num_free"][0])

    def flows_on_links(self) -> np.ndarray:
        """Return the flows that are on links, of which some may not move."""
        flows = self._memory["flows"]
        return flows[self._in_use() & (flows["stage"] != IN_LATENCY)]

    def flows_of(self, group: int) -> list[tuple[np.void, float]]:
        """Return the flows of a group, each with the time when it ends or reaches its links."""
        flows = self._memory["flows"]
        return [(flows[slot], self._memory.due_s(slot)) for slot in self.slots_of(group).tolist()]

    def slots_of(self, group: int) -> np.ndarray:
        """Return the rows of the flows of a group."""
        return np.flatnonzero(self._in_use() & (self._memory["flows"]["group"] == group))

    def due_s(self, flow: int) -> float:
        """Return when a flow ends or reaches its links."""
        return self._memory.due_s(flow)

    def narrowest(self, path: int) -> float:
        """Return the rate of the narrowest link of a path, infinite where it has none."""
        if path not in self._narrowest:
            rates = self.links["bytes_per_s"][self.path_tables.links_of(path)]
            self._narrowest[path] = float(rates.min(initial=np.inf))
        return self._narrowest[path]

    def program_of(self, group: int) -> CompiledSchedule:
        """Return the compiled schedule of a collective in progress."""
        return self._programs[group]

    def clear(self) -> None:
        """Remove all messages and pauses: nothing is due any more."""
        self._refresh()
        self._memory.clear()
        self.next_s = np.inf

    def _in_use(self) -> np.ndarray:
        is_used = np.ones(len(self._memory["flows"]), dtype=bool)
        is_used[self._memory["free"][: int(self._state["num_free"][0])]] = False
        return is_used

    def release(self, group: int) -> None:
        """Release a group that is done."""
        rank = self._rank_of.pop(group, None)
        if rank is not None:
            self._idle.append((group, rank))
            self._num_flows -= 1
            return
        groups = self.groups
        self._ranks.release(self._first_rank.pop(group), groups["num_ranks"].item(group))
        if self._early is not None and (num_messages := groups["num_messages"].item(group)):
            self._early.release(groups["early"].item(group), num_messages)
        self._groups.release(group, 1)
        self._programs.pop(group, None)
        self._num_flows -= self._most_flows.pop(group)

    def _add_group(self, num_ranks: int, num_steps: int, most_flows: int, own: tuple[int, int, int, int, int]) -> int:
        """Add a group whose ranks have not begun; `own` are its last columns, from `steps` on."""
        group, first_rank = self._groups.take(1), self._ranks.take(num_ranks)
        self._first_rank[group] = first_rank
        self._most_flows[group] = most_flows
        self._expect_flows(most_flows)
        self._refresh()
        instants.begin(self._state, group, first_rank, num_ranks, num_steps, *own)
        return group

    def _expect_flows(self, num_flows: int) -> None:
        self._num_flows += num_flows
        if self._num_flows > len(self._memory["flows"]):
            self._growth.has_been = True

    def _refresh(self) -> None:
        """Take over arrays that have grown, and make room for all flows that there may be."""
        if not self._growth.has_been:
            return
        self._growth.has_been = False
        programs, path_tables, memory = self.programs, self.path_tables, self._memory
        memory.set(
            links=path_tables.links.array,
            paths=path_tables.paths.array,
            path_links=path_tables.path_links.array,
            messages=programs.messages.array,
            own=programs.own.array,
            own_first=programs.own_first.array,
            steps=programs.steps.array,
            delays=self._delays.array,
            **({} if self._early is None else {"early": self._early.array}),
            ranks=self.ranks,
            groups=self.groups,
        )
        memory.reserve("notifications", len(self.ranks) + len(self.groups))
        memory.reserve("in_lockstep", len(self.groups))
        memory.reserve("noted", MOST_NOTED)
        memory.reserve("left", len(path_tables.links.array))
        memory.reserve("tried", len(path_tables.links.array))
        memory.reserve_heap("full", len(path_tables.links.array))
        memory.reserve_heap("pauses", len(self.ranks))
        memory.reserve_flows(self._num_flows, path_tables.longest)
        self._state["num_lanes"] = path_tables.num_lanes
