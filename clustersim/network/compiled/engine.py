"""The compiled engine as Python sees it: begin, enter, send, and play up to what somebody waits for."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from clustersim.collectives.schedule import Schedule
from clustersim.network.compiled import instants
from clustersim.network.compiled.heap import ABSENT, ENTRY
from clustersim.network.compiled.programs import Programs, Wiring
from clustersim.network.compiled.tables import (
    GROUP,
    LANE,
    NEVER,
    NONE,
    NUM_LANES,
    RANK,
    SEAT,
    STATE,
    TABLES,
    Growth,
    Pool,
    grown,
)
from clustersim.network.paths import Costs
from clustersim.topology import Topology

_HEAPS = ("due", "pauses", "full")
_MOST_INSTANTS = 200_000  # in one call, which Ctrl-C cannot interrupt


class Told(NamedTuple):
    """A rank of a group has come to a step that was waited for; rank -1: the whole group is done."""

    group: int
    rank: int


class CompiledEngine:
    """Plays groups: collectives, and messages that belong to none. A group is known by its row."""

    def __init__(self, topology: Topology, costs: Costs, adds: bool):
        growth = self._growth = Growth()
        self.wiring = Wiring(topology, costs, growth)
        self.programs = Programs(self.wiring, adds, costs.eager_bytes, growth)
        self._delays = Pool(np.dtype(np.float64), growth)
        self._early = Blocks(np.dtype(np.int64), growth) if costs.eager_bytes > 0 else None
        self._ranks = Blocks(RANK, growth)
        self._groups = Blocks(GROUP, growth)
        self._most_flows: dict[int, int] = {}  # of each collective in progress
        self._num_flows = 0  # that there may be
        self._memory = _Memory()
        self._state = self._memory.state
        self.next_s = np.inf
        self._refresh()

    @property
    def now_s(self) -> float:
        return float(self._state["now_s"][0])

    @property
    def clock(self) -> np.ndarray:
        """The row of the clock, with its counts."""
        return self._state[0]

    @property
    def links(self) -> np.ndarray:
        return self.wiring.links.array[: self.wiring.links.num_rows]

    @property
    def ranks(self) -> np.ndarray:
        return self._ranks.array

    @property
    def groups(self) -> np.ndarray:
        return self._groups.array

    def begin(self, schedule: Schedule, nodes: np.ndarray, delay_s: np.ndarray | None = None) -> int:
        """Prepare a collective between nodes [num_ranks], with pauses [num_ranks, num_steps]; return its group."""
        program = self.programs.program(schedule, nodes)
        if delay_s is None:
            delays = NONE
        else:
            if not self._most_flows:
                self._delays.num_rows = 0  # nobody's pauses are left in it
            delays = self._delays.add(np.ascontiguousarray(delay_s, dtype=float).ravel())
        group = self._add_group(schedule.num_ranks, schedule.num_steps, program.most_flows)
        row = self.groups[group]
        row["steps"], row["delays"], row["first_message"] = program.first_step, delays, program.first_message
        if self._early is not None:
            row["early"], row["num_messages"] = self._early.take(program.num_messages), program.num_messages
        return group

    def begin_messages(self, num_messages: int) -> int:
        """Prepare messages that belong to no collective; return their group."""
        return self._add_group(num_messages, NONE, num_messages)

    def enter(self, group: int, ranks: np.ndarray, now_s: float, times_s: np.ndarray | None = None) -> None:
        """Let ranks take part, now or each from its time on."""
        self._refresh()
        rows = self.groups[group]["first_rank"] + ranks
        instants.enter(self._state, now_s, rows, np.full(len(rows), now_s) if times_s is None else times_s)
        self.next_s = now_s

    def wait(self, group: int, rank: int, step: int) -> None:
        """Tell when a rank has come to a step; nearer steps are told first."""
        row = self.ranks[self.groups[group]["first_rank"] + rank :][:1]
        row["awaited"] = min(int(row["awaited"][0]), step)

    def step_of(self, group: int, rank: int) -> int:
        """Return the step to which a rank has come."""
        return int(self.ranks[self.groups[group]["first_rank"] + rank]["step"])

    def send(
        self,
        group: int,
        paths: np.ndarray,
        num_bytes: np.ndarray,
        weight: np.ndarray,
        now_s: float,
        start_s: np.ndarray | None = None,
    ) -> int:
        """Send the messages of a group, each from its time on; return the flow of the last one."""
        starts = np.full(len(paths), now_s) if start_s is None else start_s
        self._refresh()
        flow = instants.send(self._state, now_s, group, paths, num_bytes, weight, starts)
        self.next_s = now_s
        return int(flow)

    def send_one(self, path: int, num_bytes: float, weight: float, now_s: float) -> tuple[int, int]:
        """Send a message; return its group and its flow."""
        group, rank = self._groups.take(1), self._ranks.take(1)
        self._most_flows[group] = 1
        self._expect_flows(1)
        self._refresh()
        flow = instants.send_one(self._state, now_s, group, rank, path, num_bytes, weight)
        self.next_s = now_s
        return group, int(flow)

    def cancel(self, flow: int, now_s: float) -> float:
        """Call off a message that is on its way; return the bytes that it has moved."""
        moved_bytes = instants.cancel(self._state, now_s, flow)
        self.next_s = now_s
        return float(moved_bytes)

    def set_rate(self, link: int, bytes_per_s: float, now_s: float) -> None:
        """Let a link be faster or slower from now on."""
        instants.set_rate(self._state, now_s, link, bytes_per_s)
        self.next_s = now_s

    def play(self, now_s: float, until_s: float) -> list[Told]:
        """Play what is due now, and on up to something to tell, but not to `until_s`; return what there is to tell."""
        while True:
            self.next_s = float(instants.play(self._state, now_s, until_s, _MOST_INSTANTS))
            told = self._take_told()
            if told or self.next_s >= until_s or self.next_s == np.inf:
                return told
            now_s = self.now_s

    def play_shares(self, now_s: float, until_s: float) -> list[Told]:
        """Play like `play`, but one instant only."""
        self.next_s = float(instants.play(self._state, now_s, until_s, 0))
        return self._take_told()

    def end_s(self, group: int) -> np.ndarray:
        """Return when each rank of a group had done its part, or each message had ended [num_ranks]."""
        row = self.groups[group]
        return np.array(self.ranks["end_s"][row["first_rank"] : row["first_rank"] + row["num_ranks"]])

    def release(self, group: int) -> None:
        """Forget a group that is done."""
        row = self.groups[group]
        self._ranks.release(int(row["first_rank"]), int(row["num_ranks"]))
        if self._early is not None and row["num_messages"]:
            self._early.release(int(row["early"]), int(row["num_messages"]))
        self._groups.release(group, 1)
        self._num_flows -= self._most_flows.pop(group)

    def _take_told(self) -> list[Told]:
        num_told = int(self._state["num_told"][0])
        self._state["num_told"] = 0
        rows = self._memory["told"][:num_told]
        return [Told(*row) for row in rows.tolist()]

    def _add_group(self, num_ranks: int, num_steps: int, most_flows: int) -> int:
        group, first_rank = self._groups.take(1), self._ranks.take(num_ranks)
        self._groups.array[group] = (first_rank, num_ranks, num_steps, num_ranks, 0, NONE, 0, 0, 0)
        block = self._ranks.array[first_rank : first_rank + num_ranks]
        block["group"], block["step"], block["at"], block["awaited"] = group, NONE, NONE, NEVER
        block["end_s"] = np.nan
        self._most_flows[group] = most_flows
        self._expect_flows(most_flows)
        return group

    def _expect_flows(self, num_flows: int) -> None:
        self._num_flows += num_flows
        self._growth.has_been |= self._num_flows > len(self._memory["flows"])

    def _refresh(self) -> None:
        """Take over arrays that have grown, and make room for all flows that there may be."""
        if not self._growth.has_been:
            return
        self._growth.has_been = False
        programs, wiring, memory = self.programs, self.wiring, self._memory
        memory.set(
            links=wiring.links.array,
            paths=wiring.paths.array,
            path_links=wiring.path_links.array,
            messages=programs.messages.array,
            own=programs.own.array,
            own_first=programs.own_first.array,
            steps=programs.steps.array,
            delays=self._delays.array,
            **({} if self._early is None else {"early": self._early.array}),
            ranks=self.ranks,
            groups=self.groups,
        )
        memory.reserve("told", len(self.ranks) + len(self.groups))
        memory.reserve("left", len(wiring.links.array))
        memory.reserve_heap("full", len(wiring.links.array))
        memory.reserve_heap("pauses", len(self.ranks))
        memory.reserve_flows(self._num_flows, wiring.longest)
        self._state["num_lanes"] = wiring.num_lanes


class Blocks:
    """Rows that are taken, all zero, and given back in blocks."""

    def __init__(self, kind: np.dtype[Any], growth: Growth):
        self._pool = Pool(kind, growth)
        self._free: dict[int, list[int]] = {}

    @property
    def array(self) -> np.ndarray:
        return self._pool.array

    def take(self, num_rows: int) -> int:
        """Return the first of so many rows."""
        free = self._free.get(num_rows)
        if free:
            first = free.pop()
            self._pool.array[first : first + num_rows] = np.zeros(num_rows, self._pool.array.dtype)
            return first
        return self._pool.add(np.zeros(num_rows, self._pool.array.dtype))

    def release(self, first: int, num_rows: int) -> None:
        """Give back a block as it was taken."""
        self._free.setdefault(num_rows, []).append(first)


class _Memory:
    """The arrays of a state, whose addresses are in its only row."""

    def __init__(self) -> None:
        self.state = np.zeros(1, STATE)
        self._arrays: dict[str, np.ndarray] = {}
        self.set(**{name: np.zeros(0, kind) for name, kind in TABLES.items()})
        lanes = np.zeros(NUM_LANES, LANE)
        lanes["first"] = lanes["last"] = NONE
        lanes["first_s"] = np.inf
        self.set(lanes=lanes)
        self._places = {name: np.zeros(0, np.int64) for name in _HEAPS}
        self._entries = {name: np.zeros(0, ENTRY) for name in _HEAPS}

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name]

    def set(self, **arrays: np.ndarray) -> None:
        """Put arrays in the place of others."""
        for name, array in arrays.items():
            if array is not self._arrays.get(name):
                self._arrays[name] = array
                self.state[name] = array.ctypes.data

    def reserve(self, name: str, num_rows: int) -> None:
        """Make room in a table."""
        if len(self[name]) < num_rows:
            self.set(**{name: grown(self[name], num_rows)})

    def reserve_heap(self, name: str, num_items: int) -> None:
        """Make room for items 0 to `num_items` - 1 in a heap."""
        before = len(self._places[name])
        if before < num_items:
            self._entries[name] = grown(self._entries[name], num_items)
            self._places[name] = grown(self._places[name], num_items)
            self._places[name][before:] = ABSENT
            heap = self.state[name]
            heap["entries"], heap["places"] = self._entries[name].ctypes.data, self._places[name].ctypes.data

    def reserve_flows(self, num_flows: int, longest: int) -> None:
        """Make room for so many flows, on paths as long as the longest."""
        bits, before = int(self.state["seat_bits"][0]), len(self["flows"])
        new_bits, num_flows = max(bits, (longest - 1).bit_length()), max(before, num_flows)
        if new_bits == bits and num_flows == before:
            return
        num_flows = max(num_flows, 2 * before) if num_flows > before else before
        self._move_seats(num_flows, new_bits)
        self.reserve("flows", num_flows)
        num_free, new = int(self.state["num_free"][0]), np.arange(num_flows - 1, before - 1, -1)
        self.set(free=np.concatenate([new, self["free"][:num_free], np.zeros(before - num_free, np.int64)]))
        self.state["num_free"] += len(new)
        self.reserve_heap("due", num_flows)
        for name in ("started", "risen", "changed"):
            self.reserve(name, num_flows)

    def _move_seats(self, num_flows: int, new_bits: int) -> None:
        bits, before = int(self.state["seat_bits"][0]), self["seats"]
        seats = np.full(num_flows << new_bits, NONE, SEAT)
        moved = _renumbered(np.arange(len(before)), bits, new_bits)
        for name in SEAT.names or ():
            seats[name][moved] = _renumbered(before[name], bits, new_bits)
        self["links"]["first"] = _renumbered(self["links"]["first"], bits, new_bits)
        self.set(seats=seats)
        self.state["seat_bits"] = new_bits


def _renumbered(seats: np.ndarray, bits: int, new_bits: int) -> np.ndarray:
    """Return the numbers of seats where a flow has more of them than before."""
    numbers = seats.astype(np.int64)
    flow, place = numbers >> bits, numbers & ((1 << bits) - 1)
    return np.where(numbers < 0, NONE, (flow << new_bits) + place)
